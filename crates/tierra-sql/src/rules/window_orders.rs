//! Hides the order that DataFusion assumes for window functions over moving frames.
//!
//! DataFusion takes a count, a minimum or a maximum over frames that move along ordered rows for ordered. It is not: it restarts
//! with each partition, it is NULL over a frame without values at any position, and a count falls if NULLs come last. So a sort
//! by it was left out.

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::physical_expr::window::{SlidingAggregateWindowExpr, WindowExpr};
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};

use super::plan::EachOperator;
use crate::pass::Pass;

const RULE: EachOperator = EachOperator {
    name: "window_orders",
    rewrite,
};

/// Adds the first of all rules, so that later rules see correct orders.
pub(super) fn add_to(builder: &mut SessionStateBuilder) {
    let optimizer = builder.physical_optimizers();
    let rules = &mut optimizer.get_or_insert_with(PhysicalOptimizer::new).rules;
    rules.insert(0, Arc::new(RULE));
}

fn rewrite(plan: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let columns = of_moving_frames(plan.as_ref());
    Ok(match columns.is_empty() {
        true => Transformed::no(plan),
        false => Transformed::yes(Pass::Order(columns).above(plan)),
    })
}

/// The columns of a window operator that are aggregates over frames with a moving start.
fn of_moving_frames(plan: &dyn ExecutionPlan) -> Vec<usize> {
    let functions: &[Arc<dyn WindowExpr>] =
        if let Some(window) = plan.downcast_ref::<BoundedWindowAggExec>() {
            window.window_expr()
        } else if let Some(window) = plan.downcast_ref::<WindowAggExec>() {
            window.window_expr()
        } else {
            return Vec::new();
        };
    let first = plan.schema().fields().len() - functions.len();
    let moves = |function: &Arc<dyn WindowExpr>| {
        let function = function.as_any();
        function.is::<SlidingAggregateWindowExpr>()
    };
    let moving = functions.iter().enumerate();
    let moving = moving.filter(|(_, function)| moves(function));
    moving.map(|(index, _)| first + index).collect()
}
