//! An aggregation keeps all groups where DataFusion wrongly lets it keep those alone that a LIMIT asks for.
//!
//! - In the order of a DOUBLE: its table compares keys as Rust does. A NaN is no NaN there, so each makes a group of its own, and
//!   taking one out again panics.
//! - Below a window function: the limit is on the rows above, but `count(*) OVER ()` counts all groups, and `rank()` ranks them.
//! - Below a sort by another column of the same name: in `SELECT -x AS x FROM (SELECT DISTINCT x ..) ORDER BY x LIMIT 3` it kept the
//!   least `x`. Columns are followed by their places here.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};

use super::plan::EachOperator;
use crate::tree::TreeNode;

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
    if let Some(sort) = limited_sort(&plan) {
        let input = ordered_by(sort.input(), place_of(&sort.expr().first().expr))?;
        return replace_children_if_necessary(plan, vec![input]).map(Transformed::yes);
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

/// A sort that yields the first rows.
fn limited_sort(plan: &Plan) -> Option<&SortExec> {
    let sort = plan.downcast_ref::<SortExec>()?;
    sort.fetch().map(|_| sort)
}

/// The place of the column that `expr` is.
fn place_of(expr: &Arc<dyn PhysicalExpr>) -> Option<usize> {
    expr.downcast_ref::<Column>().map(Column::index)
}

/// `plan`, whose rows are ordered by the column at this place: with all groups where groups have another order.
fn ordered_by(plan: &Plan, place: Option<usize>) -> Result<Plan> {
    // A sort with a limit of its own orders what is below it.
    if limited_sort(plan).is_some() {
        return Ok(Arc::clone(plan));
    }
    let (plan, below) = if let Some(aggregate) = top_groups(plan) {
        // Its only column, or the extreme behind the group.
        let ordering = aggregate.schema().fields().len() - 1;
        let groups = aggregate.group_expr().expr();
        match (place == Some(ordering), groups) {
            (true, [(group, _)]) if ordering == 0 => (Arc::clone(plan), place_of(group)),
            // Of a partial aggregation the state has the place of the extreme.
            (true, _) => (Arc::clone(plan), place),
            (false, _) => (all_groups(aggregate), None),
        }
    } else if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        let expr = place.and_then(|place| projection.expr().get(place));
        (Arc::clone(plan), expr.and_then(|one| place_of(&one.expr)))
    } else {
        // What passes rows on passes on their columns.
        let is_same = |input: &&Plan| input.schema() == plan.schema();
        let passes = matches!(plan.children()[..], [input] if is_same(&input));
        (Arc::clone(plan), place.filter(|_| passes))
    };
    let inputs = plan.children().into_iter();
    let inputs = inputs.map(|input| ordered_by(input, below));
    let inputs = inputs.collect::<Result<Vec<_>>>()?;
    replace_children_if_necessary(plan, inputs)
}

/// The limit of a sort below the window is that of its own input.
fn below_window(plan: Plan) -> Result<Transformed<Plan>> {
    if limited_sort(&plan).is_some() {
        return Ok(Transformed::new(plan, false, TreeNodeRecursion::Jump));
    }
    match top_groups(&plan) {
        Some(aggregate) => Ok(Transformed::yes(all_groups(aggregate))),
        None => Ok(Transformed::no(plan)),
    }
}
