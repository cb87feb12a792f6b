//! Numbers with more digits than a double, which the planner would round.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{self, Expr, VisitMut, VisitorMut};

use crate::list::call;
use crate::rules::{LONG_NUMBER, is_long};
use crate::visit::visit_mut;

/// Turns long numbers into calls that carry their text.
pub(crate) fn keep(part: &mut impl VisitMut) {
    // The visitor never breaks.
    let _ = visit_mut(part, &mut LongNumbers);
}

struct LongNumbers;

impl VisitorMut for LongNumbers {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let text = match expr {
            Expr::UnaryOp {
                op: ast::UnaryOperator::Minus,
                expr,
            } => digits(expr).map(|digits| format!("-{digits}")),
            ref number => digits(number).map(str::to_string),
        };
        if let Some(text) = text.filter(|text| is_long(text)) {
            let text = Expr::Value(ast::Value::SingleQuotedString(text).into());
            *expr = call(LONG_NUMBER.to_string(), [text]);
        }
        ControlFlow::Continue(())
    }
}

fn digits(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Value(ast::ValueWithSpan {
            value: ast::Value::Number(digits, _),
            ..
        }) => Some(digits),
        _ => None,
    }
}
