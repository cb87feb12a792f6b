//! References of a subquery to columns of the row outside, however deep in it they are.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{Exists, InSubquery, SetComparison};
use datafusion::logical_expr::logical_plan::Subquery;
use datafusion::logical_expr::{Expr, LogicalPlan};

use crate::rules::plan::{map_under_names, schema_below};
use crate::tree::{TreeNode, apply_expressions};

/// The subquery of an expression that is one.
pub(super) fn subquery_of(expr: &Expr) -> Option<&Subquery> {
    match expr {
        Expr::ScalarSubquery(subquery)
        | Expr::Exists(Exists { subquery, .. })
        | Expr::InSubquery(InSubquery { subquery, .. })
        | Expr::SetComparison(SetComparison { subquery, .. }) => Some(subquery),
        _ => None,
    }
}

/// The same expression with another subquery.
pub(super) fn with_subquery(expr: Expr, plan: LogicalPlan) -> Expr {
    let changed = |old: Subquery| Subquery {
        outer_ref_columns: plan.all_out_ref_exprs(),
        subquery: Arc::new(plan.clone()),
        spans: old.spans,
    };
    match expr {
        Expr::ScalarSubquery(subquery) => Expr::ScalarSubquery(changed(subquery)),
        Expr::Exists(Exists { subquery, negated }) => Expr::Exists(Exists {
            subquery: changed(subquery),
            negated,
        }),
        Expr::InSubquery(InSubquery {
            expr,
            subquery,
            negated,
        }) => Expr::InSubquery(InSubquery {
            expr,
            subquery: changed(subquery),
            negated,
        }),
        Expr::SetComparison(comparison) => Expr::SetComparison(SetComparison {
            subquery: changed(comparison.subquery),
            ..comparison
        }),
        other => other,
    }
}

/// The columns of `outside` that `plan` refers to, in subqueries of it as well.
pub(super) fn outer_columns(plan: &LogicalPlan, outside: &DFSchema) -> Result<Vec<Column>> {
    let mut found = Vec::new();
    collect(plan, outside, &[], &mut found)?;
    Ok(found)
}

/// Whether `plan` refers to one of these columns outside.
pub(super) fn refers(plan: &LogicalPlan, columns: &[Column]) -> Result<bool> {
    let mut found = Vec::new();
    collect_if(
        plan,
        &|column| columns.contains(column),
        &mut Vec::new(),
        &mut found,
    )?;
    Ok(!found.is_empty())
}

fn collect(
    plan: &LogicalPlan,
    outside: &DFSchema,
    between: &[Arc<DFSchema>],
    found: &mut Vec<Column>,
) -> Result<()> {
    let is_outside = |column: &Column| outside.has_column(column);
    collect_if(plan, &is_outside, &mut between.to_vec(), found)
}

/// Collects the references for which `is` is true, and which no row `between` has.
fn collect_if(
    plan: &LogicalPlan,
    is: &dyn Fn(&Column) -> bool,
    between: &mut Vec<Arc<DFSchema>>,
    found: &mut Vec<Column>,
) -> Result<()> {
    plan.apply(|node| {
        apply_expressions(node, |expr| {
            expr.apply(|expr| {
                if let Expr::OuterReferenceColumn(_, column) = expr {
                    let is_nearer = between.iter().any(|schema| schema.has_column(column));
                    if !is_nearer && is(column) && !found.contains(column) {
                        found.push(column.clone());
                    }
                } else if let Some(subquery) = subquery_of(expr) {
                    between.push(Arc::new(schema_below(node)?));
                    collect_if(&subquery.subquery, is, between, found)?;
                    between.pop();
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })?;
        if let LogicalPlan::Subquery(lateral) = node {
            collect_if(&lateral.subquery, is, between, found)?;
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(())
}

/// `expr`, of an operator over `below`, with columns in place of references to these columns outside: `named` gives the name of
/// each by its place. Subqueries in it refer to the named columns.
pub(super) fn bound(
    expr: Expr,
    below: &DFSchema,
    columns: &[Column],
    named: &dyn Fn(usize) -> Column,
) -> Result<Expr> {
    let place = |column: &Column| columns.iter().position(|other| other == column);
    let changed = expr.transform_up(|expr| {
        if let Expr::OuterReferenceColumn(_, column) = &expr {
            return Ok(match place(column) {
                Some(place) => Transformed::yes(Expr::Column(named(place))),
                None => Transformed::no(expr),
            });
        }
        let Some(subquery) = subquery_of(&expr) else {
            return Ok(Transformed::no(expr));
        };
        let plan = Arc::clone(&subquery.subquery);
        if !refers(&plan, columns)? {
            return Ok(Transformed::no(expr));
        }
        let plan = bound_below(Arc::unwrap_or_clone(plan), &[below], columns, named)?;
        Ok(Transformed::yes(with_subquery(expr, plan)))
    });
    changed.data()
}

/// The plan of a subquery with references to the named columns in place of those to `columns`, unless a row `between` has them.
fn bound_below(
    plan: LogicalPlan,
    between: &[&DFSchema],
    columns: &[Column],
    named: &dyn Fn(usize) -> Column,
) -> Result<LogicalPlan> {
    let is_nearer = |column: &Column| between.iter().any(|schema| schema.has_column(column));
    let place = |column: &Column| {
        let place = columns.iter().position(|other| other == column);
        place.filter(|_| !is_nearer(column))
    };
    let changed = plan.transform_up(|node| {
        let below = schema_below(&node)?;
        map_under_names(node, |expr| {
            expr.transform_up(|expr| {
                if let Expr::OuterReferenceColumn(field, column) = &expr {
                    return Ok(match place(column) {
                        Some(place) => Transformed::yes(Expr::OuterReferenceColumn(
                            Arc::clone(field),
                            named(place),
                        )),
                        None => Transformed::no(expr),
                    });
                }
                let Some(subquery) = subquery_of(&expr) else {
                    return Ok(Transformed::no(expr));
                };
                let plan = Arc::unwrap_or_clone(Arc::clone(&subquery.subquery));
                let between: Vec<&DFSchema> = between.iter().copied().chain([&below]).collect();
                let plan = bound_below(plan, &between, columns, named)?;
                Ok(Transformed::yes(with_subquery(expr, plan)))
            })
        })
    });
    changed.data()
}
