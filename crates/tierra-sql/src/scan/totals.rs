//! The totals of one partition's share of a scan, of all rows or by group, without a batch of rows.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use arrow::datatypes::SchemaRef;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::physical_plan::metrics::BaselineMetrics;
use futures::Stream;
use tierra_column::{Filter, Totals, WantedTotals};
use tierra_engine::{Scan, ScanCursor, ScanError, ScanGroups, ScanSpec, ScanTotals, Snapshot};

use super::{Counts, TierraScanExec, Turn, let_others_run};
use crate::filter::DynamicFilters;
use crate::settings::{self, TierraSettings};

/// Rows that are read before the partition may give way: some tenths of a millisecond, if all blocks are read in near memory.
pub(super) const TOTALS_ROWS: usize = 1 << 16;

/// What is wanted of the columns that a scan yields.
#[derive(Clone, Debug)]
pub(crate) struct WantedColumns {
    /// The place of the column by whose values rows are grouped, if they are.
    pub(crate) group: Option<usize>,
    /// By column; `None`: nothing.
    pub(crate) wanted: Vec<Option<WantedTotals>>,
}

impl WantedColumns {
    pub(super) fn scan(
        &self,
        snapshot: &Snapshot,
        spec: ScanSpec,
        settings: &TierraSettings,
    ) -> Arc<Scan> {
        let (batches, limits, wanted) = (&settings.batches, settings.batch, &self.wanted);
        match self.group {
            None => {
                let wanted = wanted.iter().map(|wanted| wanted.unwrap_or_default());
                snapshot.scan_totals_in_batch(spec, wanted.collect(), batches, limits)
            }
            Some(of) => snapshot.scan_groups_in_batch(spec, of, wanted.clone(), batches, limits),
        }
    }
}

/// A partition's share of a scan. It gives way as a stream of rows does.
struct Share {
    /// Its batch may wait for other queries.
    scan: Arc<Scan>,
    has_begun: bool,
    cursor: ScanCursor,
    snapshot: Snapshot,
    table_schema: SchemaRef,
    dynamic: Arc<DynamicFilters>,
    turn: Turn,
    baseline: BaselineMetrics,
    counts: Counts,
}

impl TierraScanExec {
    fn share(
        &self,
        partition: usize,
        context: &TaskContext,
        wanted: &WantedColumns,
    ) -> Result<Share> {
        let settings = settings::of(context.session_config().options());
        let scan = self.shared_scan(partition, &settings, Some(wanted));
        let cursor = scan.cursor_by(settings.reading);
        let cursor = cursor.map_err(|error| DataFusionError::External(Box::new(error)))?;
        Ok(Share {
            scan,
            has_begun: false,
            cursor,
            snapshot: self.plan.snapshot.clone(),
            table_schema: Arc::clone(&self.plan.schema),
            dynamic: Arc::clone(&self.dynamic),
            turn: Turn::new(self.properties.partitioning.partition_count()),
            baseline: BaselineMetrics::new(&self.metrics, partition),
            counts: Counts::new(&self.metrics, partition),
        })
    }

    /// The totals of a partition: what is wanted of columns, without groups.
    pub(crate) fn totals(
        &self,
        partition: usize,
        context: &TaskContext,
        wanted: &WantedColumns,
    ) -> Result<PartitionTotals> {
        debug_assert!(wanted.group.is_none(), "totals of all rows");
        Ok(PartitionTotals {
            share: self.share(partition, context, wanted)?,
            so_far: ScanTotals {
                rows: 0,
                columns: vec![Totals::NONE; wanted.wanted.len()],
            },
        })
    }

    /// The totals of a partition by group, part by part: a group may be in several.
    pub(crate) fn groups(
        &self,
        partition: usize,
        context: &TaskContext,
        wanted: &WantedColumns,
    ) -> Result<PartitionGroups> {
        debug_assert!(wanted.group.is_some(), "totals by group");
        Ok(PartitionGroups(self.share(partition, context, wanted)?))
    }
}

impl Share {
    /// Whether it has begun.
    fn poll_begun(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if !self.has_begun {
            ready!(self.scan.poll_begin(context));
            self.has_begun = true;
        }
        Poll::Ready(())
    }

    /// Gives way to other tasks.
    fn give_way<T>(context: &mut Context<'_>) -> Poll<T> {
        context.waker().wake_by_ref();
        Poll::Pending
    }

    /// Reads on, as `next` does.
    fn read<T>(
        &mut self,
        next: impl FnOnce(&mut ScanCursor, &[(usize, Filter)], u64) -> Result<Option<T>, ScanError>,
    ) -> Result<Option<T>> {
        let elapsed = self.baseline.elapsed_compute().clone();
        let _timer = elapsed.timer();
        let (version, filters) = self.dynamic.known(&self.snapshot, &self.table_schema)?;
        let next = next(&mut self.cursor, &filters, version);
        self.counts.advance(self.cursor.counters());
        next.map_err(|error| DataFusionError::External(Box::new(error)))
    }
}

/// Reads a partition's share until the end.
pub(crate) struct PartitionTotals {
    share: Share,
    so_far: ScanTotals,
}

impl Future for PartitionTotals {
    type Output = Result<ScanTotals>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        ready!(this.share.poll_begun(context));
        while !this.share.turn.is_over() {
            match this.share.read(ScanCursor::next_totals)? {
                Some(part) if part.rows == 0 => {
                    return let_others_run(&this.share.scan, context);
                }
                Some(part) => {
                    this.share.baseline.record_output(part.rows as usize);
                    this.so_far.rows += part.rows;
                    for (so_far, part) in this.so_far.columns.iter_mut().zip(&part.columns) {
                        so_far.add(part);
                    }
                }
                None => {
                    this.share.baseline.done();
                    let none = ScanTotals {
                        rows: 0,
                        columns: Vec::new(),
                    };
                    return Poll::Ready(Ok(std::mem::replace(&mut this.so_far, none)));
                }
            }
        }
        Share::give_way(context)
    }
}

/// Reads a partition's share, some rows at a time.
pub(crate) struct PartitionGroups(Share);

impl Stream for PartitionGroups {
    type Item = Result<ScanGroups>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let share = &mut self.0;
        ready!(share.poll_begun(context));
        if share.turn.is_over() {
            return Share::give_way(context);
        }
        match share.read(ScanCursor::next_groups).transpose() {
            Some(Ok(part)) if part.rows.is_empty() => let_others_run(&share.scan, context),
            Some(Ok(part)) => {
                let rows: u64 = part.rows.iter().sum();
                share.baseline.record_output(rows as usize);
                Poll::Ready(Some(Ok(part)))
            }
            Some(Err(error)) => Poll::Ready(Some(Err(error))),
            None => {
                share.baseline.done();
                Poll::Ready(None)
            }
        }
    }
}
