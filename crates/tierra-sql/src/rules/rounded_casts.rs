//! A cast of a number to an integer rounds it, as in PostgreSQL and DuckDB: a DECIMAL and a literal half away from zero, a DOUBLE half to
//! even, also in lists. Arrow's cast truncates.
//!
//! A cast of a DECIMAL to fewer digits after the point is a function. DataFusion moves casts in comparisons to the other side: it took
//! `CAST(x AS DECIMAL(9, 0)) = 2` for `x = 2.00`, though 1.5 and 2.49 become 2 as well.
//!
//! The rule comes behind type coercion, which casts no number to an integer.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray};
use arrow::compute::{CastOptions, cast_with_options, unary};
use arrow::datatypes::{DataType, Float32Type, Float64Type};
use datafusion::common::format::DEFAULT_CAST_OPTIONS;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::common::{ScalarValue, internal_err};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    Cast, ColumnarValue, Expr, ExprSchemable, LogicalPlan, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, TryCast, Volatility,
};
use datafusion::optimizer::AnalyzerRule;

use super::plan::{map_under_names, schema_below, uses};
use crate::columnar::{computed, in_lists, innermost};
use crate::tree::{TreeNode, transform_up_with_subqueries};

/// The rule.
#[derive(Debug)]
pub(super) struct RoundedCasts;

impl AnalyzerRule for RoundedCasts {
    fn name(&self) -> &str {
        "rounded_casts"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        transform_up_with_subqueries(plan, rewrite).data()
    }
}

fn rewrite(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    if !uses(&plan, may_round)? {
        return Ok(Transformed::no(plan));
    }
    let schema = schema_below(&plan)?;
    map_under_names(plan, |expr| {
        expr.transform_up(|mut expr| {
            if !may_round(&expr) {
                return Ok(Transformed::no(expr));
            }
            let fails = matches!(expr, Expr::Cast(_));
            let (Expr::Cast(Cast { expr: value, field })
            | Expr::TryCast(TryCast { expr: value, field })) = &mut expr
            else {
                return Ok(Transformed::no(expr));
            };
            let (from, to) = (value.get_type(&schema)?, field.data_type());
            if let DataType::List(_) = to {
                if !are_rounded(&from, to) {
                    return Ok(Transformed::no(expr));
                }
                let cast = ScalarUDF::from(ItemsCast::new(to.clone(), fails));
                return Ok(Transformed::yes(cast.call(vec![value.as_ref().clone()])));
            }
            if !to.is_integer() {
                let has_fewer = scale(&from)
                    .zip(scale(to))
                    .is_some_and(|(from, to)| to < from);
                return Ok(match has_fewer {
                    true => Transformed::yes(to_digits(value, to.clone(), fails)),
                    false => Transformed::no(expr),
                });
            }
            let Some(rounded) = rounded(value, &from, fails) else {
                return Ok(Transformed::no(expr));
            };
            **value = rounded;
            Ok(Transformed::yes(expr))
        })
    })
}

fn may_round(expr: &Expr) -> bool {
    match expr {
        Expr::Cast(Cast { field, .. }) | Expr::TryCast(TryCast { field, .. }) => {
            let to = innermost(field.data_type());
            to.is_integer() || scale(to).is_some()
        }
        _ => false,
    }
}

/// Whether lists of one type are rounded to be lists of the other.
fn are_rounded(from: &DataType, to: &DataType) -> bool {
    match (from, to) {
        (DataType::List(from), DataType::List(to)) => are_rounded(from.data_type(), to.data_type()),
        (from, to) if to.is_integer() => {
            from.is_floating() || scale(from).is_some_and(|digits| digits > 0)
        }
        (from, to) => scale(from)
            .zip(scale(to))
            .is_some_and(|(from, to)| to < from),
    }
}

/// Digits after the point of a DECIMAL.
fn scale(ty: &DataType) -> Option<i8> {
    match ty {
        DataType::Decimal128(_, scale) | DataType::Decimal256(_, scale) => Some(*scale),
        _ => None,
    }
}

/// `value` rounded; `None` if it is rounded already, or no such number. What does not fit is an error if the cast `fails` on it.
fn rounded(value: &Expr, ty: &DataType, fails: bool) -> Option<Expr> {
    match (value, ty) {
        (Expr::Literal(ScalarValue::Float64(Some(number)), metadata), _) => {
            let whole = ScalarValue::Float64(Some(number.round()));
            Some(Expr::Literal(whole, metadata.clone()))
        }
        (_, DataType::Decimal128(precision, scale)) if *scale > 0 => {
            Some(to_digits(value, DataType::Decimal128(*precision, 0), fails))
        }
        (Expr::ScalarFunction(call), _) if call.func.inner().is::<Rounded>() => None,
        (_, DataType::Float32 | DataType::Float64) => {
            Some(ScalarUDF::from(Rounded::new()).call(vec![value.clone()]))
        }
        _ => None,
    }
}

/// A DECIMAL as one of fewer digits after the point.
fn to_digits(value: &Expr, decimal: DataType, fails: bool) -> Expr {
    ScalarUDF::from(ToDigits::new(decimal, fails)).call(vec![value.clone()])
}

/// The cast, which rounds half away from zero.
#[derive(Debug, PartialEq, Eq, Hash)]
struct ToDigits {
    signature: Signature,
    decimal: DataType,
    /// Whether a value that does not fit is an error, or NULL.
    fails: bool,
}

impl ToDigits {
    fn new(decimal: DataType, fails: bool) -> Self {
        Self {
            signature: Signature::any(1, Volatility::Immutable),
            decimal,
            fails,
        }
    }
}

impl ScalarUDFImpl for ToDigits {
    fn name(&self) -> &str {
        "tierra_decimal_to_digits"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(self.decimal.clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        args.args[0].cast_to(&self.decimal, Some(&options(self.fails)))
    }

    fn output_ordering(&self, input: &[ExprProperties]) -> Result<SortProperties> {
        // NULL may stand anywhere.
        Ok(match self.fails {
            true => input[0].sort_properties,
            false => SortProperties::Unordered,
        })
    }
}

/// The whole number that is nearest to a DOUBLE, of two the even one.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Rounded {
    signature: Signature,
}

impl Rounded {
    fn new() -> Self {
        Self {
            signature: Signature::any(1, Volatility::Immutable),
        }
    }
}

impl ScalarUDFImpl for Rounded {
    fn name(&self) -> &str {
        "rounded"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types[0].clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        computed(&args.args, |values| round(&values[0]))
    }

    fn output_ordering(&self, input: &[ExprProperties]) -> Result<SortProperties> {
        Ok(input[0].sort_properties)
    }
}

/// DOUBLEs as whole numbers.
fn round(values: &ArrayRef) -> Result<ArrayRef> {
    Ok(match values.data_type() {
        DataType::Float64 => Arc::new(unary::<_, _, Float64Type>(
            values.as_primitive::<Float64Type>(),
            f64::round_ties_even,
        )),
        DataType::Float32 => Arc::new(unary::<_, _, Float32Type>(
            values.as_primitive::<Float32Type>(),
            f32::round_ties_even,
        )),
        other => return internal_err!("{other} is rounded"),
    })
}

fn options(fails: bool) -> CastOptions<'static> {
    CastOptions {
        safe: !fails,
        ..DEFAULT_CAST_OPTIONS
    }
}

/// The cast of lists of numbers.
#[derive(Debug, PartialEq, Eq, Hash)]
struct ItemsCast {
    signature: Signature,
    to: DataType,
    /// Whether a value that does not fit is an error, or NULL.
    fails: bool,
}

impl ItemsCast {
    fn new(to: DataType, fails: bool) -> Self {
        Self {
            signature: Signature::any(1, Volatility::Immutable),
            to,
            fails,
        }
    }
}

impl ScalarUDFImpl for ItemsCast {
    fn name(&self) -> &str {
        "tierra_rounded_items"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(self.to.clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let options = options(self.fails);
        computed(&args.args, |lists| {
            in_lists(&lists[0], &self.to, &|items, to| {
                let whole = match items.data_type() {
                    DataType::Float64 | DataType::Float32 => round(items)?,
                    // A cast to fewer digits rounds.
                    DataType::Decimal128(precision, _) if to.is_integer() => {
                        let decimal = DataType::Decimal128(*precision, 0);
                        cast_with_options(items, &decimal, &options)?
                    }
                    _ => Arc::clone(items),
                };
                Ok(cast_with_options(&whole, to, &options)?)
            })
        })
    }
}
