//! A text is cast to DOUBLE only if a DOUBLE is near to its number.
//!
//! Arrow's cast makes `'1e400'` infinite and `'1e-400'` 0. As in PostgreSQL, and as when a file is read, both are errors here; TRY_CAST
//! makes them NULL, also in lists. The rule comes behind type coercion, which casts the texts that are compared with doubles.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray};
use arrow::buffer::OffsetBuffer;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type};
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

/// The rule.
#[derive(Debug)]
pub(super) struct DoubleTexts;

impl AnalyzerRule for DoubleTexts {
    fn name(&self) -> &str {
        "double_texts"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(rewrite).data()
    }
}

fn rewrite(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    if !uses(&plan, |expr| double_cast(expr).is_some())? {
        return Ok(Transformed::no(plan));
    }
    let schema = schema_below(&plan)?;
    map_under_names(plan, |expr| {
        expr.transform_up(|expr| {
            let Some((value, to, is_lenient)) = double_cast(&expr) else {
                return Ok(Transformed::no(expr));
            };
            if !value
                .get_type(&schema)
                .is_ok_and(|from| are_texts(&from, to))
            {
                return Ok(Transformed::no(expr));
            }
            let function = ScalarUDF::from(DoubleOfText {
                signature: Signature::any(1, Volatility::Immutable),
                to: to.clone(),
                is_lenient,
            });
            Ok(Transformed::yes(function.call(vec![value.clone()])))
        })
    })
}

/// The operand of a cast to a double, its type, and whether it is TRY_CAST.
fn double_cast(expr: &Expr) -> Option<(&Expr, &DataType, bool)> {
    let (value, field, is_lenient) = match expr {
        Expr::Cast(Cast { expr, field }) => (expr, field, false),
        Expr::TryCast(TryCast { expr, field }) => (expr, field, true),
        _ => return None,
    };
    let is_of_doubles = is_double(innermost(field.data_type()));
    is_of_doubles.then_some((value.as_ref(), field.data_type(), is_lenient))
}

/// The type of what a list contains, and so on.
fn innermost(ty: &DataType) -> &DataType {
    match ty {
        DataType::List(item) => innermost(item.data_type()),
        ty => ty,
    }
}

/// Whether values of type `from` are texts where those of type `to` are doubles.
fn are_texts(from: &DataType, to: &DataType) -> bool {
    match (from, to) {
        (DataType::List(from), DataType::List(to)) => are_texts(from.data_type(), to.data_type()),
        (from, to) => from.is_string() && is_double(to),
    }
}

/// The first of `texts` whose number is out of the range of `doubles`, as which they were read.
pub(super) fn first_out_of_range(texts: &ArrayRef, doubles: &ArrayRef) -> Result<Option<usize>> {
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

/// The cast, which checks what it makes.
#[derive(Debug, PartialEq, Eq, Hash)]
struct DoubleOfText {
    signature: Signature,
    to: DataType,
    is_lenient: bool,
}

impl ScalarUDFImpl for DoubleOfText {
    fn name(&self) -> &str {
        "tierra_double_of_text"
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
        let doubles = self.cast(&texts, &self.to)?;
        Ok(match is_scalar {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&doubles, 0)?),
            false => ColumnarValue::Array(doubles),
        })
    }
}

impl DoubleOfText {
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

fn strict(texts: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    let value = ColumnarValue::Array(Arc::clone(texts));
    let doubles = value.cast_to(to, None)?.to_array(texts.len())?;
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

fn lenient(texts: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
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
