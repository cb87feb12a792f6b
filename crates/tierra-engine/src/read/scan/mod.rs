//! Scans: filters on packed codes first, then only surviving rows of wanted columns.
//!
//! A [`Scan`] is shared by all threads of a query; each takes a [`ScanCursor`] and asks it for
//! batches. Work is handed out in morsels, runs of blocks of one segment or one batch of the tail,
//! by an atomic counter, so that threads end at about the same time whatever the filters leave.
//!
//! Invariant: every row of the snapshot belongs to exactly one morsel, and every morsel is taken
//! by exactly one cursor.

mod candidates;
mod codes;
mod costs;
mod counting;
mod cursor;
mod filters;
mod shared;
mod spec;

use std::sync::Arc;

pub use self::cursor::ScanCursor;
pub use self::shared::Scan;
pub use self::spec::{IndexUse, ScanCounters, ScanSpec, row_id_field};

use crate::table::snapshot::Snapshot;

impl Snapshot {
    /// Starts a scan, shared by as many cursors as there are threads.
    ///
    /// # Panics
    /// If `spec` names a column that does not exist.
    pub fn scan(&self, spec: ScanSpec) -> Arc<Scan> {
        self.scan_with_indexes(spec, IndexUse::WhereCheaper)
    }

    /// The same, which asks inverted indexes as told.
    ///
    /// # Panics
    /// If `spec` names a column that does not exist.
    pub fn scan_with_indexes(&self, spec: ScanSpec, index_use: IndexUse) -> Arc<Scan> {
        Scan::new(self.clone(), spec, false, index_use)
    }

    /// The same, with one column more behind those of the projection: each row's number
    /// ([`RowId::get`](crate::RowId::get)), by which [`Snapshot::reconstruct`] finds the row's other columns later.
    ///
    /// # Panics
    /// If `spec` names a column that does not exist.
    pub fn scan_with_row_ids(&self, spec: ScanSpec) -> Arc<Scan> {
        Scan::new(self.clone(), spec, true, IndexUse::WhereCheaper)
    }
}
