//! Scans that join a batch, and what their readers see of it.

use std::sync::Arc;
use std::task::{Context, Poll};

use tierra_column::WantedTotals;

use super::shared::Scan;
use super::spec::{IndexUse, Output, ScanSpec};
use super::whole::WHOLE_ROWS;
use crate::read::batch::{BatchLimits, Batches, Member, Pieces};
use crate::table::snapshot::Snapshot;

impl Snapshot {
    /// As [`Snapshot::scan`], together with other scans of the table that join these batches, if it shares half of its columns with
    /// them. The rows are the same; their order depends on the others. A scan of few rows, or in batches of few rows, remains
    /// alone.
    ///
    /// # Panics
    /// If `spec` names a column that does not exist.
    pub fn scan_in_batch(
        &self,
        spec: ScanSpec,
        batches: &Batches,
        limits: BatchLimits,
    ) -> Arc<Scan> {
        let member = self.join(&spec, batches, limits);
        let output = Output::Rows;
        Scan::new(self.clone(), spec, output, IndexUse::WhereCheaper, member)
    }

    /// As [`Snapshot::scan_totals`], together with other scans of the table that join these batches.
    ///
    /// # Panics
    /// As [`Snapshot::scan_totals`].
    pub fn scan_totals_in_batch(
        &self,
        spec: ScanSpec,
        wanted: Vec<WantedTotals>,
        batches: &Batches,
        limits: BatchLimits,
    ) -> Arc<Scan> {
        let member = self.join(&spec, batches, limits);
        let output = Output::Totals(wanted);
        Scan::new(self.clone(), spec, output, IndexUse::WhereCheaper, member)
    }

    /// As [`Snapshot::scan_groups`], together with other scans of the table that join these batches.
    ///
    /// # Panics
    /// As [`Snapshot::scan_groups`].
    pub fn scan_groups_in_batch(
        &self,
        spec: ScanSpec,
        of: usize,
        wanted: Vec<Option<WantedTotals>>,
        batches: &Batches,
        limits: BatchLimits,
    ) -> Arc<Scan> {
        let member = self.join(&spec, batches, limits);
        let output = Output::Groups { of, wanted };
        Scan::new(self.clone(), spec, output, IndexUse::WhereCheaper, member)
    }

    fn join(&self, spec: &ScanSpec, batches: &Batches, limits: BatchLimits) -> Option<Arc<Member>> {
        let filtered = spec.filters.iter().map(|(column, _)| *column);
        let mut columns: Vec<usize> = spec.projection.iter().copied().chain(filtered).collect();
        columns.sort_unstable();
        columns.dedup();
        let segments = self.segments().iter();
        let pieces = Pieces::of(segments.map(|segment| (segment.id(), segment.blocks())));
        match spec.batch_rows >= WHOLE_ROWS {
            true => batches.join(self.table().id(), pieces, columns, limits),
            // Wide rows: pieces would take much memory.
            false => None,
        }
    }
}

impl Scan {
    /// Whether the scan may begin; if not, because its batch waits for other queries, the waker is called when it may.
    pub fn poll_begin(&self, context: &mut Context<'_>) -> Poll<()> {
        match &self.member {
            Some(member) => member.poll_open(context),
            None => Poll::Ready(()),
        }
    }

    /// Whether a cursor that returned an empty batch may read on; if not, because other queries of the batch have to catch up, the
    /// waker is called when it may.
    pub fn poll_others(&self, context: &mut Context<'_>) -> Poll<()> {
        match &self.member {
            Some(member) => member.poll_others(context),
            None => Poll::Ready(()),
        }
    }

    /// The most scans that shared a pass with this one so far, itself included; `None` if it is in no batch.
    pub fn batch_queries(&self) -> Option<usize> {
        self.member.as_ref().map(|member| member.queries())
    }
}
