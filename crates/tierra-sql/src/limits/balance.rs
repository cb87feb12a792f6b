//! Long chains of AND and OR become trees of the least depth.
//!
//! `a OR b OR c OR ..` is parsed into a tree as deep as the chain is long. AND and OR are associative, with NULL as
//! well; the operands keep their order. Chains short enough for any planner stay as they are.

use std::ops::ControlFlow;

use crate::visit::visit_mut;
use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, Value, VisitMut, VisitorMut};

/// Operands from which a chain is balanced.
const LONG_CHAIN: usize = 33;

/// Balances every long chain in `part`.
pub(crate) fn balance(part: &mut impl VisitMut) {
    let _ = visit_mut(part, &mut Balance);
}

struct Balance;

impl VisitorMut for Balance {
    type Break = ();

    /// Visits an expression before its operands: the top of a chain comes first, and after balancing only short chains remain.
    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::BinaryOp { op, .. } = expr
            && matches!(op, BinaryOperator::And | BinaryOperator::Or)
        {
            let op = op.clone();
            if is_long(expr, &op) {
                let chain = std::mem::replace(expr, nothing());
                *expr = tree(&mut operands(chain, &op), &op);
            }
        }
        ControlFlow::Continue(())
    }
}

/// The left operand of `expr` if its operation is `wanted`.
fn left_of<'a>(expr: &'a Expr, wanted: &BinaryOperator) -> Option<&'a Expr> {
    match expr {
        Expr::BinaryOp { left, op, .. } if op == wanted => Some(left),
        _ => None,
    }
}

fn is_long(chain: &Expr, op: &BinaryOperator) -> bool {
    let links = std::iter::successors(Some(chain), |expr| left_of(expr, op));
    links.take(LONG_CHAIN).count() == LONG_CHAIN
}

/// The operands of a chain, in reverse order.
fn operands(mut chain: Expr, wanted: &BinaryOperator) -> Vec<Expr> {
    let mut operands = Vec::new();
    loop {
        match chain {
            Expr::BinaryOp { left, op, right } if op == *wanted => {
                operands.push(*right);
                chain = *left;
            }
            first => {
                operands.push(first);
                return operands;
            }
        }
    }
}

/// Consumes all of `operands`, which are in reverse order.
fn tree(operands: &mut Vec<Expr>, op: &BinaryOperator) -> Expr {
    let count = operands.len();
    build(operands, count, op).unwrap_or_else(nothing)
}

fn build(operands: &mut Vec<Expr>, count: usize, op: &BinaryOperator) -> Option<Expr> {
    if count <= 1 {
        return operands.pop();
    }
    let left = build(operands, count.div_ceil(2), op)?;
    let right = build(operands, count / 2, op)?;
    Some(Expr::BinaryOp {
        left: Box::new(left),
        op: op.clone(),
        right: Box::new(right),
    })
}

fn nothing() -> Expr {
    Expr::Value(Value::Null.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::dialect::GenericDialect;
    use datafusion::sql::sqlparser::parser::Parser;

    #[test]
    fn a_long_chain_keeps_its_order_and_loses_its_depth() {
        for op in [" AND ", " OR "] {
            let names: Vec<String> = (0..1000).map(|n| format!("c{n} = {n}")).collect();
            let text = names.join(op);
            let mut parser = Parser::new(&GenericDialect {}).try_with_sql(&text).unwrap();
            let mut expr = parser.parse_expr().unwrap();
            balance(&mut expr);
            assert_eq!(expr.to_string(), text);
            let mut depth = 0;
            let mut at = &expr;
            while let Expr::BinaryOp { left, .. } = at {
                (at, depth) = (left, depth + 1);
            }
            assert!(depth < 14, "{depth}");
        }
    }
}
