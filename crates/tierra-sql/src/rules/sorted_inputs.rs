//! Sorts inputs that must be sorted, by all of the required columns.
//!
//! DataFusion pushes a sort below projections and UNION ALL, and drops columns from it that are constant there. Above, it
//! does not know that they are constant, and refuses its own plan. Such an input is sorted once more.
//!
//! The first few rows of each part of a UNION ALL share one limit: a row after those that one part has found is skipped in
//! all parts. That holds for `ORDER BY a, b`. For `b` alone it does not, if `a` is a different constant in each part.

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::physical_expr::{
    AcrossPartitions, ConstExpr, LexOrdering, LexRequirement, PhysicalSortExpr,
};
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, InputOrderMode};

use super::plan::EachOperator;
use crate::pass::Pass;

const RULE: EachOperator = EachOperator {
    name: "sorted_inputs",
    rewrite,
};

/// DataFusion's rule that refuses such plans.
pub(super) const CHECK: &str = "SanityCheckPlan";

pub(super) fn add_to(builder: &mut SessionStateBuilder) {
    let optimizer = builder.physical_optimizers();
    let rules = &mut optimizer.get_or_insert_with(PhysicalOptimizer::new).rules;
    let check = rules.iter().position(|rule| rule.name() == CHECK);
    rules.insert(check.unwrap_or(rules.len()), Arc::new(RULE));
}

fn rewrite(plan: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let mut is_changed = false;
    let inputs = plan
        .children()
        .into_iter()
        .zip(plan.required_input_ordering());
    let inputs = inputs.map(|(input, required)| {
        let required = required.map(|required| required.into_single());
        let changed = match required {
            Some(required) if !is_sorted(input, &required)? => {
                Some(sorted(LexOrdering::from(required), Arc::clone(input)))
            }
            _ => match unfound_keys(plan.as_ref()) {
                // The facts about the keys, other than their order, keep the function from finding its order.
                Some(keys) => Some(sorted(keys, Pass::Rows.above(Arc::clone(input)))),
                None => first_of_parts(plan.as_ref(), input),
            },
        };
        is_changed |= changed.is_some();
        Ok(match changed {
            Some(sorted) => Arc::new(sorted),
            None => Arc::clone(input),
        })
    });
    let inputs = inputs.collect::<Result<Vec<Arc<dyn ExecutionPlan>>>>()?;
    match is_changed {
        true => replace_children_if_necessary(plan, inputs).map(Transformed::yes),
        false => Ok(Transformed::no(plan)),
    }
}

fn sorted(order: LexOrdering, input: Arc<dyn ExecutionPlan>) -> SortExec {
    let parts = input.output_partitioning().partition_count();
    SortExec::new(order, input).with_preserve_partitioning(parts > 1)
}

fn is_sorted(input: &Arc<dyn ExecutionPlan>, required: &LexRequirement) -> Result<bool> {
    let known = input.equivalence_properties();
    known.ordering_satisfy_requirement(required.clone())
}

/// The keys by which the input of a window function must be sorted, if the input has the order but the function does not
/// recognise it, or only a part of it, because some keys depend on others.
fn unfound_keys(plan: &dyn ExecutionPlan) -> Option<LexOrdering> {
    let (functions, found, needs_all) = if let Some(window) = plan.downcast_ref::<WindowAggExec>() {
        (window.window_expr(), window.partition_by_sort_keys(), true)
    } else {
        let window = plan.downcast_ref::<BoundedWindowAggExec>()?;
        let needs_all = window.input_order_mode == InputOrderMode::Sorted;
        let found = window.partition_by_sort_keys();
        (window.window_expr(), found, needs_all)
    };
    let function = functions.first()?;
    let partition = function.partition_by();
    if found.is_ok_and(|found| found.len() == partition.len() || !needs_all) {
        return None;
    }
    let keys = partition.iter().cloned();
    let keys = keys.map(PhysicalSortExpr::new_default);
    LexOrdering::new(keys.chain(function.order_by().iter().cloned()))
}

/// Replaces a sort for the first rows of parts that differ in a constant: by a sort on all keys by which `plan` merges them,
/// or by a sort of all rows.
fn first_of_parts(plan: &dyn ExecutionPlan, sort: &Arc<dyn ExecutionPlan>) -> Option<SortExec> {
    let sort = sort.downcast_ref::<SortExec>()?;
    let constants = sort.input().equivalence_properties().constants();
    let differs =
        |constant: &ConstExpr| constant.across_partitions == AcrossPartitions::Heterogeneous;
    if !sort.preserve_partitioning() || sort.fetch().is_none() || !constants.iter().any(differs) {
        return None;
    }
    let merge = plan.downcast_ref::<SortPreservingMergeExec>();
    let (order, fetch) = match merge {
        Some(merge) if merge.expr() == sort.expr() => return None,
        Some(merge) => (merge.expr(), sort.fetch()),
        None => (sort.expr(), None),
    };
    let first = SortExec::new(order.clone(), Arc::clone(sort.input())).with_fetch(fetch);
    Some(first.with_preserve_partitioning(true))
}
