//! Doubles in predicates, as tables store them.
//!
//! Tables store -0.0 as 0.0 and every NaN as one NaN. A filter on codes compares with such values. A predicate that is
//! evaluated on rows sometimes compares bits: in long lists, and for NaNs everywhere.

use crate::tree::TreeNode;
use datafusion::common::ScalarValue;
use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};
use tierra_engine::canonical_double;

/// `predicate` with its literals replaced by the doubles that tables store. So it passes the same rows as a filter on
/// codes.
pub(crate) fn with_stored_doubles(predicate: &Expr) -> Result<Expr> {
    let stored = predicate.clone().transform_up(|expr| {
        Ok(match expr {
            Expr::InList(mut list) => {
                list.list = list.list.into_iter().map(stored).collect();
                Transformed::yes(Expr::InList(list))
            }
            Expr::Between(mut between) => {
                between.low = Box::new(stored(*between.low));
                between.high = Box::new(stored(*between.high));
                Transformed::yes(Expr::Between(between))
            }
            Expr::BinaryExpr(BinaryExpr { left, op, right }) if compares(op) => {
                let (left, right) = (Box::new(stored(*left)), Box::new(stored(*right)));
                Transformed::yes(Expr::BinaryExpr(BinaryExpr { left, op, right }))
            }
            other => Transformed::no(other),
        })
    })?;
    Ok(stored.data)
}

fn compares(op: Operator) -> bool {
    use Operator::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
    matches!(
        op,
        Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom
    )
}

/// A literal as it would be stored. Other expressions stay, because arithmetic distinguishes the zeros.
fn stored(expr: Expr) -> Expr {
    match expr {
        Expr::Literal(ScalarValue::Float64(Some(value)), metadata) => {
            let value = Some(canonical_double(value));
            Expr::Literal(ScalarValue::Float64(value), metadata)
        }
        other => other,
    }
}
