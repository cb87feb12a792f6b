//! CEIL and FLOOR of a DECIMAL have one digit more before the point than their argument: `ceil(0.5)` of a DECIMAL(1, 1) is 1.0, a
//! DECIMAL(2, 1). DataFusion's have the type of the argument, in which 1.0 is an overflow.

use std::sync::Arc;

use arrow::datatypes::{DECIMAL128_MAX_PRECISION, DataType};
use datafusion::common::internal_err;
use datafusion::error::Result;
use datafusion::functions::math::{ceil, floor};
use datafusion::logical_expr::interval_arithmetic::Interval;
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};

/// Both functions, under DataFusion's names.
pub(super) fn functions() -> [Arc<ScalarUDF>; 2] {
    [ceil(), floor()].map(|inner| Arc::new(ScalarUDF::from(Whole { inner })))
}

/// The type that holds the result for an argument of type `ty`.
fn widened(ty: &DataType) -> DataType {
    match ty {
        DataType::Decimal128(precision, scale) if *scale > 0 => {
            DataType::Decimal128((*precision + 1).min(DECIMAL128_MAX_PRECISION), *scale)
        }
        other => other.clone(),
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Whole {
    inner: Arc<ScalarUDF>,
}

impl ScalarUDFImpl for Whole {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let types: Vec<DataType> = types.iter().map(widened).collect();
        self.inner.return_type(&types)
    }

    fn is_strict(&self) -> bool {
        self.inner.is_strict()
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [value] = args.args.as_mut_slice() else {
            return internal_err!("{} takes one argument", self.name());
        };
        let (from, to) = (value.data_type(), widened(&value.data_type()));
        if from != to {
            *value = value.cast_to(&to, None)?;
        }
        self.inner.invoke_with_args(args)
    }

    fn output_ordering(&self, input: &[ExprProperties]) -> Result<SortProperties> {
        self.inner.output_ordering(input)
    }

    fn evaluate_bounds(&self, inputs: &[&Interval]) -> Result<Interval> {
        match widened(&inputs[0].data_type()) {
            ty if ty == inputs[0].data_type() => self.inner.evaluate_bounds(inputs),
            ty => Interval::make_unbounded(&ty),
        }
    }
}
