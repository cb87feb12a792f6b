//! A sum beside DISTINCT aggregates keeps its type.
//!
//! DataFusion computes `sum(x), count(DISTINCT x)` by groups of equal values first, and sums the sums, which for DECIMAL have more
//! digits than the sum had. What compares it was planned for the sum's type, and failed. There it is not done.

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{Optimizer, OptimizerConfig, OptimizerRule};

/// DataFusion's rule.
const BY_GROUPS: &str = "single_distinct_aggregation_to_group_by";

pub(super) fn add_to(builder: &mut SessionStateBuilder) {
    let rules = &mut builder.optimizer().get_or_insert_with(Optimizer::new).rules;
    for rule in rules {
        if rule.name() == BY_GROUPS {
            *rule = Arc::new(OfOneType(Arc::clone(rule)));
        }
    }
}

/// The rule where it leaves types as they are.
#[derive(Debug)]
struct OfOneType(Arc<dyn OptimizerRule + Send + Sync>);

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
