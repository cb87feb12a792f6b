//! A condition looked up in a column's dictionary, once for all segments and threads of a scan.
//!
//! A scan reads one snapshot, which has one generation of each dictionary. Whichever cursor needs a
//! condition's codes first looks its values up; the others wait for it rather than do the same.

use std::sync::{Arc, Mutex, PoisonError};

use tierra_column::{CodeFilter, Dictionary, Filter, FilterError};
use tierra_interleave::Lookups;

/// The codes of one condition, as soon as somebody has needed them.
#[derive(Debug, Default)]
pub(super) struct SharedCodes(Mutex<Option<Arc<CodeFilter>>>);

impl SharedCodes {
    /// `filter` in the codes of `dictionary`; both must be the same in every call.
    pub(super) fn of(
        &self,
        filter: &Filter,
        dictionary: &Dictionary,
        lookups: &mut Lookups,
    ) -> Result<Arc<CodeFilter>, FilterError> {
        // A cursor that panicked has left nothing behind.
        let mut codes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(codes) = &*codes {
            return Ok(codes.clone());
        }
        let found = Arc::new(dictionary.code_filter(filter, lookups)?);
        *codes = Some(found.clone());
        Ok(found)
    }
}
