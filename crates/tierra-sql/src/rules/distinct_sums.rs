//! A sum beside DISTINCT aggregates keeps its type.
//!
//! DataFusion computes `sum(x), count(DISTINCT x)` by groups of equal values first, and sums the sums, which for DECIMAL have more
//! digits than the sum had. What compares it was planned for the sum's type, and failed. There it is not done.

use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

use super::plan::LogicalRule;

/// DataFusion's rule.
pub(super) const BY_GROUPS: &str = "single_distinct_aggregation_to_group_by";

/// The rule where it leaves types as they are.
#[derive(Debug)]
pub(super) struct OfOneType(pub(super) LogicalRule);

impl OptimizerRule for OfOneType {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        if !matches!(plan, LogicalPlan::Aggregate(_)) {
            return Ok(Transformed::no(plan));
        }
        let rewritten = self.0.rewrite(plan.clone(), config)?;
        let types = |plan: &LogicalPlan| -> Vec<_> {
            let fields = plan.schema().fields().iter();
            fields.map(|field| field.data_type().clone()).collect()
        };
        match types(&rewritten.data) == types(&plan) {
            true => Ok(rewritten),
            false => Ok(Transformed::no(plan)),
        }
    }
}
