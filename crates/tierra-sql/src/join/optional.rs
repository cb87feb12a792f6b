//! Facts about the optional side of an outer join do not hold for the join's rows.
//!
//! A row without a partner has NULL in all columns of the other side, the optional one. DataFusion applies facts about that
//! side's columns to the join's rows. With `LEFT JOIN (.. WHERE y = 5) b` it took `b.y` for 5, so `ORDER BY b.y, a.x` did
//! not sort by `b.y`. [`Pass::OptionalSide`] stands above such a side. It passes rows through unchanged and exposes only
//! their order.

use std::sync::Arc;

use datafusion::common::JoinType;
use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::joins::{HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

use crate::pass::Pass;
use crate::rules::EachOperator;

/// Puts a [`Pass::OptionalSide`] above every side that needs one.
pub(super) const RULE: EachOperator = EachOperator {
    name: "optional_sides",
    rewrite,
};

fn rewrite(plan: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let is_optional = match join_type(plan.as_ref()) {
        Some(JoinType::Left) => [false, true],
        Some(JoinType::Right) => [true, false],
        Some(JoinType::Full) => [true, true],
        _ => return Ok(Transformed::no(plan)),
    };
    let mut is_changed = false;
    let sides = plan.children().into_iter().zip(is_optional);
    let sides = sides.map(|(side, is_optional)| {
        if !is_optional || !tells_values(side) {
            return Arc::clone(side);
        }
        is_changed = true;
        Pass::OptionalSide.above(Arc::clone(side))
    });
    let sides = sides.collect();
    match is_changed {
        true => replace_children_if_necessary(plan, sides).map(Transformed::yes),
        false => Ok(Transformed::no(plan)),
    }
}

fn join_type(plan: &dyn ExecutionPlan) -> Option<JoinType> {
    if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
        Some(*join.join_type())
    } else if let Some(join) = plan.downcast_ref::<NestedLoopJoinExec>() {
        Some(*join.join_type())
    } else {
        let join = plan.downcast_ref::<SortMergeJoinExec>()?;
        Some(join.join_type())
    }
}

/// Whether the plan knows something about the values of `side`, other than that columns are equal.
fn tells_values(side: &Arc<dyn ExecutionPlan>) -> bool {
    let known = side.equivalence_properties();
    let mut alike = known.eq_group().iter().flat_map(|class| class.iter());
    !known.constants().is_empty() || alike.any(|expr| !expr.is::<Column>())
}
