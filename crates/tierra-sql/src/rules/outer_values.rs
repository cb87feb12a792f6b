//! A scalar subquery that compares with the outer row by an operator other than `=`.
//!
//! The planner joins such a subquery by equal columns only. So the outer values are added to the subquery's tables:
//! ```text
//! SELECT a.x, (SELECT max(b.x) FROM b WHERE b.y > a.y) FROM a
//! SELECT a.x, (SELECT max(b.x) FROM (SELECT DISTINCT y FROM a) o, b WHERE b.y > o.y AND o.y = a.y) FROM a
//! ```
//! If the comparison is with an outer value that is NULL, neither form finds a row.

use std::sync::Arc;

use datafusion::common::Column;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::logical_plan::{Filter, Subquery};
use datafusion::logical_expr::utils::{conjunction, split_conjunction};
use datafusion::logical_expr::{
    Between, BinaryExpr, Cast, Expr, LogicalPlan, LogicalPlanBuilder, Operator,
};
use datafusion::optimizer::AnalyzerRule;

use super::plan::{under_its_name, uses};

/// The rule.
#[derive(Debug)]
pub(super) struct OuterValues;

impl AnalyzerRule for OuterValues {
    fn name(&self) -> &str {
        "outer_values"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(rewrite).data()
    }
}

fn rewrite(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let outer = match &plan {
        LogicalPlan::Projection(projection) => Arc::clone(&projection.input),
        LogicalPlan::Filter(filter) => Arc::clone(&filter.input),
        _ => return Ok(Transformed::no(plan)),
    };
    let is_compared = |expr: &Expr| matches!(expr, Expr::ScalarSubquery(rows) if compares(&rows.subquery, &outer));
    if !uses(&plan, is_compared)? || !is_repeatable(&outer)? {
        return Ok(Transformed::no(plan));
    }
    let names = NamePreserver::new(&plan);
    let mut count = 0;
    plan.map_expressions(|expr| {
        let changed = under_its_name(expr, &names, &mut |expr| {
            let changed = expr.transform_up(|expr| match expr {
                Expr::ScalarSubquery(rows) if compares(&rows.subquery, &outer) => {
                    count += 1;
                    let plan = with_values(&rows.subquery, &outer, count)?;
                    Ok(Transformed::yes(Expr::ScalarSubquery(Subquery {
                        outer_ref_columns: plan.all_out_ref_exprs(),
                        subquery: Arc::new(plan),
                        ..rows
                    })))
                }
                other => Ok(Transformed::no(other)),
            });
            changed.data()
        });
        changed.map(Transformed::yes)
    })
}

/// Whether `plan` yields the same rows if computed twice, and none that depend on a row further outside.
fn is_repeatable(plan: &LogicalPlan) -> Result<bool> {
    let changes = plan.exists(|node| {
        Ok(matches!(node, LogicalPlan::Limit(_)) || uses(node, Expr::is_volatile)?)
    })?;
    Ok(!changes && plan.all_out_ref_exprs().is_empty())
}

/// Whether `rows` is an aggregate without GROUP BY that compares with a row of `outer` by an operator other than `=`, and
/// refers to that row nowhere else.
fn compares(rows: &LogicalPlan, outer: &LogicalPlan) -> bool {
    let Some(filter) = condition(rows) else {
        return false;
    };
    let outside = |plan: &LogicalPlan| plan.all_out_ref_exprs().len();
    let is_of_outer = |expr: &Expr| match expr {
        Expr::OuterReferenceColumn(_, column) => outer.schema().has_column(column),
        _ => true,
    };
    let all = split_conjunction(&filter.predicate);
    let others: Vec<&Expr> = all.into_iter().filter(|term| !is_joined(term)).collect();
    outside(&filter.input) == 0
        && outside(rows) == outside(&LogicalPlan::Filter(filter.clone()))
        && rows.all_out_ref_exprs().iter().all(is_of_outer)
        && !others.is_empty()
        && others.into_iter().all(rejects_null)
}

/// The condition on the input rows of an aggregate without GROUP BY.
fn condition(rows: &LogicalPlan) -> Option<&Filter> {
    match rows {
        LogicalPlan::Projection(projection) => condition(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => condition(&alias.input),
        LogicalPlan::Aggregate(aggregate) if aggregate.group_expr.is_empty() => {
            match aggregate.input.as_ref() {
                LogicalPlan::Filter(filter) => Some(filter),
                _ => None,
            }
        }
        _ => None,
    }
}

/// Whether the planner can join by `term`, or `term` does not refer to the outer row.
fn is_joined(term: &Expr) -> bool {
    let is_equality = matches!(
        term,
        Expr::BinaryExpr(BinaryExpr {
            op: Operator::Eq,
            ..
        })
    );
    is_equality || !term.contains_outer()
}

/// Whether `term` is not true if a value in it is NULL.
fn rejects_null(term: &Expr) -> bool {
    match term {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            use Operator::{Gt, GtEq, Lt, LtEq, NotEq};
            matches!(op, Gt | GtEq | Lt | LtEq | NotEq) && is_strict(left) && is_strict(right)
        }
        Expr::Between(Between {
            expr,
            negated: false,
            low,
            high,
        }) => is_strict(expr) && is_strict(low) && is_strict(high),
        _ => false,
    }
}

/// Whether `value` is NULL if a value in it is.
fn is_strict(value: &Expr) -> bool {
    match value {
        Expr::Column(_) | Expr::OuterReferenceColumn(..) | Expr::Literal(..) => true,
        Expr::Cast(Cast { expr, .. }) | Expr::Negative(expr) => is_strict(expr),
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            use Operator::{Divide, Minus, Modulo, Multiply, Plus};
            matches!(op, Plus | Minus | Multiply | Divide | Modulo)
                && is_strict(left)
                && is_strict(right)
        }
        _ => false,
    }
}

/// `rows` with the values of `outer` that it compares with. It is the `number`th such subquery of an operator.
fn with_values(rows: &LogicalPlan, outer: &LogicalPlan, number: usize) -> Result<LogicalPlan> {
    let Some(wanted) = condition(rows).cloned() else {
        return Ok(rows.clone());
    };
    let table = format!("tierra_outer_{number}");
    let mut values: Vec<(Column, Expr)> = Vec::new();
    let mut terms = Vec::new();
    for term in split_conjunction(&wanted.predicate) {
        if is_joined(term) {
            terms.push(term.clone());
            continue;
        }
        let term = term.clone().transform_up(|expr| {
            let Expr::OuterReferenceColumn(_, column) = &expr else {
                return Ok(Transformed::no(expr));
            };
            let known = values.iter().position(|(other, _)| other == column);
            let place = known.unwrap_or(values.len());
            if known.is_none() {
                values.push((column.clone(), expr.clone()));
            }
            Ok(Transformed::yes(named(&table, place)))
        });
        terms.push(term.data()?);
    }
    let columns = values.iter().enumerate();
    let columns = columns
        .map(|(place, (column, _))| Expr::Column(column.clone()).alias(format!("value_{place}")));
    let distinct = LogicalPlanBuilder::from(outer.clone())
        .project(columns)?
        .distinct()?
        .alias(table.as_str())?
        .build()?;
    let equal = values.into_iter().enumerate();
    terms.extend(equal.map(|(place, (_, outside))| named(&table, place).eq(outside)));
    let pairs = LogicalPlanBuilder::from(distinct)
        .cross_join(Arc::unwrap_or_clone(Arc::clone(&wanted.input)))?;
    let pairs = match conjunction(terms) {
        Some(condition) => pairs.filter(condition)?,
        None => pairs,
    };
    let filtered = pairs.build()?;
    let is_wanted =
        |plan: &LogicalPlan| matches!(plan, LogicalPlan::Filter(filter) if *filter == wanted);
    let replaced = rows.clone().transform_down(|plan| match is_wanted(&plan) {
        true => Ok(Transformed::new(
            filtered.clone(),
            true,
            TreeNodeRecursion::Stop,
        )),
        false => Ok(Transformed::no(plan)),
    });
    replaced.data()
}

fn named(table: &str, place: usize) -> Expr {
    Expr::Column(Column::new(Some(table), format!("value_{place}")))
}
