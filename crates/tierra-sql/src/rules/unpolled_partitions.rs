//! Keeps a partition of a join from waiting for a partition that is never polled.
//!
//! A join that collects its left side once for all partitions waits in each partition until all have seen the collected rows.
//! Only then is the filter for the right side's scan complete. Such a join may itself be the right side of a partitioned join.
//! There a partition with an empty left side never polls it, and the others would wait forever. So below such a join it pushes no
//! filter and does not wait. (Joins that collect each partition separately are told of partitions that are given up.)

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode, SortMergeJoinExec};
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

use super::plan::EachOperator;
use crate::tree::TreeNode;

/// The rule. It runs after filters were pushed down.
pub(super) const RULE: EachOperator = EachOperator {
    name: "unpolled_partitions",
    rewrite: below_join,
};

fn below_join(plan: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    // From this input on, partitions may be given up without a poll.
    let first = if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
        match join.partition_mode() {
            PartitionMode::Partitioned => 1,
            // All partitions share its left side.
            PartitionMode::CollectLeft | PartitionMode::Auto => return Ok(Transformed::no(plan)),
        }
    } else if plan.is::<SortMergeJoinExec>() {
        0
    } else {
        return Ok(Transformed::no(plan));
    };
    let mut is_changed = false;
    let inputs = plan
        .children()
        .into_iter()
        .enumerate()
        .map(|(index, input)| {
            let input = Arc::clone(input);
            if index < first {
                return Ok(input);
            }
            let changed = input.transform_down(without_waiting)?;
            is_changed |= changed.transformed;
            Ok(changed.data)
        });
    let inputs = inputs.collect::<Result<Vec<_>>>()?;
    match is_changed {
        true => replace_children_if_necessary(plan, inputs).map(Transformed::yes),
        false => Ok(Transformed::no(plan)),
    }
}

fn without_waiting(plan: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    // A repartitioned input, or one with one partition, is polled as a whole.
    if plan.is::<RepartitionExec>() || plan.output_partitioning().partition_count() == 1 {
        return Ok(Transformed::new(plan, false, TreeNodeRecursion::Jump));
    }
    match plan.downcast_ref::<HashJoinExec>() {
        Some(join)
            if *join.partition_mode() == PartitionMode::CollectLeft
                && !join.dynamic_expressions_produced().is_empty() =>
        {
            // Only state that a query has not begun to fill is reset.
            join.builder()
                .reset_state()
                .build_exec()
                .map(Transformed::yes)
        }
        _ => Ok(Transformed::no(plan)),
    }
}
