//! `date_bin` of timestamps in microseconds. DataFusion's counts nanoseconds, and yields NULL outside their range.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, PrimitiveArray};
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit, TimeUnit,
    TimestampMicrosecondType,
};
use chrono::{DateTime, Datelike, Months, Utc};
use datafusion::common::{exec_datafusion_err, exec_err, plan_err};
use datafusion::error::Result;
use datafusion::functions::datetime::date_bin::DateBinFunc;
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};

const DAY: i64 = 24 * 3_600_000_000;

/// The function.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct DateBin {
    signature: Signature,
    /// DataFusion's function, for times of day.
    other: DateBinFunc,
}

impl DateBin {
    pub(super) fn new() -> Self {
        Self {
            signature: Signature::user_defined(Volatility::Immutable),
            other: DateBinFunc::new(),
        }
    }
}

/// The width of a bin.
#[derive(Debug, Clone, Copy)]
enum Stride {
    Micros(i64),
    Months(i32),
}

impl Stride {
    fn of(interval: IntervalMonthDayNano) -> Result<Self> {
        let IntervalMonthDayNano {
            months,
            days,
            nanoseconds,
        } = interval;
        if months != 0 {
            return match (days, nanoseconds) {
                (0, 0) if months > 0 => Ok(Self::Months(months)),
                (0, 0) => exec_err!("date_bin: the stride must be positive"),
                _ => exec_err!("date_bin: a stride is of months and years, or of days and less"),
            };
        }
        if nanoseconds % 1_000 != 0 {
            return exec_err!("date_bin: a stride is of whole microseconds");
        }
        match i64::from(days)
            .checked_mul(DAY)
            .and_then(|days| days.checked_add(nanoseconds / 1_000))
        {
            Some(micros) if micros > 0 => Ok(Self::Micros(micros)),
            Some(_) => exec_err!("date_bin: the stride must be positive"),
            None => exec_err!("date_bin: the stride is out of range"),
        }
    }

    /// The start of the bin that contains `source`, if it can be represented.
    fn bin(self, source: i64, origin: i64) -> Option<i64> {
        match self {
            Self::Micros(stride) => {
                let distance = source.checked_sub(origin)?;
                origin.checked_add(distance.checked_sub(distance.rem_euclid(stride))?)
            }
            Self::Months(stride) => {
                let date = |micros| DateTime::<Utc>::from_timestamp_micros(micros);
                let (from, to) = (date(origin)?, date(source)?);
                let distance =
                    (to.year() - from.year()) * 12 + to.month() as i32 - from.month() as i32;
                let shifted = |months: i32| match months < 0 {
                    true => from.checked_sub_months(Months::new(months.unsigned_abs())),
                    false => from.checked_add_months(Months::new(months.unsigned_abs())),
                };
                let months = distance - distance.rem_euclid(stride);
                let begin = shifted(months)?;
                let begin = match begin > to {
                    true => shifted(months.checked_sub(stride)?)?,
                    false => begin,
                };
                Some(begin.timestamp_micros())
            }
        }
    }
}

impl ScalarUDFImpl for DateBin {
    fn name(&self) -> &str {
        self.other.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let (Some(source), 2 | 3) = (types.get(1), types.len()) else {
            return plan_err!("date_bin takes a stride, a timestamp and, if need be, an origin");
        };
        let source = match source {
            time @ (DataType::Time32(_) | DataType::Time64(_)) => time.clone(),
            DataType::Timestamp(_, zone) => {
                DataType::Timestamp(TimeUnit::Microsecond, zone.clone())
            }
            DataType::Date32
            | DataType::Date64
            | DataType::Null
            | DataType::Utf8
            | DataType::Utf8View
            | DataType::LargeUtf8 => DataType::Timestamp(TimeUnit::Microsecond, None),
            other => {
                return plan_err!("date_bin of {other} is not supported; cast it to TIMESTAMP");
            }
        };
        let stride = DataType::Interval(IntervalUnit::MonthDayNano);
        let mut coerced = vec![stride, source.clone()];
        coerced.resize(types.len(), source);
        Ok(coerced)
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types[1].clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let (rows, args_of) = (args.number_rows, &args.args);
        let is_scalar = args_of
            .iter()
            .all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let source = args_of[1].to_array(rows)?;
        let DataType::Timestamp(_, zone) = source.data_type().clone() else {
            return self.other.invoke_with_args(args);
        };
        let micros = |values: ArrayRef| -> Result<PrimitiveArray<TimestampMicrosecondType>> {
            let zoneless = cast(
                &values,
                &DataType::Timestamp(TimeUnit::Microsecond, zone.clone()),
            )?;
            Ok(zoneless.as_primitive::<TimestampMicrosecondType>().clone())
        };
        let source = micros(source)?;
        let stride = args_of[0].to_array(rows)?;
        let stride = stride.as_primitive::<IntervalMonthDayNanoType>();
        let origin = args_of
            .get(2)
            .map(|origin| micros(origin.to_array(rows)?))
            .transpose()?;
        let mut last: Option<(IntervalMonthDayNano, Stride)> = None;
        let bins = (0..source.len()).map(|row| {
            let origin = origin.as_ref().map_or(Some(0), |origin| {
                origin.is_valid(row).then(|| origin.value(row))
            });
            let (true, true, Some(origin)) = (source.is_valid(row), stride.is_valid(row), origin)
            else {
                return Ok(None);
            };
            let interval = stride.value(row);
            let stride = match last {
                Some((known, stride)) if known == interval => stride,
                _ => {
                    let stride = Stride::of(interval)?;
                    last = Some((interval, stride));
                    stride
                }
            };
            let source = source.value(row);
            let bin = stride.bin(source, origin);
            bin.map(Some).ok_or_else(|| {
                exec_datafusion_err!(
                    "date_bin: the bin of the timestamp of {source} µs is out of range"
                )
            })
        });
        let bins: PrimitiveArray<TimestampMicrosecondType> = bins.collect::<Result<_>>()?;
        let bins: ArrayRef = Arc::new(bins.with_timezone_opt(zone.clone()));
        match is_scalar {
            true => Ok(ColumnarValue::Scalar(
                datafusion::common::ScalarValue::try_from_array(&bins, 0)?,
            )),
            false => Ok(ColumnarValue::Array(bins)),
        }
    }

    fn output_ordering(&self, input: &[ExprProperties]) -> Result<SortProperties> {
        self.other.output_ordering(input)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.other.documentation()
    }
}
