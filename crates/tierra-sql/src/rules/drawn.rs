//! Draws the value of a volatile operand once, where the planner would evaluate it more often, or for other rows:
//!
//! | expression | what becomes of it |
//! |---|---|
//! | `x BETWEEN a AND b` | `x >= a AND x <= b` |
//! | `coalesce(x, y)`, `nvl(x, y)` | `CASE WHEN x IS NOT NULL THEN x ELSE y END` |
//! | `x IN (query)`, `x < ALL (query)` | a condition of the query, evaluated for each of its rows |
//!
//! The operand becomes a column:
//! ```text
//! Filter: random() BETWEEN a AND b     Projection: columns
//!                                        Filter: drawn BETWEEN a AND b
//!                                          Projection: columns, random() AS drawn
//! ```
//! Such a condition of an inner join is one of the joined rows:
//! ```text
//! Join: a.x = b.x AND coalesce(..) = 1     Filter: coalesce(..) = 1
//!                                            Join: a.x = b.x
//! ```
//! Invariant: the optimiser takes these expressions apart before it merges projections, and then the column is used twice,
//! so the operand does not come back.

use std::sync::Arc;

use datafusion::common::JoinType;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::logical_plan::Join;
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::optimizer::AnalyzerRule;

use super::computed::free;
use super::plan::{under_its_name, uses};
use crate::tree::{TreeNode, transform_up_with_subqueries};

/// The rule.
#[derive(Debug)]
pub(super) struct DrawnOnce;

impl AnalyzerRule for DrawnOnce {
    fn name(&self) -> &str {
        "drawn_once"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        transform_up_with_subqueries(plan, rewrite).data()
    }
}

fn rewrite(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    if let LogicalPlan::Join(join) = &plan
        && join.join_type == JoinType::Inner
        && let Some(filtered) = filtered_above(join)?
    {
        return Ok(Transformed::yes(rewrite(filtered)?.data));
    }
    let input = match &plan {
        LogicalPlan::Projection(projection) => Arc::clone(&projection.input),
        LogicalPlan::Filter(filter) => Arc::clone(&filter.input),
        LogicalPlan::Aggregate(aggregate) => Arc::clone(&aggregate.input),
        _ => return Ok(Transformed::no(plan)),
    };
    if !uses(&plan, repeats_draw)? {
        return Ok(Transformed::no(plan));
    }
    let mut drawn: Vec<Expr> = Vec::new();
    let names = NamePreserver::new(&plan);
    let exprs = plan.expressions().into_iter().map(|expr| {
        under_its_name(expr, &names, &mut |expr| {
            let replaced = expr.transform_up(|mut expr| {
                for operand in repeated(&mut expr)
                    .into_iter()
                    .filter(|operand| is_drawn(operand))
                {
                    let column = free(input.schema(), drawn.len());
                    let value = std::mem::replace(operand, Expr::Column(column.clone()));
                    drawn.push(value.alias(column.name));
                }
                Ok(Transformed::yes(expr))
            });
            replaced.data()
        })
    });
    let exprs = exprs.collect::<Result<Vec<_>>>()?;
    if drawn.is_empty() {
        return Ok(Transformed::no(plan));
    }
    let columns = input.schema().columns().into_iter().map(Expr::from);
    let columns: Vec<Expr> = columns.collect();
    let below = LogicalPlanBuilder::from(input)
        .project(columns.iter().cloned().chain(drawn))?
        .build()?;
    let rewritten = plan.with_new_exprs(exprs, vec![below])?;
    Ok(Transformed::yes(match plan {
        LogicalPlan::Filter(_) => LogicalPlanBuilder::from(rewritten)
            .project(columns)?
            .build()?,
        _ => rewritten,
    }))
}

/// The join with a filter above that has its conditions of which operands would be drawn more than once; `None` without any.
fn filtered_above(join: &Join) -> Result<Option<LogicalPlan>> {
    let Some(filter) = &join.filter else {
        return Ok(None);
    };
    let repeats = |expr: &Expr| expr.exists(|expr| Ok(repeats_draw(expr))).unwrap_or(true);
    let all = split_conjunction_owned(filter.clone()).into_iter();
    let (above, within): (Vec<Expr>, Vec<Expr>) = all.partition(repeats);
    let Some(above) = conjunction(above) else {
        return Ok(None);
    };
    let join = Join {
        filter: conjunction(within),
        ..join.clone()
    };
    let joined = LogicalPlanBuilder::from(LogicalPlan::Join(join));
    Ok(Some(joined.filter(above)?.build()?))
}

/// Whether `expr` would draw one of its operands more than once.
fn repeats_draw(expr: &Expr) -> bool {
    repeats_operand(expr) && expr.is_volatile()
}

/// Whether `expr` has operands that are [`repeated`].
fn repeats_operand(expr: &Expr) -> bool {
    match expr {
        Expr::Between(_) | Expr::InSubquery(_) | Expr::SetComparison(_) => true,
        Expr::InList(list) => matches!(list.list.as_slice(), [Expr::ScalarSubquery(_)]),
        Expr::ScalarFunction(call) => matches!(call.name(), "coalesce" | "nvl"),
        _ => false,
    }
}

/// The operands of `expr` that are evaluated more than once, or elsewhere.
fn repeated(expr: &mut Expr) -> Vec<&mut Expr> {
    if !repeats_operand(expr) {
        return Vec::new();
    }
    match expr {
        Expr::Between(between) => vec![between.expr.as_mut()],
        Expr::InSubquery(within) => vec![within.expr.as_mut()],
        Expr::SetComparison(compared) => vec![compared.expr.as_mut()],
        Expr::InList(list) => vec![list.expr.as_mut()],
        Expr::ScalarFunction(call) => {
            let most = call.args.len().saturating_sub(1);
            call.args.iter_mut().take(most).collect()
        }
        _ => Vec::new(),
    }
}

/// Whether `operand` is to be computed below: it is volatile, and needs nothing but a row of the input.
fn is_drawn(operand: &Expr) -> bool {
    let needs_more = |expr: &Expr| {
        let is_subquery = matches!(
            expr,
            Expr::ScalarSubquery(_)
                | Expr::Exists(_)
                | Expr::InSubquery(_)
                | Expr::SetComparison(_)
        );
        Ok(is_subquery || matches!(expr, Expr::OuterReferenceColumn(_, _)))
    };
    operand.is_volatile() && !operand.exists(needs_more).unwrap_or(true)
}
