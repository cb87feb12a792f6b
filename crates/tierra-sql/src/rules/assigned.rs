//! The cast of a value to the type of its target column. If it fails, the error names the column and the value.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::common::ScalarValue;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use crate::error::{InsertError, SqlError};
use crate::text_values::{lenient, strict};
use crate::time::{is_moment, texts_of};
use crate::types::name_of;

/// `value` as a value of type `to`, the type of column `column`.
pub(super) fn assigned(value: Expr, column: &str, to: &DataType) -> Expr {
    let cast = Assigned {
        signature: Signature::any(1, Volatility::Immutable),
        column: column.to_string(),
        to: to.clone(),
    };
    ScalarUDF::from(cast).call(vec![value])
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Assigned {
    signature: Signature,
    column: String,
    to: DataType,
}

impl ScalarUDFImpl for Assigned {
    fn name(&self) -> &str {
        "tierra_assigned"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(self.to.clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let value = &args.args[0];
        let values = match value {
            ColumnarValue::Array(values) => Arc::clone(values),
            ColumnarValue::Scalar(value) => value.to_array()?,
        };
        let from = values.data_type();
        let cast = match from.is_string() {
            true => strict(&values, &self.to).map_err(Into::into),
            false if self.to.is_string() && is_moment(from) => texts_of(&values, &self.to),
            false => value
                .cast_to(&self.to, None)
                .and_then(|cast| cast.to_array(values.len())),
        };
        let cast = cast.map_err(|error| match self.first_bad(&values) {
            Some(value) => self.refuse(value),
            None => error,
        })?;
        Ok(match value {
            ColumnarValue::Array(_) => ColumnarValue::Array(cast),
            ColumnarValue::Scalar(_) => {
                ColumnarValue::Scalar(ScalarValue::try_from_array(&cast, 0)?)
            }
        })
    }
}

impl Assigned {
    /// The error that `value` is not one of the column.
    fn refuse(&self, value: String) -> DataFusionError {
        DataFusionError::External(Box::new(SqlError::Insert(InsertError::Value {
            column: self.column.clone(),
            value,
            expected: name_of(&self.to),
        })))
    }

    /// The first of `values` that cannot be cast.
    fn first_bad(&self, values: &ArrayRef) -> Option<String> {
        let cast = match values.data_type().is_string() {
            true => lenient(values, &self.to),
            // What cannot be cast becomes NULL.
            false => cast(values, &self.to),
        };
        let cast = cast.ok()?;
        let bad = (0..values.len()).find(|row| values.is_valid(*row) && cast.is_null(*row))?;
        let shown = ArrayFormatter::try_new(values, &FormatOptions::default()).ok()?;
        Some(shown.value(bad).to_string())
    }
}
