//! Conditions that stay where they are: on an aggregation of all rows, on columns of one name, and those that are drawn.
//!
//! DataFusion pushes conditions on GROUP BY columns below the aggregation, and with them conditions without columns:
//! `HAVING $1 = $2`, and `FALSE`, which it makes of `n = 1 AND n = 2`. But an aggregation without GROUP BY yields a row even for
//! no rows. So nothing is pushed below such an aggregation.
//!
//! It finds columns by their name, and does not tell the column `c` of table `t` from a column with the name `t.c`: the name of
//! `CAST(CAST(t.c AS BIGINT) AS VARCHAR)`. So nothing is pushed below a projection that yields both. Nor does it tell a column from
//! its cast in PARTITION BY, so nothing is pushed below such a window.
//!
//! A condition with `random()` chooses among the rows that it stands above. Below an aggregation, DISTINCT, a window, UNNEST or a join it
//! would choose among others, and below both sides of a join twice. Other conditions beside it are pushed.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::common::Column;
use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::logical_expr::logical_plan::{Aggregate, Filter, Window};
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

/// DataFusion's rule that pushes conditions down.
pub(super) const PUSHED_DOWN: &str = "push_down_filter";

/// The rule, except for these conditions.
pub(super) fn held(
    rule: &dyn OptimizerRule,
    plan: LogicalPlan,
    config: &dyn OptimizerConfig,
) -> Result<Transformed<LogicalPlan>> {
    if is_held(&plan) {
        return Ok(Transformed::no(plan));
    }
    match plan {
        LogicalPlan::Filter(filter) if is_drawn_of(&filter) => drawn_last(filter),
        plan => rule.rewrite(plan, config),
    }
}

/// Whether the condition differs each time, and chooses among rows that an operator makes.
fn is_drawn_of(filter: &Filter) -> bool {
    let mut below = filter.input.as_ref();
    while let LogicalPlan::Filter(filter) = below {
        below = filter.input.as_ref();
    }
    filter.predicate.is_volatile()
        && matches!(
            below,
            LogicalPlan::Aggregate(_)
                | LogicalPlan::Distinct(_)
                | LogicalPlan::Window(_)
                | LogicalPlan::Unnest(_)
                | LogicalPlan::Join(_)
        )
}

/// The filter with what is drawn in a filter of its own, above the other conditions.
fn drawn_last(filter: Filter) -> Result<Transformed<LogicalPlan>> {
    let all = split_conjunction_owned(filter.predicate.clone()).into_iter();
    let (drawn, others): (Vec<Expr>, Vec<Expr>) = all.partition(Expr::is_volatile);
    let (Some(drawn), Some(others)) = (conjunction(drawn), conjunction(others)) else {
        return Ok(Transformed::no(LogicalPlan::Filter(filter)));
    };
    let others = LogicalPlan::Filter(Filter::try_new(others, filter.input)?);
    let drawn = Filter::try_new(drawn, Arc::new(others))?;
    Ok(Transformed::yes(LogicalPlan::Filter(drawn)))
}

/// Whether an expression by which the window is partitioned has the name of another column of its rows.
fn has_ambiguous_partitions(window: &Window) -> bool {
    let columns = window.input.schema();
    window.window_expr.iter().any(|expr| {
        let expr = match expr {
            Expr::Alias(alias) => alias.expr.as_ref(),
            expr => expr,
        };
        let Expr::WindowFunction(function) = expr else {
            return true;
        };
        function.params.partition_by.iter().any(|key| {
            let (table, name) = key.qualified_name();
            !matches!(key, Expr::Column(_)) && columns.has_column(&Column::new(table, name))
        })
    })
}

/// Whether `plan` is a condition on an aggregation that yields a row for an empty input, on a projection with ambiguous names, or on a
/// window with ambiguous partitions, or a join with a condition that is drawn, or a condition on such a join.
fn is_held(plan: &LogicalPlan) -> bool {
    let filter = match plan {
        LogicalPlan::Filter(filter) => filter,
        LogicalPlan::Join(join) => return join.filter.as_ref().is_some_and(Expr::is_volatile),
        _ => return false,
    };
    match filter.input.as_ref() {
        LogicalPlan::Window(window) => has_ambiguous_partitions(window),
        LogicalPlan::Aggregate(Aggregate { group_expr, .. }) => {
            matches!(group_expr.as_slice(), [] | [Expr::GroupingSet(_)])
        }
        LogicalPlan::Projection(projection) => {
            let mut seen = HashSet::new();
            let mut names = projection.schema.field_names().into_iter();
            !names.all(|name| seen.insert(name))
        }
        below @ (LogicalPlan::Filter(_) | LogicalPlan::Join(_)) => is_held(below),
        _ => false,
    }
}
