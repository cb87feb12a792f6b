//! Computes expressions below operators that cannot evaluate them.
//!
//! A scalar subquery that refers to the outer row is planned only in select lists and conditions. Predicates of subqueries
//! are not allowed in ORDER BY, and equal ones of two windows are planned separately. For `abs(round(x))` and `-round(x)` the
//! planner fails to derive the order, even if rows are sorted by just that, because it has no bounds for `round`. Sorts and
//! windows evaluate their keys several times, so that `random()` is another key each time. The state of
//! `string_agg(x, ',' ORDER BY (subquery))` has a field named as its key, and that of a subquery is another once its value is known.
//! Under operators that group, aggregate, order or compute windows these expressions become columns:
//! ```text
//! Aggregate: groupBy=[name AS (subquery)]       Projection: columns
//!   Projection: columns, (subquery) AS name       Sort: name
//!                                                   Projection: columns, x IN (subquery) AS name
//! ```

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::logical_expr::expr::{AggregateFunction, Sort};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::optimizer::AnalyzerRule;

use super::plan::{under_its_name, uses};
use crate::tree::{TreeNode, transform_up_with_subqueries};

/// The rule.
#[derive(Debug)]
pub(super) struct ComputedBelow;

impl AnalyzerRule for ComputedBelow {
    fn name(&self) -> &str {
        "computed_below"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        transform_up_with_subqueries(plan, rewrite).data()
    }
}

fn rewrite(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let (is_held, is_sort): (fn(&Expr) -> bool, bool) = match &plan {
        LogicalPlan::Aggregate(_) if uses(&plan, is_ordered_by_subquery)? => {
            (|expr| !matches!(expr, Expr::ScalarSubquery(_)), false)
        }
        LogicalPlan::Aggregate(_) => (|expr| !refers_outside(expr), false),
        LogicalPlan::Window(_) => (is_held_by_order, false),
        LogicalPlan::Sort(_) => (is_held_by_order, true),
        _ => return Ok(Transformed::no(plan)),
    };
    if !uses(&plan, |expr| !is_held(expr))? {
        return Ok(Transformed::no(plan));
    }
    let [input] = plan.inputs()[..] else {
        return Ok(Transformed::no(plan));
    };
    let columns: Vec<Expr> = input
        .schema()
        .columns()
        .into_iter()
        .map(Expr::from)
        .collect();
    let mut computed: Vec<(Expr, Column)> = Vec::new();
    let names = NamePreserver::new(&plan);
    let exprs = plan.expressions().into_iter().map(|expr| {
        under_its_name(expr, &names, &mut |expr| {
            let replaced = expr.transform_down(|expr| {
                if is_held(&expr) {
                    return Ok(Transformed::no(expr));
                }
                let known = computed.iter().find(|(other, _)| *other == expr);
                let column = match known {
                    Some((_, column)) => column.clone(),
                    None => {
                        let column = free(input.schema(), computed.len());
                        computed.push((expr, column.clone()));
                        column
                    }
                };
                let column = Expr::Column(column);
                Ok(Transformed::new(column, true, TreeNodeRecursion::Jump))
            });
            replaced.data()
        })
    });
    let exprs = exprs.collect::<Result<Vec<_>>>()?;
    let more = computed
        .into_iter()
        .map(|(expr, column)| expr.alias(column.name));
    let below = LogicalPlanBuilder::from(input.clone())
        .project(columns.iter().cloned().chain(more))?
        .build()?;
    let plan = plan.with_new_exprs(exprs, vec![below])?;
    let plan = match is_sort {
        true => LogicalPlanBuilder::from(plan).project(columns)?.build()?,
        false => plan,
    };
    Ok(Transformed::yes(plan))
}

/// Whether operators that order rows or compute windows can evaluate `expr`.
fn is_held_by_order(expr: &Expr) -> bool {
    !refers_outside(expr) && !hides_order(expr) && !is_predicate(expr) && !is_drawn(expr)
}

/// A name that differs from every column of `schema` and from the `used` names before it.
pub(super) fn free(schema: &DFSchema, used: usize) -> Column {
    let names = (0..).map(|number| format!("tierra_computed_{number}"));
    let is_free = |name: &String| !schema.has_column_with_unqualified_name(name);
    let mut names = names.filter(is_free);
    Column::new_unqualified(names.nth(used).unwrap_or_default())
}

fn refers_outside(expr: &Expr) -> bool {
    matches!(expr, Expr::ScalarSubquery(rows) if !rows.outer_ref_columns.is_empty())
}

fn is_ordered_by_subquery(expr: &Expr) -> bool {
    let Expr::AggregateFunction(AggregateFunction { params, .. }) = expr else {
        return false;
    };
    let has_subquery = |key: &Sort| {
        let found = key
            .expr
            .exists(|expr| Ok(matches!(expr, Expr::ScalarSubquery(_))));
        found.unwrap_or(true)
    };
    params.order_by.iter().any(has_subquery)
}

fn is_predicate(expr: &Expr) -> bool {
    match expr {
        Expr::Exists(_) | Expr::InSubquery(_) | Expr::SetComparison(_) => true,
        Expr::InList(list) => matches!(list.list.as_slice(), [Expr::ScalarSubquery(_)]),
        _ => false,
    }
}

/// Whether `expr` has another value each time, and is not a window itself.
fn is_drawn(expr: &Expr) -> bool {
    !matches!(expr, Expr::Alias(_) | Expr::WindowFunction(_)) && expr.is_volatile()
}

/// Whether the order of `expr` depends on bounds that are computed.
fn hides_order(expr: &Expr) -> bool {
    let inner = match expr {
        Expr::Negative(inner) => inner.as_ref(),
        Expr::ScalarFunction(call) => match call.args.as_slice() {
            [inner] if call.func.name() == "abs" => inner,
            _ => return false,
        },
        _ => return false,
    };
    !matches!(inner, Expr::Column(_) | Expr::Literal(..))
}
