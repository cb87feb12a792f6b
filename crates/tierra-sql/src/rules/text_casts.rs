//! Casts of texts read them as [`text_values`](crate::text_values) does, also in lists.
//!
//! The rule comes behind type coercion, which casts the texts that are compared with other values.

use arrow::array::ArrayRef;
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
use crate::columnar::{computed, in_lists, innermost};
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
        in_lists(texts, to, &|texts, to| match self.is_lenient {
            false => Ok(strict(texts, to)?),
            true => Ok(lenient(texts, to)?),
        })
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
        computed(&args.args, |texts| self.cast(&texts[0], &self.to))
    }
}
