//! An aggregate is ordered by each key once: `array_agg(x ORDER BY a, a DESC)` is ordered by `a`.
//!
//! DataFusion leaves out the second key where rows are compared, and counts it where their keys are kept. So `first_value`, and with it
//! DISTINCT ON, panicked, and others failed. The rule comes last, since it is the optimiser that makes two keys the same.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::common::DFSchema;
use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, SortExpr};
use datafusion::optimizer::optimizer::ApplyOrder;

use super::plan::{EachNode, map_under_names, uses};
use crate::tree::TreeNode;

/// The rule.
pub(super) const RULE: EachNode = EachNode {
    name: "repeated_keys",
    order: ApplyOrder::BottomUp,
    rewrite,
};

fn rewrite(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Aggregate(aggregate) = &plan else {
        return Ok(Transformed::no(plan));
    };
    let columns = Arc::clone(aggregate.input.schema());
    let repeats = |expr: &Expr| match expr {
        Expr::AggregateFunction(AggregateFunction { params, .. }) => {
            once(&params.order_by, &columns).len() < params.order_by.len()
        }
        _ => false,
    };
    if !uses(&plan, repeats)? {
        return Ok(Transformed::no(plan));
    }
    map_under_names(plan, |expr| {
        expr.transform_up(|expr| match expr {
            Expr::AggregateFunction(mut function) => {
                function.params.order_by = once(&function.params.order_by, &columns);
                Ok(Transformed::yes(Expr::AggregateFunction(function)))
            }
            other => Ok(Transformed::no(other)),
        })
    })
}

/// The first of all keys by the same expression.
fn once(keys: &[SortExpr], columns: &DFSchema) -> Vec<SortExpr> {
    let mut seen = HashSet::new();
    let first = keys.iter();
    let first = first.filter(|key| seen.insert(bare(&key.expr, columns)));
    first.cloned().collect()
}

/// The expression without names, and without casts to the type that it has, which the physical planner leaves out.
fn bare<'a>(expr: &'a Expr, columns: &DFSchema) -> &'a Expr {
    match expr {
        Expr::Alias(named) => bare(&named.expr, columns),
        Expr::Cast(cast)
            if cast
                .expr
                .get_type(columns)
                .is_ok_and(|ty| ty == *cast.field.data_type()) =>
        {
            bare(&cast.expr, columns)
        }
        other => other,
    }
}
