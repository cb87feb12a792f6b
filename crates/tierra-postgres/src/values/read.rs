//! Values of the client: arguments of statements, and rows of COPY, as text or binary.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BinaryBuilder, BooleanBuilder, Datum, Decimal128Array, Decimal128Builder,
    PrimitiveBuilder, StringBuilder, StringViewBuilder, new_null_array,
};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Float32Type, Float64Type, Int16Type, Int32Type,
    Int64Type, Time64MicrosecondType, TimeUnit, TimestampMicrosecondType,
};
use bytes::{Buf, Bytes};

use super::types::element_of;
use super::{Format, array, moment, oid, oid_of, type_of};
use crate::error::Fault;

/// The most digits of a DECIMAL.
const DIGITS_MOST: usize = 38;

/// An argument of a statement.
pub(crate) struct Argument {
    array: ArrayRef,
    is_list: bool,
}

impl Datum for Argument {
    fn get(&self) -> (&dyn Array, bool) {
        (&self.array, !self.is_list)
    }
}

impl Argument {
    /// The value of a parameter whose type on the wire is `oid`. `inferred` is the type that the statement gives it; the value
    /// becomes one of it if nothing is lost.
    pub(crate) fn of(
        oid: u32,
        inferred: &DataType,
        format: Format,
        value: Option<Bytes>,
    ) -> Result<Self, Fault> {
        let single = |array| Self {
            array,
            is_list: false,
        };
        let Some(value) = value else {
            return Ok(single(new_null_array(&DataType::Null, 1)));
        };
        if let Some(element) = element_of(oid) {
            let item = match inferred {
                DataType::List(item) => item.data_type(),
                _ => &DataType::Null,
            };
            return Ok(Self {
                array: items(element, item, format, value)?,
                is_list: true,
            });
        }
        if oid == oid::NUMERIC {
            let text = match format {
                Format::Text => text_of(&value)?.to_owned(),
                Format::Binary => numeric_text(value)?,
            };
            return decimal(&text, inferred).map(single);
        }
        let known = type_of(oid);
        // A type that is not known here can still be sent as text.
        if known.is_none() && format == Format::Binary && oid != oid::UNKNOWN {
            return Err(Fault::unsupported(&format!(
                "a parameter of the type with the number {oid}, in binary,"
            )));
        }
        let natural = known.unwrap_or(DataType::Utf8);
        let mut wanted = vec![natural.clone()];
        if is_kin(&natural, inferred) {
            wanted.insert(0, inferred.clone());
        }
        let mut last = Fault::unsupported("a parameter of this type");
        for ty in wanted {
            let Some(mut builder) = Builder::new(&ty) else {
                continue;
            };
            let pushed = match format {
                Format::Text => builder.push_text(text_of(&value)?),
                Format::Binary => builder.push_binary(oid, value.clone()),
            };
            match pushed {
                Ok(()) => return Ok(single(builder.finish())),
                Err(fault) => last = fault,
            }
        }
        Err(last)
    }
}

/// Whether a value of type `natural` may have type `inferred` without a change of meaning.
fn is_kin(natural: &DataType, inferred: &DataType) -> bool {
    use DataType::{Int16, Int32, Int64, Utf8, Utf8View};
    matches!(
        (natural, inferred),
        (Int16 | Int32 | Int64, Int16 | Int32 | Int64) | (Utf8, Utf8View | Utf8)
    )
}

/// The items of an array.
fn items(
    element: u32,
    inferred: &DataType,
    format: Format,
    value: Bytes,
) -> Result<ArrayRef, Fault> {
    let natural = type_of(element).ok_or_else(|| Fault::unsupported("an array of this type"))?;
    let wanted = match (&natural, inferred) {
        (_, inferred) if is_kin(&natural, inferred) => [inferred.clone(), natural],
        (DataType::Decimal128(..), DataType::Decimal128(..)) => {
            [inferred.clone(), inferred.clone()]
        }
        _ => [natural.clone(), natural],
    };
    let mut last = Fault::unsupported("an array of this type");
    for ty in wanted {
        let Some(mut builder) = Builder::new(&ty) else {
            continue;
        };
        let pushed = match format {
            Format::Text => array::items_of_text(text_of(&value)?)?
                .into_iter()
                .try_for_each(|item| match item {
                    Some(item) => builder.push_text(&item),
                    None => {
                        builder.push_null();
                        Ok(())
                    }
                }),
            Format::Binary => {
                let (sent, items) = array::items_of_binary(value.clone())?;
                items.into_iter().try_for_each(|item| match item {
                    Some(item) => builder.push_binary(sent, item),
                    None => {
                        builder.push_null();
                        Ok(())
                    }
                })
            }
        };
        match pushed {
            Ok(()) => return Ok(builder.finish()),
            Err(fault) => last = fault,
        }
    }
    Err(last)
}

pub(crate) fn text_of(value: &[u8]) -> Result<&str, Fault> {
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
    Text(StringBuilder),
    TextView(StringViewBuilder),
    Bytes(BinaryBuilder),
}

impl Builder {
    /// For values of this type; `None` if there are none of it on the wire.
    pub(crate) fn new(ty: &DataType) -> Option<Self> {
        Some(match ty {
            DataType::Boolean => Self::Boolean(BooleanBuilder::new()),
            DataType::Int16 => Self::Int2(PrimitiveBuilder::new()),
            DataType::Int32 => Self::Int4(PrimitiveBuilder::new()),
            DataType::Int64 => Self::Int8(PrimitiveBuilder::new()),
            DataType::Float32 => Self::Float4(PrimitiveBuilder::new()),
            DataType::Float64 => Self::Float8(PrimitiveBuilder::new()),
            DataType::Decimal128(precision, scale) => {
                let builder = Decimal128Builder::new().with_data_type(ty.clone());
                Self::Decimal(builder, *precision, *scale)
            }
            DataType::Date32 => Self::Date(PrimitiveBuilder::new()),
            DataType::Time64(TimeUnit::Microsecond) => Self::Time(PrimitiveBuilder::new()),
            DataType::Timestamp(TimeUnit::Microsecond, _) => {
                let builder = PrimitiveBuilder::new().with_data_type(ty.clone());
                Self::Timestamp(builder, ty.clone())
            }
            DataType::Utf8 => Self::Text(StringBuilder::new()),
            DataType::Utf8View => Self::TextView(StringViewBuilder::new()),
            DataType::Binary => Self::Bytes(BinaryBuilder::new()),
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
                value => push(value.ok(), |value| values.append_value(value)),
            },
            Self::Float8(values) => match text.trim().parse::<f64>() {
                Ok(value) if value.is_infinite() && !is_infinity(text) => {
                    return Err(self.beyond(text));
                }
                value => push(value.ok(), |value| values.append_value(value)),
            },
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
            Self::Date(values) => push(moment::date(text.trim()), |value| {
                values.append_value(value)
            }),
            Self::Time(values) => push(moment::time(text.trim()), |value| {
                values.append_value(value)
            }),
            Self::Timestamp(values, ty) => {
                let is_instant = matches!(ty, DataType::Timestamp(_, Some(_)));
                let value = moment::timestamp(text.trim(), is_instant);
                push(value, |value| values.append_value(value))
            }
            Self::Bytes(values) => push(hex(text), |value| values.append_value(value)),
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
            oid::UUID => Some(16),
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
            (oid::DATE, Self::Date(values)) => {
                let days = bytes.get_i32().checked_add(moment::EPOCH_DAYS);
                values.append_value(days.ok_or_else(|| Fault::new("22008", "date out of range"))?);
            }
            (oid::TIME, Self::Time(values)) => values.append_value(bytes.get_i64()),
            (oid::TIMESTAMP | oid::TIMESTAMPTZ, Self::Timestamp(values, _)) => {
                let us = bytes.get_i64();
                // The greatest and the least are infinite.
                let us = us.checked_add(moment::EPOCH_US).filter(|_| us != i64::MIN);
                values
                    .append_value(us.ok_or_else(|| Fault::new("22008", "timestamp out of range"))?);
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
            Self::Text(values) => Arc::new(values.finish()),
            Self::TextView(values) => Arc::new(values.finish()),
            Self::Bytes(values) => Arc::new(values.finish()),
        }
    }

    /// The type of the binary form of values for a column of type `ty`.
    pub(crate) fn binary_oid(ty: &DataType) -> u32 {
        oid_of(ty)
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

fn hex(text: &str) -> Option<Vec<u8>> {
    let digits = text.strip_prefix("\\x")?.as_bytes();
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let pairs = digits.chunks(2).map(|pair| match pair {
        [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
        _ => None,
    });
    pairs.collect()
}

/// A number's digits, as written.
struct Digits {
    value: i128,
    /// Digits after the point.
    scale: i32,
}

impl Digits {
    /// `None` if `text` is no number, or has more digits than any DECIMAL. Then they are wrong in any case.
    fn of(text: &str) -> Option<Self> {
        let text = text.trim();
        let (text, exponent) = match text.split_once(['e', 'E']) {
            Some((text, exponent)) => (text, exponent.parse::<i32>().ok()?),
            None => (text, 0),
        };
        let (is_negative, digits) = match text.as_bytes().first()? {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let all = || whole.bytes().chain(fraction.bytes());
        if all().next().is_none() || !all().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        // Zeros at the end of a fraction say nothing, and may be too many to hold.
        let fraction = match all().count() > DIGITS_MOST {
            true => fraction.trim_end_matches('0'),
            false => fraction,
        };
        let mut value: i128 = 0;
        for byte in whole.bytes().chain(fraction.bytes()) {
            value = value.checked_mul(10)?.checked_add((byte - b'0').into())?;
        }
        Some(Self {
            value: if is_negative { -value } else { value },
            scale: i32::try_from(fraction.len()).ok()?.checked_sub(exponent)?,
        })
    }

    /// The number with `scale` digits after the point, rounded half away from zero; `None` beyond `precision` digits.
    fn rounded(&self, precision: u8, scale: i8) -> Option<i128> {
        let shift = i32::from(scale).checked_sub(self.scale)?;
        let power = |by: i32| 10_i128.checked_pow(by.unsigned_abs());
        let value = match (self.value, shift) {
            (0, _) => 0,
            (value, 0..) => value.checked_mul(power(shift)?)?,
            (value, _) => match power(shift) {
                // Less than half of the last digit.
                None => 0,
                Some(power) => {
                    let half = power / 2;
                    let (whole, rest) = (value / power, value % power);
                    whole + i128::from(rest >= half) - i128::from(rest <= -half)
                }
            },
        };
        let most = 10_i128.pow(precision.into());
        (-most < value && value < most).then_some(value)
    }
}

/// A DECIMAL of the digits that are written, or of the type `inferred` if that has them all.
fn decimal(text: &str, inferred: &DataType) -> Result<ArrayRef, Fault> {
    let wrong = || {
        Fault::new(
            "22P02",
            format!("invalid input syntax for type numeric: \"{text}\""),
        )
    };
    let beyond = || {
        Fault::new(
            "22003",
            format!("{text} has more digits than any type of Tierra"),
        )
    };
    let is_number = text
        .bytes()
        .all(|byte| byte.is_ascii_digit() || b"+-.eE ".contains(&byte));
    let digits = Digits::of(text).ok_or_else(|| if is_number { beyond() } else { wrong() })?;
    let with = |value, precision, scale| {
        let array = Decimal128Array::from(vec![value]);
        let array = array.with_precision_and_scale(precision, scale);
        array
            .map(|array| Arc::new(array) as ArrayRef)
            .map_err(|_| beyond())
    };
    if let DataType::Decimal128(precision, scale) = inferred
        && digits.scale <= i32::from(*scale)
        && let Some(value) = digits.rounded(*precision, *scale)
    {
        return with(value, *precision, *scale);
    }
    let scale = i8::try_from(digits.scale.max(0)).map_err(|_| beyond())?;
    let value = digits
        .rounded(DIGITS_MOST as u8, scale)
        .ok_or_else(beyond)?;
    let written = itoa::Buffer::new().format(value.unsigned_abs()).len();
    let precision = written.max(scale.unsigned_abs().into()).min(DIGITS_MOST);
    if usize::from(scale.unsigned_abs()) > DIGITS_MOST {
        return Err(beyond());
    }
    with(value, precision as u8, scale)
}

/// A binary numeric as text (its form: `number.rs`).
fn numeric_text(mut bytes: Bytes) -> Result<String, Fault> {
    let wrong = || Fault::new("22P03", "invalid binary numeric");
    if bytes.len() < 8 {
        return Err(wrong());
    }
    let count = bytes.get_i16();
    let weight = i32::from(bytes.get_i16());
    let sign = bytes.get_u16();
    let scale = usize::from(bytes.get_u16());
    if usize::try_from(count).ok().map(|count| count * 2) != Some(bytes.len()) {
        return Err(wrong());
    }
    let mut text = match sign {
        0 => String::new(),
        0x4000 => "-".to_owned(),
        _ => {
            return Err(Fault::new(
                "22P02",
                "NaN and infinity are no values of type numeric here",
            ));
        }
    };
    // Others have more digits than any DECIMAL, and could be long.
    if count > 0 && !(-20..=20).contains(&weight) {
        return Err(Fault::new(
            "22003",
            "a number has more digits than any type of Tierra",
        ));
    }
    let mut groups = Vec::with_capacity(bytes.len() / 2);
    while bytes.has_remaining() {
        let group = bytes.get_u16();
        groups.push(group);
        if group > 9_999 {
            return Err(wrong());
        }
    }
    let group = |power: i32| {
        let place = usize::try_from(weight - power).ok();
        place
            .and_then(|place| groups.get(place))
            .copied()
            .unwrap_or(0)
    };
    for power in (0..=weight.max(0)).rev() {
        text += &format!("{:04}", group(power));
    }
    text.push('.');
    let last = weight + 1 - groups.len() as i32;
    let fraction: String = (last..0)
        .rev()
        .map(|power| format!("{:04}", group(power)))
        .collect();
    let kept = scale.min(fraction.len());
    text += &fraction[..kept];
    // Digits that the sender did not mean to show count all the same.
    text += fraction[kept..].trim_end_matches('0');
    for _ in fraction.len()..scale.min(DIGITS_MOST) {
        text.push('0');
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::AsArray;

    fn code<T>(result: Result<T, Fault>) -> &'static str {
        result.map_or_else(|fault| fault.code, |_| "ok")
    }

    fn text(oid: u32, inferred: DataType, text: &'static str) -> Result<ArrayRef, Fault> {
        Argument::of(oid, &inferred, Format::Text, Some(text.into())).map(|found| found.array)
    }

    #[test]
    fn a_value_has_the_type_that_the_statement_wants_if_it_fits() {
        let array = text(oid::INT2, DataType::Int64, "7").unwrap();
        assert_eq!(array.data_type(), &DataType::Int64);
        let array = text(oid::INT8, DataType::Int32, "3000000000").unwrap();
        assert_eq!(array.as_primitive::<Int64Type>().value(0), 3_000_000_000);
        let array = text(oid::TEXT, DataType::Utf8View, "x").unwrap();
        assert_eq!(array.data_type(), &DataType::Utf8View);
        let array = text(oid::NUMERIC, DataType::Decimal128(9, 2), "1.5").unwrap();
        assert_eq!(array.data_type(), &DataType::Decimal128(9, 2));
        let array = text(oid::NUMERIC, DataType::Decimal128(9, 2), "1.555").unwrap();
        assert_eq!(array.data_type(), &DataType::Decimal128(4, 3));
        let array = text(1016, DataType::new_list(DataType::Int32, true), "{1,NULL}").unwrap();
        assert_eq!(
            (array.data_type(), array.null_count()),
            (&DataType::Int32, 1)
        );
    }

    #[test]
    fn what_does_not_fit_has_its_code() {
        assert_eq!(code(text(oid::INT4, DataType::Int32, "abc")), "22P02");
        assert_eq!(code(text(oid::INT2, DataType::Int16, "40000")), "22003");
        assert_eq!(code(text(oid::FLOAT8, DataType::Float64, "1e999")), "22003");
        assert_eq!(
            code(text(oid::FLOAT8, DataType::Float64, "-Infinity")),
            "ok"
        );
        assert_eq!(
            code(text(oid::DATE, DataType::Date32, "2024-02-30")),
            "22P02"
        );
        assert_eq!(code(text(oid::NUMERIC, DataType::Null, "1x")), "22P02");
        let long = "123456789012345678901234567890123456789";
        assert_eq!(code(text(oid::NUMERIC, DataType::Null, long)), "22003");
        let binary = |oid, bytes: &'static [u8]| {
            code(Argument::of(
                oid,
                &DataType::Null,
                Format::Binary,
                Some(bytes.into()),
            ))
        };
        assert_eq!(binary(oid::INT4, b"\0"), "22P03");
        assert_eq!(
            binary(oid::NUMERIC, b"\0\x01\x7f\xff\0\0\0\0\0\x01"),
            "22003"
        );
        assert_eq!(binary(oid::NUMERIC, b"\0\x02\0\0\0\0\0\0\0\x01"), "22P03");
        assert_eq!(binary(oid::TEXT, b"\xff"), "22021");
        assert_eq!(binary(600, b"\0"), "0A000");
    }

    #[test]
    fn numbers_are_rounded_half_away_from_zero() {
        let rounded = |text: &str| Digits::of(text).unwrap().rounded(9, 2);
        for (text, value) in [
            ("1.005", 101),
            ("-1.005", -101),
            ("1.0049", 100),
            ("1e2", 10_000),
            ("125e-4", 1),
            ("1e-60", 0),
            ("0e99", 0),
        ] {
            assert_eq!(rounded(text), Some(value), "{text}");
        }
        assert_eq!(rounded("9999999.995"), None);
        assert_eq!(rounded("1e60"), None);
    }

    #[test]
    fn binary_numerics_are_those_of_postgresql() {
        for (bytes, expected) in [
            (&b"\0\x02\0\0\0\0\0\x02\0\x7b\x11\x94"[..], "0123.45"),
            (b"\0\x01\xff\xff\x40\0\0\x02\x01\xf4", "-0000.05"),
            (b"\0\0\0\0\0\0\0\x02", "0000.00"),
            (b"\0\x01\0\x02\0\0\0\0\0\x01", "000100000000."),
        ] {
            let text = numeric_text(Bytes::copy_from_slice(bytes)).unwrap();
            assert_eq!(text, expected);
            assert!(Digits::of(&text).is_some());
        }
    }
}
