//! `to_timestamp` in microseconds. DataFusion's parses and computes in nanoseconds.

use arrow::datatypes::{DECIMAL128_MAX_PRECISION, DataType, TimeUnit};
use datafusion::common::exec_err;
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::functions::datetime::to_timestamp::{ToTimestampFunc, ToTimestampMicrosFunc};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDFImpl, Signature,
};

const MICROS: DataType = DataType::Timestamp(TimeUnit::Microsecond, None);

/// The function for text, seconds, dates and timestamps.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct ToTimestamp {
    nanos: ToTimestampFunc,
    /// DataFusion's function, for text in a given format.
    formatted: ToTimestampMicrosFunc,
}

impl ToTimestamp {
    pub(super) fn new() -> Self {
        let options = ConfigOptions::default();
        Self {
            nanos: ToTimestampFunc::new_with_config(&options),
            formatted: ToTimestampMicrosFunc::new_with_config(&options),
        }
    }
}

impl ScalarUDFImpl for ToTimestamp {
    fn name(&self) -> &str {
        self.nanos.name()
    }

    fn signature(&self) -> &Signature {
        self.nanos.signature()
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(MICROS)
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if args.args.len() != 1 {
            return self.formatted.invoke_with_args(args);
        }
        let value = args.args.remove(0);
        match value.data_type() {
            ty if ty.is_integer() => value
                .cast_to(&DataType::Timestamp(TimeUnit::Second, None), None)?
                .cast_to(&MICROS, None),
            // Rounded to microseconds. A double counts 9e15 of them exactly, more than the seconds of a TIMESTAMP's years.
            ty if ty.is_floating() || ty.is_decimal() => {
                let seconds = DataType::Decimal128(DECIMAL128_MAX_PRECISION, 6);
                let micros = DataType::Decimal128(DECIMAL128_MAX_PRECISION, 0);
                let seconds = value.cast_to(&seconds, None)?;
                relabelled(seconds, &micros)?
                    .cast_to(&DataType::Int64, None)?
                    .cast_to(&MICROS, None)
            }
            DataType::Null
            | DataType::Timestamp(_, _)
            | DataType::Date32
            | DataType::Date64
            | DataType::Utf8
            | DataType::Utf8View
            | DataType::LargeUtf8 => value.cast_to(&MICROS, None),
            other => exec_err!("to_timestamp of {other} is not supported"),
        }
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.nanos.documentation()
    }
}

/// The digits of a decimal, taken as those of a decimal of another scale.
fn relabelled(value: ColumnarValue, ty: &DataType) -> Result<ColumnarValue> {
    use arrow::array::AsArray;
    use arrow::datatypes::Decimal128Type;
    use datafusion::common::ScalarValue;
    Ok(match value {
        ColumnarValue::Scalar(ScalarValue::Decimal128(digits, precision, _)) => {
            ColumnarValue::Scalar(ScalarValue::Decimal128(digits, precision, 0))
        }
        ColumnarValue::Array(values) => {
            let values = values.as_primitive::<Decimal128Type>().clone();
            ColumnarValue::Array(std::sync::Arc::new(values.with_data_type(ty.clone())))
        }
        other => other,
    })
}
