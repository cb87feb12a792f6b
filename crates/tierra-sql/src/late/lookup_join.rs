//! The operator that joins by lookup: for each batch of its input it looks up the table's rows with the batch's keys.
//!
//! A table's primary key is unique, so a row of the input has at most one partner. The operator holds one batch,
//! independent of the sizes of the input and the table. Only a semi-join that yields the table's rows also remembers
//! which rows it has yielded.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow::compute::{take, take_record_batch};
use arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{HashSet, Statistics, internal_err};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{Distribution, EquivalenceProperties, Partitioning};
use datafusion::physical_expr_common::physical_expr::PhysicalExpr;
use datafusion::physical_plan::filter_pushdown::{
    ChildFilterDescription, FilterDescription, FilterPushdownPhase,
};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
};
use futures::{Stream, StreamExt};
use tierra_engine::RowId;

use super::origin::{Origin, properties};
use super::{LookupWork, RowReader, RowSource};

/// Which rows a join yields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LookupJoinKind {
    /// Pairs.
    Inner,
    /// Pairs, and rows of the input without a partner.
    Left,
    /// Rows of the input with a partner.
    Semi,
    /// Rows of the input without one.
    Anti,
    /// Rows of the table with a partner, each once.
    TableSemi,
}

/// The lookup of a join.
#[derive(Clone, Debug)]
pub(super) struct LookedUp {
    pub(super) source: RowSource,
    /// Expressions on the input, one per key column.
    pub(super) keys: Vec<Arc<dyn PhysicalExpr>>,
    /// Predicates on the table's columns that its rows must meet.
    pub(super) predicates: Vec<Arc<dyn PhysicalExpr>>,
    pub(super) kind: LookupJoinKind,
}

/// The work of each partition.
#[derive(Debug)]
struct Task {
    join: LookedUp,
    reader: RowReader,
    /// The table's column for each of the reader's.
    columns: Vec<usize>,
    output: Vec<Origin>,
    schema: SchemaRef,
}

/// Joins its input with a table on the table's primary key.
#[derive(Debug)]
pub(super) struct LookupJoinExec {
    input: Arc<dyn ExecutionPlan>,
    task: Arc<Task>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl LookupJoinExec {
    /// A column of the result is a column of the input or of the table. [`Origin::Table`] gives the table's column by its
    /// index in the table.
    pub(super) fn new(
        input: Arc<dyn ExecutionPlan>,
        join: LookedUp,
        output: &[Origin],
        schema: SchemaRef,
    ) -> Result<Self> {
        let mut columns = Vec::new();
        let output = output.iter().map(|origin| match *origin {
            Origin::Input(at) => Origin::Input(at),
            Origin::Table { table, column } => {
                let known = columns.iter().position(|other| *other == column);
                let column = known.unwrap_or_else(|| {
                    columns.push(column);
                    columns.len() - 1
                });
                Origin::Table { table, column }
            }
        });
        let output: Vec<Origin> = output.collect();
        let task = Task {
            reader: RowReader::new(join.source.clone(), &columns, &join.predicates)?,
            join,
            columns,
            output,
            schema,
        };
        Ok(Self::of(input, Arc::new(task)))
    }

    fn of(input: Arc<dyn ExecutionPlan>, task: Arc<Task>) -> Self {
        let properties = match task.join.kind {
            LookupJoinKind::TableSemi => PlanProperties::new(
                EquivalenceProperties::new(Arc::clone(&task.schema)),
                Partitioning::UnknownPartitioning(1),
                input.pipeline_behavior(),
                input.boundedness(),
            ),
            _ => properties(&input, &task.output, &task.schema),
        };
        Self {
            input,
            task,
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }
}

impl DisplayAs for LookupJoinExec {
    fn fmt_as(&self, _format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Task { join, reader, .. } = &*self.task;
        let spec = join.source.snapshot.table().spec();
        let keys = join.keys.iter().zip(&spec.primary_key);
        let keys: Vec<String> = keys
            .map(|(key, column)| format!("{key} = {}", spec.columns[*column].name))
            .collect();
        let columns = reader.schema().fields().iter();
        let columns: Vec<&str> = columns.map(|field| field.name().as_str()).collect();
        write!(
            f,
            "TierraLookupJoinExec: table={}, type={:?}, on=[{}], columns=[{}]",
            spec.name,
            join.kind,
            keys.join(", "),
            columns.join(", ")
        )?;
        reader.write_replicas(f)?;
        match reader.predicate() {
            Some(predicate) => write!(f, ", filter={predicate}"),
            None => Ok(()),
        }
    }
}

impl ExecutionPlan for LookupJoinExec {
    fn name(&self) -> &'static str {
        "TierraLookupJoinExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn required_input_distribution(&self) -> Vec<Distribution> {
        vec![match self.task.join.kind {
            // Only one partition can know which rows were yielded.
            LookupJoinKind::TableSemi => Distribution::SinglePartition,
            _ => Distribution::UnspecifiedDistribution,
        }]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![self.task.join.kind != LookupJoinKind::TableSemi]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match children.pop() {
            Some(input) if children.is_empty() => {
                Ok(Arc::new(Self::of(input, Arc::clone(&self.task))))
            }
            _ => internal_err!("{} has one input", self.name()),
        }
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        for key in &self.task.join.keys {
            if f(key)? == TreeNodeRecursion::Stop {
                return Ok(TreeNodeRecursion::Stop);
            }
        }
        Ok(TreeNodeRecursion::Continue)
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let execution = self.task.join.source.execution;
        let consumer = MemoryConsumer::new(self.name());
        Ok(Box::pin(JoinStream {
            work: LookupWork::new(execution, &self.metrics, partition),
            seen: HashSet::default(),
            memory: consumer.register(context.memory_pool()),
            input: self.input.execute(partition, context)?,
            task: Arc::clone(&self.task),
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
        // At most one partner per row.
        let rows = inputs
            .first()
            .map_or(Precision::Absent, |input| input.num_rows.to_inexact());
        Ok(Arc::new(Statistics {
            num_rows: rows,
            ..unknown
        }))
    }

    fn try_swapping_with_projection(
        &self,
        projection: &ProjectionExec,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let mut output = Vec::with_capacity(projection.expr().len());
        for computed in projection.expr() {
            let Some(column) = computed.expr.downcast_ref::<Column>() else {
                return Ok(None);
            };
            output.push(match self.task.output[column.index()] {
                Origin::Table { table, column } => Origin::Table {
                    table,
                    column: self.task.columns[column],
                },
                input => input,
            });
        }
        let input = Arc::clone(&self.input);
        let join = self.task.join.clone();
        let projected = Self::new(input, join, &output, projection.schema())?;
        Ok(Some(Arc::new(projected)))
    }

    fn gather_filters_for_pushdown(
        &self,
        _phase: FilterPushdownPhase,
        parent_filters: Vec<Arc<dyn PhysicalExpr>>,
        _config: &ConfigOptions,
    ) -> Result<FilterDescription> {
        // DataFusion finds the input's columns of filters by name.
        let schema = self.input.schema();
        let child = if names_differ(&schema) && names_differ(&self.task.schema) {
            let output = self.task.output.iter().enumerate();
            let of_input = output.filter_map(|(place, origin)| match *origin {
                Origin::Input(at) => {
                    let same = self.task.schema.field(place).name() == schema.field(at).name();
                    same.then_some(place)
                }
                Origin::Table { .. } => None,
            });
            ChildFilterDescription::from_child_with_allowed_indices(
                &parent_filters,
                of_input.collect(),
                &self.input,
            )?
        } else {
            ChildFilterDescription::all_unsupported(&parent_filters)
        };
        Ok(FilterDescription::new().with_child(child))
    }
}

fn names_differ(schema: &Schema) -> bool {
    let mut names: Vec<&str> = schema
        .fields()
        .iter()
        .map(|field| field.name().as_str())
        .collect();
    names.sort_unstable();
    names.windows(2).all(|pair| pair[0] != pair[1])
}

struct JoinStream {
    input: SendableRecordBatchStream,
    task: Arc<Task>,
    work: LookupWork,
    /// The rest of the last batch.
    batch: Option<RecordBatch>,
    /// Rows of the table that were yielded, if each is yielded once.
    seen: HashSet<u64>,
    memory: MemoryReservation,
    baseline: BaselineMetrics,
}

impl JoinStream {
    /// The result for the next rows of `batch`, one group of lookups.
    fn next_group(&mut self, batch: RecordBatch) -> Result<RecordBatch> {
        let task = Arc::clone(&self.task);
        let rows = batch.num_rows().min(task.reader.group_rows());
        let group = batch.slice(0, rows);
        if rows < batch.num_rows() {
            self.batch = Some(batch.slice(rows, batch.num_rows() - rows));
        }
        let keys = task.join.keys.iter();
        let keys = keys.map(|key| key.evaluate(&group)?.into_array(rows));
        let keys = keys.collect::<Result<Vec<ArrayRef>>>()?;
        let found = self.work.find(&task.join.source.snapshot, &keys)?;
        let found = found.iter().zip(0_u32..);
        let mut pairs: Vec<(RowId, u32)> =
            found.filter_map(|(row, at)| Some(((*row)?, at))).collect();
        if task.join.kind == LookupJoinKind::TableSemi {
            let before = self.seen.capacity();
            pairs.retain(|(row, _)| self.seen.insert(row.get()));
            let grown = self.seen.capacity() - before;
            self.memory.try_grow(grown * size_of::<u64>())?;
        }
        let (partners, mut at): (Vec<RowId>, Vec<u32>) = pairs.into_iter().unzip();
        let (table, passing) = task.reader.read(&partners, &mut self.work)?;
        if let Some(passing) = passing {
            let mut passing = passing.values().iter();
            at.retain(|_| passing.next().unwrap_or(false));
        }
        self.assemble(&group, &table, at)
    }

    /// The result for `group`, whose rows `at` have the partners in `table`.
    fn assemble(
        &self,
        group: &RecordBatch,
        table: &RecordBatch,
        at: Vec<u32>,
    ) -> Result<RecordBatch> {
        let rows = group.num_rows();
        let (mut input, mut partners) = (group.clone(), table.columns().to_vec());
        match self.task.join.kind {
            LookupJoinKind::Inner | LookupJoinKind::Semi if at.len() < rows => {
                input = take_record_batch(group, &UInt32Array::from(at))?;
            }
            LookupJoinKind::Anti => {
                let mut matched = at.into_iter().peekable();
                let alone = (0..rows as u32).filter(|row| matched.next_if_eq(row).is_none());
                input = take_record_batch(group, &UInt32Array::from_iter_values(alone))?;
            }
            LookupJoinKind::Left if at.len() < rows => {
                let mut matched = at.into_iter().zip(0_u32..).peekable();
                let partner = |row| {
                    matched
                        .next_if(|(at, _)| *at == row)
                        .map(|(_, place)| place)
                };
                let places: UInt32Array = (0..rows as u32).map(partner).collect();
                for values in &mut partners {
                    *values = take(values, &places, None)?;
                }
            }
            _ => {}
        }
        let rows = match self.task.join.kind {
            LookupJoinKind::TableSemi => table.num_rows(),
            _ => input.num_rows(),
        };
        let columns = self.task.output.iter().map(|origin| match *origin {
            Origin::Input(at) => Arc::clone(input.column(at)),
            Origin::Table { column, .. } => Arc::clone(&partners[column]),
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

impl Stream for JoinStream {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            let batch = match self.batch.take() {
                Some(batch) => Some(Ok(batch)),
                None => ready!(self.input.poll_next_unpin(context)),
            };
            let elapsed = self.baseline.elapsed_compute().clone();
            let timer = elapsed.timer();
            let next = batch.map(|batch| self.next_group(batch?));
            timer.done();
            if !matches!(&next, Some(Ok(batch)) if batch.num_rows() == 0) {
                return self.baseline.record_poll(Poll::Ready(next));
            }
        }
    }
}

impl RecordBatchStream for JoinStream {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.task.schema)
    }
}
