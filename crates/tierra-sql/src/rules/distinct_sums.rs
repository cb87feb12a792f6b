//! A sum beside DISTINCT aggregates keeps its type.
//!
//! DataFusion computes `sum(x), count(DISTINCT x)` by grouping equal values first, and then sums the sums. For DECIMAL these have
//! more digits than the sum. Operators above were planned for the sum's type and failed. The rule is skipped for such plans.

use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

/// DataFusion's rule.
pub(super) const BY_GROUPS: &str = "single_distinct_aggregation_to_group_by";

/// The rule, if it does not change types.
pub(super) fn of_one_type(
    rule: &dyn OptimizerRule,
    plan: LogicalPlan,
    config: &dyn OptimizerConfig,
) -> Result<Transformed<LogicalPlan>> {
    if !matches!(plan, LogicalPlan::Aggregate(_)) {
        return Ok(Transformed::no(plan));
    }
    let rewritten = rule.rewrite(plan.clone(), config)?;
    let types = |plan: &LogicalPlan| -> Vec<_> {
        let fields = plan.schema().fields().iter();
        fields.map(|field| field.data_type().clone()).collect()
    };
    match types(&rewritten.data) == types(&plan) {
        true => Ok(rewritten),
        false => Ok(Transformed::no(plan)),
    }
}
