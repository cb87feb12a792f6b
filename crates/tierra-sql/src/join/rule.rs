//! The rules that decide which joins [`JoinExec`] executes.
//!
//! There are two rules, because DataFusion decides in two steps: first the distribution of the sides, later the placement
//! of filters that become known at run time.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::Transformed;
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

use super::deferred;
use super::exec::JoinExec;
use super::keys::JoinKeys;
use super::optional;
use crate::rules::{FILTERS_PUSHED, JOINS_SELECTED};
use crate::settings;
use crate::statistics::STRING_BYTES;
use crate::tree::TreeNode;

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
    rules.push(Arc::new(deferred::RULE));
    builder
}

/// Lets all threads probe one build side, instead of a partition of both sides each: where [`JoinExec`] will execute the
/// join, and where it [costs less](is_shared).
#[derive(Debug)]
struct ShareBuildSide;

impl PhysicalOptimizerRule for ShareBuildSide {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        for_each_join(plan, PartitionMode::Partitioned, |join| {
            let is_looked_up = keys(join)?.is_some() && is_worth(join, config)?;
            if !is_looked_up && !is_shared(join, config)? {
                return Ok(None);
            }
            let mode = PartitionMode::CollectLeft;
            let shared = join.builder().with_partition_mode(mode).build_exec()?;
            Ok(Some(shared))
        })
    }

    fn name(&self) -> &str {
        "share_build_side"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// A build side that all threads share may fill one part in this many of the memory of queries. Estimates may be wrong, and a
/// query may have several.
const SHARED_PART: usize = 16;
/// Bytes of a row in the table of its keys.
const TABLE_BYTES: usize = 24;
/// Rows that a thread distributes in the time in which it adds a row to a table.
const DISTRIBUTED_PER_ADDED: usize = 2;

/// Whether all threads share the build side of a join that `HashJoinExec` executes. Then one thread adds its rows to a table
/// while the others wait, and no thread distributes the rows of the probe side. That costs less if many rows reach the join
/// for each row of the build side. If the estimate does not know how many, they are taken to be many, since the build side is
/// the smaller one.
fn is_shared(join: &HashJoinExec, config: &ConfigOptions) -> Result<bool> {
    let rows = |side: &Arc<dyn ExecutionPlan>| -> Result<Option<usize>> {
        let known = StatisticsContext::new().compute(side.as_ref(), &StatisticsArgs::new())?;
        Ok(known.num_rows.get_value().copied())
    };
    let Some(built) = rows(&join.left)? else {
        return Ok(false);
    };
    let fields = join.left.schema();
    let widths = fields.fields().iter().map(|field| {
        let width = field.data_type().primitive_width();
        width.unwrap_or(STRING_BYTES)
    });
    let row_bytes = widths.sum::<usize>() + TABLE_BYTES;
    if built.saturating_mul(row_bytes) > settings::of(config).query_memory / SHARED_PART {
        return Ok(false);
    }
    let waiting = config.execution.target_partitions.saturating_sub(1);
    let least = built.saturating_mul(waiting * DISTRIBUTED_PER_ADDED);
    Ok(rows(&join.right)?.is_none_or(|probed| probed >= least))
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
        for_each_join(plan, PartitionMode::CollectLeft, |join| match keys(join)? {
            Some(keys) if is_worth(join, config)? => {
                let join = JoinExec::new(join.builder().build()?, keys);
                Ok(Some(Arc::new(join)))
            }
            _ => Ok(None),
        })
    }

    fn name(&self) -> &str {
        "look_up_in_turns"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Replaces the joins of a mode for which there is a replacement.
fn for_each_join(
    plan: Arc<dyn ExecutionPlan>,
    mode: PartitionMode,
    replace: impl Fn(&HashJoinExec) -> Result<Option<Arc<dyn ExecutionPlan>>>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let replaced = plan.transform_up(|node| {
        let join = node.downcast_ref::<HashJoinExec>();
        let join = join.filter(|join| join.mode == mode);
        match join.map(&replace).transpose()?.flatten() {
            Some(replacement) => Ok(Transformed::yes(replacement)),
            None => Ok(Transformed::no(node)),
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
