//! Hides equalities of expressions that contain one another: `x * x = x`, or `x = y + 1` where `y = z`.
//!
//! DataFusion puts one of several equal expressions for all of them, also inside of larger ones. Of `x * x = x` it makes
//! `(x * x) * (x * x)` and so on, each time that it does so. It then asked for an order by one of these, did not recognise it by
//! another, and refused its own plan. Above an operator that knows such expressions, all facts about values and their order are
//! hidden.

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

use super::plan::EachOperator;
use crate::pass::Pass;

const RULE: EachOperator = EachOperator {
    name: "equal_parts",
    rewrite,
};

/// Adds the first of all rules, so that later rules see what is left.
pub(super) fn add_to(builder: &mut SessionStateBuilder) {
    let optimizer = builder.physical_optimizers();
    let rules = &mut optimizer.get_or_insert_with(PhysicalOptimizer::new).rules;
    rules.insert(0, Arc::new(RULE));
}

fn rewrite(plan: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    Ok(match contains_equals(plan.equivalence_properties()) {
        true => Transformed::yes(Pass::Rows.above(plan)),
        false => Transformed::no(plan),
    })
}

/// Whether an expression that stands for its equals has a part for which another stands.
fn contains_equals(known: &EquivalenceProperties) -> bool {
    let group = known.eq_group();
    let mut standing = group.iter().filter_map(|class| class.canonical_expr());
    standing
        .any(|expr| !expr.children().is_empty() && !group.normalize_expr(Arc::clone(expr)).eq(expr))
}
