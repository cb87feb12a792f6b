//! A subquery for one value does not count as one row because its key equals what differs from row to row.
//!
//! The planner accepts a subquery that refers to the row outside and has no aggregate if its conditions fix a key. It takes `b.id = b.n + 1`
//! for such a condition. Then each row outside came as often as the subquery had rows. `(b.id = b.n + 1) IS TRUE` is the same condition,
//! and none of these.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::logical_expr::expr::BinaryExpr;
use datafusion::logical_expr::logical_plan::{Filter, Subquery};
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{Expr, LogicalPlan, Operator};
use datafusion::optimizer::AnalyzerRule;

use super::plan::{map_under_names, uses};
use crate::tree::{TreeNode, transform_up_with_subqueries};

/// The rule.
#[derive(Debug)]
pub(super) struct SingleRows;

impl AnalyzerRule for SingleRows {
    fn name(&self) -> &str {
        "single_rows"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        transform_up_with_subqueries(plan, rewrite).data()
    }
}

fn rewrite(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    if !uses(&plan, refers_outside)? {
        return Ok(Transformed::no(plan));
    }
    map_under_names(plan, |expr| {
        expr.transform_up(|expr| match expr {
            Expr::ScalarSubquery(rows) if !rows.outer_ref_columns.is_empty() => {
                let plan = Arc::unwrap_or_clone(rows.subquery);
                let subquery = Arc::new(plan.transform_up(without_false_keys).data()?);
                Ok(Transformed::yes(Expr::ScalarSubquery(Subquery {
                    subquery,
                    ..rows
                })))
            }
            other => Ok(Transformed::no(other)),
        })
    })
}

fn refers_outside(expr: &Expr) -> bool {
    matches!(expr, Expr::ScalarSubquery(rows) if !rows.outer_ref_columns.is_empty())
}

/// A filter whose conditions between columns of one row fix no key. Joined rows have none, and need them.
fn without_false_keys(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let is_join = |plan: &LogicalPlan| Ok(matches!(plan, LogicalPlan::Join(_)));
    let filter = match plan {
        LogicalPlan::Filter(filter) if !filter.input.exists(is_join)? => filter,
        other => return Ok(Transformed::no(other)),
    };
    let terms = split_conjunction_owned(filter.predicate).into_iter();
    let terms = terms.map(|term| match compares_columns(&term) {
        true => Expr::IsTrue(Box::new(term)),
        false => term,
    });
    let predicate = conjunction(terms).expect("a filter has a condition");
    let filter = Filter::try_new(predicate, filter.input)?;
    Ok(Transformed::yes(LogicalPlan::Filter(filter)))
}

/// Whether both sides of an equality differ from row to row.
fn compares_columns(term: &Expr) -> bool {
    let differs = |expr: &Expr| !expr.column_refs().is_empty();
    match term {
        Expr::BinaryExpr(BinaryExpr {
            left,
            op: Operator::Eq,
            right,
        }) => differs(left) && differs(right),
        _ => false,
    }
}
