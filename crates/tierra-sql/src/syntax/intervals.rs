//! INTERVAL literals as the planner reads them.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{self, Expr, VisitMut, VisitorMut};

use crate::moments::interval_in_units;
use crate::visit::visit_mut;

/// Writes the times in INTERVAL literals as units. The planner would negate the first unit alone.
pub(crate) fn write_in_units(part: &mut impl VisitMut) {
    // The visitor never breaks.
    let _ = visit_mut(part, &mut InUnits);
}

struct InUnits;

impl VisitorMut for InUnits {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::UnaryOp {
            op: ast::UnaryOperator::Minus,
            expr: negated,
        } = expr
            && let Expr::Interval(interval) = negated.as_ref()
        {
            let zero = ast::Value::SingleQuotedString("0 seconds".to_string());
            let zero = ast::Interval {
                value: Box::new(Expr::Value(zero.into())),
                leading_field: None,
                ..interval.clone()
            };
            *expr = Expr::Nested(Box::new(Expr::BinaryOp {
                left: Box::new(Expr::Interval(zero)),
                op: ast::BinaryOperator::Minus,
                right: Box::new(Expr::Interval(interval.clone())),
            }));
        } else if let Expr::Interval(interval) = expr
            && interval.leading_field.is_none()
            && let Expr::Value(value) = interval.value.as_mut()
            && let ast::Value::SingleQuotedString(text) = &mut value.value
            && text.contains(':')
            && let Some(units) = interval_in_units(text)
        {
            *text = units;
        }
        ControlFlow::Continue(())
    }
}
