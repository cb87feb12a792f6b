//! A moment with fewer digits than TIMESTAMP has is rounded, as in PostgreSQL. Arrow's cast truncates.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::unary;
use arrow::datatypes::{DataType, TimeUnit, TimestampMicrosecondType};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

/// From which PostgreSQL counts: of two moments as near it takes the one further from it.
const Y2000_US: i64 = 946_684_800_000_000;

/// A moment in microseconds, rounded to a unit that has fewer digits.
pub(super) fn rounded(moment: Expr, unit: TimeUnit) -> Expr {
    ScalarUDF::from(ToDigits::new(unit)).call(vec![moment])
}

pub(super) fn is_rounded(expr: &Expr) -> bool {
    matches!(expr, Expr::ScalarFunction(call) if call.func.inner().is::<ToDigits>())
}

fn nearest(us: i64, unit_us: i64) -> i64 {
    // No moment of the years 1 to 9999 is near the limits of 64 bits.
    let from = us.wrapping_sub(Y2000_US);
    let whole = from.saturating_abs().saturating_add(unit_us / 2) / unit_us * unit_us;
    (whole * from.signum()).wrapping_add(Y2000_US)
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct ToDigits {
    signature: Signature,
    unit: TimeUnit,
}

impl ToDigits {
    fn new(unit: TimeUnit) -> Self {
        Self {
            signature: Signature::any(1, Volatility::Immutable),
            unit,
        }
    }
}

impl ScalarUDFImpl for ToDigits {
    fn name(&self) -> &str {
        "tierra_to_digits"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types[0].clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let unit_us = match self.unit {
            TimeUnit::Second => 1_000_000,
            _ => 1_000,
        };
        let round = |moments: &ArrayRef| -> ArrayRef {
            let moments = moments.as_primitive::<TimestampMicrosecondType>();
            let rounded =
                unary::<_, _, TimestampMicrosecondType>(moments, |us| nearest(us, unit_us));
            Arc::new(rounded.with_data_type(moments.data_type().clone()))
        };
        match &args.args[0] {
            ColumnarValue::Array(moments) => Ok(ColumnarValue::Array(round(moments))),
            ColumnarValue::Scalar(moment) => {
                let rounded = round(&moment.to_array()?);
                ScalarValue::try_from_array(&rounded, 0).map(ColumnarValue::Scalar)
            }
        }
    }

    fn output_ordering(&self, input: &[ExprProperties]) -> Result<SortProperties> {
        Ok(input[0].sort_properties)
    }
}
