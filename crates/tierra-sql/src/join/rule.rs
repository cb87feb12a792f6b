//! The rules that decide which joins [`JoinExec`] executes.
//!
//! There are two rules, because DataFusion decides in two steps: first the distribution of the sides, later the placement
//! of filters that become known at run time.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{ColumnStatistics, JoinType, NullEquality, ScalarValue};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

use super::exec::JoinExec;
use super::keys::JoinKeys;
use super::optional;
use crate::settings;

/// DataFusion's rule after which the mode of every join is fixed.
const JOINS_SELECTED: &str = "join_selection";
/// DataFusion's rule that pushes joins' filters into scans, in its last run.
const FILTERS_PUSHED: &str = "FilterPushdown";

/// Adds the rules to a session.
pub(crate) fn add_to(mut builder: SessionStateBuilder) -> SessionStateBuilder {
    let optimizer = builder.physical_optimizers();
    let rules = &mut optimizer.get_or_insert_with(PhysicalOptimizer::new).rules;
    let last = rules
        .iter()
        .rposition(|rule| rule.name().starts_with(FILTERS_PUSHED));
    rules.insert(last.unwrap_or(rules.len()), Arc::new(LookUpInTurns));
    let selected = rules.iter().position(|rule| rule.name() == JOINS_SELECTED);
    if let Some(selected) = selected {
        rules.insert(selected + 1, Arc::new(ShareBuildSide));
        rules.insert(selected + 2, Arc::new(optional::RULE));
    }
    builder
}

/// Lets all threads probe one build side, instead of a partition of both sides each.
#[derive(Debug)]
struct ShareBuildSide;

impl PhysicalOptimizerRule for ShareBuildSide {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        for_each_join(plan, PartitionMode::Partitioned, config, |join, _| {
            let mode = PartitionMode::CollectLeft;
            join.builder().with_partition_mode(mode).build_exec()
        })
    }

    fn name(&self) -> &str {
        "share_build_side"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Replaces a join by a [`JoinExec`].
#[derive(Debug)]
struct LookUpInTurns;

impl PhysicalOptimizerRule for LookUpInTurns {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        for_each_join(plan, PartitionMode::CollectLeft, config, |join, keys| {
            Ok(Arc::new(JoinExec::new(join.builder().build()?, keys)))
        })
    }

    fn name(&self) -> &str {
        "look_up_in_turns"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Replaces the joins of a mode that are worth it and are supported.
fn for_each_join(
    plan: Arc<dyn ExecutionPlan>,
    mode: PartitionMode,
    config: &ConfigOptions,
    replace: impl Fn(&HashJoinExec, JoinKeys) -> Result<Arc<dyn ExecutionPlan>>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let replaced = plan.transform_up(|node| {
        let join = node.downcast_ref::<HashJoinExec>();
        let Some(join) = join.filter(|join| join.mode == mode) else {
            return Ok(Transformed::no(node));
        };
        match keys(join)? {
            Some(keys) if is_worth(join, config)? => Ok(Transformed::yes(replace(join, keys)?)),
            _ => Ok(Transformed::no(node)),
        }
    })?;
    Ok(replaced.data)
}

/// Whether the build side is known to be large and its keys are sparse. For dense keys DataFusion has an array with one
/// entry per value, and no table is as fast.
fn is_worth(join: &HashJoinExec, config: &ConfigOptions) -> Result<bool> {
    let known = StatisticsContext::new().compute(join.left.as_ref(), &StatisticsArgs::new())?;
    let rows = known.num_rows.get_value().copied().unwrap_or(0);
    if rows < settings::of(config).join_build_rows {
        return Ok(false);
    }
    let key = match join.on.as_slice() {
        [(key, _)] => key.downcast_ref::<Column>(),
        _ => None,
    };
    let Some(values) = key.and_then(|key| integers(known.column_statistics.get(key.index())?))
    else {
        return Ok(true);
    };
    // Each partition has its share of the rows, and an entry for every value.
    let partitions = match join.mode {
        PartitionMode::Partitioned => config.execution.target_partitions,
        _ => 1,
    };
    let density = rows as f64 / values / partitions as f64;
    Ok(density <= config.execution.perfect_hash_join_min_key_density)
}

/// The number of integers from the least to the greatest value of a column.
fn integers(column: &ColumnStatistics) -> Option<f64> {
    let integer = |bound: &Precision<ScalarValue>| {
        let bound = bound
            .get_value()
            .filter(|bound| bound.data_type().is_integer())?;
        match bound.cast_to(&DataType::Int64).ok()? {
            ScalarValue::Int64(value) => value,
            _ => None,
        }
    };
    let (least, greatest) = (integer(&column.min_value)?, integer(&column.max_value)?);
    Some(greatest as f64 - least as f64 + 1.0)
}

/// How the keys of a join become numbers; `None` if the join is not supported: if NULL equals NULL, if one NULL decides
/// about all rows, mark joins, and keys that may be floats.
fn keys(join: &HashJoinExec) -> Result<Option<JoinKeys>> {
    let executed = match join.join_type {
        JoinType::Inner
        | JoinType::Left
        | JoinType::Full
        | JoinType::LeftSemi
        | JoinType::LeftAnti
        | JoinType::RightSemi
        | JoinType::RightAnti => true,
        // Rows without a match follow the other rows of their batch.
        JoinType::Right => join.right.output_ordering().is_none(),
        JoinType::LeftMark | JoinType::RightMark => false,
    };
    if !executed || join.null_aware || join.null_equality != NullEquality::NullEqualsNothing {
        return Ok(None);
    }
    let (build, probe) = (join.left.schema(), join.right.schema());
    let mut types = Vec::with_capacity(join.on.len());
    for (left, right) in &join.on {
        let ty = left.data_type(&build)?;
        if right.data_type(&probe)? != ty {
            return Ok(None);
        }
        types.push(ty);
    }
    Ok(JoinKeys::of(&types))
}
