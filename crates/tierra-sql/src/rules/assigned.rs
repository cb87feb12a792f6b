//! The cast of a value to the type of its target column. If it fails, the error names the column and the value.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::DataType;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::common::ScalarValue;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::double_texts::first_out_of_range;
use crate::error::{InsertError, SqlError};
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
        let cast = value.cast_to(&self.to, None);
        if let Ok(cast) = &cast
            && self.to == DataType::Float64
            && value.data_type().is_string()
        {
            let (texts, doubles) = (value.to_array(1)?, cast.to_array(1)?);
            if let Some(at) = first_out_of_range(&texts, &doubles)? {
                let value = ScalarValue::try_from_array(&texts, at)?.to_string();
                return Err(self.refuse(value));
            }
        }
        cast.map_err(|error| {
            let values = match value {
                ColumnarValue::Array(values) => Ok(Arc::clone(values)),
                ColumnarValue::Scalar(value) => value.to_array(),
            };
            match values.ok().and_then(|values| self.first_bad(&values)) {
                Some(value) => self.refuse(value),
                None => error,
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
        let lenient = CastOptions {
            safe: true,
            ..CastOptions::default()
        };
        let cast = cast_with_options(values, &self.to, &lenient).ok()?;
        let bad = (0..values.len()).find(|row| values.is_valid(*row) && cast.is_null(*row))?;
        let shown = ArrayFormatter::try_new(values, &FormatOptions::default()).ok()?;
        Some(shown.value(bad).to_string())
    }
}
