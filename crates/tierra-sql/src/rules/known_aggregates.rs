//! Aggregates that statistics answer without reading rows, except in plans with FILTER or DISTINCT, or of computed columns.
//!
//! - DataFusion searches below the aggregation to be replaced for one whose values are in the statistics, and passes over one with
//!   FILTER. So `SELECT count(*) FILTER (WHERE m = 3) FROM (SELECT max(x) AS m FROM t)` became `max(x)`.
//! - It takes the least value, cast, for the least of the values that are cast. As text 100000 comes before 99999.
//! - It says that a constant column has one value, and that this is the least, even of no rows (`SELECT 1 FROM empty UNION ALL ..`),
//!   and even of NULL, which `count(DISTINCT ..)` does not count.

use std::sync::Arc;

use crate::tree::TreeNode;
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::physical_expr::expressions::{CastExpr, Literal};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::projection::ProjectionExec;

/// DataFusion's rule.
pub(super) const KNOWN: &str = "aggregate_statistics";

/// The rule for plans without these.
pub(super) fn of_columns(
    rule: &dyn PhysicalOptimizerRule,
    plan: Arc<dyn ExecutionPlan>,
    config: &ConfigOptions,
) -> Result<Arc<dyn ExecutionPlan>> {
    match plan.exists(is_misjudged)? {
        true => Ok(plan),
        false => rule.optimize(plan, config),
    }
}

/// Whether `plan` is an aggregation about which statistics may be wrong.
fn is_misjudged(plan: &Arc<dyn ExecutionPlan>) -> Result<bool> {
    let Some(aggregate) = plan.downcast_ref::<AggregateExec>() else {
        return Ok(false);
    };
    let is_filtered = aggregate.filter_expr().iter().any(Option::is_some);
    let is_distinct = aggregate.aggr_expr().iter().any(|one| one.is_distinct());
    Ok(is_filtered || is_distinct || aggregate.input().exists(|plan| Ok(computes(plan)))?)
}

/// Whether `plan` yields casts or constants.
fn computes(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let projection = plan.downcast_ref::<ProjectionExec>();
    projection.is_some_and(|projection| {
        let mut exprs = projection.expr().iter().map(|one| &one.expr);
        exprs.any(|expr| expr.is::<CastExpr>() || expr.is::<Literal>())
    })
}
