//! The operator that reads a table: one partition per thread, all on one shared scan.
//!
//! A scan joins the batch of those that read the same columns of its table ([`tierra_engine::Batches`]), if there is one.
//!
//! The engine hands out blocks of rows to the partitions on request, evaluates the filters on packed codes, and decodes
//! only the wanted columns of surviving rows. Filters that joins and top-k operators learn while the query runs are checked
//! before every batch. An aggregation of all rows asks for totals instead of rows ([`totals`]). A partition gives way to other tasks of its thread ([`Turn`]), so that all threads get their share.

mod totals;

use std::collections::BTreeSet;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{ColumnStatistics, Statistics, internal_err};
use datafusion::config::ConfigOptions;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::expressions::DynamicFilterTracking;
use datafusion::physical_expr::{EquivalenceProperties, Partitioning};
use datafusion::physical_expr_common::physical_expr::PhysicalExpr;
use datafusion::physical_plan::coop::cooperative;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, SchedulingType};
use datafusion::physical_plan::filter_pushdown::{
    ChildPushdownResult, FilterPushdownPhase, FilterPushdownPropagation, PushedDown,
};
use datafusion::physical_plan::metrics::{
    BaselineMetrics, Count, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet,
};
use datafusion::physical_plan::projection::{
    ProjectionExec, all_alias_free_columns, new_projections_for_columns,
};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::Stream;
use tierra_engine::{
    ReadPattern, Scan, ScanCounters, ScanCursor, ScanSpec, Snapshot, row_id_field,
};
use tierra_interleave::Scheduling;

pub(crate) use self::totals::WantedColumns;
use crate::filter::{ColumnFilters, DynamicFilters};
use crate::late::RowSource;
use crate::replicas;
use crate::settings::{self, TierraSettings};
use crate::statistics;
use crate::tree::TreeNode;

/// Tables smaller than this are read by one thread: starting another costs more than it saves.
const PARALLEL_ROWS: u64 = 1 << 15;
/// How long a partition reads before it gives way.
const TURN: Duration = Duration::from_millis(1);
/// The most characters of a filter that EXPLAIN shows.
const SHOWN_FILTER: usize = 80;

/// The table, the columns and the filters of a scan.
#[derive(Clone)]
pub(crate) struct ScanPlan {
    pub(crate) table: String,
    pub(crate) snapshot: Snapshot,
    /// The whole table's schema.
    pub(crate) schema: SchemaRef,
    /// The columns to yield.
    pub(crate) projection: Vec<usize>,
    pub(crate) filters: ColumnFilters,
    /// The predicates that `filters` were made from, for EXPLAIN.
    pub(crate) shown: Vec<Arc<dyn PhysicalExpr>>,
    pub(crate) threads: usize,
    pub(crate) batch_rows: usize,
    pub(crate) execution: Scheduling,
    /// Whether the last column contains the rows' ids.
    pub(crate) row_ids: bool,
    /// Rows after which each partition may stop.
    pub(crate) fetch: Option<usize>,
}

impl ScanPlan {
    /// The schema of the output.
    fn output(&self) -> Result<Schema> {
        let mut fields = self.schema.project(&self.projection)?.fields.to_vec();
        if self.row_ids {
            fields.push(row_id_field(&self.snapshot.table().schema()));
        }
        Ok(Schema::new(fields))
    }
}

/// Reads a table.
pub(crate) struct TierraScanExec {
    plan: ScanPlan,
    dynamic: Arc<DynamicFilters>,
    properties: Arc<PlanProperties>,
    statistics: OnceLock<Arc<Statistics>>,
    /// The scan that the partitions of one execution share.
    shared: Mutex<Shared>,
    metrics: ExecutionPlanMetricsSet,
}

#[derive(Default)]
struct Shared {
    scan: Option<Arc<Scan>>,
    /// The partitions that have begun. One that begins again belongs to another execution.
    begun: Vec<bool>,
}

impl TierraScanExec {
    pub(crate) fn new(plan: ScanPlan) -> Result<Self> {
        Self::with_dynamic(plan, Arc::default())
    }

    fn with_dynamic(plan: ScanPlan, dynamic: Arc<DynamicFilters>) -> Result<Self> {
        let schema = Arc::new(plan.output()?);
        let partitions = if plan.snapshot.rows() < PARALLEL_ROWS {
            1
        } else {
            plan.threads
        };
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(partitions),
            EmissionType::Incremental,
            Boundedness::Bounded,
        )
        .with_scheduling_type(SchedulingType::Cooperative);
        Ok(Self {
            plan,
            dynamic,
            properties: Arc::new(properties),
            statistics: OnceLock::new(),
            shared: Mutex::default(),
            metrics: ExecutionPlanMetricsSet::new(),
        })
    }

    /// The scan of the execution that `partition` belongs to. It returns rows, or totals that are wanted instead.
    fn shared_scan(
        &self,
        partition: usize,
        settings: &TierraSettings,
        wanted: Option<&WantedColumns>,
    ) -> Arc<Scan> {
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        let begun = shared.begun.get(partition).copied().unwrap_or(true);
        if begun {
            let partitions = self.properties.partitioning.partition_count();
            *shared = Shared {
                scan: None,
                begun: vec![false; partitions],
            };
        }
        shared.begun[partition] = true;
        let scan = shared.scan.get_or_insert_with(|| {
            let plan = &self.plan;
            let spec = ScanSpec {
                projection: plan.projection.clone(),
                filters: plan.filters.clone(),
                // More rows than requested would be decoded in vain.
                batch_rows: match wanted {
                    Some(_) => totals::TOTALS_ROWS,
                    None => plan.batch_rows.min(plan.fetch.unwrap_or(usize::MAX)),
                },
                execution: plan.execution,
            };
            if let Some(wanted) = wanted {
                wanted.scan(&plan.snapshot, spec, settings)
            } else if plan.row_ids {
                plan.snapshot.scan_with_row_ids(spec)
            } else if plan.fetch.is_some() {
                // It stops early: where it begins matters, and others gain nothing.
                plan.snapshot.scan(spec)
            } else {
                plan.snapshot
                    .scan_in_batch(spec, &settings.batches, settings.batch)
            }
        });
        Arc::clone(scan)
    }

    /// The columns of the table that the scan yields.
    pub(crate) fn projection(&self) -> &[usize] {
        &self.plan.projection
    }

    /// The snapshot of the rows, and how lookups in it wait.
    pub(crate) fn source(&self) -> RowSource {
        RowSource {
            snapshot: self.plan.snapshot.clone(),
            execution: self.plan.execution,
        }
    }

    /// The predicates that the scan evaluates, on the table's columns.
    pub(crate) fn predicates(&self) -> &[Arc<dyn PhysicalExpr>] {
        &self.plan.shown
    }

    /// Whether operators above make filters for it while the query runs.
    pub(crate) fn awaits_filters(&self) -> bool {
        !self.dynamic.expressions().is_empty()
    }

    /// Whether the scan yields all rows that meet its predicates.
    pub(crate) fn yields_all_rows(&self) -> bool {
        self.plan.fetch.is_none()
    }

    /// Whether the last column contains the rows' ids.
    pub(crate) fn tells_row_ids(&self) -> bool {
        self.plan.row_ids
    }

    /// The same scan with other columns of the table, followed by the rows' ids.
    pub(crate) fn with_row_ids(&self, projection: Vec<usize>) -> Result<Self> {
        let plan = ScanPlan {
            projection,
            row_ids: true,
            ..self.plan.clone()
        };
        Self::with_dynamic(plan, Arc::clone(&self.dynamic))
    }

    /// The estimated number of rows that pass the filters.
    pub(crate) fn estimated_rows(&self) -> usize {
        let rows = self.whole_statistics().num_rows;
        rows.get_value().copied().unwrap_or(usize::MAX)
    }

    fn whole_statistics(&self) -> &Arc<Statistics> {
        let plan = &self.plan;
        self.statistics.get_or_init(|| {
            let mut statistics = statistics::of_scan(
                &plan.snapshot,
                &plan.schema,
                &plan.projection,
                &plan.filters,
            );
            if plan.row_ids {
                let unknown = ColumnStatistics::new_unknown();
                statistics.column_statistics.push(unknown);
            }
            Arc::new(statistics)
        })
    }

    /// `filter`, which refers to the scan's output, translated to the table's columns.
    fn on_table(&self, filter: Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>> {
        let projection = &self.plan.projection;
        filter
            .transform_down(|expr| {
                Ok(match expr.downcast_ref::<Column>() {
                    Some(column) => {
                        let Some(place) = projection.get(column.index()) else {
                            return internal_err!("a filter on row ids");
                        };
                        Transformed::yes(
                            Arc::new(Column::new(column.name(), *place)) as Arc<dyn PhysicalExpr>
                        )
                    }
                    None => Transformed::no(expr),
                })
            })
            .map(|transformed| transformed.data)
    }
}

impl fmt::Debug for TierraScanExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TierraScanExec")
            .field("table", &self.plan.table)
            .finish_non_exhaustive()
    }
}

fn shortened(text: String) -> String {
    match text.char_indices().nth(SHOWN_FILTER) {
        Some((end, _)) => format!("{}..", &text[..end]),
        None => text,
    }
}

impl DisplayAs for TierraScanExec {
    fn fmt_as(&self, _format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let schema = self.properties.eq_properties.schema();
        let columns: Vec<&str> = schema
            .fields()
            .iter()
            .map(|field| field.name().as_str())
            .collect();
        write!(
            f,
            "TierraScanExec: table={}, columns=[{}]",
            self.plan.table,
            columns.join(", ")
        )?;
        let list = |f: &mut fmt::Formatter<'_>, name: &str, filters: &[Arc<dyn PhysicalExpr>]| {
            let filters: Vec<String> = filters
                .iter()
                .map(|filter| shortened(filter.to_string()))
                .collect();
            if filters.is_empty() {
                Ok(())
            } else {
                write!(f, ", {name}=[{}]", filters.join(", "))
            }
        };
        list(f, "filters", &self.plan.shown)?;
        list(f, "dynamic", self.dynamic.expressions())?;
        let tested = self.plan.filters.iter().map(|(column, _)| *column);
        let read: BTreeSet<usize> = self.plan.projection.iter().copied().chain(tested).collect();
        replicas::write_read(f, &self.plan.snapshot, read, ReadPattern::Sequential)?;
        let shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        let scan = shared.scan.as_ref();
        if let Some(level) = scan.and_then(|scan| scan.level()) {
            write!(f, ", simd={level}")?;
        }
        if let Some(queries) = scan.and_then(|scan| scan.batch_queries()) {
            write!(f, ", batch={queries}")?;
        }
        match self.plan.fetch {
            Some(fetch) => write!(f, ", fetch={fetch}"),
            None => Ok(()),
        }
    }
}

impl ExecutionPlan for TierraScanExec {
    fn name(&self) -> &'static str {
        "TierraScanExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn with_new_children(
        self: Arc<Self>,
        _children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        for expression in self.dynamic.expressions() {
            if f(expression)? == TreeNodeRecursion::Stop {
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
        let wanted = context.session_config().batch_size();
        let settings = settings::of(context.session_config().options());
        let scan = self.shared_scan(partition, &settings, None);
        let cursor = scan.cursor_by(settings.reading);
        let cursor = cursor.map_err(|error| DataFusionError::External(Box::new(error)))?;
        let stream = ScanStream {
            // If rows become wide, batches have fewer rows than the scan's. Otherwise a batch has as many as its blocks.
            cut_rows: (wanted < self.plan.batch_rows).then_some(wanted),
            rest: None,
            schema: self.schema(),
            scan,
            has_begun: false,
            cursor,
            snapshot: self.plan.snapshot.clone(),
            table_schema: Arc::clone(&self.plan.schema),
            dynamic: Arc::clone(&self.dynamic),
            remaining: self.plan.fetch.unwrap_or(usize::MAX),
            turn: Turn::new(self.properties.partitioning.partition_count()),
            baseline: BaselineMetrics::new(&self.metrics, partition),
            counts: Counts::new(&self.metrics, partition),
        };
        Ok(Box::pin(cooperative(stream)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn statistics_from_inputs(
        &self,
        _inputs: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        let whole = self.whole_statistics();
        let partitions = self.properties.partitioning.partition_count();
        match args.partition() {
            // Partitions get blocks on request, so each may get any share.
            Some(_) if partitions > 1 => Ok(Arc::new(Statistics::clone(whole).to_inexact())),
            _ => Ok(Arc::clone(whole)),
        }
    }

    // Not `supports_limit_pushdown`, which would let a limit pass below. Nothing is below, and an OFFSET would be lost.

    fn with_fetch(&self, fetch: Option<usize>) -> Option<Arc<dyn ExecutionPlan>> {
        let plan = ScanPlan {
            fetch,
            ..self.plan.clone()
        };
        Some(Arc::new(
            Self::with_dynamic(plan, Arc::clone(&self.dynamic)).ok()?,
        ))
    }

    fn fetch(&self) -> Option<usize> {
        self.plan.fetch
    }

    fn try_swapping_with_projection(
        &self,
        projection: &ProjectionExec,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let columns = projection.expr();
        if self.plan.row_ids || !all_alias_free_columns(columns) || columns.is_empty() {
            return Ok(None);
        }
        let projection = new_projections_for_columns(columns, &self.plan.projection);
        let plan = ScanPlan {
            projection,
            ..self.plan.clone()
        };
        Ok(Some(Arc::new(Self::with_dynamic(
            plan,
            Arc::clone(&self.dynamic),
        )?)))
    }

    fn handle_child_pushdown_result(
        &self,
        phase: FilterPushdownPhase,
        result: ChildPushdownResult,
        _config: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn ExecutionPlan>>> {
        let offered = result.parent_filters.len();
        let mut expressions = self.dynamic.expressions().to_vec();
        if phase == FilterPushdownPhase::Post {
            for parent in result.parent_filters {
                if DynamicFilterTracking::classify(&parent.filter).contains_dynamic_filter() {
                    expressions.push(self.on_table(parent.filter)?);
                }
            }
        }
        // A dynamic filter only saves work here; the operator that made it still drops rows.
        let propagation =
            FilterPushdownPropagation::with_parent_pushdown_result(vec![PushedDown::No; offered]);
        if expressions.len() == self.dynamic.expressions().len() {
            return Ok(propagation);
        }
        let dynamic = Arc::new(DynamicFilters::new(expressions));
        Ok(
            propagation
                .with_updated_node(Arc::new(Self::with_dynamic(self.plan.clone(), dynamic)?)),
        )
    }
}

/// The engine's counters of one partition, as metrics of the query.
struct Counts {
    blocks_read: Count,
    blocks_skipped: Count,
    blocks_decoded: Count,
    tail_rows: Count,
    bytes_near: Count,
    bytes_far: Count,
    bytes_copied: Count,
    blocks_helped: Count,
    blocks_shared: Count,
    blocks_elsewhere: Count,
    lookups: Count,
    index_lookups: Count,
    suspensions: Count,
    seen: ScanCounters,
}

impl Counts {
    fn new(metrics: &ExecutionPlanMetricsSet, partition: usize) -> Self {
        let count = |name: &'static str| MetricBuilder::new(metrics).counter(name, partition);
        Self {
            blocks_read: count("blocks_read"),
            blocks_skipped: count("blocks_skipped"),
            blocks_decoded: count("blocks_decoded"),
            tail_rows: count("tail_rows"),
            bytes_near: count("bytes_near"),
            bytes_far: count("bytes_far"),
            bytes_copied: count("bytes_copied"),
            blocks_helped: count("blocks_helped"),
            blocks_shared: count("blocks_shared"),
            blocks_elsewhere: count("blocks_elsewhere"),
            lookups: count("lookups"),
            index_lookups: count("index_lookups"),
            suspensions: count("suspensions"),
            seen: ScanCounters::default(),
        }
    }

    fn advance(&mut self, now: ScanCounters) {
        let add = |count: &Count, now: u64, seen: u64| {
            count.add(usize::try_from(now - seen).unwrap_or(usize::MAX))
        };
        add(&self.blocks_read, now.blocks_read, self.seen.blocks_read);
        add(
            &self.blocks_skipped,
            now.blocks_skipped,
            self.seen.blocks_skipped,
        );
        add(
            &self.blocks_decoded,
            now.blocks_decoded,
            self.seen.blocks_decoded,
        );
        add(&self.tail_rows, now.tail_rows, self.seen.tail_rows);
        add(&self.bytes_near, now.bytes_near, self.seen.bytes_near);
        add(&self.bytes_far, now.bytes_far, self.seen.bytes_far);
        add(&self.bytes_copied, now.bytes_copied, self.seen.bytes_copied);
        add(
            &self.blocks_helped,
            now.blocks_helped,
            self.seen.blocks_helped,
        );
        add(
            &self.blocks_shared,
            now.blocks_shared,
            self.seen.blocks_shared,
        );
        add(
            &self.blocks_elsewhere,
            now.blocks_elsewhere,
            self.seen.blocks_elsewhere,
        );
        add(&self.lookups, now.lookups, self.seen.lookups);
        add(
            &self.index_lookups,
            now.index_lookups,
            self.seen.index_lookups,
        );
        add(&self.suspensions, now.suspensions, self.seen.suspensions);
        self.seen = now;
    }
}

/// When a partition gives way to other tasks: before its first batch, and after each [`TURN`].
///
/// The partition that ends a build side wakes those that wait for it. Tokio puts the last one woken beside its waker, on the
/// same thread, where no other thread can take it. It would begin when the first partition waits, which has then read all.
struct Turn {
    began: Option<Instant>,
    gave_way: bool,
}

impl Turn {
    /// The first turn of one of `partitions`. A partition alone begins at once.
    fn new(partitions: usize) -> Self {
        Self {
            began: None,
            gave_way: partitions == 1,
        }
    }

    /// Whether to give way now. The next call begins a turn, however long the others took.
    fn is_over(&mut self) -> bool {
        if std::mem::take(&mut self.gave_way) {
            self.began = Some(Instant::now());
            return false;
        }
        self.gave_way = self.began.is_none_or(|began| began.elapsed() >= TURN);
        self.gave_way
    }
}

/// What a partition does that got no rows: other queries of its batch are far behind, and run first.
fn let_others_run<T>(scan: &Scan, context: &mut Context<'_>) -> Poll<T> {
    if scan.poll_others(context).is_ready() {
        context.waker().wake_by_ref();
    }
    Poll::Pending
}

/// One partition's share of a scan.
struct ScanStream {
    schema: SchemaRef,
    /// Its batch may wait for other queries.
    scan: Arc<Scan>,
    has_begun: bool,
    cursor: ScanCursor,
    snapshot: Snapshot,
    table_schema: SchemaRef,
    dynamic: Arc<DynamicFilters>,
    remaining: usize,
    /// The most rows of a batch.
    cut_rows: Option<usize>,
    /// The rest of a batch that was cut.
    rest: Option<RecordBatch>,
    turn: Turn,
    baseline: BaselineMetrics,
    counts: Counts,
}

impl ScanStream {
    fn next_cut(&mut self) -> Result<Option<RecordBatch>> {
        let Some(most) = self.cut_rows else {
            return self.next_batch();
        };
        let batch = match self.rest.take() {
            Some(rest) => Some(rest),
            None => self.next_batch()?,
        };
        Ok(batch.map(|batch| match batch.num_rows() > most {
            true => {
                self.rest = Some(batch.slice(most, batch.num_rows() - most));
                batch.slice(0, most)
            }
            false => batch,
        }))
    }

    fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        if self.remaining == 0 {
            return Ok(None);
        }
        let (version, filters) = self.dynamic.known(&self.snapshot, &self.table_schema)?;
        let next = self.cursor.next(&filters, version);
        self.counts.advance(self.cursor.counters());
        let Some(batch) = next.map_err(|error| DataFusionError::External(Box::new(error)))? else {
            return Ok(None);
        };
        let batch = if batch.num_rows() > self.remaining {
            batch.slice(0, self.remaining)
        } else {
            batch
        };
        self.remaining -= batch.num_rows();
        Ok(Some(batch))
    }
}

impl Stream for ScanStream {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if !self.has_begun {
            ready!(self.scan.poll_begin(context));
            self.has_begun = true;
        }
        if self.turn.is_over() {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let elapsed = self.baseline.elapsed_compute().clone();
        let timer = elapsed.timer();
        let next = self.next_cut().transpose();
        timer.done();
        if matches!(&next, Some(Ok(batch)) if batch.num_rows() == 0) {
            return let_others_run(&self.scan, context);
        }
        self.baseline.record_poll(Poll::Ready(next))
    }
}

impl RecordBatchStream for ScanStream {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}
