//! Operators that yield columns of their input and columns that they read from tables.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::projection::{ProjectionMapping, ProjectionTargets};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning};
use datafusion::physical_expr_common::physical_expr::PhysicalExpr;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, PlanProperties};

/// The source of a column of the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    Input(usize),
    /// The column `column` of the columns read from the `table`-th table.
    Table {
        table: usize,
        column: usize,
    },
}

/// The properties of an operator whose rows keep the order and the partitions of its input. The input's columns keep
/// their known properties.
pub(super) fn properties(
    input: &Arc<dyn ExecutionPlan>,
    output: &[Origin],
    schema: &SchemaRef,
) -> PlanProperties {
    let mut targets: Vec<(usize, ProjectionTargets)> = Vec::new();
    for (place, origin) in output.iter().enumerate() {
        let Origin::Input(from) = *origin else {
            continue;
        };
        let target: Arc<dyn PhysicalExpr> =
            Arc::new(Column::new(schema.field(place).name(), place));
        match targets.iter_mut().find(|(other, _)| *other == from) {
            Some((_, targets)) => targets.push((target, place)),
            None => targets.push((from, vec![(target, place)].into())),
        }
    }
    let names = input.schema();
    let mapping: ProjectionMapping = targets
        .into_iter()
        .map(|(from, targets)| {
            let source: Arc<dyn PhysicalExpr> =
                Arc::new(Column::new(names.field(from).name(), from));
            (source, targets)
        })
        .collect();
    let known = input.equivalence_properties();
    let partitioning = input.output_partitioning();
    let (equivalence, partitioning) = if mapping.is_empty() {
        (
            EquivalenceProperties::new(Arc::clone(schema)),
            Partitioning::UnknownPartitioning(partitioning.partition_count()),
        )
    } else {
        (
            known.project(&mapping, Arc::clone(schema)),
            partitioning.project(&mapping, known),
        )
    };
    PlanProperties::new(
        equivalence,
        partitioning,
        input.pipeline_behavior(),
        input.boundedness(),
    )
}
