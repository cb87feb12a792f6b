//! One partition of the probe side: batches in, lookups, joined batches out.
//!
//! ```text
//!   Building ──▶ Fetching ◀──▶ Joining        Fetching, at the end of the input ──▶ Unmatched ──▶ Ended
//! ```
//!
//! Invariant: pairs come in the order of the probe side's rows. Rows of the probe side without a match follow the pairs
//! of their batch. Rows of the build side come last, from the partition that ends last.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use arrow::array::{
    Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, UInt32Array, new_null_array,
};
use arrow::compute::{filter, take};
use arrow::datatypes::SchemaRef;
use datafusion::common::cast::as_boolean_array;
use datafusion::common::{JoinSide, JoinType};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream};
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_expr_common::utils::evaluate_expressions_to_arrays;
use datafusion::physical_plan::coalesce::{LimitedBatchCoalescer, PushBatchStatus};
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::joins::utils::{ColumnIndex, JoinFilter, build_join_schema};
use datafusion::physical_plan::metrics::{
    BaselineMetrics, Count, ExecutionPlanMetricsSet, MetricBuilder, Time,
};
use datafusion::physical_plan::{EmptyRecordBatchStream, ExecutionPlan};
use futures::{FutureExt, Stream, StreamExt};
use tierra_index::JoinMatch;

use super::build::{BuildSide, Scratch};
use super::exec::SharedBuild;
use super::keys::JoinKeys;
use super::pairs::{Pairs, Progress};

/// The rows and columns that a join yields.
pub(super) struct Shape {
    ty: JoinType,
    schema: SchemaRef,
    /// The source of each column of the output.
    columns: Vec<ColumnIndex>,
    /// The columns of the probe side's key.
    on: Vec<PhysicalExprRef>,
    filter: Option<JoinFilter>,
    fetch: Option<usize>,
    batch_rows: usize,
}

impl Shape {
    pub(super) fn new(join: &HashJoinExec, batch_rows: usize) -> Self {
        let (build, probe) = (join.left.schema(), join.right.schema());
        let (_, all) = build_join_schema(&build, &probe, &join.join_type);
        let columns = match &join.projection {
            Some(projection) => projection.iter().map(|place| all[*place].clone()).collect(),
            None => all,
        };
        Self {
            ty: join.join_type,
            schema: join.schema(),
            columns,
            on: join.on.iter().map(|(_, probe)| Arc::clone(probe)).collect(),
            filter: join.filter.clone(),
            fetch: join.fetch(),
            batch_rows,
        }
    }

    /// Whether it yields pairs of rows.
    fn yields_pairs(&self) -> bool {
        use JoinType::*;
        matches!(self.ty, Inner | Left | Right | Full)
    }

    /// The rows of the probe side that it yields after their batch's pairs: `true` for those with a match, `false` for those
    /// without.
    fn probe_rows(&self) -> Option<bool> {
        use JoinType::*;
        match self.ty {
            RightSemi => Some(true),
            Right | Full | RightAnti => Some(false),
            _ => None,
        }
    }

    /// The same for the build side, after the last batch.
    fn build_rows(&self) -> Option<bool> {
        use JoinType::*;
        match self.ty {
            LeftSemi => Some(true),
            Left | Full | LeftAnti => Some(false),
            _ => None,
        }
    }

    /// Whether nothing is yielded if the build side has no key.
    fn needs_keys(&self) -> bool {
        use JoinType::*;
        matches!(self.ty, Inner | LeftSemi | RightSemi)
    }

    /// Output of `rows` rows. `column` makes each column from its source.
    fn batch(
        &self,
        rows: usize,
        column: impl Fn(&ColumnIndex) -> Result<ArrayRef>,
    ) -> Result<RecordBatch> {
        let columns = self
            .columns
            .iter()
            .map(column)
            .collect::<Result<Vec<_>>>()?;
        batch_of(&self.schema, columns, rows)
    }
}

/// A batch of `rows` rows, even if it has no columns.
fn batch_of(schema: &SchemaRef, columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    let schema = Arc::clone(schema);
    Ok(RecordBatch::try_new_with_options(
        schema, columns, &options,
    )?)
}

/// The metrics of a partition.
pub(super) struct ProbeMetrics {
    baseline: BaselineMetrics,
    probe_time: Time,
    probe_rows: Count,
    lookups: Count,
    suspensions: Count,
}

impl ProbeMetrics {
    pub(super) fn new(metrics: &ExecutionPlanMetricsSet, partition: usize) -> Self {
        let builder = || MetricBuilder::new(metrics);
        Self {
            baseline: BaselineMetrics::new(metrics, partition),
            probe_time: builder().subset_time("probe_time", partition),
            probe_rows: builder().counter("probe_rows", partition),
            lookups: builder().counter("lookups", partition),
            suspensions: builder().counter("suspensions", partition),
        }
    }
}

enum State {
    Building(SharedBuild),
    Fetching(Arc<BuildSide>),
    Joining(Arc<BuildSide>, Batch),
    /// The next row of the build side to look at.
    Unmatched(Arc<BuildSide>, usize),
    Ended,
}

/// A batch of the probe side while it is joined.
struct Batch {
    rows: RecordBatch,
    key_columns: Vec<ArrayRef>,
    progress: Progress,
    /// Which rows have a match; empty if the join's type does not need it.
    matched: Vec<bool>,
}

/// The stream of a partition.
pub(super) struct Probe {
    shape: Shape,
    input: SendableRecordBatchStream,
    state: State,
    output: LimitedBatchCoalescer,
    finished: bool,
    scratch: Scratch,
    /// The matches of the batch that is being joined.
    matches: Vec<JoinMatch>,
    pairs: Pairs,
    metrics: ProbeMetrics,
}

impl Probe {
    pub(super) fn new(
        shape: Shape,
        build: SharedBuild,
        input: SendableRecordBatchStream,
        metrics: ProbeMetrics,
    ) -> Self {
        let schema = Arc::clone(&shape.schema);
        Self {
            output: LimitedBatchCoalescer::new(schema, shape.batch_rows, shape.fetch),
            shape,
            input,
            state: State::Building(build),
            finished: false,
            scratch: Scratch::default(),
            matches: Vec::new(),
            pairs: Pairs::default(),
            metrics,
        }
    }

    /// One step. `Pending` if it waits for the build side or for a batch.
    fn step(&mut self, context: &mut Context<'_>) -> Poll<Result<()>> {
        self.state = match std::mem::replace(&mut self.state, State::Ended) {
            State::Building(mut build) => match build.poll_unpin(context) {
                Poll::Pending => {
                    self.state = State::Building(build);
                    return Poll::Pending;
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(DataFusionError::Shared(error))),
                Poll::Ready(Ok(build)) => self.begin(build),
            },
            State::Fetching(build) => match self.input.poll_next_unpin(context) {
                Poll::Pending => {
                    self.state = State::Fetching(build);
                    return Poll::Pending;
                }
                Poll::Ready(Some(batch)) => {
                    let batch = batch?;
                    let batch = self.timed(|probe| probe.look_up(&build, batch))?;
                    State::Joining(build, batch)
                }
                Poll::Ready(None) => self.end(build),
            },
            State::Joining(build, batch) => self.timed(|probe| probe.join(build, batch))?,
            State::Unmatched(build, next) => {
                self.timed(|probe| probe.yield_build_rows(build, next))?
            }
            State::Ended => State::Ended,
        };
        Poll::Ready(Ok(()))
    }

    fn timed<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> T {
        let start = Instant::now();
        let done = work(self);
        let spent = start.elapsed();
        self.metrics.probe_time.add_duration(spent);
        self.metrics.baseline.elapsed_compute().add_duration(spent);
        done
    }

    fn begin(&mut self, build: Arc<BuildSide>) -> State {
        let no_keys = build.table().table().keys() == 0;
        if no_keys && self.shape.needs_keys() {
            return State::Ended;
        }
        if no_keys && self.shape.probe_rows().is_none() {
            return self.end(build);
        }
        State::Fetching(build)
    }

    /// The input has ended, or none of it is needed.
    fn end(&mut self, build: Arc<BuildSide>) -> State {
        self.input = Box::pin(EmptyRecordBatchStream::new(self.input.schema()));
        if build.end_probing() && self.shape.build_rows().is_some() {
            State::Unmatched(build, 0)
        } else {
            State::Ended
        }
    }

    fn look_up(&mut self, build: &BuildSide, rows: RecordBatch) -> Result<Batch> {
        let key_columns = evaluate_expressions_to_arrays(&self.shape.on, &rows)?;
        let done = build
            .table()
            .find(&key_columns, &mut self.scratch, &mut self.matches)?;
        let count = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        self.metrics.probe_rows.add(rows.num_rows());
        self.metrics.lookups.add(count(done.lookups));
        self.metrics.suspensions.add(count(done.suspensions));

        let mut batch = Batch {
            matched: Vec::new(),
            progress: Progress::default(),
            key_columns,
            rows,
        };
        if self.shape.probe_rows().is_some() {
            // If every match is a pair and pairs are not yielded, the matches are the result.
            let is_known = build.table().keys() == JoinKeys::Exact
                && self.shape.filter.is_none()
                && !self.shape.yields_pairs();
            if is_known {
                batch.matched = self.matches.iter().map(|found| found.is_some()).collect();
                self.matches.clear();
            } else {
                batch.matched = vec![false; batch.rows.num_rows()];
            }
        }
        Ok(batch)
    }

    /// Yields the next pairs of a batch. After the last pairs it yields the batch's other rows.
    fn join(&mut self, build: Arc<BuildSide>, mut batch: Batch) -> Result<State> {
        let (table, most) = (build.table().table(), self.shape.batch_rows);
        let more = self
            .pairs
            .refill(table, &self.matches, &mut batch.progress, most);
        let keys = build.table().keys();
        keys.keep_equal(&mut self.pairs, build.key_columns(), &batch.key_columns)?;
        self.keep_passing(&build, &batch.rows)?;
        build.mark(self.pairs.build());
        if !batch.matched.is_empty() {
            for row in self.pairs.probe() {
                batch.matched[*row as usize] = true;
            }
        }
        if self.shape.yields_pairs() && !self.pairs.is_empty() {
            let pairs = self.paired(&build, &batch.rows)?;
            self.push(pairs)?;
        }
        if more {
            return Ok(State::Joining(build, batch));
        }
        if let Some(matched) = self.shape.probe_rows() {
            let rows = self.probe_rows(&build, &batch, matched)?;
            self.push(rows)?;
        }
        Ok(State::Fetching(build))
    }

    /// Drops the pairs for which the join's filter is not true.
    fn keep_passing(&mut self, build: &BuildSide, probe: &RecordBatch) -> Result<()> {
        let Some(filter) = &self.shape.filter else {
            return Ok(());
        };
        if self.pairs.is_empty() {
            return Ok(());
        }
        let (build_rows, probe_rows) = self.pairs.indices();
        let columns = filter.column_indices().iter().map(|column| {
            Ok(match column.side {
                JoinSide::Left => take(build.batch().column(column.index), &build_rows, None)?,
                _ => take(probe.column(column.index), &probe_rows, None)?,
            })
        });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let pairs = batch_of(filter.schema(), columns, self.pairs.len())?;
        let passes = filter.expression().evaluate(&pairs)?;
        let passes = passes.into_array(pairs.num_rows())?;
        self.pairs.keep(as_boolean_array(&passes)?);
        Ok(())
    }

    fn paired(&self, build: &BuildSide, probe: &RecordBatch) -> Result<RecordBatch> {
        let (build_rows, probe_rows) = self.pairs.indices();
        // As many pairs as rows, and each row in at most one: all rows, in their order.
        let all = build.table().table().is_unique() && probe_rows.len() == probe.num_rows();
        self.shape
            .batch(self.pairs.len(), |column| match column.side {
                JoinSide::Left => Ok(take(build.batch().column(column.index), &build_rows, None)?),
                _ if all => Ok(Arc::clone(probe.column(column.index))),
                _ => Ok(take(probe.column(column.index), &probe_rows, None)?),
            })
    }

    /// The rows of a probe batch that have a match, or have none, with NULLs for the build side's columns.
    fn probe_rows(&self, build: &BuildSide, batch: &Batch, matched: bool) -> Result<RecordBatch> {
        let wanted: BooleanArray = batch
            .matched
            .iter()
            .map(|is| Some(*is == matched))
            .collect();
        let rows = wanted.true_count();
        self.shape.batch(rows, |column| match column.side {
            JoinSide::Left => {
                let column = build.batch().column(column.index);
                Ok(new_null_array(column.data_type(), rows))
            }
            _ => Ok(filter(batch.rows.column(column.index), &wanted)?),
        })
    }

    /// The same for the build side, from row `next` on.
    fn yield_build_rows(&mut self, build: Arc<BuildSide>, next: usize) -> Result<State> {
        let rows = build.batch().num_rows();
        let Some(matched) = self.shape.build_rows().filter(|_| next < rows) else {
            return Ok(State::Ended);
        };
        let end = rows.min(next + self.shape.batch_rows);
        let wanted = UInt32Array::from(build.rows_marked(next..end, matched));
        let batch = self.shape.batch(wanted.len(), |column| match column.side {
            JoinSide::Left => Ok(take(build.batch().column(column.index), &wanted, None)?),
            _ => {
                let schema = self.input.schema();
                let ty = schema.field(column.index).data_type();
                Ok(new_null_array(ty, wanted.len()))
            }
        })?;
        self.push(batch)?;
        Ok(State::Unmatched(build, end))
    }

    fn push(&mut self, batch: RecordBatch) -> Result<()> {
        if !self.finished && self.output.push_batch(batch)? == PushBatchStatus::LimitReached {
            self.finish()?;
        }
        Ok(())
    }

    /// No more batches are pushed.
    fn finish(&mut self) -> Result<()> {
        self.finished = true;
        self.output.finish()
    }

    fn poll_output(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<RecordBatch>>> {
        loop {
            if let Some(batch) = self.output.next_completed_batch() {
                return Poll::Ready(Some(Ok(batch)));
            }
            if self.finished {
                self.state = State::Ended;
                return Poll::Ready(None);
            }
            let step = match self.state {
                State::Ended => self.finish(),
                _ => ready!(self.step(context)),
            };
            if let Err(error) = step {
                self.finished = true;
                return Poll::Ready(Some(Err(error)));
            }
        }
    }
}

impl Stream for Probe {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let output = self.poll_output(context);
        self.metrics.baseline.record_poll(output)
    }
}

impl RecordBatchStream for Probe {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.shape.schema)
    }
}
