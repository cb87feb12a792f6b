//! Scans: filters are tested on packed codes first, then only the surviving rows of the projected columns are unpacked.
//!
//! All threads of a query share a [`Scan`]; each makes a [`ScanCursor`] and asks it for batches. An atomic counter hands out
//! morsels, which are runs of blocks of one segment or one batch of the tail, some at a time and fewer at the end, so that threads
//! end at about the same time regardless of how many rows pass the filters.
//!
//! Scans in a batch get the morsels of segments from the pass that they share with others ([`crate::read::batch`]).
//!
//! A scan returns rows, or the totals of columns, of all rows or by group: how many values, their sum, the least and the greatest.
//!
//! Invariant: every row of the snapshot belongs to exactly one morsel, and exactly one cursor takes each morsel.

mod ahead;
mod candidates;
mod codes;
mod costs;
mod counting;
mod cursor;
mod filters;
mod joined;
mod level;
mod load;
mod shared;
mod sinks;
mod spec;
mod whole;

use std::sync::Arc;

use tierra_column::WantedTotals;

use self::spec::Output;

pub use self::cursor::ScanCursor;
pub use self::shared::Scan;
pub use self::sinks::{ScanGroups, ScanTotals};
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

    /// As [`Snapshot::scan`], with the given use of inverted indexes.
    ///
    /// # Panics
    /// If `spec` names a column that does not exist.
    pub fn scan_with_indexes(&self, spec: ScanSpec, index_use: IndexUse) -> Arc<Scan> {
        Scan::new(self.clone(), spec, Output::Rows, index_use, None)
    }

    /// As [`Snapshot::scan`], with one more column after those of the projection: each row's id
    /// ([`RowId::get`](crate::RowId::get)), by which [`Snapshot::reconstruct`] later finds the row's other columns.
    ///
    /// # Panics
    /// If `spec` names a column that does not exist.
    pub fn scan_with_row_ids(&self, spec: ScanSpec) -> Arc<Scan> {
        let output = Output::RowsWithIds;
        Scan::new(self.clone(), spec, output, IndexUse::WhereCheaper, None)
    }

    /// Starts a scan of the same rows that returns totals of the projection's columns ([`ScanCursor::next_totals`]), taken from
    /// packed codes and, where they suffice, from chunk headers. `wanted` has an entry for each column.
    ///
    /// # Panics
    /// If `spec` names a column that does not exist, or one whose type does not have the wanted totals
    /// ([`WantedTotals::of_type`]).
    pub fn scan_totals(&self, spec: ScanSpec, wanted: Vec<WantedTotals>) -> Arc<Scan> {
        let output = Output::Totals(wanted);
        Scan::new(self.clone(), spec, output, IndexUse::WhereCheaper, None)
    }

    /// Starts a scan of the same rows that returns totals by the values of one column, which is number `of` of the projection
    /// ([`ScanCursor::next_groups`]). `wanted` has an entry for each column, `None` where only the groups are wanted of it.
    ///
    /// # Panics
    /// As [`Snapshot::scan_totals`], and if the projection has no such column.
    pub fn scan_groups(
        &self,
        spec: ScanSpec,
        of: usize,
        wanted: Vec<Option<WantedTotals>>,
    ) -> Arc<Scan> {
        let output = Output::Groups { of, wanted };
        Scan::new(self.clone(), spec, output, IndexUse::WhereCheaper, None)
    }
}
