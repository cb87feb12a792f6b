//! A DATE plus or minus hours or a TIME is a TIMESTAMP, and so is one that is subtracted from a TIMESTAMP or the other way round. A TIME
//! beside a TIMESTAMP is the hours since midnight, and so is one less another.
//!
//! DataFusion's sum of a DATE and an INTERVAL is a DATE: `DATE '2024-01-01' + INTERVAL '12 hours'` lost the hours. Here it is a DATE if the
//! interval is known to be of whole days, months and years. Its sum of a DATE and a TIME added nanoseconds as if they were days, and its
//! difference of two TIMEs was of another unit than it said. The difference of a TIMESTAMP and a DATE it counts in nanoseconds, which sums
//! and groups of it kept, and in which two columns of differences had different types.

use arrow::datatypes::{DataType, IntervalMonthDayNano, TimeUnit};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{Expr, ExprSchemable, cast};
use datafusion::sql::sqlparser::ast::BinaryOperator;

/// The planner of such sums and differences.
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
        let is_moment = |expr: &Expr| is(expr, |ty| matches!(ty, DataType::Timestamp(_, _)));
        let is_date = |expr: &Expr| is(expr, |ty| *ty == DataType::Date32);
        let adds_hours = |date: &Expr, interval: &Expr| {
            let is_interval = |ty: &DataType| matches!(ty, DataType::Interval(_));
            let is_difference = |ty: &DataType| matches!(ty, DataType::Duration(_));
            is_date(date)
                && (is(interval, is_difference)
                    || is(interval, is_interval) && !has_whole_days(interval))
        };
        let timestamp = DataType::Timestamp(TimeUnit::Microsecond, None);
        let is_time = |expr: &Expr| {
            is(expr, |ty| {
                matches!(ty, DataType::Time32(_) | DataType::Time64(_))
            })
        };
        let is_day = |expr: &Expr| is_date(expr) || is_moment(expr);
        match sum.op {
            BinaryOperator::Minus if is_time(&sum.left) && is_time(&sum.right) => {
                sum.left = since_midnight(sum.left);
                sum.right = since_midnight(sum.right);
            }
            BinaryOperator::Plus | BinaryOperator::Minus
                if is_day(&sum.left) && is_time(&sum.right) =>
            {
                sum.right = since_midnight(sum.right);
                if is_date(&sum.left) {
                    sum.left = cast(sum.left, timestamp);
                }
            }
            BinaryOperator::Plus if is_time(&sum.left) && is_day(&sum.right) => {
                sum.left = since_midnight(sum.left);
                if is_date(&sum.right) {
                    sum.right = cast(sum.right, timestamp);
                }
            }
            BinaryOperator::Minus if is_moment(&sum.left) && is_date(&sum.right) => {
                sum.right = cast(sum.right, timestamp);
            }
            BinaryOperator::Minus if is_date(&sum.left) && is_moment(&sum.right) => {
                sum.left = cast(sum.left, timestamp);
            }
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

/// The hours of a time since midnight.
fn since_midnight(time: Expr) -> Expr {
    let micros = cast(
        cast(time, DataType::Time64(TimeUnit::Microsecond)),
        DataType::Int64,
    );
    cast(micros, DataType::Duration(TimeUnit::Microsecond))
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
