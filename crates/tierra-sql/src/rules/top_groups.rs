//! An aggregation keeps all groups where DataFusion wrongly lets it keep those alone that a LIMIT asks for.
//!
//! - In the order of a DOUBLE: its table compares keys as Rust does. A NaN is no NaN there, so each makes a group of its own, and
//!   taking one out again panics.
//! - Below a window function: the limit is on the rows above, but `count(*) OVER ()` counts all groups, and `rank()` ranks them.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};

use super::plan::EachOperator;

pub(super) const RULE: EachOperator = EachOperator {
    name: "top_groups",
    rewrite,
};

type Plan = Arc<dyn ExecutionPlan>;

fn rewrite(plan: Plan) -> Result<Transformed<Plan>> {
    if plan.is::<WindowAggExec>() || plan.is::<BoundedWindowAggExec>() {
        let inputs = plan.children().into_iter().cloned();
        let inputs = inputs.map(|input| input.transform_down(below_window).data());
        let inputs = inputs.collect::<Result<Vec<_>>>()?;
        return replace_children_if_necessary(plan, inputs).map(Transformed::yes);
    }
    let Some(aggregate) = top_groups(&plan) else {
        return Ok(Transformed::no(plan));
    };
    let schema = aggregate.input_schema();
    let mut keys = aggregate.group_expr().expr().iter();
    match keys.any(|(key, _)| key.data_type(&schema).is_ok_and(|ty| ty.is_floating())) {
        true => Ok(Transformed::yes(all_groups(aggregate))),
        false => Ok(Transformed::no(plan)),
    }
}

/// An aggregation that keeps the first groups in some order.
fn top_groups(plan: &Plan) -> Option<&AggregateExec> {
    let aggregate = plan.downcast_ref::<AggregateExec>()?;
    let limit = aggregate.limit_options()?;
    limit.descending().map(|_| aggregate)
}

fn all_groups(aggregate: &AggregateExec) -> Plan {
    Arc::new(aggregate.with_new_limit_options(None))
}

/// The limit of a sort below the window is that of its own input.
fn below_window(plan: Plan) -> Result<Transformed<Plan>> {
    let is_limited = |sort: &SortExec| sort.fetch().is_some();
    if plan.downcast_ref::<SortExec>().is_some_and(is_limited) {
        return Ok(Transformed::new(plan, false, TreeNodeRecursion::Jump));
    }
    match top_groups(&plan) {
        Some(aggregate) => Ok(Transformed::yes(all_groups(aggregate))),
        None => Ok(Transformed::no(plan)),
    }
}
