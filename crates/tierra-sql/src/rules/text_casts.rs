//! Casts of texts, where Arrow's are not SQL's.
//!
//! Arrow's cast makes `'1e400'` infinite and `'1e-400'` 0. As in PostgreSQL, and as when a file is read, both are errors here; TRY_CAST
//! makes them NULL, also in lists. It refuses dates and times that PostgreSQL reads ([`moments`]), and takes a number without a unit for
//! an interval of months. The rule comes behind type coercion, which casts the texts that are compared with other values.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Date32Array, IntervalMonthDayNanoArray, ListArray, StringViewArray,
    TimestampMicrosecondArray,
};
use arrow::buffer::OffsetBuffer;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type, IntervalUnit, TimeUnit};
use arrow::error::ArrowError;
use datafusion::common::ScalarValue;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{
    Cast, ColumnarValue, Expr, ExprSchemable, LogicalPlan, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, TryCast, Volatility,
};
use datafusion::optimizer::AnalyzerRule;

use super::doubles::is_double;
use super::plan::{map_under_names, schema_below, uses};
use crate::double_text::is_out_of_range;
use crate::moments;

/// The rule.
#[derive(Debug)]
pub(super) struct TextCasts;

impl AnalyzerRule for TextCasts {
    fn name(&self) -> &str {
        "text_casts"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(rewrite).data()
    }
}

fn rewrite(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    if !uses(&plan, |expr| cast_of(expr).is_some())? {
        return Ok(Transformed::no(plan));
    }
    let schema = schema_below(&plan)?;
    map_under_names(plan, |expr| {
        expr.transform_up(|expr| {
            let Some((value, to, is_lenient)) = cast_of(&expr) else {
                return Ok(Transformed::no(expr));
            };
            if !value
                .get_type(&schema)
                .is_ok_and(|from| are_texts(&from, to))
            {
                return Ok(Transformed::no(expr));
            }
            // Rules and scans read plain casts of literals.
            if let Expr::Literal(text, _) = value
                && !is_double(to)
            {
                let read = TextCast::new(to, is_lenient).cast(&text.to_array()?, to);
                return Ok(match read {
                    Ok(read) => {
                        let read = ScalarValue::try_from_array(&read, 0)?;
                        Transformed::yes(Expr::Literal(read, None))
                    }
                    // It may be in a place that no row reaches.
                    Err(_) => Transformed::no(expr),
                });
            }
            let function = ScalarUDF::from(TextCast::new(to, is_lenient));
            Ok(Transformed::yes(function.call(vec![value.clone()])))
        })
    })
}

/// The operand of a cast that Arrow does in another way, its type, and whether it is TRY_CAST.
fn cast_of(expr: &Expr) -> Option<(&Expr, &DataType, bool)> {
    let (value, field, is_lenient) = match expr {
        Expr::Cast(Cast { expr, field }) => (expr, field, false),
        Expr::TryCast(TryCast { expr, field }) => (expr, field, true),
        _ => return None,
    };
    let is_ours = Target::of(innermost(field.data_type())).is_some();
    is_ours.then_some((value.as_ref(), field.data_type(), is_lenient))
}

/// Whether `expr` is such a cast, and an error for some texts.
pub(super) fn is_strict_cast(expr: &Expr) -> bool {
    matches!(expr, Expr::ScalarFunction(call) if is_strict(&call.func))
}

/// Whether `function` is such a cast, and an error for some texts.
pub(super) fn is_strict(function: &ScalarUDF) -> bool {
    let cast = function.inner().downcast_ref::<TextCast>();
    cast.is_some_and(|cast| !cast.is_lenient)
}

/// The type of what a list contains, and so on.
fn innermost(ty: &DataType) -> &DataType {
    match ty {
        DataType::List(item) => innermost(item.data_type()),
        ty => ty,
    }
}

/// Whether values of type `from` are texts where those of type `to` are not.
fn are_texts(from: &DataType, to: &DataType) -> bool {
    match (from, to) {
        (DataType::List(from), DataType::List(to)) => are_texts(from.data_type(), to.data_type()),
        (from, to) => from.is_string() && Target::of(to).is_some(),
    }
}

/// What a text is cast to.
#[derive(Clone, Copy)]
enum Target {
    Double,
    Date,
    Timestamp,
    Interval,
}

impl Target {
    fn of(ty: &DataType) -> Option<Self> {
        match ty {
            ty if is_double(ty) => Some(Self::Double),
            DataType::Date32 => Some(Self::Date),
            DataType::Timestamp(TimeUnit::Microsecond, _) => Some(Self::Timestamp),
            DataType::Interval(IntervalUnit::MonthDayNano) => Some(Self::Interval),
            _ => None,
        }
    }
}

/// Casts `texts` to `to`, a type of no list.
///
/// # Errors
/// A text is no value of the type.
pub(super) fn strict(texts: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    let arrow = |texts: &ArrayRef| {
        let value = ColumnarValue::Array(Arc::clone(texts));
        value.cast_to(to, None)?.to_array(texts.len())
    };
    match Target::of(to) {
        None => arrow(texts),
        Some(Target::Double) => {
            let doubles = arrow(texts)?;
            match first_out_of_range(texts, &doubles)? {
                None => Ok(doubles),
                Some(at) => {
                    let text = ScalarValue::try_from_array(texts, at)?;
                    let message = format!("'{text}' is out of the range of DOUBLE");
                    let error = ArrowError::ArithmeticOverflow(message);
                    Err(DataFusionError::ArrowError(Box::new(error), None))
                }
            }
        }
        Some(_) => {
            let values = lenient(texts, to)?;
            let is_refused = |at: &usize| values.is_null(*at) && texts.is_valid(*at);
            match (0..texts.len()).find(is_refused) {
                None => Ok(values),
                // Its error says what is wrong with the text.
                Some(at) => arrow(&texts.slice(at, 1)).and_then(|_| {
                    let text = ScalarValue::try_from_array(texts, at)?;
                    let message = format!("'{text}' is no {to}");
                    let error = ArrowError::ParseError(message);
                    Err(DataFusionError::ArrowError(Box::new(error), None))
                }),
            }
        }
    }
}

/// Casts `texts` to `to`, a type of no list; texts that are no values of the type become NULL.
pub(super) fn lenient(texts: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    let Some(target) = Target::of(to) else {
        return Ok(cast(texts, to)?);
    };
    let values = match target {
        Target::Interval => {
            let texts = cast(texts, &DataType::Utf8View)?;
            let read = |text: Option<&str>| text.and_then(moments::interval);
            let values = texts.as_string_view().iter().map(read);
            return Ok(Arc::new(IntervalMonthDayNanoArray::from_iter(values)));
        }
        Target::Double => return lenient_doubles(texts, to),
        Target::Date | Target::Timestamp => cast(texts, to)?,
    };
    if values.null_count() == texts.null_count() {
        return Ok(values);
    }
    let texts = cast(texts, &DataType::Utf8View)?;
    let texts: &StringViewArray = texts.as_string_view();
    let each = (0..texts.len()).map(|at| (at, texts.is_valid(at).then(|| texts.value(at))));
    Ok(match target {
        Target::Date => {
            let read = values.as_primitive::<arrow::datatypes::Date32Type>();
            let values = each.map(|(at, text)| match read.is_valid(at) {
                true => Some(read.value(at)),
                false => text.and_then(moments::date),
            });
            Arc::new(Date32Array::from_iter(values))
        }
        _ => {
            let read = values.as_primitive::<arrow::datatypes::TimestampMicrosecondType>();
            let values = each.map(|(at, text)| match read.is_valid(at) {
                true => Some(read.value(at)),
                // As Arrow, which heeds an offset.
                false => text.and_then(moments::in_four_digits),
            });
            let values = TimestampMicrosecondArray::from_iter(values);
            Arc::new(values.with_data_type(to.clone()))
        }
    })
}

fn lenient_doubles(texts: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    let doubles = cast(texts, to)?;
    if first_out_of_range(texts, &doubles)?.is_none() {
        return Ok(doubles);
    }
    let mut values = Vec::with_capacity(doubles.len());
    for at in 0..doubles.len() {
        let is_out = first_out_of_range(&texts.slice(at, 1), &doubles.slice(at, 1))?.is_some();
        values.push(match is_out {
            true => ScalarValue::try_from(to)?,
            false => ScalarValue::try_from_array(&doubles, at)?,
        });
    }
    ScalarValue::iter_to_array(values)
}

/// The first of `texts` whose number is out of the range of `doubles`, as which they were read.
fn first_out_of_range(texts: &ArrayRef, doubles: &ArrayRef) -> Result<Option<usize>> {
    let doubles = cast(doubles, &DataType::Float64)?;
    let doubles = doubles.as_primitive::<Float64Type>();
    let may_be = |at: &usize| {
        let value = doubles.value(*at);
        doubles.is_valid(*at) && (value == 0.0 || value.is_infinite())
    };
    let mut suspects = (0..doubles.len()).filter(may_be).peekable();
    if suspects.peek().is_none() {
        return Ok(None);
    }
    let texts = cast(texts, &DataType::Utf8View)?;
    let texts = texts.as_string_view();
    Ok(suspects.find(|&at| is_out_of_range(texts.value(at), doubles.value(at))))
}

/// The cast, also of lists.
#[derive(Debug, PartialEq, Eq, Hash)]
struct TextCast {
    signature: Signature,
    to: DataType,
    is_lenient: bool,
}

impl TextCast {
    fn new(to: &DataType, is_lenient: bool) -> Self {
        Self {
            signature: Signature::any(1, Volatility::Immutable),
            to: to.clone(),
            is_lenient,
        }
    }

    fn cast(&self, texts: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
        let DataType::List(item) = to else {
            return match self.is_lenient {
                false => strict(texts, to),
                true => lenient(texts, to),
            };
        };
        let lists = texts.as_list::<i32>();
        let offsets = lists.offsets();
        let first = offsets.first().map_or(0, |first| *first as usize);
        let count = offsets.lengths().sum();
        let items = self.cast(&lists.values().slice(first, count), item.data_type())?;
        let lists = ListArray::try_new(
            Arc::clone(item),
            OffsetBuffer::from_lengths(offsets.lengths()),
            items,
            lists.nulls().cloned(),
        );
        Ok(Arc::new(lists?))
    }
}

impl ScalarUDFImpl for TextCast {
    fn name(&self) -> &str {
        match Target::of(innermost(&self.to)) {
            Some(Target::Date) => "tierra_date_of_text",
            Some(Target::Timestamp) => "tierra_timestamp_of_text",
            Some(Target::Interval) => "tierra_interval_of_text",
            _ => "tierra_double_of_text",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(self.to.clone())
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_scalar = matches!(args.args[0], ColumnarValue::Scalar(_));
        let texts = args.args[0].to_array(if is_scalar { 1 } else { args.number_rows })?;
        let values = self.cast(&texts, &self.to)?;
        Ok(match is_scalar {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&values, 0)?),
            false => ColumnarValue::Array(values),
        })
    }
}
