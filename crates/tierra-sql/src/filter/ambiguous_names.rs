//! Filters do not pass an operator that yields two columns with the name of the filter's column.
//!
//! DataFusion hands filters down from operator to operator, including those that joins and TopKs learn at run time. It finds
//! their columns in an operator's input by name. If two tables both have a column `id`, it takes the first one. So a
//! [fence](Pass::Fence) stands above every operator with such columns while filters are handed down, and is removed afterwards.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::datatypes::Schema;
use datafusion::common::JoinType;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::{ExecutionPlan, PhysicalExpr};

use crate::join::hash_join;
use crate::pass::{Pass, below_fence};
use crate::rules::{FILTERS_PUSHED, guard_physical};
use crate::tree::TreeNode;

/// Adds the rules that keep filters with their columns to a session.
pub(crate) fn add_to(mut builder: SessionStateBuilder) -> SessionStateBuilder {
    guard_physical(&mut builder, FILTERS_PUSHED, fenced);
    builder
}

/// A rule that runs with fences in the plan.
fn fenced(
    rule: &dyn PhysicalOptimizerRule,
    plan: Arc<dyn ExecutionPlan>,
    config: &ConfigOptions,
) -> Result<Arc<dyn ExecutionPlan>> {
    let fenced = plan.transform_up(|plan| {
        let sides = fenced_sides(plan)?;
        let names = repeated(&sides.data.schema());
        Ok(match names.is_empty() {
            true => sides,
            false => Transformed::yes(Pass::Fence(names).above(sides.data)),
        })
    })?;
    let pushed = rule.optimize(fenced.data, config)?;
    if !fenced.transformed {
        return Ok(pushed);
    }
    let bare = pushed.transform_up(|plan| match below_fence(plan.as_ref()) {
        Some(input) => Ok(Transformed::yes(Arc::clone(input))),
        None => Ok(Transformed::no(plan)),
    });
    bare.data()
}

/// The names that several columns have.
fn repeated(schema: &Schema) -> Vec<String> {
    let mut names = HashSet::with_capacity(schema.fields().len());
    let names = schema
        .fields()
        .iter()
        .map(|field| field.name())
        .filter(|name| !names.insert(name.as_str()));
    names.cloned().collect()
}

/// `plan` with a fence above the side of a semi-join that yields no rows. A filter on the other side's key holds for this side
/// as well, but DataFusion hands it down to the column that has the other side's name.
fn fenced_sides(plan: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let Some(join) = hash_join(plan.as_ref()) else {
        return Ok(Transformed::no(plan));
    };
    let keys = join.on().iter();
    let (side, keys): (usize, Vec<_>) = match join.join_type() {
        JoinType::LeftSemi => (1, keys.map(|(left, right)| (left, right)).collect()),
        JoinType::RightSemi => (0, keys.map(|(left, right)| (right, left)).collect()),
        _ => return Ok(Transformed::no(plan)),
    };
    let name = |key: &Arc<dyn PhysicalExpr>| {
        let column = key.downcast_ref::<Column>();
        column.map(|column| column.name().to_string())
    };
    let pairs = keys
        .into_iter()
        .map(|(yielded, other)| (name(yielded), name(other)));
    let names: Vec<String> = pairs
        .filter(|(yielded, other)| yielded != other)
        .filter_map(|(yielded, _)| yielded)
        .collect();
    let mut inputs: Vec<_> = plan.children().into_iter().cloned().collect();
    if !names
        .iter()
        .any(|name| inputs[side].schema().column_with_name(name).is_some())
    {
        return Ok(Transformed::no(plan));
    }
    let input = Arc::clone(&inputs[side]);
    inputs[side] = Pass::Fence(names).above(input);
    replace_children_if_necessary(plan, inputs).map(Transformed::yes)
}
