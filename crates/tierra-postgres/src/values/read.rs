//! Columns built of values of the client, each text or binary: rows of COPY, and what arguments are made of.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryBuilder, BooleanBuilder, Decimal128Builder, PrimitiveBuilder, StringBuilder,
    StringViewBuilder,
};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Float32Type, Float64Type, Int16Type, Int32Type,
    Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit, Time64MicrosecondType,
    TimeUnit, TimestampMicrosecondType,
};
use bytes::{Buf, Bytes};
use tierra_sql::moments;

use super::digits::{Digits, numeric_text};
use super::{moment, oid};
use crate::error::Fault;

/// A text of the client. It has no zero, as in PostgreSQL: a client that reads it back would take that for its end.
pub(crate) fn text_of(value: &[u8]) -> Result<&str, Fault> {
    if value.contains(&0) {
        return Err(Fault::new(
            "22021",
            "invalid byte sequence for encoding \"UTF8\": 0x00",
        ));
    }
    std::str::from_utf8(value).map_err(|_| Fault::not_utf8())
}

/// Values of one column, or of one parameter.
pub(crate) enum Builder {
    Boolean(BooleanBuilder),
    Int2(PrimitiveBuilder<Int16Type>),
    Int4(PrimitiveBuilder<Int32Type>),
    Int8(PrimitiveBuilder<Int64Type>),
    Float4(PrimitiveBuilder<Float32Type>),
    Float8(PrimitiveBuilder<Float64Type>),
    Decimal(Decimal128Builder, u8, i8),
    Date(PrimitiveBuilder<Date32Type>),
    Time(PrimitiveBuilder<Time64MicrosecondType>),
    Timestamp(PrimitiveBuilder<TimestampMicrosecondType>, DataType),
    Interval(PrimitiveBuilder<IntervalMonthDayNanoType>),
    Text(StringBuilder),
    TextView(StringViewBuilder),
    Bytes(BinaryBuilder),
}

impl Builder {
    /// For values of this type; `None` if there are none of it on the wire.
    pub(crate) fn new(ty: &DataType) -> Option<Self> {
        Self::with_room(ty, 1024)
    }

    /// As [`Builder::new`], with room for so many values. An argument needs room for one.
    pub(crate) fn with_room(ty: &DataType, values: usize) -> Option<Self> {
        let text_bytes = values * 8;
        Some(match ty {
            DataType::Boolean => Self::Boolean(BooleanBuilder::with_capacity(values)),
            DataType::Int16 => Self::Int2(PrimitiveBuilder::with_capacity(values)),
            DataType::Int32 => Self::Int4(PrimitiveBuilder::with_capacity(values)),
            DataType::Int64 => Self::Int8(PrimitiveBuilder::with_capacity(values)),
            DataType::Float32 => Self::Float4(PrimitiveBuilder::with_capacity(values)),
            DataType::Float64 => Self::Float8(PrimitiveBuilder::with_capacity(values)),
            DataType::Decimal128(precision, scale) => {
                let builder = Decimal128Builder::with_capacity(values).with_data_type(ty.clone());
                Self::Decimal(builder, *precision, *scale)
            }
            DataType::Date32 => Self::Date(PrimitiveBuilder::with_capacity(values)),
            DataType::Time64(TimeUnit::Microsecond) => {
                Self::Time(PrimitiveBuilder::with_capacity(values))
            }
            DataType::Timestamp(TimeUnit::Microsecond, _) => {
                let builder = PrimitiveBuilder::with_capacity(values).with_data_type(ty.clone());
                Self::Timestamp(builder, ty.clone())
            }
            DataType::Interval(IntervalUnit::MonthDayNano) => {
                Self::Interval(PrimitiveBuilder::with_capacity(values))
            }
            DataType::Utf8 => Self::Text(StringBuilder::with_capacity(values, text_bytes)),
            DataType::Utf8View => Self::TextView(StringViewBuilder::with_capacity(values)),
            DataType::Binary => Self::Bytes(BinaryBuilder::with_capacity(values, text_bytes)),
            _ => return None,
        })
    }

    /// The type as PostgreSQL calls it.
    fn name(&self) -> &'static str {
        match self {
            Self::Boolean(_) => "boolean",
            Self::Int2(_) => "smallint",
            Self::Int4(_) => "integer",
            Self::Int8(_) => "bigint",
            Self::Float4(_) => "real",
            Self::Float8(_) => "double precision",
            Self::Decimal(..) => "numeric",
            Self::Date(_) => "date",
            Self::Time(_) => "time",
            Self::Timestamp(..) => "timestamp",
            Self::Interval(_) => "interval",
            Self::Text(_) | Self::TextView(_) => "text",
            Self::Bytes(_) => "bytea",
        }
    }

    fn wrong(&self, text: &str) -> Fault {
        let name = self.name();
        Fault::new(
            "22P02",
            format!("invalid input syntax for type {name}: \"{text}\""),
        )
    }

    fn beyond(&self, text: &str) -> Fault {
        let name = self.name();
        Fault::new(
            "22003",
            format!("value \"{text}\" is out of range for type {name}"),
        )
    }

    /// Drivers send their greatest and least date in this form, too.
    fn infinite(&self) -> Fault {
        Fault::new(
            "22008",
            format!("infinity is no value of type {} here", self.name()),
        )
    }

    pub(crate) fn push_null(&mut self) {
        match self {
            Self::Boolean(values) => values.append_null(),
            Self::Int2(values) => values.append_null(),
            Self::Int4(values) => values.append_null(),
            Self::Int8(values) => values.append_null(),
            Self::Float4(values) => values.append_null(),
            Self::Float8(values) => values.append_null(),
            Self::Decimal(values, ..) => values.append_null(),
            Self::Date(values) => values.append_null(),
            Self::Time(values) => values.append_null(),
            Self::Timestamp(values, _) => values.append_null(),
            Self::Interval(values) => values.append_null(),
            Self::Text(values) => values.append_null(),
            Self::TextView(values) => values.append_null(),
            Self::Bytes(values) => values.append_null(),
        }
    }

    /// Adds a value that is written as text.
    pub(crate) fn push_text(&mut self, text: &str) -> Result<(), Fault> {
        let is_pushed = match self {
            Self::Text(values) => {
                values.append_value(text);
                true
            }
            Self::TextView(values) => {
                values.append_value(text);
                true
            }
            Self::Boolean(values) => push(boolean(text), |value| values.append_value(value)),
            Self::Int2(values) => match integer(values, text) {
                Some(known) => known,
                None => return Err(self.beyond(text)),
            },
            Self::Int4(values) => match integer(values, text) {
                Some(known) => known,
                None => return Err(self.beyond(text)),
            },
            Self::Int8(values) => match integer(values, text) {
                Some(known) => known,
                None => return Err(self.beyond(text)),
            },
            Self::Float4(values) => match text.trim().parse::<f32>() {
                Ok(value) if value.is_infinite() && !is_infinity(text) => {
                    return Err(self.beyond(text));
                }
                Ok(0.0) if !is_zero(text) => return Err(self.beyond(text)),
                value => push(value.ok(), |value| values.append_value(value)),
            },
            Self::Float8(values) => match text.trim().parse::<f64>() {
                Ok(value) if value.is_infinite() && !is_infinity(text) => {
                    return Err(self.beyond(text));
                }
                Ok(0.0) if !is_zero(text) => return Err(self.beyond(text)),
                value => push(value.ok(), |value| values.append_value(value)),
            },
            Self::Date(_) | Self::Timestamp(..) if moment::is_infinite(text.trim()) => {
                return Err(self.infinite());
            }
            Self::Decimal(values, precision, scale) => match Digits::of(text) {
                None => false,
                Some(digits) => match digits.rounded(*precision, *scale) {
                    Some(value) => {
                        values.append_value(value);
                        true
                    }
                    None => return Err(self.beyond(text)),
                },
            },
            Self::Date(values) => push(moments::date(text.trim()), |value| {
                values.append_value(value)
            }),
            Self::Time(values) => push(moments::time(text.trim()), |value| {
                values.append_value(value)
            }),
            Self::Timestamp(values, ty) => {
                let is_instant = matches!(ty, DataType::Timestamp(_, Some(_)));
                let value = moments::timestamp(text.trim(), is_instant);
                push(value, |value| values.append_value(value))
            }
            Self::Interval(values) => {
                push(moments::interval(text), |value| values.append_value(value))
            }
            Self::Bytes(values) => push(bytes(text), |value| values.append_value(value)),
        };
        match is_pushed {
            true => Ok(()),
            false => Err(self.wrong(text)),
        }
    }

    /// Adds a value that is the binary form of the type `oid`.
    pub(crate) fn push_binary(&mut self, oid: u32, mut bytes: Bytes) -> Result<(), Fault> {
        let len = match oid {
            oid::BOOL => Some(1),
            oid::INT2 => Some(2),
            oid::INT4 | oid::OID | oid::FLOAT4 | oid::DATE => Some(4),
            oid::INT8 | oid::FLOAT8 | oid::TIME | oid::TIMESTAMP | oid::TIMESTAMPTZ => Some(8),
            oid::INTERVAL | oid::UUID => Some(16),
            _ => None,
        };
        if len.is_some_and(|len| len != bytes.len()) {
            return Err(Fault::new(
                "22P03",
                format!(
                    "a binary value of {} bytes where its type has another length",
                    bytes.len()
                ),
            ));
        }
        match (oid, &mut *self) {
            (oid::BOOL, Self::Boolean(values)) => values.append_value(bytes.get_u8() != 0),
            (oid::INT2, _) => return self.push_integer(bytes.get_i16().into()),
            (oid::INT4, _) => return self.push_integer(bytes.get_i32().into()),
            (oid::OID, _) => return self.push_integer(bytes.get_u32().into()),
            (oid::INT8, _) => return self.push_integer(bytes.get_i64()),
            (oid::FLOAT4, Self::Float4(values)) => values.append_value(bytes.get_f32()),
            (oid::FLOAT4, Self::Float8(values)) => values.append_value(bytes.get_f32().into()),
            (oid::FLOAT8, Self::Float8(values)) => values.append_value(bytes.get_f64()),
            (oid::NUMERIC, _) => return self.push_text(&numeric_text(bytes)?),
            (oid::DATE, Self::Date(values)) => match bytes.get_i32() {
                i32::MIN | i32::MAX => return Err(self.infinite()),
                days => {
                    let days = days.checked_add(moment::EPOCH_DAYS);
                    values.append_value(
                        days.ok_or_else(|| Fault::new("22008", "date out of range"))?,
                    );
                }
            },
            (oid::TIME, Self::Time(values)) => values.append_value(bytes.get_i64()),
            (oid::TIMESTAMP | oid::TIMESTAMPTZ, Self::Timestamp(values, _)) => {
                match bytes.get_i64() {
                    i64::MIN | i64::MAX => return Err(self.infinite()),
                    us => {
                        let us = us.checked_add(moment::EPOCH_US);
                        values.append_value(
                            us.ok_or_else(|| Fault::new("22008", "timestamp out of range"))?,
                        );
                    }
                }
            }
            (oid::INTERVAL, Self::Interval(values)) => {
                let ns = bytes.get_i64().checked_mul(1_000);
                let ns = ns.ok_or_else(|| Fault::new("22008", "interval out of range"))?;
                let (days, months) = (bytes.get_i32(), bytes.get_i32());
                values.append_value(IntervalMonthDayNano::new(months, days, ns));
            }
            (oid::UUID, _) => {
                let mut text = String::with_capacity(36);
                for (place, byte) in bytes.iter().enumerate() {
                    if matches!(place, 4 | 6 | 8 | 10) {
                        text.push('-');
                    }
                    for half in [byte >> 4, byte & 15] {
                        text.push(char::from(b"0123456789abcdef"[usize::from(half)]));
                    }
                }
                return self.push_text(&text);
            }
            (oid::BYTEA, Self::Bytes(values)) => values.append_value(&bytes),
            (
                oid::TEXT | oid::VARCHAR | oid::BPCHAR | oid::NAME | oid::UNKNOWN | oid::JSON,
                Self::Text(_) | Self::TextView(_),
            ) => return self.push_text(text_of(&bytes)?),
            _ => {
                return Err(Fault::new(
                    "42804",
                    format!(
                        "a binary value of another type where {} is expected",
                        self.name()
                    ),
                ));
            }
        }
        Ok(())
    }

    fn push_integer(&mut self, value: i64) -> Result<(), Fault> {
        match self {
            Self::Int8(values) => {
                values.append_value(value);
                Ok(())
            }
            // Rare, and checked there.
            _ => self.push_text(itoa::Buffer::new().format(value)),
        }
    }

    /// The values. The builder is empty then.
    pub(crate) fn finish(&mut self) -> ArrayRef {
        match self {
            Self::Boolean(values) => Arc::new(values.finish()),
            Self::Int2(values) => Arc::new(values.finish()),
            Self::Int4(values) => Arc::new(values.finish()),
            Self::Int8(values) => Arc::new(values.finish()),
            Self::Float4(values) => Arc::new(values.finish()),
            Self::Float8(values) => Arc::new(values.finish()),
            Self::Decimal(values, ..) => Arc::new(values.finish()),
            Self::Date(values) => Arc::new(values.finish()),
            Self::Time(values) => Arc::new(values.finish()),
            Self::Timestamp(values, _) => Arc::new(values.finish()),
            Self::Interval(values) => Arc::new(values.finish()),
            Self::Text(values) => Arc::new(values.finish()),
            Self::TextView(values) => Arc::new(values.finish()),
            Self::Bytes(values) => Arc::new(values.finish()),
        }
    }
}

fn push<T>(value: Option<T>, append: impl FnOnce(T)) -> bool {
    let is_there = value.is_some();
    value.map(append);
    is_there
}

/// Adds an integer; `false` if the text is none, `None` if it is out of range.
fn integer<T: ArrowPrimitiveType>(values: &mut PrimitiveBuilder<T>, text: &str) -> Option<bool>
where
    T::Native: std::str::FromStr<Err = std::num::ParseIntError>,
{
    use std::num::IntErrorKind::{NegOverflow, PosOverflow};
    match text.trim().parse() {
        Ok(value) => {
            values.append_value(value);
            Some(true)
        }
        Err(error) => match error.kind() {
            PosOverflow | NegOverflow => None,
            _ => Some(false),
        },
    }
}

fn is_infinity(text: &str) -> bool {
    text.trim()
        .trim_start_matches(['+', '-'])
        .starts_with(['i', 'I'])
}

/// A beginning of true, false, yes, no, on or off that is no other's, 1 or 0.
fn boolean(text: &str) -> Option<bool> {
    match text.trim().to_ascii_lowercase().as_str() {
        "t" | "tr" | "tru" | "true" | "y" | "ye" | "yes" | "on" | "1" => Some(true),
        "f" | "fa" | "fal" | "fals" | "false" | "n" | "no" | "of" | "off" | "0" => Some(false),
        _ => None,
    }
}

/// Whether a number is zero as it is written, and not only as it is stored.
fn is_zero(text: &str) -> bool {
    let mut digits = text.bytes().take_while(|byte| !matches!(byte, b'e' | b'E'));
    !digits.any(|byte| matches!(byte, b'1'..=b'9'))
}

/// Bytes as `\x` and digits, or as letters with `\\` and `\ooo` for others.
fn bytes(text: &str) -> Option<Vec<u8>> {
    match text.strip_prefix("\\x") {
        Some(digits) => hex(digits.as_bytes()),
        None => escaped(text.as_bytes()),
    }
}

fn escaped(mut text: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    while let Some((first, rest)) = text.split_first() {
        text = match (first, rest) {
            (b'\\', [b'\\', rest @ ..]) => {
                bytes.push(b'\\');
                rest
            }
            (b'\\', [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', rest @ ..]) => {
                bytes.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
                rest
            }
            (b'\\', _) => return None,
            (byte, rest) => {
                bytes.push(*byte);
                rest
            }
        };
    }
    Some(bytes)
}

fn hex(digits: &[u8]) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let pairs = digits.chunks(2).map(|pair| match pair {
        [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
        _ => None,
    });
    pairs.collect()
}

#[cfg(test)]
mod tests {
    use arrow::array::AsArray;

    use super::*;

    #[test]
    fn bytes_are_read_in_both_forms() {
        for (text, expected) in [
            ("\\x00fF", Some(&[0, 255][..])),
            ("\\x0", None),
            ("a\\\\b\\001\\377", Some(b"a\\b\x01\xff")),
            ("", Some(b"")),
            ("\u{e9}", Some(b"\xc3\xa9")),
            ("\\400", None),
            ("\\1", None),
        ] {
            assert_eq!(bytes(text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn an_interval_is_read_in_both_forms() {
        let ty = DataType::Interval(IntervalUnit::MonthDayNano);
        let mut builder = Builder::new(&ty).unwrap();
        builder.push_text("1 mon -2 days +00:00:03.5").unwrap();
        let mut sent = 3_500_000_i64.to_be_bytes().to_vec();
        sent.extend([(-2_i32).to_be_bytes(), 1_i32.to_be_bytes()].concat());
        let pushed = builder.push_binary(oid::INTERVAL, sent.clone().into());
        pushed.unwrap();
        let read = builder.finish();
        let read = read.as_primitive::<IntervalMonthDayNanoType>();
        let expected = IntervalMonthDayNano::new(1, -2, 3_500_000_000);
        assert_eq!(read.values(), &[expected, expected]);
        assert_eq!(builder.push_text("soon").unwrap_err().code, "22P02");
        let beyond = [i64::MAX.to_be_bytes(), [0; 8]].concat();
        let fault = builder.push_binary(oid::INTERVAL, beyond.into());
        assert_eq!(fault.unwrap_err().code, "22008");
        let short = builder.push_binary(oid::INTERVAL, sent[1..].to_vec().into());
        assert_eq!(short.unwrap_err().code, "22P03");
    }

    #[test]
    fn a_number_is_not_zero_because_it_is_small() {
        let pushed = |text: &str| {
            let mut builder = Builder::new(&DataType::Float64).unwrap();
            builder
                .push_text(text)
                .map_or_else(|fault| fault.code, |()| "ok")
        };
        for text in ["0", "-0.000e5", "0e-400", "1e-320", "-5e-324"] {
            assert_eq!(pushed(text), "ok", "{text}");
        }
        for text in ["1e-400", "-0.1e-400", "1e999"] {
            assert_eq!(pushed(text), "22003", "{text}");
        }
    }
}
