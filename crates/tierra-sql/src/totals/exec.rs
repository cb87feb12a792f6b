//! The operator that adds a scan up: a row of states for each partition, or of a group and its states for each part of one.

use std::fmt;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{ScalarValue, internal_err};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning};
use datafusion::physical_plan::coop::cooperative;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, SchedulingType};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricBuilder, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PhysicalExpr,
    PlanProperties,
};
use futures::StreamExt;
use tierra_column::WantedTotals;
use tierra_engine::{ScanGroups, ScanTotals};

use super::state::TotalsState;
use crate::scan::{TierraScanExec, WantedColumns};

/// Adds up the columns of the scan below it.
#[derive(Debug)]
pub(super) struct TotalsExec {
    /// A [`TierraScanExec`].
    input: Arc<dyn ExecutionPlan>,
    states: Vec<TotalsState>,
    wanted: WantedColumns,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl TotalsExec {
    /// Above a scan; `schema` is that of the states, behind that of the groups if there are any: the values of column `group` of the scan.
    pub(super) fn new(
        input: Arc<dyn ExecutionPlan>,
        group: Option<usize>,
        states: Vec<TotalsState>,
        schema: SchemaRef,
    ) -> Result<Self> {
        let Some(scan) = input.downcast_ref::<TierraScanExec>() else {
            return internal_err!("totals are those of a scan, not of {}", input.name());
        };
        let mut wanted = vec![None; scan.projection().len()];
        for (place, other) in states.iter().filter_map(TotalsState::wanted) {
            let wanted: &mut WantedTotals = wanted[place].get_or_insert_default();
            wanted.sum |= other.sum;
            wanted.extremes |= other.extremes;
        }
        let wanted = WantedColumns { group, wanted };
        let partitions = input.output_partitioning().partition_count();
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(partitions),
            match group {
                Some(_) => EmissionType::Incremental,
                None => EmissionType::Final,
            },
            Boundedness::Bounded,
        )
        .with_scheduling_type(SchedulingType::Cooperative);
        Ok(Self {
            input,
            states,
            wanted,
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        })
    }
}

/// The states as one row.
fn of_all(states: &[TotalsState], totals: &ScanTotals, schema: SchemaRef) -> Result<RecordBatch> {
    let mut columns: Vec<ArrayRef> = Vec::with_capacity(schema.fields().len());
    for state in states {
        for part in 0..state.len() {
            let value = state.value(part, totals.rows, |place| &totals.columns[place])?;
            columns.push(value.to_array()?);
        }
    }
    let options = RecordBatchOptions::new().with_row_count(Some(1));
    Ok(RecordBatch::try_new_with_options(
        schema, columns, &options,
    )?)
}

/// A row for each group.
fn of_groups(states: &[TotalsState], groups: ScanGroups, schema: SchemaRef) -> Result<RecordBatch> {
    let mut columns = Vec::with_capacity(schema.fields().len());
    columns.push(groups.values);
    for state in states {
        for part in 0..state.len() {
            let values = groups.rows.iter().enumerate().map(|(group, rows)| {
                state.value(part, *rows, |place| &groups.columns[place][group])
            });
            let values = values.collect::<Result<Vec<_>>>()?;
            columns.push(ScalarValue::iter_to_array(values)?);
        }
    }
    Ok(RecordBatch::try_new(schema, columns)?)
}

impl DisplayAs for TotalsExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.states.iter().map(TotalsState::name).collect();
        write!(f, "{}: ", self.name())?;
        if let Some(group) = self.wanted.group {
            write!(f, "group={}, ", self.input.schema().field(group).name())?;
        }
        write!(f, "[{}]", names.join(", "))
    }
}

impl ExecutionPlan for TotalsExec {
    fn name(&self) -> &str {
        "TierraTotalsExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match children.pop() {
            Some(input) if children.is_empty() => Ok(Arc::new(Self::new(
                input,
                self.wanted.group,
                self.states.clone(),
                self.schema(),
            )?)),
            _ => internal_err!("{} has one input", self.name()),
        }
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let Some(scan) = self.input.downcast_ref::<TierraScanExec>() else {
            return internal_err!("{} has lost its scan", self.name());
        };
        let (states, schema) = (self.states.clone(), self.schema());
        let rows = MetricBuilder::new(&self.metrics).output_rows(partition);
        if self.wanted.group.is_some() {
            let groups = scan.groups(partition, &context, &self.wanted)?;
            let batches = groups.map(move |groups| {
                let batch = of_groups(&states, groups?, Arc::clone(&schema))?;
                rows.add(batch.num_rows());
                Ok::<_, DataFusionError>(batch)
            });
            let stream = RecordBatchStreamAdapter::new(self.schema(), batches);
            return Ok(Box::pin(cooperative(stream)));
        }
        let totals = scan.totals(partition, &context, &self.wanted)?;
        let row = async move {
            let row = of_all(&states, &totals.await?, schema)?;
            rows.add(1);
            Ok::<_, DataFusionError>(row)
        };
        let stream = futures::stream::once(row);
        let stream = RecordBatchStreamAdapter::new(self.schema(), Box::pin(stream));
        Ok(Box::pin(cooperative(stream)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}
