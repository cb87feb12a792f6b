//! Filters show that they yield only some of their columns, or yield them in another order.
//!
//! DataFusion gives a filter a list of the columns that it yields. When it then moves a projection below the filter, it overlooks
//! the list, and the projection takes the columns of the same numbers. Such plans were refused, or computed other columns where
//! types allowed it. Before the rule, the list becomes a projection above the filter. The rule moves that one into the filter again.

use std::sync::Arc;

use crate::tree::TreeNode;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::projection::ProjectionExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::{FilterExec, FilterExecBuilder};
use datafusion::physical_plan::projection::ProjectionExec;

/// DataFusion's rule.
pub(super) const PROJECTIONS: &str = "ProjectionPushdown";

/// The rule, for filters that yield all of their columns.
pub(super) fn of_whole_filters(
    rule: &dyn PhysicalOptimizerRule,
    plan: Arc<dyn ExecutionPlan>,
    config: &ConfigOptions,
) -> Result<Arc<dyn ExecutionPlan>> {
    rule.optimize(plan.transform_up(whole).data()?, config)
}

/// A filter as a projection above a filter of all columns.
fn whole(plan: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let Some(filter) = plan.downcast_ref::<FilterExec>() else {
        return Ok(Transformed::no(plan));
    };
    let Some(columns) = filter.projection() else {
        return Ok(Transformed::no(plan));
    };
    let input = filter.input().schema();
    let yielded = columns.iter().map(|&place| {
        let name = input.field(place).name();
        ProjectionExpr::new(Arc::new(Column::new(name, place)), name.clone())
    });
    let yielded: Vec<_> = yielded.collect();
    let whole = FilterExecBuilder::from(filter)
        .apply_projection(None)?
        .build()?;
    let projection = ProjectionExec::try_new(yielded, Arc::new(whole))?;
    Ok(Transformed::yes(Arc::new(projection)))
}
