//! What a condition means to a column's dictionary and index, computed once for all segments and threads of a scan.
//!
//! A scan reads one snapshot, which has one generation of each dictionary. The first cursor that needs a condition's codes or
//! candidates looks them up; the others wait for it.

use std::sync::{Arc, Mutex, PoisonError};

use tierra_column::{CodeFilter, Dictionary, Filter, FilterError};
use tierra_interleave::Lookups;

use super::candidates::Candidates;
use crate::error::ScanError;

/// The codes and candidates of one condition, once a cursor has needed them.
#[derive(Debug, Default)]
pub(super) struct SharedCodes {
    codes: Mutex<Option<Arc<CodeFilter>>>,
    /// `Some(None)` if no index is used.
    candidates: Mutex<Option<Option<Arc<Candidates>>>>,
}

impl SharedCodes {
    /// `filter` in the codes of `dictionary`; both must be the same in every call.
    pub(super) fn of(
        &self,
        filter: &Filter,
        dictionary: &Dictionary,
        lookups: &mut Lookups,
    ) -> Result<Arc<CodeFilter>, FilterError> {
        // A cursor that panicked has left nothing behind.
        let mut codes = self.codes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(codes) = &*codes {
            return Ok(codes.clone());
        }
        let found = Arc::new(dictionary.code_filter(filter, lookups)?);
        *codes = Some(found.clone());
        Ok(found)
    }

    /// The rows that an index lists, found by the first call.
    pub(super) fn candidates(
        &self,
        find: impl FnOnce() -> Result<Option<Candidates>, ScanError>,
    ) -> Result<Option<Arc<Candidates>>, ScanError> {
        // As above.
        let mut candidates = self
            .candidates
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = &*candidates {
            return Ok(known.clone());
        }
        let found = find()?.map(Arc::new);
        *candidates = Some(found.clone());
        Ok(found)
    }
}

/// The shared codes of conditions that became known while the scan ran.
#[derive(Debug, Default)]
pub(super) struct LaterCodes(Mutex<(Option<u64>, Vec<Arc<SharedCodes>>)>);

impl LaterCodes {
    /// The shared codes for each of the `count` conditions of a version. Only the newest requested version is shared; a cursor
    /// that is behind gets its own.
    pub(super) fn of(&self, version: u64, count: usize) -> Vec<Arc<SharedCodes>> {
        let fresh = || (0..count).map(|_| Arc::default()).collect();
        // As above.
        let mut newest = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (known, shared) = &mut *newest;
        if known.is_none_or(|known| known < version) {
            (*known, *shared) = (Some(version), fresh());
        }
        match *known == Some(version) && shared.len() == count {
            true => shared.clone(),
            false => fresh(),
        }
    }
}
