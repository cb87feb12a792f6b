//! No partition of a join waits for another one that nobody asks for rows.
//!
//! A join that gathers its left side once, for all partitions of its right side, waits in each of them until all have seen what was
//! gathered: only then is the filter complete that is handed to the right side's scan. Where such a join is itself, partition by partition,
//! the right side of another one, a partition whose own left side is empty never asks it for a row, and the others would wait for ever.
//! It hands no filter down there, and waits for nothing. (Joins that gather each partition by itself hear of partitions that are given up.)

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode, SortMergeJoinExec};
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

use super::plan::EachOperator;

/// The rule. It comes when filters have been handed down.
pub(super) const RULE: EachOperator = EachOperator {
    name: "unasked_partitions",
    rewrite: below_join,
};

fn below_join(plan: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    // From this input on, partitions may be given up unasked.
    let first = if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
        match join.partition_mode() {
            PartitionMode::Partitioned => 1,
            // Its left side is all partitions' own.
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
    // What is repartitioned, or has one partition, is asked for as a whole.
    if plan.is::<RepartitionExec>() || plan.output_partitioning().partition_count() == 1 {
        return Ok(Transformed::new(plan, false, TreeNodeRecursion::Jump));
    }
    match plan.downcast_ref::<HashJoinExec>() {
        Some(join)
            if *join.partition_mode() == PartitionMode::CollectLeft
                && !join.dynamic_expressions_produced().is_empty() =>
        {
            // What is reset is what a query has not begun to fill.
            join.builder()
                .reset_state()
                .build_exec()
                .map(Transformed::yes)
        }
        _ => Ok(Transformed::no(plan)),
    }
}
