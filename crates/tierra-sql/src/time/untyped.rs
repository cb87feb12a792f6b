//! A text or a parameter beside a moment or an interval is one itself, as in PostgreSQL: `ts + '1 day'`, `ts - '2024-01-01'`,
//! `a - b > $1`.

use arrow::datatypes::{DataType, IntervalUnit, TimeUnit};
use datafusion::common::DFSchema;
use datafusion::error::Result;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{Expr, ExprSchemable, cast};
use datafusion::sql::sqlparser::ast::BinaryOperator;

/// The planner of such operands.
#[derive(Debug)]
pub(super) struct Untyped;

impl ExprPlanner for Untyped {
    fn plan_binary_op(
        &self,
        mut operation: RawBinaryExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawBinaryExpr>> {
        let of = |operand: &Expr, beside: &Expr| {
            let is_untyped = match operand {
                Expr::Literal(value, _) => value.try_as_str().flatten().is_some(),
                Expr::Placeholder(parameter) => parameter.field.is_none(),
                _ => false,
            };
            let beside = is_untyped.then(|| beside.get_type(schema).ok())??;
            type_beside(&operation.op, &beside)
        };
        let left = of(&operation.left, &operation.right);
        let right = of(&operation.right, &operation.left);
        if let Some(ty) = left {
            operation.left = cast(operation.left, ty);
        }
        if let Some(ty) = right {
            operation.right = cast(operation.right, ty);
        }
        Ok(PlannerResult::Original(operation))
    }
}

/// The type of such an operand in an operation with a value of type `beside`; `None` if the planner knows it, or nothing is added or compared.
fn type_beside(op: &BinaryOperator, beside: &DataType) -> Option<DataType> {
    use BinaryOperator::{Eq, Gt, GtEq, Lt, LtEq, Minus, NotEq, Plus};
    let interval = DataType::Interval(IntervalUnit::MonthDayNano);
    match (op, beside) {
        (Plus, DataType::Timestamp(_, _)) => Some(interval),
        (Minus, DataType::Timestamp(_, zone)) => {
            Some(DataType::Timestamp(TimeUnit::Microsecond, zone.clone()))
        }
        (
            Plus | Minus | Eq | NotEq | Lt | LtEq | Gt | GtEq,
            DataType::Interval(_) | DataType::Duration(_),
        ) => Some(interval),
        _ => None,
    }
}
