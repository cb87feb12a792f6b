//! A range that ends before the current row is computed when all rows are there.
//!
//! DataFusion yields a row of `RANGE BETWEEN UNBOUNDED PRECEDING AND 3 PRECEDING` as soon as it has it, because the range seems to end
//! among earlier rows. But for a key that is NULL, infinite or no number it ends behind the last row with the same key, which the next
//! batch may bring. So a count over such a range was too small. Below such functions all rows come in one batch.

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::logical_expr::{WindowFrameBound, WindowFrameUnits};
use datafusion::physical_expr::window::WindowExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::windows::BoundedWindowAggExec;

use super::plan::EachOperator;
use crate::pass::Pass;

/// The rule, for plans whose orders are settled: a range is turned round with its order.
pub(super) const RULE: EachOperator = EachOperator {
    name: "window_ranges",
    rewrite,
};

fn rewrite(plan: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let Some(window) = plan.downcast_ref::<BoundedWindowAggExec>() else {
        return Ok(Transformed::no(plan));
    };
    if !window.window_expr().iter().any(ends_before) {
        return Ok(Transformed::no(plan));
    }
    let rows = Pass::Together.above(Arc::clone(window.input()));
    replace_children_if_necessary(plan, vec![rows]).map(Transformed::yes)
}

fn ends_before(function: &Arc<dyn WindowExpr>) -> bool {
    let frame = function.get_window_frame();
    let end = &frame.end_bound;
    frame.units == WindowFrameUnits::Range && matches!(end, WindowFrameBound::Preceding(_))
}
