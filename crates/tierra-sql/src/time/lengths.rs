//! Intervals are compared by their lengths, as in PostgreSQL: a month has 30 days, and a day 24 hours.
//!
//! Arrow compares months, then days, then nanoseconds: 25 hours would be less than a day. Here what comparisons, BETWEEN, IN of a list,
//! CASE and ORDER BY compare are the lengths, once type coercion has made intervals of the differences that are compared with one. It
//! refuses windows that are ordered by intervals, so these are changed before ([`OrderedWindows`]). Windows that are ordered by
//! differences of moments, which DataFusion cannot run, are ordered by their numbers.
//!
//! Everything else sees the parts: groups, sets, DISTINCT ON, subqueries after IN, ANY and ALL, MIN and MAX, functions, rows and
//! arrays. So does `=` with a row outside, because the rules that join subqueries group these rows by their parts, and find columns
//! only in plain equalities.

use std::sync::Arc;

use arrow::array::{Array, AsArray, Decimal128Array};
use arrow::datatypes::{DataType, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, internal_err};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::logical_expr::expr::{ScalarFunction, Sort};
use datafusion::logical_expr::interval_arithmetic::Interval;
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, ExprSchemable, LogicalPlan, Operator, ScalarFunctionArgs,
    ScalarUDF, ScalarUDFImpl, Signature, Volatility, WindowFrame, WindowFrameBound,
    WindowFrameUnits, cast,
};
use datafusion::optimizer::AnalyzerRule;

use crate::columnar::computed;
use crate::rules::{is_of_row_outside, map_under_names, schema_below, uses};
use crate::tree::{TreeNode, transform_up_with_subqueries};

/// Nanoseconds, which may be more than 64 bits hold.
const LENGTH: DataType = DataType::Decimal128(38, 0);
const DAY_NS: i128 = 86_400_000_000_000;
const MONTH_DAYS: i128 = 30;

/// Windows that are ordered by intervals are ordered by lengths, and by differences of moments by numbers.
#[derive(Debug)]
pub(crate) struct OrderedWindows;

impl AnalyzerRule for OrderedWindows {
    fn name(&self) -> &str {
        "ordered_windows"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let by_length = |plan: LogicalPlan| match plan {
            LogicalPlan::Window(_) => by_length(plan),
            other => Ok(Transformed::no(other)),
        };
        transform_up_with_subqueries(plan, by_length).map(|ordered| ordered.data)
    }
}

/// The rule for everything else.
#[derive(Debug)]
pub(crate) struct IntervalLengths;

impl AnalyzerRule for IntervalLengths {
    fn name(&self) -> &str {
        "interval_lengths"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        transform_up_with_subqueries(plan, by_length).map(|compared| compared.data)
    }
}

fn by_length(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let reads_interval = |input: &&LogicalPlan| {
        let mut fields = input.schema().fields().iter();
        fields.any(|field| is_interval(field.data_type()))
    };
    if !plan.inputs().iter().any(reads_interval) && !uses(&plan, may_compare)? {
        return Ok(Transformed::no(plan));
    }
    let schema = schema_below(&plan)?;
    let is_sort = matches!(plan, LogicalPlan::Sort(_));
    map_under_names(plan, |expr| {
        let compared = expr.transform_up(|expr| Ok(compared(expr, &schema)))?;
        compared.transform_data(|expr| match is_sort && has_length(&expr, &schema) {
            true => Ok(Transformed::yes(length(expr))),
            false => Ok(Transformed::no(expr)),
        })
    })
}

/// Whether an expression may yield an interval though no column is one, or order by a difference.
fn may_compare(expr: &Expr) -> bool {
    match expr {
        Expr::WindowFunction(_) | Expr::ScalarFunction(_) => true,
        Expr::Literal(value, _) => is_interval(&value.data_type()),
        Expr::Cast(cast) => is_interval(cast.field.data_type()),
        Expr::TryCast(cast) => is_interval(cast.field.data_type()),
        _ => false,
    }
}

pub(super) fn is_interval(ty: &DataType) -> bool {
    matches!(ty, DataType::Interval(IntervalUnit::MonthDayNano))
}

fn has_length(expr: &Expr, schema: &DFSchema) -> bool {
    expr.get_type(schema).is_ok_and(|ty| is_interval(&ty))
}

/// An expression that compares the lengths of intervals instead of intervals.
fn compared(expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    let has_length = |expr: &Expr| has_length(expr, schema);
    match expr {
        Expr::BinaryExpr(mut binary)
            if is_comparison(binary.op)
                && has_length(&binary.left)
                && has_length(&binary.right)
                && !finds_outside(&binary) =>
        {
            to_length(&mut binary.left);
            to_length(&mut binary.right);
            Transformed::yes(Expr::BinaryExpr(binary))
        }
        Expr::Between(mut between)
            if [&between.expr, &between.low, &between.high]
                .into_iter()
                .all(|part| has_length(part)) =>
        {
            for part in [&mut between.expr, &mut between.low, &mut between.high] {
                to_length(part);
            }
            Transformed::yes(Expr::Between(between))
        }
        Expr::InList(mut list) if has_length(&list.expr) && list.list.iter().all(has_length) => {
            to_length(&mut list.expr);
            list.list.iter_mut().for_each(to_length);
            Transformed::yes(Expr::InList(list))
        }
        Expr::Case(mut case)
            if case.expr.as_deref().is_some_and(has_length)
                && case.when_then_expr.iter().all(|(when, _)| has_length(when)) =>
        {
            case.expr
                .iter_mut()
                .for_each(|compared| to_length(compared));
            let whens = case.when_then_expr.iter_mut();
            whens.for_each(|(when, _)| to_length(when));
            Transformed::yes(Expr::Case(case))
        }
        // With DISTINCT what orders has to be an argument.
        Expr::AggregateFunction(mut aggregate) if !aggregate.params.distinct => {
            let is_changed = order_by_length(&mut aggregate.params.order_by, schema);
            changed_if(is_changed, Expr::AggregateFunction(aggregate))
        }
        Expr::WindowFunction(mut window) => {
            let params = &mut window.params;
            let is_changed = !has_offsets(&params.window_frame)
                && (order_by_length(&mut params.order_by, schema)
                    | order_by_number(&mut params.order_by, schema));
            changed_if(is_changed, Expr::WindowFunction(window))
        }
        other => Transformed::no(other),
    }
}

/// Whether an equality is with a row outside, or with a value that stands for one.
fn finds_outside(binary: &BinaryExpr) -> bool {
    let is_outside = |expr: &Expr| match expr {
        Expr::OuterReferenceColumn(..) => true,
        Expr::Column(column) => is_of_row_outside(&column.name),
        _ => false,
    };
    let is_equality = matches!(binary.op, Operator::Eq | Operator::IsNotDistinctFrom);
    is_equality && (is_outside(&binary.left) || is_outside(&binary.right))
}

fn changed_if(is_changed: bool, expr: Expr) -> Transformed<Expr> {
    match is_changed {
        true => Transformed::yes(expr),
        false => Transformed::no(expr),
    }
}

fn is_comparison(op: Operator) -> bool {
    use Operator::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
    matches!(
        op,
        Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom
    )
}

/// Whether a frame is of the values that are so far from the row's: such an offset is an interval, too.
fn has_offsets(frame: &WindowFrame) -> bool {
    let is_offset = |bound: &WindowFrameBound| match bound {
        WindowFrameBound::Preceding(by) | WindowFrameBound::Following(by) => !by.is_null(),
        WindowFrameBound::CurrentRow => false,
    };
    frame.units == WindowFrameUnits::Range
        && [&frame.start_bound, &frame.end_bound]
            .into_iter()
            .any(is_offset)
}

/// Orders by lengths instead of intervals; whether there are any.
fn order_by_length(order: &mut [Sort], schema: &DFSchema) -> bool {
    let intervals = order
        .iter_mut()
        .filter(|sort| has_length(&sort.expr, schema));
    intervals.map(|sort| to_length(&mut sort.expr)).count() > 0
}

/// Orders by numbers instead of differences of moments; whether there are any.
fn order_by_number(order: &mut [Sort], schema: &DFSchema) -> bool {
    let is_span = |sort: &&mut Sort| {
        let ty = sort.expr.get_type(schema);
        ty.is_ok_and(|ty| matches!(ty, DataType::Duration(_)))
    };
    let spans = order.iter_mut().filter(is_span);
    let numbered = spans.map(|sort| {
        let span = std::mem::take(&mut sort.expr);
        sort.expr = cast(span, DataType::Int64);
    });
    numbered.count() > 0
}

fn to_length(expr: &mut Expr) {
    *expr = length(std::mem::take(expr));
}

fn length(expr: Expr) -> Expr {
    let function = Arc::new(ScalarUDF::from(Length::new()));
    Expr::ScalarFunction(ScalarFunction::new_udf(function, vec![expr]))
}

/// The length of an interval in nanoseconds.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Length {
    signature: Signature,
}

impl Length {
    fn new() -> Self {
        Self {
            signature: Signature::any(1, Volatility::Immutable),
        }
    }
}

/// Far from what 128 bits hold.
fn length_ns(interval: IntervalMonthDayNano) -> i128 {
    let days = i128::from(interval.months) * MONTH_DAYS + i128::from(interval.days);
    days * DAY_NS + i128::from(interval.nanoseconds)
}

impl ScalarUDFImpl for Length {
    fn name(&self) -> &str {
        "interval_length"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(LENGTH)
    }

    fn evaluate_bounds(&self, _inputs: &[&Interval]) -> Result<Interval> {
        Interval::make_unbounded(&LENGTH)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        computed(&args.args, |values| {
            let Some(intervals) = values[0].as_primitive_opt::<IntervalMonthDayNanoType>() else {
                return internal_err!("{} of {}", self.name(), values[0].data_type());
            };
            let lengths: Decimal128Array = intervals.unary(length_ns);
            Ok(Arc::new(lengths.with_data_type(LENGTH)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_month_has_30_days_and_a_day_24_hours() {
        let of = |months, days, hours: i64| {
            let interval = IntervalMonthDayNano::new(months, days, hours * 3_600_000_000_000);
            length_ns(interval)
        };
        assert_eq!(of(0, 1, 0), of(0, 0, 24));
        assert_eq!(of(1, 0, -1), of(0, 29, 23));
        let longest = length_ns(IntervalMonthDayNano::new(i32::MAX, i32::MAX, i64::MAX));
        assert!(longest < 10_i128.pow(38));
    }
}
