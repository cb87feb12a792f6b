//! Rows outside that are computed a second time.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::common::{JoinType, not_impl_err};
use datafusion::error::Result;
use datafusion::logical_expr::logical_plan::{Filter, Join, Limit, Sort};
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{Expr, LogicalPlan};

use super::first_rows;
use crate::rules::plan::uses;
use crate::tree::TreeNode;

/// A plan with all rows of `plan`, perhaps more, that has them each time: limits keep the rows that their order does not tell from
/// the last, and conditions on random values are left out. Fails for the rest.
pub(super) fn repeatable(plan: LogicalPlan) -> Result<LogicalPlan> {
    let plan = with_more_rows(plan)?;
    if changes(&plan)? {
        return not_impl_err!(
            "a subquery like this that refers to a row of random values, or of an aggregate over the first rows of a table: store the rows first"
        );
    }
    Ok(plan)
}

/// Whether rows of the plan may be others another time.
fn changes(plan: &LogicalPlan) -> Result<bool> {
    plan.exists(|node| Ok(matches!(node, LogicalPlan::Limit(_)) || uses(node, Expr::is_volatile)?))
}

fn with_more_rows(plan: LogicalPlan) -> Result<LogicalPlan> {
    match plan {
        LogicalPlan::Limit(limit) => with_more_first_rows(limit),
        // No order is asked for.
        LogicalPlan::Sort(Sort {
            input, fetch: None, ..
        }) => with_more_rows(unshared(input)),
        LogicalPlan::Filter(Filter {
            predicate, input, ..
        }) => {
            let input = with_more_rows(unshared(input))?;
            match fixed(predicate) {
                Some(predicate) => {
                    Filter::try_new(predicate, input.into()).map(LogicalPlan::Filter)
                }
                None => Ok(input),
            }
        }
        LogicalPlan::Join(join) => with_more_pairs(join),
        LogicalPlan::Projection(_) | LogicalPlan::SubqueryAlias(_) | LogicalPlan::Union(_) => plan
            .map_children(|input| with_more_rows(input).map(Transformed::yes))
            .data(),
        other => Ok(other),
    }
}

/// Where more rows below would take the place of the first, all of them.
fn with_more_first_rows(limit: Limit) -> Result<LogicalPlan> {
    if let Some(plan) = first_rows::below_columns(&limit)? {
        return with_more_rows(plan);
    }
    if !changes(&limit.input)?
        && let Some(rows) = first_rows::with_ties(&limit)?
    {
        return Ok(rows);
    }
    with_more_rows(unshared(limit.input))
}

/// More rows on a side that an outer join adds NULLs to, or a condition that more pairs meet, would take the rows with NULLs away.
fn with_more_pairs(join: Join) -> Result<LogicalPlan> {
    let more = |side: &mut Arc<LogicalPlan>| -> Result<()> {
        *side = with_more_rows(side.as_ref().clone())?.into();
        Ok(())
    };
    let mut join = join;
    match join.join_type {
        JoinType::Inner => {
            more(&mut join.left)?;
            more(&mut join.right)?;
            join.filter = join.filter.and_then(fixed);
        }
        JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti => more(&mut join.left)?,
        JoinType::Right | JoinType::RightSemi | JoinType::RightAnti => more(&mut join.right)?,
        _ => {}
    }
    Ok(LogicalPlan::Join(join))
}

/// A condition without its terms of random values.
fn fixed(condition: Expr) -> Option<Expr> {
    let terms = split_conjunction_owned(condition).into_iter();
    conjunction(terms.filter(|term| !term.is_volatile()))
}

fn unshared(plan: Arc<LogicalPlan>) -> LogicalPlan {
    Arc::unwrap_or_clone(plan)
}
