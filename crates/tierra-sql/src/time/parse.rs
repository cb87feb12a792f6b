//! `to_timestamp` in microseconds, and `to_date`. DataFusion's parse and compute in nanoseconds, and know other formats
//! ([`from_char`](super::from_char)).

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Date32Array, TimestampMicrosecondArray};
use arrow::datatypes::{DECIMAL128_MAX_PRECISION, DataType, Decimal128Type, TimeUnit};
use datafusion::common::{ScalarValue, exec_err};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::functions::datetime::to_date::ToDateFunc;
use datafusion::functions::datetime::to_timestamp::{ToTimestampFunc, ToTimestampMicrosFunc};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDFImpl, Signature,
};

use super::from_char;

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
        if let Some(micros) = from_char::micros(self.name(), &args.args, args.number_rows)? {
            let moments = TimestampMicrosecondArray::from(micros);
            return one_or_all(Arc::new(moments), &args.args);
        }
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

/// `to_date`, by DataFusion's function or by patterns.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct ToDate(ToDateFunc);

impl ToDate {
    pub(super) fn new() -> Self {
        Self(ToDateFunc::new())
    }
}

impl ScalarUDFImpl for ToDate {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn signature(&self) -> &Signature {
        self.0.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.0.return_type(types)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let Some(micros) = from_char::micros(self.name(), &args.args, args.number_rows)? else {
            return self.0.invoke_with_args(args);
        };
        let days = micros.into_iter().map(|micros| micros.map(from_char::day));
        one_or_all(Arc::new(days.collect::<Date32Array>()), &args.args)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.0.documentation()
    }
}

/// The values of rows, or the one of constants.
fn one_or_all(values: ArrayRef, args: &[ColumnarValue]) -> Result<ColumnarValue> {
    let is_scalar = |arg: &ColumnarValue| matches!(arg, ColumnarValue::Scalar(_));
    match args.iter().all(is_scalar) && !values.is_empty() {
        true => ScalarValue::try_from_array(&values, 0).map(ColumnarValue::Scalar),
        false => Ok(ColumnarValue::Array(values)),
    }
}

/// The digits of a decimal, taken as those of a decimal of another scale.
fn relabelled(value: ColumnarValue, ty: &DataType) -> Result<ColumnarValue> {
    Ok(match value {
        ColumnarValue::Scalar(ScalarValue::Decimal128(digits, precision, _)) => {
            ColumnarValue::Scalar(ScalarValue::Decimal128(digits, precision, 0))
        }
        ColumnarValue::Array(values) => {
            let values = values.as_primitive::<Decimal128Type>().clone();
            ColumnarValue::Array(Arc::new(values.with_data_type(ty.clone())))
        }
        other => other,
    })
}
