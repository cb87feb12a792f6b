//! Hides the order that DataFusion assumes for window functions.
//!
//! DataFusion takes a count, a minimum or a maximum over frames that move along ordered rows for ordered. It is not: it restarts
//! with each partition, it is NULL over a frame without values at any position, and a count falls if NULLs come last. A minimum
//! or maximum over frames that only grow is taken for ordered with NULLs last. But it is NULL first, until a frame has a value. So
//! a sort by it was left out.

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::logical_expr::SetMonotonicity;
use datafusion::physical_expr::window::{
    PlainAggregateWindowExpr, SlidingAggregateWindowExpr, WindowExpr,
};
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
    let columns = without_order(plan.as_ref());
    Ok(match columns.is_empty() {
        true => Transformed::no(plan),
        false => Transformed::yes(Pass::Order(columns).above(plan)),
    })
}

/// The columns of a window operator that do not have the assumed order.
fn without_order(plan: &dyn ExecutionPlan) -> Vec<usize> {
    let functions: &[Arc<dyn WindowExpr>] =
        if let Some(window) = plan.downcast_ref::<BoundedWindowAggExec>() {
            window.window_expr()
        } else if let Some(window) = plan.downcast_ref::<WindowAggExec>() {
            window.window_expr()
        } else {
            return Vec::new();
        };
    let first = plan.schema().fields().len() - functions.len();
    let unordered = functions.iter().enumerate();
    let unordered = unordered
        .filter(|(_, function)| moves(function.as_ref()) || begins_null(function.as_ref()));
    unordered.map(|(index, _)| first + index).collect()
}

/// Whether the function is an aggregate over frames with a moving start.
fn moves(function: &dyn WindowExpr) -> bool {
    function.as_any().is::<SlidingAggregateWindowExpr>()
}

/// Whether the function is an extreme over growing frames, of which the first may have no value.
fn begins_null(function: &dyn WindowExpr) -> bool {
    let plain = function.as_any().downcast_ref::<PlainAggregateWindowExpr>();
    plain.is_some_and(|plain| {
        let aggregate = plain.get_aggregate_expr();
        !function.get_window_frame().end_bound.is_unbounded()
            && aggregate.set_monotonicity() != SetMonotonicity::NotMonotonic
            && aggregate.field().is_nullable()
    })
}
