//! The operator that reads the columns that its input left out, by the row ids that the input carries.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::{SchemaRef, UInt64Type};
use datafusion::common::Statistics;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr_common::physical_expr::PhysicalExpr;
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::{Stream, StreamExt};
use tierra_engine::RowId;

use super::narrow::{ColumnSource, Narrowed};
use super::origin::{Origin, properties};
use super::{LookupWork, RowReader};

/// A table whose rows are read.
#[derive(Debug)]
struct Fetch {
    /// The input's column of row ids.
    ids: usize,
    reader: RowReader,
}

/// The work of each partition.
#[derive(Debug)]
struct Task {
    schema: SchemaRef,
    output: Vec<Origin>,
    fetches: Vec<Fetch>,
    /// Rows whose columns are read as one group.
    group_rows: usize,
}

/// Yields all columns of a plan that was narrowed.
#[derive(Debug)]
pub(super) struct FetchExec {
    input: Arc<dyn ExecutionPlan>,
    task: Arc<Task>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl FetchExec {
    /// `schema` is that of the original plan.
    pub(super) fn new(narrowed: Narrowed, schema: SchemaRef) -> Result<Self> {
        let mut wanted: Vec<Vec<usize>> = vec![Vec::new(); narrowed.sources.len()];
        let output = narrowed.columns.iter().map(|place| match *place {
            ColumnSource::Early(at) => Origin::Input(at),
            ColumnSource::Late { source, column } => {
                let wanted = &mut wanted[source];
                let known = wanted.iter().position(|other| *other == column);
                let column = known.unwrap_or_else(|| {
                    wanted.push(column);
                    wanted.len() - 1
                });
                Origin::Table {
                    table: source,
                    column,
                }
            }
        });
        let output: Vec<Origin> = output.collect();
        let fetches = narrowed
            .sources
            .into_iter()
            .zip(&wanted)
            .map(|(carried, wanted)| {
                Ok(Fetch {
                    ids: carried.ids,
                    reader: RowReader::new(carried.source, wanted, &[])?,
                })
            });
        let fetches = fetches.collect::<Result<Vec<_>>>()?;
        let group_rows = fetches.iter().map(|fetch| fetch.reader.group_rows()).min();
        let properties = properties(&narrowed.plan, &output, &schema);
        Ok(Self {
            input: narrowed.plan,
            task: Arc::new(Task {
                schema,
                output,
                fetches,
                group_rows: group_rows.unwrap_or(1),
            }),
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        })
    }

    fn with_input(&self, input: Arc<dyn ExecutionPlan>) -> Self {
        let properties = properties(&input, &self.task.output, &self.task.schema);
        Self {
            input,
            task: Arc::clone(&self.task),
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }
}

impl DisplayAs for FetchExec {
    fn fmt_as(&self, _format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TierraFetchExec: ")?;
        for (place, fetch) in self.task.fetches.iter().enumerate() {
            let columns = fetch.reader.schema().fields();
            let columns: Vec<&str> = columns.iter().map(|field| field.name().as_str()).collect();
            let separator = if place > 0 { ", " } else { "" };
            let table = fetch.reader.source().table();
            write!(
                f,
                "{separator}table={table}, columns=[{}]",
                columns.join(", ")
            )?;
            fetch.reader.write_replicas(f)?;
        }
        Ok(())
    }
}

impl ExecutionPlan for FetchExec {
    fn name(&self) -> &'static str {
        "TierraFetchExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match children.pop() {
            Some(input) if children.is_empty() => Ok(Arc::new(self.with_input(input))),
            _ => datafusion::common::internal_err!("TierraFetchExec has one input"),
        }
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let works = self.task.fetches.iter().map(|fetch| {
            let execution = fetch.reader.source().execution;
            LookupWork::new(execution, &self.metrics, partition)
        });
        Ok(Box::pin(FetchStream {
            input: self.input.execute(partition, context)?,
            task: Arc::clone(&self.task),
            works: works.collect(),
            batch: None,
            baseline: BaselineMetrics::new(&self.metrics, partition),
        }))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn statistics_from_inputs(
        &self,
        inputs: &[Arc<Statistics>],
        _args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        let unknown = Statistics::new_unknown(&self.schema());
        let rows = inputs
            .first()
            .map_or(unknown.num_rows, |input| input.num_rows);
        Ok(Arc::new(Statistics {
            num_rows: rows,
            ..unknown
        }))
    }
}

struct FetchStream {
    input: SendableRecordBatchStream,
    task: Arc<Task>,
    /// One for each table.
    works: Vec<LookupWork>,
    /// The unread rest of the last batch.
    batch: Option<RecordBatch>,
    baseline: BaselineMetrics,
}

impl FetchStream {
    /// The next rows of `batch`, one group.
    fn next_group(&mut self, batch: RecordBatch) -> Result<RecordBatch> {
        let rows = batch.num_rows().min(self.task.group_rows);
        let group = batch.slice(0, rows);
        if rows < batch.num_rows() {
            self.batch = Some(batch.slice(rows, batch.num_rows() - rows));
        }
        let fetches = self.task.fetches.iter().zip(&mut self.works);
        let fetched = fetches.map(|(fetch, work)| fetch.read(&group, work));
        let fetched = fetched.collect::<Result<Vec<_>>>()?;
        let columns = self.task.output.iter().map(|origin| match *origin {
            Origin::Input(at) => Arc::clone(group.column(at)),
            Origin::Table { table, column } => Arc::clone(&fetched[table][column]),
        });
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let schema = Arc::clone(&self.task.schema);
        Ok(RecordBatch::try_new_with_options(
            schema,
            columns.collect(),
            &options,
        )?)
    }
}

impl Fetch {
    /// The columns of the rows whose ids are in `group`; NULL if there is no id.
    fn read(&self, group: &RecordBatch, work: &mut LookupWork) -> Result<Vec<ArrayRef>> {
        let ids = group.column(self.ids).as_primitive::<UInt64Type>();
        let rows: Vec<RowId> = ids.iter().flatten().map(RowId::from_number).collect();
        let (batch, _) = self.reader.read(&rows, work)?;
        if ids.null_count() == 0 {
            return Ok(batch.columns().to_vec());
        }
        let mut next = 0..rows.len() as u32;
        let places: UInt32Array = ids.iter().map(|id| id.and_then(|_| next.next())).collect();
        let columns = batch.columns().iter();
        columns
            .map(|values| Ok(take(values, &places, None)?))
            .collect()
    }
}

impl Stream for FetchStream {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let batch = match self.batch.take() {
            Some(batch) => Some(Ok(batch)),
            None => ready!(self.input.poll_next_unpin(context)),
        };
        let elapsed = self.baseline.elapsed_compute().clone();
        let timer = elapsed.timer();
        let next = batch.map(|batch| self.next_group(batch?));
        timer.done();
        self.baseline.record_poll(Poll::Ready(next))
    }
}

impl RecordBatchStream for FetchStream {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.task.schema)
    }
}
