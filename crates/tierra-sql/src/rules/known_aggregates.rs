//! Aggregates that statistics answer without reading rows, except in plans with FILTER or casts.
//!
//! - DataFusion searches below the aggregation to be replaced for one whose values are in the statistics, and passes over one with
//!   FILTER. So `SELECT count(*) FILTER (WHERE m = 3) FROM (SELECT max(x) AS m FROM t)` became `max(x)`.
//! - It takes the least value, cast, for the least of the values that are cast. As text 100000 comes before 99999.

use std::sync::Arc;

use datafusion::common::tree_node::TreeNode;
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::physical_expr::expressions::CastExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::projection::ProjectionExec;

use super::plan::PhysicalRule;

/// DataFusion's rule.
pub(super) const KNOWN: &str = "aggregate_statistics";

/// The rule for plans without FILTER and casts.
#[derive(Debug)]
pub(super) struct ColumnsOnly(pub(super) PhysicalRule);

impl PhysicalOptimizerRule for ColumnsOnly {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let is_wrong = plan.exists(|plan| Ok(is_filtered(plan) || casts(plan)))?;
        match is_wrong {
            true => Ok(plan),
            false => self.0.optimize(plan, config),
        }
    }

    fn name(&self) -> &str {
        self.0.name()
    }

    fn schema_check(&self) -> bool {
        self.0.schema_check()
    }
}

fn is_filtered(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let aggregate = plan.downcast_ref::<AggregateExec>();
    aggregate.is_some_and(|aggregate| aggregate.filter_expr().iter().any(Option::is_some))
}

fn casts(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let projection = plan.downcast_ref::<ProjectionExec>();
    projection.is_some_and(|projection| {
        projection
            .expr()
            .iter()
            .any(|one| one.expr.is::<CastExpr>())
    })
}
