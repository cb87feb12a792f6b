//! An interval times a number, or divided by one, and differences of moments as intervals.
//!
//! DataFusion has no such products, and its intervals of differences count hours only. Here they are PostgreSQL's: months, days and
//! time are multiplied each, what is left of a month becomes days, of which it has 30, and what is left of a day becomes time. A
//! difference has whole days.

use std::sync::Arc;

use arrow::array::{AsArray, IntervalMonthDayNanoArray};
use arrow::compute::{cast_with_options, try_binary, try_unary};
use arrow::datatypes::{
    DataType, DurationMicrosecondType, Float64Type, IntervalMonthDayNano, IntervalMonthDayNanoType,
    IntervalUnit, TimeUnit,
};
use arrow::error::ArrowError;
use datafusion::common::format::DEFAULT_CAST_OPTIONS;
use datafusion::common::{DFSchema, internal_err};
use datafusion::error::Result;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::interval_arithmetic::Interval;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility, cast,
};
use datafusion::sql::sqlparser::ast::BinaryOperator;

use crate::columnar::computed;

const INTERVAL: DataType = DataType::Interval(IntervalUnit::MonthDayNano);
const MONTH_DAYS: f64 = 30.0;
const DAY_SECONDS: f64 = 86_400.0;
const DAY_US: i64 = 86_400_000_000;

/// The planner of products and quotients of intervals.
#[derive(Debug)]
pub(super) struct Products;

impl ExprPlanner for Products {
    fn plan_binary_op(
        &self,
        product: RawBinaryExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawBinaryExpr>> {
        let RawBinaryExpr { op, left, right } = product;
        let is = |expr: &Expr, is_type: fn(&DataType) -> bool| {
            expr.get_type(schema).is_ok_and(|ty| is_type(&ty))
        };
        let is_length = |expr| {
            is(expr, |ty| {
                matches!(ty, DataType::Interval(_) | DataType::Duration(_))
            })
        };
        // A parameter is one, as in PostgreSQL.
        let is_number = |expr: &Expr| match expr {
            Expr::Placeholder(parameter) if parameter.field.is_none() => true,
            expr => is(expr, |ty| ty.is_numeric() || *ty == DataType::Null),
        };
        let (interval, number, divides) = match op {
            BinaryOperator::Multiply if is_length(&left) && is_number(&right) => {
                (left, right, false)
            }
            BinaryOperator::Multiply if is_number(&left) && is_length(&right) => {
                (right, left, false)
            }
            BinaryOperator::Divide if is_length(&left) && is_number(&right) => (left, right, true),
            _ => {
                let other = RawBinaryExpr { op, left, right };
                return Ok(PlannerResult::Original(other));
            }
        };
        let interval = match interval.get_type(schema)? {
            DataType::Duration(_) => of_difference(interval),
            INTERVAL => interval,
            _ => cast(interval, INTERVAL),
        };
        let number = cast(number, DataType::Float64);
        let function = Arc::new(ScalarUDF::from(Scaled::new(divides)));
        let call = ScalarFunction::new_udf(function, vec![interval, number]);
        Ok(PlannerResult::Planned(Expr::ScalarFunction(call)))
    }
}

/// A difference of moments as an interval.
pub(super) fn of_difference(difference: Expr) -> Expr {
    let function = Arc::new(ScalarUDF::from(OfDifference::new()));
    Expr::ScalarFunction(ScalarFunction::new_udf(function, vec![difference]))
}

fn out_of_range() -> ArrowError {
    ArrowError::ArithmeticOverflow("interval out of range".to_owned())
}

/// An interval, of each of whose parts `by` makes another.
fn scaled(interval: IntervalMonthDayNano, by: impl Fn(f64) -> f64) -> Option<IntervalMonthDayNano> {
    // As far as numbers of six digits after the point are exact.
    let rounded = |value: f64| (value * 1e6).round_ties_even() / 1e6;
    let whole = |value: f64| {
        let range = f64::from(i32::MIN)..=f64::from(i32::MAX);
        range.contains(&value.trunc()).then_some(value as i32)
    };
    let (months, days) = (by(interval.months.into()), by(interval.days.into()));
    let (whole_months, whole_days) = (whole(months)?, whole(days)?);
    let days_left = rounded((months - f64::from(whole_months)) * MONTH_DAYS);
    let seconds_left = rounded((days - f64::from(whole_days) + days_left.fract()) * DAY_SECONDS);
    // Parts of a month and of a day may be a day together.
    let days_over = (seconds_left / DAY_SECONDS).trunc();
    let seconds_left = seconds_left - days_over * DAY_SECONDS;
    let us = by(interval.nanoseconds as f64 / 1e3) + seconds_left * 1e6;
    let us = us.round_ties_even();
    let is_time = us.is_finite() && us.abs() < i64::MAX as f64 / 1e3;
    is_time.then_some(IntervalMonthDayNano {
        months: whole_months,
        days: whole_days
            .checked_add(whole(days_left)?)?
            .checked_add(whole(days_over)?)?,
        nanoseconds: us as i64 * 1_000,
    })
}

/// A difference in microseconds, with whole days.
fn in_days(us: i64) -> Option<IntervalMonthDayNano> {
    let days = i32::try_from(us / DAY_US).ok()?;
    Some(IntervalMonthDayNano::new(0, days, us % DAY_US * 1_000))
}

/// An interval times a number, or divided by one.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Scaled {
    divides: bool,
    signature: Signature,
}

impl Scaled {
    fn new(divides: bool) -> Self {
        Self {
            divides,
            signature: Signature::any(2, Volatility::Immutable),
        }
    }
}

impl ScalarUDFImpl for Scaled {
    fn name(&self) -> &str {
        match self.divides {
            true => "interval_quotient",
            false => "interval_product",
        }
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        let [interval, number] = args else {
            return internal_err!("{} takes two arguments", self.name());
        };
        let sign = if self.divides { '/' } else { '*' };
        Ok(format!(
            "{} {sign} {}",
            interval.schema_name(),
            number.schema_name()
        ))
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(INTERVAL)
    }

    fn evaluate_bounds(&self, _inputs: &[&Interval]) -> Result<Interval> {
        Interval::make_unbounded(&INTERVAL)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        computed(&args.args, |args| {
            let intervals = args[0].as_primitive::<IntervalMonthDayNanoType>();
            let numbers = args[1].as_primitive::<Float64Type>();
            let scaled: IntervalMonthDayNanoArray =
                try_binary(intervals, numbers, |interval, number| match self.divides {
                    true if number == 0.0 => Err(ArrowError::DivideByZero),
                    true => scaled(interval, |part| part / number).ok_or_else(out_of_range),
                    false => scaled(interval, |part| part * number).ok_or_else(out_of_range),
                })?;
            Ok(Arc::new(scaled))
        })
    }
}

/// A difference of moments as an interval.
#[derive(Debug, PartialEq, Eq, Hash)]
struct OfDifference {
    signature: Signature,
}

impl OfDifference {
    fn new() -> Self {
        Self {
            signature: Signature::any(1, Volatility::Immutable),
        }
    }
}

impl ScalarUDFImpl for OfDifference {
    fn name(&self) -> &str {
        "interval_of_difference"
    }

    /// The name of its argument.
    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        match args {
            [difference] => Ok(difference.schema_name().to_string()),
            _ => internal_err!("{} takes one argument", self.name()),
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(INTERVAL)
    }

    fn evaluate_bounds(&self, _inputs: &[&Interval]) -> Result<Interval> {
        Interval::make_unbounded(&INTERVAL)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        computed(&args.args, |args| {
            let micros = DataType::Duration(TimeUnit::Microsecond);
            let micros = cast_with_options(&args[0], &micros, &DEFAULT_CAST_OPTIONS)?;
            let micros = micros.as_primitive::<DurationMicrosecondType>();
            let days: IntervalMonthDayNanoArray =
                try_unary(micros, |us| in_days(us).ok_or_else(out_of_range))?;
            Ok(Arc::new(days))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As PostgreSQL 15 computes them.
    #[test]
    fn what_is_left_of_a_month_is_days_and_of_a_day_time() {
        const HOUR: i64 = 3_600_000_000_000;
        let interval = IntervalMonthDayNano::new;
        let times = |one, factor: f64| scaled(one, |part| part * factor);
        assert_eq!(times(interval(1, 0, 0), 1.5), Some(interval(1, 15, 0)));
        assert_eq!(
            times(interval(1, 1, 0), 0.5),
            Some(interval(0, 15, 12 * HOUR))
        );
        assert_eq!(
            times(interval(0, 1, HOUR), -2.0),
            Some(interval(0, -2, -2 * HOUR))
        );
        assert_eq!(
            times(interval(0, 0, HOUR), 30.0),
            Some(interval(0, 0, 30 * HOUR))
        );
        assert_eq!(times(interval(1, 0, 0), f64::NAN), None);
        assert_eq!(times(interval(i32::MAX, 0, 0), 2.0), None);
        assert_eq!(times(interval(0, 0, i64::MAX), 2.0), None);
        assert_eq!(in_days(-DAY_US - 1), Some(interval(0, -1, -1_000)));
    }
}
