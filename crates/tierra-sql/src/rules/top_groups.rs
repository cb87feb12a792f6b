//! The first groups in the order of a DOUBLE come from an ordinary aggregation.
//!
//! DataFusion keeps only as many groups as a LIMIT asks for in a table whose comparison of keys is that of Rust: a NaN there is no NaN, so
//! each makes a group of its own, and taking one out again panics.

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;

use super::plan::EachOperator;

pub(super) const RULE: EachOperator = EachOperator {
    name: "top_groups",
    rewrite,
};

fn rewrite(plan: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let Some(aggregate) = plan.downcast_ref::<AggregateExec>() else {
        return Ok(Transformed::no(plan));
    };
    let is_ordered = aggregate
        .limit_options()
        .is_some_and(|limit| limit.descending().is_some());
    let schema = aggregate.input_schema();
    let mut keys = aggregate.group_expr().expr().iter();
    let has_double = keys.any(|(key, _)| key.data_type(&schema).is_ok_and(|ty| ty.is_floating()));
    if !is_ordered || !has_double {
        return Ok(Transformed::no(plan));
    }
    let all = aggregate.with_new_limit_options(None);
    Ok(Transformed::yes(Arc::new(all)))
}
