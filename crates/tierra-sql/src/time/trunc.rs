//! `date_trunc` of timestamps without a zone, in microseconds. DataFusion's counts nanoseconds.

use std::sync::Arc;

use arrow::array::{AsArray, PrimitiveArray};
use arrow::datatypes::{DataType, FieldRef, TimeUnit, TimestampMicrosecondType};
use chrono::{Datelike, NaiveDate};
use datafusion::common::{ScalarValue, exec_datafusion_err};
use datafusion::error::Result;
use datafusion::functions::datetime::date_trunc::DateTruncFunc;
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature,
};

const SECOND: i64 = 1_000_000;
const DAY: i64 = 24 * 3_600 * SECOND;

/// The function.
#[derive(Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct DateTrunc {
    /// DataFusion's function, for times, and for timestamps with a zone or another unit.
    other: DateTruncFunc,
}

/// The unit to which a timestamp is truncated.
#[derive(Debug, Clone, Copy)]
enum Part {
    /// A number of microseconds.
    Fixed(i64),
    Week,
    /// A number of months.
    Months(u32),
}

impl Part {
    fn of(name: &str) -> Option<Self> {
        Some(match name {
            "microsecond" => Self::Fixed(1),
            "millisecond" => Self::Fixed(1_000),
            "second" => Self::Fixed(SECOND),
            "minute" => Self::Fixed(60 * SECOND),
            "hour" => Self::Fixed(3_600 * SECOND),
            "day" => Self::Fixed(DAY),
            "week" => Self::Week,
            "month" => Self::Months(1),
            "quarter" => Self::Months(3),
            "year" => Self::Months(12),
            _ => return None,
        })
    }

    /// The start of the unit that contains `micros`, if it can be represented.
    fn begin(self, micros: i64) -> Option<i64> {
        let days = micros.div_euclid(DAY);
        let days = match self {
            Self::Fixed(length) => return micros.checked_sub(micros.rem_euclid(length)),
            // 1970 began on a Thursday.
            Self::Week => days - (days + 3).rem_euclid(7),
            Self::Months(months) => {
                let date = NaiveDate::from_epoch_days(i32::try_from(days).ok()?)?;
                let month0 = date.month0() - date.month0() % months;
                i64::from(date.with_day(1)?.with_month0(month0)?.to_epoch_days())
            }
        };
        days.checked_mul(DAY)
    }
}

impl ScalarUDFImpl for DateTrunc {
    fn name(&self) -> &str {
        self.other.name()
    }

    fn aliases(&self) -> &[String] {
        self.other.aliases()
    }

    fn signature(&self) -> &Signature {
        self.other.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.other.return_type(types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        self.other.return_field_from_args(args)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [ColumnarValue::Scalar(part), value] = args.args.as_slice() else {
            return self.other.invoke_with_args(args);
        };
        let part = part.try_as_str().flatten();
        let part = part.and_then(|part| Part::of(&part.to_lowercase()));
        let (Some(part), DataType::Timestamp(TimeUnit::Microsecond, None)) =
            (part, value.data_type())
        else {
            return self.other.invoke_with_args(args);
        };
        let begin = |micros: i64| {
            part.begin(micros).ok_or_else(|| {
                exec_datafusion_err!("date_trunc: the timestamp of {micros} µs is out of range")
            })
        };
        Ok(match value {
            ColumnarValue::Scalar(ScalarValue::TimestampMicrosecond(value, zone)) => {
                let value = value.map(begin).transpose()?;
                ColumnarValue::Scalar(ScalarValue::TimestampMicrosecond(value, zone.clone()))
            }
            ColumnarValue::Scalar(other) => ColumnarValue::Scalar(other.clone()),
            ColumnarValue::Array(values) => {
                let values = values.as_primitive::<TimestampMicrosecondType>();
                let values: PrimitiveArray<TimestampMicrosecondType> = match part {
                    Part::Fixed(length) => {
                        values.unary(|micros| micros.wrapping_sub(micros.rem_euclid(length)))
                    }
                    _ => values.try_unary(begin)?,
                };
                ColumnarValue::Array(Arc::new(values))
            }
        })
    }

    fn output_ordering(&self, input: &[ExprProperties]) -> Result<SortProperties> {
        self.other.output_ordering(input)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.other.documentation()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use chrono::{DateTime, NaiveDateTime};

    fn cut(part: &str, text: &str) -> String {
        let format = "%Y-%m-%d %H:%M:%S%.f";
        let micros = NaiveDateTime::parse_from_str(text, format)
            .unwrap()
            .and_utc()
            .timestamp_micros();
        let begin = Part::of(part).unwrap().begin(micros).unwrap();
        DateTime::from_timestamp_micros(begin)
            .unwrap()
            .naive_utc()
            .format(format)
            .to_string()
    }

    #[test]
    fn parts_begin_where_the_calendar_says() {
        let ts = "1500-03-04 05:06:07.089012";
        for (part, begin) in [
            ("microsecond", "1500-03-04 05:06:07.089012"),
            ("millisecond", "1500-03-04 05:06:07.089"),
            ("second", "1500-03-04 05:06:07"),
            ("minute", "1500-03-04 05:06:00"),
            ("hour", "1500-03-04 05:00:00"),
            ("day", "1500-03-04 00:00:00"),
            ("week", "1500-02-26 00:00:00"),
            ("month", "1500-03-01 00:00:00"),
            ("quarter", "1500-01-01 00:00:00"),
            ("year", "1500-01-01 00:00:00"),
        ] {
            assert_eq!(cut(part, ts), begin, "{part}");
        }
        assert_eq!(
            cut("quarter", "9999-12-31 23:59:59.999999"),
            "9999-10-01 00:00:00"
        );
        assert_eq!(cut("week", "1970-01-01 00:00:00"), "1969-12-29 00:00:00");
    }
}
