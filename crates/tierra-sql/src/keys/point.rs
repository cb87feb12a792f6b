//! The operator that looks up keys and reads their rows, partition by partition, group by group.

use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::common::Statistics;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning};
use datafusion::physical_expr_common::physical_expr::PhysicalExpr;
use datafusion::physical_plan::coop::cooperative;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, SchedulingType};
use datafusion::physical_plan::metrics::{
    BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet, RecordOutput,
};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use tierra_engine::RowId;

use super::KeyLookup;
use crate::late::{LookupWork, RowReader};

/// Yields the rows of a [`KeyLookup`] that pass the reader's predicate.
pub(crate) struct PointExec {
    lookup: Arc<KeyLookup>,
    reader: Arc<RowReader>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl PointExec {
    /// Makes at most `threads` partitions, each with at least one group of keys.
    pub(crate) fn new(lookup: KeyLookup, reader: RowReader, threads: usize) -> Self {
        let groups = lookup.len().div_ceil(reader.group_rows());
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(reader.schema())),
            Partitioning::UnknownPartitioning(groups.clamp(1, threads.max(1))),
            EmissionType::Incremental,
            Boundedness::Bounded,
        )
        .with_scheduling_type(SchedulingType::Cooperative);
        Self {
            lookup: Arc::new(lookup),
            reader: Arc::new(reader),
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        }
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
        let source = self.reader.source();
        write!(
            f,
            "TierraPointExec: table={}, keys={}, columns={}, {}",
            source.table(),
            self.lookup.len(),
            self.schema().fields().len(),
            source.execution
        )?;
        self.reader.write_replicas(f)?;
        match self.reader.predicate() {
            Some(predicate) => write!(f, ", filter={predicate}"),
            None => Ok(()),
        }
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
        let (lookup, reader) = (Arc::clone(&self.lookup), Arc::clone(&self.reader));
        let mut work = LookupWork::new(reader.source().execution, &self.metrics, partition);
        let baseline = BaselineMetrics::new(&self.metrics, partition);
        let (group, partitions) = (
            reader.group_rows(),
            self.properties.partitioning.partition_count(),
        );
        // Keys cost about the same, so a share of every n-th group is fair.
        let starts = (0..lookup.len())
            .step_by(group)
            .skip(partition)
            .step_by(partitions);
        let next = move |start: usize| -> Result<RecordBatch> {
            let _timer = baseline.elapsed_compute().timer();
            let keys = lookup.slice(start, group.min(lookup.len() - start));
            let found = work.find(&reader.source().snapshot, &keys)?;
            // In the table's order, neighbours share cache lines.
            let mut rows: Vec<RowId> = found.into_iter().flatten().collect();
            rows.sort_unstable();
            let (batch, _) = reader.read(&rows, &mut work)?;
            Ok(batch.record_output(&baseline))
        };
        let batches = starts.map(next);
        let batches =
            batches.filter(|batch| batch.as_ref().map_or(true, |batch| batch.num_rows() > 0));
        Ok(Box::pin(cooperative(RecordBatchStreamAdapter::new(
            self.schema(),
            futures::stream::iter(batches),
        ))))
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
