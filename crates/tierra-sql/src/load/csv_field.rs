//! Fields of a CSV file as values. Parsing is strict: a field that does not fit is an error. It is never rounded, wrapped
//! or made NULL.

use std::str::Utf8Error;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanBuilder, Date32Builder, Decimal128Builder, Float64Builder, Int32Builder,
    Int64Builder, StringViewBuilder, TimestampMicrosecondBuilder,
};
use arrow::compute::kernels::cast_utils::{Parser, string_to_datetime};
use arrow::datatypes::Date32Type;
use chrono::Utc;
use tierra_column::LogicalType;
use tierra_engine::canonical_double;

use super::csv_records::Field;
use super::double_text::is_out_of_range;
use super::moments::in_four_digits;

/// Why a field is not a value of its column.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum BadField {
    /// NULL in a NOT NULL column.
    Null,
    /// Its bytes are not UTF-8.
    NotUtf8(Utf8Error),
    /// Its text is not a value of the type, or would have to be changed to become one.
    Value,
}

/// Collects the fields of one column.
pub(super) enum FieldBuilder {
    Boolean(BooleanBuilder),
    Integer(Int32Builder),
    BigInt(Int64Builder),
    Decimal {
        values: Decimal128Builder,
        precision: u8,
        scale: u8,
    },
    Double(Float64Builder),
    Date(Date32Builder),
    Timestamp(TimestampMicrosecondBuilder),
    Varchar(StringViewBuilder),
}

impl FieldBuilder {
    pub(super) fn new(ty: LogicalType, rows: usize) -> Self {
        match ty {
            LogicalType::Boolean => Self::Boolean(BooleanBuilder::with_capacity(rows)),
            LogicalType::Integer => Self::Integer(Int32Builder::with_capacity(rows)),
            LogicalType::BigInt => Self::BigInt(Int64Builder::with_capacity(rows)),
            LogicalType::Decimal { precision, scale } => {
                let values = Decimal128Builder::with_capacity(rows).with_data_type(ty.arrow());
                Self::Decimal {
                    values,
                    precision,
                    scale,
                }
            }
            LogicalType::Double => Self::Double(Float64Builder::with_capacity(rows)),
            LogicalType::Date => Self::Date(Date32Builder::with_capacity(rows)),
            LogicalType::Timestamp => {
                Self::Timestamp(TimestampMicrosecondBuilder::with_capacity(rows))
            }
            LogicalType::Varchar => Self::Varchar(StringViewBuilder::with_capacity(rows)),
        }
    }

    /// Adds a field. An empty field is NULL, but a quoted one is the empty string if the type has one.
    pub(super) fn append(&mut self, field: Field<'_>, nullable: bool) -> Result<(), BadField> {
        let empty_string = field.quoted && matches!(self, Self::Varchar(_));
        if field.bytes.is_empty() && !empty_string {
            if !nullable {
                return Err(BadField::Null);
            }
            self.append_null();
            return Ok(());
        }
        let text = std::str::from_utf8(field.bytes).map_err(BadField::NotUtf8)?;
        match self {
            Self::Boolean(values) => values.append_value(boolean(text).ok_or(BadField::Value)?),
            Self::Integer(values) => {
                values.append_value(text.trim().parse().map_err(|_| BadField::Value)?)
            }
            Self::BigInt(values) => {
                values.append_value(text.trim().parse().map_err(|_| BadField::Value)?)
            }
            Self::Decimal {
                values,
                precision,
                scale,
            } => {
                values
                    .append_value(decimal(text.trim(), *precision, *scale).ok_or(BadField::Value)?);
            }
            Self::Double(values) => {
                values.append_value(double(text.trim()).ok_or(BadField::Value)?);
            }
            Self::Date(values) => values.append_value(date(text.trim()).ok_or(BadField::Value)?),
            Self::Timestamp(values) => {
                values.append_value(timestamp(text.trim()).ok_or(BadField::Value)?)
            }
            Self::Varchar(values) => values.append_value(text),
        }
        Ok(())
    }

    fn append_null(&mut self) {
        match self {
            Self::Boolean(values) => values.append_null(),
            Self::Integer(values) => values.append_null(),
            Self::BigInt(values) => values.append_null(),
            Self::Decimal { values, .. } => values.append_null(),
            Self::Double(values) => values.append_null(),
            Self::Date(values) => values.append_null(),
            Self::Timestamp(values) => values.append_null(),
            Self::Varchar(values) => values.append_null(),
        }
    }

    /// The fields so far as an array; the builder becomes empty.
    pub(super) fn finish(&mut self) -> ArrayRef {
        match self {
            Self::Boolean(values) => Arc::new(values.finish()),
            Self::Integer(values) => Arc::new(values.finish()),
            Self::BigInt(values) => Arc::new(values.finish()),
            Self::Decimal { values, .. } => Arc::new(values.finish()),
            Self::Double(values) => Arc::new(values.finish()),
            Self::Date(values) => Arc::new(values.finish()),
            Self::Timestamp(values) => Arc::new(values.finish()),
            Self::Varchar(values) => Arc::new(values.finish()),
        }
    }
}

fn boolean(text: &str) -> Option<bool> {
    match text.trim().to_ascii_lowercase().as_str() {
        "true" | "t" | "1" => Some(true),
        "false" | "f" | "0" => Some(false),
        _ => None,
    }
}

/// `YYYY-MM-DD`.
fn date(text: &str) -> Option<i32> {
    let shape =
        text.bytes().filter(|byte| *byte == b'-').count() >= 2 && !text.contains([':', 'T', ' ']);
    if shape { Date32Type::parse(text) } else { None }
}

/// `YYYY-MM-DD hh:mm[:ss[.ffffff]]`, or a date alone. Digits beyond microseconds are refused unless they are zeros.
fn timestamp(text: &str) -> Option<i64> {
    let fraction = text.split_once('.').map_or("", |(_, fraction)| fraction);
    let digits = fraction.bytes().take_while(u8::is_ascii_digit);
    if digits.skip(6).any(|digit| digit != b'0') {
        return None;
    }
    match string_to_datetime(&Utc, text) {
        Ok(parsed) => Some(parsed.timestamp_micros()),
        Err(_) => in_four_digits(text),
    }
}

/// A number rounded to the nearest double, as every decimal has to be. One out of the range of doubles is refused.
fn double(text: &str) -> Option<f64> {
    let value: f64 = canonical_double(text.parse().ok()?);
    (!is_out_of_range(text, value)).then_some(value)
}

/// The digits of a number with at most `scale` digits after the point and `precision` in all. A number that would have
/// to be rounded is refused.
fn decimal(text: &str, precision: u8, scale: u8) -> Option<i128> {
    let (negative, digits) = match text.as_bytes() {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        all => (false, all),
    };
    let (mut value, mut seen_point, mut seen_digit, mut fraction) = (0_i128, false, false, 0_u8);
    for byte in digits {
        match byte {
            b'.' if !seen_point => seen_point = true,
            b'0'..=b'9' => {
                seen_digit = true;
                if seen_point && fraction == scale {
                    // Zeros beyond the scale lose nothing.
                    if *byte != b'0' {
                        return None;
                    }
                    continue;
                }
                fraction += u8::from(seen_point);
                value = value
                    .checked_mul(10)?
                    .checked_add(i128::from(byte - b'0'))?;
            }
            _ => return None,
        }
    }
    let value = value.checked_mul(10_i128.checked_pow(u32::from(scale - fraction))?)?;
    let limit = 10_i128.checked_pow(u32::from(precision))?;
    (seen_digit && value < limit).then_some(if negative { -value } else { value })
}

/// The narrowest type that fits all fields seen so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Guess {
    /// Only NULLs.
    #[default]
    Unseen,
    Boolean,
    BigInt,
    Double,
    Date,
    Timestamp,
    Varchar,
}

impl Guess {
    pub(super) fn see(&mut self, field: Field<'_>) {
        if *self == Guess::Varchar || field.bytes.is_empty() && !field.quoted {
            return;
        }
        let text = std::str::from_utf8(field.bytes).map_or("", str::trim);
        *self = match (*self, Self::of(text)) {
            (Guess::Unseen, new) => new,
            (old, new) if old == new => old,
            (Guess::BigInt, Guess::Double) | (Guess::Double, Guess::BigInt) => Guess::Double,
            (Guess::Date, Guess::Timestamp) | (Guess::Timestamp, Guess::Date) => Guess::Timestamp,
            _ => Guess::Varchar,
        };
    }

    fn of(text: &str) -> Guess {
        let is_number = text
            .starts_with(|first: char| first.is_ascii_digit() || matches!(first, '-' | '+' | '.'));
        if text.parse::<i64>().is_ok() {
            Guess::BigInt
        } else if is_number
            && text.bytes().any(|byte| matches!(byte, b'.' | b'e' | b'E'))
            && double(text).is_some()
        {
            Guess::Double
        } else if text.eq_ignore_ascii_case("true") || text.eq_ignore_ascii_case("false") {
            Guess::Boolean
        } else if date(text).is_some() {
            Guess::Date
        } else if text.contains(':') && timestamp(text).is_some() {
            Guess::Timestamp
        } else {
            Guess::Varchar
        }
    }

    pub(super) fn ty(self) -> LogicalType {
        match self {
            Guess::Boolean => LogicalType::Boolean,
            Guess::BigInt => LogicalType::BigInt,
            Guess::Double => LogicalType::Double,
            Guess::Date => LogicalType::Date,
            Guess::Timestamp => LogicalType::Timestamp,
            Guess::Unseen | Guess::Varchar => LogicalType::Varchar,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_exact_or_refused() {
        assert_eq!(decimal("-12.3", 5, 2), Some(-1230));
        assert_eq!(decimal("999.99", 5, 2), Some(99_999));
        assert_eq!(decimal("1000", 5, 2), None);
        assert_eq!(decimal("0.125", 5, 2), None);
        assert_eq!(decimal("0.1200", 5, 2), Some(12));
        assert_eq!(decimal(&"9".repeat(38), 38, 0), Some(10_i128.pow(38) - 1));
        assert_eq!(decimal(&"9".repeat(39), 38, 0), None);
        for bad in ["", "-", ".", "1.2.3", "1e3", " 1", "0x1"] {
            assert_eq!(decimal(bad, 10, 2), None, "{bad}");
        }
    }

    #[test]
    fn what_would_be_rounded_away_is_refused() {
        assert_eq!(timestamp("1970-01-01"), Some(0));
        assert_eq!(timestamp("1970-01-01 00:00:00.000001"), Some(1));
        assert_eq!(timestamp("1970-01-01T00:00:01.5000000000"), Some(1_500_000));
        assert_eq!(timestamp("1969-12-31 23:59:59.999999"), Some(-1));
        assert_eq!(
            timestamp("9999-12-31 00:00:00"),
            Some(253_402_214_400_000_000)
        );
        assert_eq!(timestamp("1970-01-01 00:00:00.0000001"), None);
        assert_eq!(timestamp("1970-01-01 00:00:00.000000000000001"), None);
        assert_eq!(double("1e308"), Some(1e308));
        assert_eq!(double("1e400"), None);
        assert_eq!(double("-1e400"), None);
        assert_eq!(double("-inf"), Some(f64::NEG_INFINITY));
        assert_eq!(double("Infinity"), Some(f64::INFINITY));
        assert!(double("NaN").is_some_and(f64::is_nan));
    }

    #[test]
    fn a_guess_widens_and_never_narrows() {
        let guess = |fields: &[&str]| {
            let mut guess = Guess::default();
            for text in fields {
                let text = text.as_bytes();
                let quoted = text == b"\"\"";
                let bytes = if quoted { b"" } else { text };
                guess.see(Field { bytes, quoted });
            }
            guess.ty()
        };
        assert_eq!(guess(&["1", "", "-5"]), LogicalType::BigInt);
        assert_eq!(guess(&["1", "2.5"]), LogicalType::Double);
        assert_eq!(guess(&["1", "x", "2"]), LogicalType::Varchar);
        assert_eq!(guess(&["1998-01-01"]), LogicalType::Date);
        assert_eq!(
            guess(&["1998-01-01", "1998-01-01 10:00:00"]),
            LogicalType::Timestamp
        );
        assert_eq!(guess(&["true", "FALSE"]), LogicalType::Boolean);
        assert_eq!(guess(&[""]), LogicalType::Varchar);
        // A type that would change a field is not inferred.
        assert_eq!(guess(&["1", "\"\""]), LogicalType::Varchar);
        assert_eq!(guess(&["1.5", "1e400"]), LogicalType::Varchar);
        assert_eq!(
            guess(&["1998-01-01 10:00:00.1234567"]),
            LogicalType::Varchar
        );
    }
}
