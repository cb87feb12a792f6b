//! A DATE plus or minus hours is a TIMESTAMP.
//!
//! DataFusion's sum of a DATE and an INTERVAL is a DATE: `DATE '2024-01-01' + INTERVAL '12 hours'` lost the hours. Here it is a DATE if the
//! interval is known to be of whole days, months and years.

use arrow::datatypes::{DataType, IntervalMonthDayNano, TimeUnit};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{Expr, ExprSchemable, cast};
use datafusion::sql::sqlparser::ast::BinaryOperator;

/// The planner of such sums.
#[derive(Debug)]
pub(super) struct Hours;

impl ExprPlanner for Hours {
    fn plan_binary_op(
        &self,
        mut sum: RawBinaryExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawBinaryExpr>> {
        let is = |expr: &Expr, is_type: fn(&DataType) -> bool| {
            expr.get_type(schema).is_ok_and(|ty| is_type(&ty))
        };
        let adds_hours = |date: &Expr, interval: &Expr| {
            is(date, |ty| *ty == DataType::Date32)
                && is(interval, |ty| matches!(ty, DataType::Interval(_)))
                && !has_whole_days(interval)
        };
        let timestamp = DataType::Timestamp(TimeUnit::Microsecond, None);
        match sum.op {
            BinaryOperator::Plus | BinaryOperator::Minus if adds_hours(&sum.left, &sum.right) => {
                sum.left = cast(sum.left, timestamp);
            }
            BinaryOperator::Plus if adds_hours(&sum.right, &sum.left) => {
                sum.right = cast(sum.right, timestamp);
            }
            _ => {}
        }
        Ok(PlannerResult::Original(sum))
    }
}

/// Whether `interval` is known to have no part of a day.
fn has_whole_days(interval: &Expr) -> bool {
    const DAY_NS: i64 = 24 * 60 * 60 * 1_000_000_000;
    match interval {
        Expr::Literal(ScalarValue::IntervalMonthDayNano(value), _) => {
            value.is_none_or(|IntervalMonthDayNano { nanoseconds, .. }| nanoseconds % DAY_NS == 0)
        }
        Expr::Literal(ScalarValue::IntervalYearMonth(_), _) => true,
        _ => false,
    }
}
