//! Hides the order and the constants below GROUPING SETS, CUBE and ROLLUP.
//!
//! DataFusion says of the groups what it knows of the rows: that they are in order, that a column has one value, that two are
//! equal. But each set makes NULL of the columns that it leaves out. So a sort was left out, and groups were taken for complete
//! when the value of a constant column changed. The groups are in no order either, even if the rows are sorted for an ordered
//! aggregate: each batch has all groups of one set before those of the next.

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;

use super::plan::EachOperator;
use crate::pass::Pass;

const RULE: EachOperator = EachOperator {
    name: "grouping_sets",
    rewrite,
};

/// Adds the first of all rules, so that later rules see what holds.
pub(super) fn add_to(builder: &mut SessionStateBuilder) {
    let optimizer = builder.physical_optimizers();
    let rules = &mut optimizer.get_or_insert_with(PhysicalOptimizer::new).rules;
    rules.insert(0, Arc::new(RULE));
}

fn rewrite(plan: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let Some(aggregate) = plan.downcast_ref::<AggregateExec>() else {
        return Ok(Transformed::no(plan));
    };
    if aggregate.group_expr().groups().len() < 2 {
        return Ok(Transformed::no(plan));
    }
    let is_partial = *aggregate.mode() == AggregateMode::Partial;
    let input = Pass::Rows.above(Arc::clone(aggregate.input()));
    let plan = replace_children_if_necessary(plan, vec![input])?;
    Ok(Transformed::yes(match is_partial {
        true => Pass::Rows.above(plan),
        false => plan,
    }))
}
