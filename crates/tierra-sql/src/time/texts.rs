//! The text of a timestamp, a time of day or an interval is PostgreSQL's: `2024-01-05 10:00:00.5`, `1 day 02:00:00`. Arrow writes
//! `2024-01-05T10:00:00.500` and `1 days 2 hours`.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray, StringBuilder, new_null_array,
};
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, DurationMicrosecondType, IntervalMonthDayNano, IntervalMonthDayNanoType,
    IntervalUnit, Time64MicrosecondType, TimeUnit, TimestampMicrosecondType,
};
use datafusion::common::internal_err;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::logical_expr::{
    Cast, ColumnarValue, Expr, ExprSchemable, LogicalPlan, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, TryCast, Volatility,
};
use datafusion::optimizer::AnalyzerRule;

use crate::columnar::computed;
use crate::moment_texts::{put_interval, put_time, put_timestamp};
use crate::rules::{map_under_names, schema_below, uses};
use crate::tree::{TreeNode, transform_up_with_subqueries};

/// The rule. It comes behind type coercion, which casts what functions of texts are called with.
#[derive(Debug)]
pub(crate) struct MomentTexts;

impl AnalyzerRule for MomentTexts {
    fn name(&self) -> &str {
        "moment_texts"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        transform_up_with_subqueries(plan, rewrite).data()
    }
}

fn rewrite(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    if !uses(&plan, |expr| cast_to_text(expr).is_some())? {
        return Ok(Transformed::no(plan));
    }
    let schema = schema_below(&plan)?;
    map_under_names(plan, |expr| {
        expr.transform_up(|expr| {
            let Some((value, text)) = cast_to_text(&expr) else {
                return Ok(Transformed::no(expr));
            };
            if !value.get_type(&schema).is_ok_and(|ty| is_moment(&ty)) {
                return Ok(Transformed::no(expr));
            }
            let function = ScalarUDF::from(MomentText::new(text));
            Ok(Transformed::yes(function.call(vec![value.clone()])))
        })
    })
}

/// The operand of a cast to a text, and the type of the text.
fn cast_to_text(expr: &Expr) -> Option<(&Expr, &DataType)> {
    let (value, field) = match expr {
        Expr::Cast(Cast { expr, field }) => (expr, field),
        Expr::TryCast(TryCast { expr, field }) => (expr, field),
        _ => return None,
    };
    let ty = field.data_type();
    ty.is_string().then_some((value.as_ref(), ty))
}

/// A timestamp, a time of day, an interval, or a difference of timestamps.
pub(crate) fn is_moment(ty: &DataType) -> bool {
    matches!(
        ty,
        DataType::Timestamp(_, _)
            | DataType::Time64(_)
            | DataType::Interval(IntervalUnit::MonthDayNano)
            | DataType::Duration(_)
    )
}

/// The texts of values of such a type, as arrays of type `text`.
pub(crate) fn texts_of(moments: &ArrayRef, text: &DataType) -> Result<ArrayRef> {
    const MICROS: TimeUnit = TimeUnit::Microsecond;
    let micros = match moments.data_type() {
        DataType::Timestamp(_, zone) => cast(moments, &DataType::Timestamp(MICROS, zone.clone()))?,
        DataType::Time64(_) => cast(moments, &DataType::Time64(MICROS))?,
        DataType::Duration(_) => cast(moments, &DataType::Duration(MICROS))?,
        _ => Arc::clone(moments),
    };
    let texts = match micros.data_type() {
        DataType::Timestamp(_, zone) => texts(
            micros.as_primitive::<TimestampMicrosecondType>(),
            |us, text| put_timestamp(us, zone.is_some(), text),
        ),
        DataType::Interval(IntervalUnit::MonthDayNano) => texts(
            micros.as_primitive::<IntervalMonthDayNanoType>(),
            put_interval,
        ),
        DataType::Time64(_) => texts(micros.as_primitive::<Time64MicrosecondType>(), put_time),
        DataType::Duration(_) => texts(
            micros.as_primitive::<DurationMicrosecondType>(),
            |us, text| put_interval(in_days(us), text),
        ),
        other => return internal_err!("{other} is no moment"),
    };
    Ok(cast(&texts, text)?)
}

/// A difference of timestamps as an interval: whole days, and the rest.
fn in_days(us: i64) -> IntervalMonthDayNano {
    const DAY_US: i64 = 86_400_000_000;
    // The days of 64 bits of microseconds fit 32 bits, and the nanoseconds of a day 64.
    IntervalMonthDayNano::new(0, (us / DAY_US) as i32, us % DAY_US * 1_000)
}

/// The cast.
#[derive(Debug, PartialEq, Eq, Hash)]
struct MomentText {
    signature: Signature,
    text: DataType,
}

impl MomentText {
    fn new(text: &DataType) -> Self {
        Self {
            signature: Signature::any(1, Volatility::Immutable),
            text: text.clone(),
        }
    }
}

impl ScalarUDFImpl for MomentText {
    fn name(&self) -> &str {
        "tierra_text_of_moment"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(self.text.clone())
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        computed(&args.args, |moments| match moments[0].data_type() {
            // The optimiser tries functions with NULLs that have no type.
            DataType::Null => Ok(new_null_array(&self.text, moments[0].len())),
            _ => texts_of(&moments[0], &self.text),
        })
    }
}

fn texts<T: ArrowPrimitiveType>(
    moments: &PrimitiveArray<T>,
    put: impl Fn(T::Native, &mut String),
) -> ArrayRef {
    const TYPICAL_BYTES: usize = 20;
    let mut texts = StringBuilder::with_capacity(moments.len(), moments.len() * TYPICAL_BYTES);
    let mut text = String::new();
    for moment in moments {
        match moment {
            Some(moment) => {
                text.clear();
                put(moment, &mut text);
                texts.append_value(&text);
            }
            None => texts.append_null(),
        }
    }
    Arc::new(texts.finish())
}
