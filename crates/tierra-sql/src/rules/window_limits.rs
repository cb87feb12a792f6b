//! A LIMIT is not pushed below window functions that look at later rows.
//!
//! DataFusion adds to the limit how many rows a function looks ahead. Of functions over the values of others it takes the farthest, and
//! not the sum. That `lag` may look ahead, and `lead` past NULLs, it does not know. So values were computed of too few rows.

use std::sync::Arc;

use crate::tree::TreeNode;
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::logical_expr::WindowFrameBound;
use datafusion::physical_expr::window::{StandardWindowExpr, WindowExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowUDFExpr};

/// DataFusion's rule.
pub(super) const LIMITS: &str = "LimitPushPastWindows";

/// The rule, for plans whose functions look at no later row.
pub(super) fn of_earlier_rows(
    rule: &dyn PhysicalOptimizerRule,
    plan: Arc<dyn ExecutionPlan>,
    config: &ConfigOptions,
) -> Result<Arc<dyn ExecutionPlan>> {
    match plan.exists(|plan| Ok(looks_ahead(plan)))? {
        true => Ok(plan),
        false => rule.optimize(plan, config),
    }
}

fn looks_ahead(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let window = plan.downcast_ref::<BoundedWindowAggExec>();
    window.is_some_and(|window| {
        let mut functions = window.window_expr().iter();
        functions.any(|function| {
            let end = &function.get_window_frame().end_bound;
            matches!(end, WindowFrameBound::Following(_)) || shifts(function.as_ref())
        })
    })
}

/// Whether the function is `lead` or `lag`.
fn shifts(function: &dyn WindowExpr) -> bool {
    let standard = function.as_any().downcast_ref::<StandardWindowExpr>();
    let function = standard.and_then(|standard| {
        let function = standard.get_standard_func_expr();
        function.as_any().downcast_ref::<WindowUDFExpr>()
    });
    function.is_some_and(|function| matches!(function.fun().name(), "lead" | "lag"))
}
