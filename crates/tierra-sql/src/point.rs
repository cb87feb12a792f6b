//! Rows by their primary key: the key's near index finds them, tuple reconstruction reads them.
//!
//! Each look-up and each cell is independent, so that the engine interleaves their cache misses.

use std::fmt;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::SchemaRef;
use datafusion::common::Statistics;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning};
use datafusion::physical_expr_common::physical_expr::PhysicalExpr;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::{
    BaselineMetrics, Count, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet, RecordOutput,
};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use tierra_column::{Filter, FilterKind, Value};
use tierra_engine::{LookupError, RowId, Snapshot, Table};
use tierra_interleave::{GroupReport, Lookups, Scheduling};

use crate::table::logical_type;
use crate::values;

/// A look-up costs about as much as scanning this many rows.
const ROWS_PER_LOOKUP: u64 = 64;
/// Rows reconstructed into one batch.
const BATCH_ROWS: usize = 8192;

/// Keys to look for, each with one value per key column.
#[derive(Debug, Clone)]
pub(crate) struct KeyLookup {
    table: String,
    /// One array per key column, one row per key.
    keys: Vec<ArrayRef>,
}

impl KeyLookup {
    fn len(&self) -> usize {
        self.keys.first().map_or(0, |column| column.len())
    }

    /// The look-up that `filters` amount to where they fix every column of the key, and the places
    /// of the filters it stands for.
    pub(crate) fn find(
        table: &Table,
        snapshot: &Snapshot,
        filters: &[(usize, Filter)],
    ) -> Option<(Self, Vec<usize>)> {
        let key = &table.spec().primary_key;
        if key.is_empty() {
            return None;
        }
        let most = usize::try_from(snapshot.rows() / ROWS_PER_LOOKUP)
            .ok()?
            .max(1);
        // One list of values per key column, as long as there are keys.
        let mut columns: Vec<Vec<Value>> = Vec::with_capacity(key.len());
        let mut used = Vec::with_capacity(key.len());
        let mut keys = 1;
        for column in key {
            let fixing = filters
                .iter()
                .enumerate()
                .filter(|(_, (other, _))| other == column);
            let (place, values) = fixing
                .filter_map(|(place, (_, filter))| Some((place, points(filter, most)?)))
                .next()?;
            if values.len().saturating_mul(keys) > most {
                return None;
            }
            // Every key so far with every value of this column.
            for known in &mut columns {
                *known = values.iter().flat_map(|_| known.iter().cloned()).collect();
            }
            columns.push(
                values
                    .iter()
                    .flat_map(|value| std::iter::repeat_n(value.clone(), keys))
                    .collect(),
            );
            keys *= values.len();
            used.push(place);
        }
        let schema = table.schema();
        let arrays = key
            .iter()
            .zip(&columns)
            .map(|(&column, values)| values::array(logical_type(&schema, column), values));
        let keys = arrays.collect::<Result<_>>().ok()?;
        Some((
            Self {
                table: table.spec().name.clone(),
                keys,
            },
            used,
        ))
    }
}

/// The values that a filter asks for, if they are few and named.
fn points(filter: &Filter, most: usize) -> Option<Vec<Value>> {
    match &filter.kind {
        FilterKind::Ranges(ranges) => match ranges.as_slice() {
            [(std::ops::Bound::Included(low), std::ops::Bound::Included(high))] if low == high => {
                Some(vec![low.clone()])
            }
            _ => None,
        },
        FilterKind::Set {
            values,
            negated: false,
        } if values.len() <= most => Some(values.values()),
        _ => None,
    }
}

/// The rows that have one of `keys`, in the table's order, each once.
pub(crate) fn find_rows(
    snapshot: &Snapshot,
    keys: &[ArrayRef],
    lookups: &mut Lookups,
) -> Result<Vec<RowId>, LookupError> {
    let mut rows: Vec<RowId> = snapshot
        .rows_by_key(keys, lookups)?
        .into_iter()
        .flatten()
        .collect();
    rows.sort_unstable();
    rows.dedup();
    Ok(rows)
}

/// Yields the rows of a [`KeyLookup`].
pub(crate) struct PointExec {
    snapshot: Snapshot,
    lookup: KeyLookup,
    projection: Vec<usize>,
    execution: Scheduling,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl PointExec {
    pub(crate) fn new(
        snapshot: Snapshot,
        schema: &SchemaRef,
        lookup: KeyLookup,
        projection: Vec<usize>,
        execution: Scheduling,
    ) -> Result<Self> {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::new(schema.project(&projection)?)),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Ok(Self {
            snapshot,
            lookup,
            projection,
            execution,
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        })
    }
}

impl fmt::Debug for PointExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PointExec")
            .field("lookup", &self.lookup)
            .finish_non_exhaustive()
    }
}

impl DisplayAs for PointExec {
    fn fmt_as(&self, _format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (table, keys) = (&self.lookup.table, self.lookup.len());
        write!(
            f,
            "TierraPointExec: table={table}, keys={keys}, columns={}, {}",
            self.projection.len(),
            self.execution
        )
    }
}

impl ExecutionPlan for PointExec {
    fn name(&self) -> &'static str {
        "TierraPointExec"
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
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn execute(
        &self,
        partition: usize,
        _context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let count = |name| MetricBuilder::new(&self.metrics).counter(name, partition);
        let (keys, near, far) = (count("keys"), count("cells_near"), count("cells_far"));
        let (looked_up, suspensions) = (count("lookups"), count("suspensions"));
        let mut lookups = Lookups::new(self.execution);
        let baseline = BaselineMetrics::new(&self.metrics, partition);
        let timer = baseline.elapsed_compute().timer();
        let rows = find_rows(&self.snapshot, &self.lookup.keys, &mut lookups).map_err(external)?;
        timer.done();
        keys.add(self.lookup.len());
        let (snapshot, projection) = (self.snapshot.clone(), self.projection.clone());
        let mut at = 0;
        let mut counted = GroupReport::default();
        let schema = self.schema();
        let batches = std::iter::from_fn(move || {
            let next = &rows[at..rows.len().min(at + BATCH_ROWS)];
            at += next.len();
            (!next.is_empty()).then(|| {
                let _timer = baseline.elapsed_compute().timer();
                let cells = snapshot.cells_by_tier(next, &projection);
                let add = |count: &Count, more| count.add(usize::try_from(more).unwrap_or(0));
                add(&near, cells.near);
                add(&far, cells.far);
                let batch = snapshot.reconstruct(next, &projection, &schema, &mut lookups);
                let report = lookups.report();
                add(&looked_up, report.lookups - counted.lookups);
                add(&suspensions, report.suspensions - counted.suspensions);
                counted = report;
                batch
                    .map(|batch| batch.record_output(&baseline))
                    .map_err(external)
            })
        });
        let batches = futures::stream::iter(batches);
        Ok(Box::pin(RecordBatchStreamAdapter::new(
            self.schema(),
            batches,
        )))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn statistics_from_inputs(
        &self,
        _inputs: &[Arc<Statistics>],
        _args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        let unknown = Statistics::new_unknown(&self.schema());
        Ok(Arc::new(Statistics {
            num_rows: Precision::Inexact(self.lookup.len()),
            ..unknown
        }))
    }
}

fn external(error: LookupError) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}
