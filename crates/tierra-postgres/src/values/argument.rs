//! Arguments of statements, of the type that the statement gives them if nothing is lost.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Datum, Decimal128Array, new_empty_array, new_null_array};
use arrow::compute::{cast, concat};
use arrow::datatypes::DataType;
use arrow::error::ArrowError;
use bytes::{Bytes, BytesMut};

use super::column::Column;
use super::digits::{DIGITS_MOST, Digits, numeric_text};
use super::read::{Builder, text_of};
use super::types::element_of;
use super::{Format, array, oid, type_of};
use crate::error::Fault;

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
    /// It, as PostgreSQL writes it.
    pub(crate) fn text(&self) -> Result<Option<String>, Fault> {
        let column = Column::of(&self.array)?;
        let mut text = BytesMut::new();
        if self.is_list {
            array::put_text(&column, 0..self.array.len(), &mut text);
        } else if !column.put_text_or_null(0, &mut text) {
            return Ok(None);
        }
        Ok(Some(String::from_utf8_lossy(&text).into_owned()))
    }

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
        let first = is_kin(&natural, inferred).then_some(inferred);
        let mut last = None;
        for ty in first.into_iter().chain([&natural]) {
            let Some(mut builder) = Builder::with_room(ty, 1) else {
                continue;
            };
            let pushed = match format {
                Format::Text => builder.push_text(text_of(&value)?),
                Format::Binary => builder.push_binary(oid, value.clone()),
            };
            match pushed {
                Ok(()) => return Ok(single(builder.finish())),
                Err(fault) => last = Some(fault),
            }
        }
        Err(last.unwrap_or_else(|| Fault::unsupported("a parameter of this type")))
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
    if element == oid::NUMERIC {
        return numerics(format, value);
    }
    let natural = type_of(element).ok_or_else(|| Fault::unsupported("an array of this type"))?;
    let wanted = match (&natural, inferred) {
        (_, inferred) if is_kin(&natural, inferred) => [inferred.clone(), natural],
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

/// Numerics with all their digits: as a DECIMAL with as many after the point as the one that has most.
fn numerics(format: Format, value: Bytes) -> Result<ArrayRef, Fault> {
    let texts: Vec<Option<String>> = match format {
        Format::Text => array::items_of_text(text_of(&value)?)?,
        Format::Binary => {
            let (sent, items) = array::items_of_binary(value)?;
            if sent != oid::NUMERIC {
                return Err(Fault::new("42804", "an array of another type than numeric"));
            }
            let items = items.into_iter();
            items
                .map(|item| item.map(numeric_text).transpose())
                .collect::<Result<_, _>>()?
        }
    };
    let numbers = texts.iter().map(|text| match text {
        Some(text) => decimal(text, &DataType::Null).map(Some),
        None => Ok(None),
    });
    let numbers = numbers.collect::<Result<Vec<_>, Fault>>()?;
    let most = |digits: fn(u8, i8) -> u8| {
        let types = numbers
            .iter()
            .flatten()
            .map(|number| match number.data_type() {
                DataType::Decimal128(precision, scale) => digits(*precision, *scale),
                _ => 0,
            });
        types.max().unwrap_or(0)
    };
    let scale = most(|_, scale| scale.unsigned_abs());
    let whole = most(|precision, scale| precision - scale.unsigned_abs());
    let precision = (whole + scale).max(1);
    // Both are at most 38.
    let scale = scale.cast_signed();
    let ty = match usize::from(precision) <= DIGITS_MOST {
        true => DataType::Decimal128(precision, scale),
        false => DataType::Decimal256(precision, scale),
    };
    let wrong = |error: ArrowError| Fault::new("22003", error.to_string());
    let items = numbers.iter().map(|number| match number {
        Some(number) => cast(number, &ty).map_err(wrong),
        None => Ok(new_null_array(&ty, 1)),
    });
    let items = items.collect::<Result<Vec<_>, Fault>>()?;
    if items.is_empty() {
        return Ok(new_empty_array(&ty));
    }
    let items: Vec<&dyn Array> = items.iter().map(AsRef::as_ref).collect();
    concat(&items).map_err(wrong)
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
    let digits = digits.shortened();
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

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::AsArray;
    use arrow::datatypes::Int64Type;

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
        let cents = DataType::new_list(DataType::Decimal128(9, 2), true);
        let array = text(1231, cents, "{1.505,12345678.5,NULL}").unwrap();
        assert_eq!(
            (array.data_type(), array.null_count()),
            (&DataType::Decimal128(11, 3), 1)
        );
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
        assert_eq!(
            code(text(
                oid::NUMERIC,
                DataType::Null,
                "0.123456789012345678901234567890123456789"
            )),
            "ok"
        );
        for (oid, infinite) in [(oid::DATE, "infinity"), (oid::TIMESTAMP, "-infinity")] {
            assert_eq!(code(text(oid, DataType::Null, infinite)), "22008");
        }
        assert_eq!(code(text(oid::TEXT, DataType::Utf8, "a\0b")), "22021");
        let binary = |oid, bytes: &'static [u8]| {
            code(Argument::of(
                oid,
                &DataType::Null,
                Format::Binary,
                Some(bytes.into()),
            ))
        };
        assert_eq!(binary(oid::INT4, b"\0"), "22P03");
        for infinite in [b"\x80\0\0\0", b"\x7f\xff\xff\xff"] {
            assert_eq!(binary(oid::DATE, infinite), "22008");
        }
        assert_eq!(
            binary(oid::NUMERIC, b"\0\x01\x7f\xff\0\0\0\0\0\x01"),
            "22003"
        );
        assert_eq!(binary(oid::NUMERIC, b"\0\x02\0\0\0\0\0\0\0\x01"), "22P03");
        assert_eq!(binary(oid::TEXT, b"\xff"), "22021");
        assert_eq!(binary(600, b"\0"), "0A000");
    }
}
