//! A cast of a number to an integer rounds it, as in PostgreSQL and DuckDB: a DECIMAL and a literal half away from zero, a DOUBLE half to
//! even. Arrow's cast truncates.
//!
//! The rule comes behind type coercion, which casts no number to an integer.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray};
use arrow::compute::unary;
use arrow::datatypes::{DataType, Float32Type, Float64Type};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{ScalarValue, internal_err};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    Cast, ColumnarValue, Expr, ExprSchemable, LogicalPlan, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, TryCast, Volatility, cast,
};
use datafusion::optimizer::AnalyzerRule;

use super::plan::{map_under_names, schema_below, uses};

/// The rule.
#[derive(Debug)]
pub(super) struct RoundedCasts;

impl AnalyzerRule for RoundedCasts {
    fn name(&self) -> &str {
        "rounded_casts"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(rewrite).data()
    }
}

fn rewrite(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    if !uses(&plan, is_to_integer)? {
        return Ok(Transformed::no(plan));
    }
    let schema = schema_below(&plan)?;
    map_under_names(plan, |expr| {
        expr.transform_up(|mut expr| {
            if !is_to_integer(&expr) {
                return Ok(Transformed::no(expr));
            }
            let (Expr::Cast(Cast { expr: value, .. }) | Expr::TryCast(TryCast { expr: value, .. })) =
                &mut expr
            else {
                return Ok(Transformed::no(expr));
            };
            let Some(rounded) = rounded(value, &value.get_type(&schema)?) else {
                return Ok(Transformed::no(expr));
            };
            **value = rounded;
            Ok(Transformed::yes(expr))
        })
    })
}

fn is_to_integer(expr: &Expr) -> bool {
    match expr {
        Expr::Cast(Cast { field, .. }) | Expr::TryCast(TryCast { field, .. }) => {
            field.data_type().is_integer()
        }
        _ => false,
    }
}

/// `value` rounded; `None` if it is rounded already, or no such number.
fn rounded(value: &Expr, ty: &DataType) -> Option<Expr> {
    match (value, ty) {
        (Expr::Literal(ScalarValue::Float64(Some(number)), metadata), _) => {
            let whole = ScalarValue::Float64(Some(number.round()));
            Some(Expr::Literal(whole, metadata.clone()))
        }
        // A cast to a smaller scale rounds.
        (_, DataType::Decimal128(precision, scale)) if *scale > 0 => {
            Some(cast(value.clone(), DataType::Decimal128(*precision, 0)))
        }
        (Expr::ScalarFunction(call), _) if call.func.inner().is::<Rounded>() => None,
        (_, DataType::Float32 | DataType::Float64) => {
            Some(ScalarUDF::from(Rounded::new()).call(vec![value.clone()]))
        }
        _ => None,
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
        let round = |values: &ArrayRef| -> Result<ArrayRef> {
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
        };
        match &args.args[0] {
            ColumnarValue::Array(values) => round(values).map(ColumnarValue::Array),
            ColumnarValue::Scalar(value) => {
                let rounded = round(&value.to_array()?)?;
                ScalarValue::try_from_array(&rounded, 0).map(ColumnarValue::Scalar)
            }
        }
    }

    fn output_ordering(&self, input: &[ExprProperties]) -> Result<SortProperties> {
        Ok(input[0].sort_properties)
    }
}
