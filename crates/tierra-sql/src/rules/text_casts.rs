//! Casts of texts read them as [`text_values`](crate::text_values) does, also in lists.
//!
//! The rule comes behind type coercion, which casts the texts that are compared with other values.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::logical_expr::{
    Cast, ColumnarValue, Expr, ExprSchemable, LogicalPlan, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, TryCast, Volatility,
};
use datafusion::optimizer::AnalyzerRule;

use super::doubles::is_double;
use super::plan::{map_under_names, schema_below, uses};
use crate::text_values::{Target, lenient, strict};
use crate::tree::{TreeNode, transform_up_with_subqueries};

/// The rule.
#[derive(Debug)]
pub(super) struct TextCasts;

impl AnalyzerRule for TextCasts {
    fn name(&self) -> &str {
        "text_casts"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        transform_up_with_subqueries(plan, rewrite).data()
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
            // Scans and other rules look for literals.
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
                false => Ok(strict(texts, to)?),
                true => Ok(lenient(texts, to)?),
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
