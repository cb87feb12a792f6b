//! Values as text and from text, as binary, and casts between types.

use std::fmt::Write as _;
use std::sync::Arc;

use crate::contents::Objects;
use crate::error::{Error, Result};
use crate::names::not_there;
use crate::types::Type;
use crate::value::{Items, Value};

/// A cast. `Letters` is the most letters that are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cast {
    pub(crate) from: Type,
    pub(crate) to: Type,
    pub(crate) letters: Option<usize>,
}

impl Cast {
    /// Fails if there is no such cast.
    pub(crate) fn check(self) -> Result<()> {
        let Self { from, to, .. } = self;
        let is_there = from == to
            || from.is_text() && can_read(to)
            || to.is_text() && from != Type::RECORD
            || from.class() == b'N' && to.class() == b'N'
            || matches!(
                (from, to),
                (Type::BOOL, Type::INT4) | (Type::INT4, Type::BOOL)
            )
            || match (from.element(), to.element()) {
                (Some(from), Some(to)) => Self {
                    from,
                    to,
                    letters: None,
                }
                .check()
                .is_ok(),
                _ => false,
            };
        match is_there {
            true => Ok(()),
            false => {
                let message = format!("cannot cast type {} to {}", from.sql_name(), to.sql_name());
                Err(Error::new("42846", message))
            }
        }
    }

    pub(crate) fn apply(self, value: &Value, objects: &Objects<'_>) -> Result<Value> {
        let Self { from, to, letters } = self;
        if value.is_null() {
            return Ok(Value::Null);
        }
        if let (Some(from), Some(to), Value::Array(array)) = (from.element(), to.element(), value) {
            let inner = Self { from, to, letters };
            let items = array.items.iter().map(|item| inner.apply(item, objects));
            let items = items.collect::<Result<_>>()?;
            return Ok(Value::Array(Arc::new(Items {
                first: array.first,
                items,
            })));
        }
        if to.is_text() {
            let text = match (value, from) {
                // The blanks at its end are no part of what it says.
                (Value::Text(text), Type::BPCHAR) if to != Type::BPCHAR => {
                    text.trim_end_matches(' ').into()
                }
                (Value::Text(text), _) => Arc::clone(text),
                (Value::Bool(truth), _) => truth.to_string().into(),
                _ => output(value, from, objects).into(),
            };
            return Ok(Value::Text(shortened(&text, to, letters)));
        }
        if from.is_text() {
            return input(value.as_text(), to, objects);
        }
        match (value, to) {
            (Value::Bool(truth), Type::INT4) => Ok(Value::Int((*truth).into())),
            (Value::Int(int), Type::BOOL) => Ok(Value::Bool(*int != 0)),
            (Value::Int(_) | Value::Float(_), _) if to.is_whole() => in_range(value, from, to),
            (Value::Int(int), Type::FLOAT8) => Ok(Value::Float(*int as f64)),
            (Value::Int(int), Type::FLOAT4) => Ok(Value::Float((*int as f32).into())),
            (Value::Float(float), Type::FLOAT4) => single(*float),
            _ => Ok(value.clone()),
        }
    }
}

/// A number as a float of four bytes has it.
fn single(float: f64) -> Result<Value> {
    let single = float as f32;
    match single.is_infinite() && float.is_finite() {
        true => Err(Error::new("22003", "value out of range: overflow")),
        false => Ok(Value::Float(single.into())),
    }
}

/// Whether values of the type can be made of text.
fn can_read(ty: Type) -> bool {
    let known = ty.is_text() || ty.class() == b'N' || ty == Type::BOOL || ty.is_whole();
    known || ty.element().is_some_and(can_read)
}

/// A whole number of type `from` as one of `to`.
fn in_range(value: &Value, from: Type, to: Type) -> Result<Value> {
    let beyond = || Error::new("22003", format!("{} out of range", to.sql_name()));
    if let Value::Float(float) = value
        && !(-9.0e18..=9.0e18).contains(float)
    {
        return Err(beyond());
    }
    let int = match (value, from) {
        // Half of it is rounded away from zero, and of floats to the next even one.
        (Value::Float(float), Type::NUMERIC) => float.round() as i64,
        _ => value.as_int(),
    };
    let (least, most) = match to {
        Type::INT2 => (i16::MIN.into(), i16::MAX.into()),
        Type::INT4 => (i32::MIN.into(), i32::MAX.into()),
        Type::INT8 => (i64::MIN, i64::MAX),
        // A negative integer is a number as if it had no sign.
        _ if int < 0 && int >= i32::MIN.into() && from != Type::INT8 => {
            return Ok(Value::Int(int & 0xffff_ffff));
        }
        _ => (0, u32::MAX.into()),
    };
    match (least..=most).contains(&int) {
        true => Ok(Value::Int(int)),
        false => Err(beyond()),
    }
}

/// A text as a value of the text type `ty`.
fn shortened(text: &Arc<str>, ty: Type, letters: Option<usize>) -> Arc<str> {
    // Names may be longer here than PostgreSQL's: they are not cut.
    let bytes = if ty == Type::CHAR { 1 } else { usize::MAX };
    let mut end = text.len().min(bytes);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    if let Some((place, _)) = letters.and_then(|letters| text.char_indices().nth(letters)) {
        end = end.min(place);
    }
    match letters {
        Some(letters) if ty == Type::BPCHAR => {
            let blanks = letters.saturating_sub(text[..end].chars().count());
            (text[..end].to_owned() + &" ".repeat(blanks)).into()
        }
        _ if end == text.len() => Arc::clone(text),
        _ => text[..end].into(),
    }
}

/// Reads a value.
pub(crate) fn input(text: &str, ty: Type, objects: &Objects<'_>) -> Result<Value> {
    let invalid = || {
        let message = format!(
            "invalid input syntax for type {}: \"{text}\"",
            ty.sql_name()
        );
        Error::new("22P02", message)
    };
    if ty.is_text() {
        return Ok(Value::Text(shortened(&text.into(), ty, None)));
    }
    if ty.is_reference() {
        let found = objects.number_of(ty, text)?;
        return found.map(Value::Int).ok_or_else(|| not_there(ty, text));
    }
    if ty == Type::INT2VECTOR || ty == Type::OIDVECTOR {
        let element = ty.element().unwrap_or(Type::INT2);
        let items = text
            .split_whitespace()
            .map(|item| input(item, element, objects));
        return Ok(Value::vector(items.collect::<Result<_>>()?));
    }
    if let Some(element) = ty.element() {
        let items = items_of(text)
            .ok_or_else(|| Error::new("22P02", format!("malformed array literal: \"{text}\"")))?;
        let items = items.into_iter().map(|item| match item {
            Some(item) => input(&item, element, objects),
            None => Ok(Value::Null),
        });
        return Ok(Value::array(items.collect::<Result<_>>()?));
    }
    let bare = text.trim();
    if ty == Type::BOOL {
        let folded = bare.to_lowercase();
        let begins = |word: &str, least: usize| folded.len() >= least && word.starts_with(&folded);
        return match () {
            () if begins("true", 1) || begins("yes", 1) || folded == "on" || folded == "1" => {
                Ok(true.into())
            }
            () if begins("false", 1) || begins("no", 1) || begins("off", 2) || folded == "0" => {
                Ok(false.into())
            }
            () => Err(invalid()),
        };
    }
    if ty.is_whole() {
        let int: i128 = bare.parse().map_err(|_| invalid())?;
        let beyond = || {
            Error::new(
                "22003",
                format!(
                    "value \"{text}\" is out of range for type {}",
                    ty.sql_name()
                ),
            )
        };
        let int = i64::try_from(int).map_err(|_| beyond())?;
        return in_range(&Value::Int(int), Type::INT4, ty).map_err(|_| beyond());
    }
    if ty.class() == b'N' {
        if let (Type::NUMERIC, Ok(int)) = (ty, bare.parse()) {
            return Ok(Value::Int(int));
        }
        let float = bare.parse().map_err(|_| invalid())?;
        return match ty {
            Type::FLOAT4 => single(float),
            _ => Ok(Value::Float(float)),
        };
    }
    Err(Error::unsupported(format_args!(
        "a value of type {}",
        ty.sql_name()
    )))
}

/// The items of an array as it is written.
fn items_of(text: &str) -> Option<Vec<Option<String>>> {
    let inner = text.trim().strip_prefix('{')?.strip_suffix('}')?;
    let mut items = Vec::new();
    if inner.trim().is_empty() {
        return Some(items);
    }
    let mut letters = inner.chars().peekable();
    loop {
        while letters.next_if(|c| c.is_whitespace()).is_some() {}
        let mut item = String::new();
        let is_quoted = letters.next_if_eq(&'"').is_some();
        loop {
            match letters.peek().copied() {
                Some('"') if is_quoted => {
                    letters.next();
                    break;
                }
                None if is_quoted => return None,
                None | Some(',') if !is_quoted => break,
                // An array of arrays.
                Some('{' | '}' | '"') if !is_quoted => return None,
                Some('\\') => {
                    letters.next();
                    item.push(letters.next()?);
                }
                Some(letter) => {
                    letters.next();
                    item.push(letter);
                }
                None => return None,
            }
        }
        let bare = item.trim_end();
        items.push(match is_quoted {
            true => Some(item),
            false if bare.is_empty() => return None,
            false if bare.eq_ignore_ascii_case("null") => None,
            false => Some(bare.to_owned()),
        });
        while letters.next_if(|c| c.is_whitespace()).is_some() {}
        match letters.next() {
            None => return Some(items),
            Some(',') => {}
            Some(_) => return None,
        }
    }
}

/// Writes a value that is not NULL.
pub(crate) fn output(value: &Value, ty: Type, objects: &Objects<'_>) -> String {
    match value {
        Value::Null => String::new(),
        Value::Bool(truth) => if *truth { "t" } else { "f" }.to_owned(),
        Value::Int(int) if ty.is_reference() => objects.name_of(ty, *int),
        Value::Int(int) => int.to_string(),
        Value::Float(float) => float_text(*float, ty),
        Value::Text(text) => text.to_string(),
        Value::Array(array) if ty == Type::INT2VECTOR || ty == Type::OIDVECTOR => {
            let items = array
                .items
                .iter()
                .map(|item| output(item, Type::INT8, objects));
            items.collect::<Vec<_>>().join(" ")
        }
        Value::Array(array) => {
            let element = ty.element().unwrap_or(Type::TEXT);
            let items = array.items.iter().map(|item| match item {
                Value::Null => "NULL".to_owned(),
                item => item_text(output(item, element, objects)),
            });
            let items = items.collect::<Vec<_>>().join(",");
            let last = array.first + array.items.len() as i64 - 1;
            match array.first {
                first if first != 1 && !array.items.is_empty() => {
                    format!("[{first}:{last}]={{{items}}}")
                }
                _ => format!("{{{items}}}"),
            }
        }
        Value::Record(fields) => {
            let fields = fields
                .iter()
                .map(|field| output(field, Type::TEXT, objects));
            format!("({})", fields.collect::<Vec<_>>().join(","))
        }
    }
}

fn item_text(text: String) -> String {
    let is_plain = !text.is_empty()
        && !text.eq_ignore_ascii_case("null")
        && !text.contains(|c: char| "{},\"\\".contains(c) || c.is_whitespace());
    match is_plain {
        true => text,
        false => format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"")),
    }
}

fn float_text(float: f64, ty: Type) -> String {
    if float.is_infinite() {
        return if float > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    let (size, most) = match ty {
        Type::FLOAT4 => (f64::from(float as f32).abs(), 1e6),
        _ => (float.abs(), 1e15),
    };
    if ty != Type::NUMERIC && size != 0.0 && !(1e-4_f32.into()..most).contains(&size) {
        let written = match ty {
            Type::FLOAT4 => format!("{:e}", float as f32),
            _ => format!("{float:e}"),
        };
        let (digits, power) = written.split_once('e').unwrap_or((&written, "0"));
        let power: i32 = power.parse().unwrap_or(0);
        let sign = if power < 0 { '-' } else { '+' };
        return format!("{digits}e{sign}{:02}", power.abs());
    }
    match ty {
        Type::FLOAT4 => (float as f32).to_string(),
        _ => float.to_string(),
    }
}

/// Writes a value that is not NULL in binary.
pub(crate) fn binary(value: &Value, ty: Type, objects: &Objects<'_>) -> Vec<u8> {
    let len = ty.size();
    match value {
        Value::Bool(truth) => vec![u8::from(*truth)],
        Value::Int(int) if ty.is_whole() => match len {
            2 => (*int as i16).to_be_bytes().to_vec(),
            4 => (*int as u32).to_be_bytes().to_vec(),
            _ => int.to_be_bytes().to_vec(),
        },
        Value::Int(_) | Value::Float(_) if ty == Type::FLOAT4 || ty == Type::FLOAT8 => {
            let float = match value {
                Value::Float(float) => *float,
                other => other.as_int() as f64,
            };
            match ty {
                Type::FLOAT4 => (float as f32).to_be_bytes().to_vec(),
                _ => float.to_be_bytes().to_vec(),
            }
        }
        Value::Int(_) | Value::Float(_) => numeric(&output(value, Type::NUMERIC, objects)),
        // It is one byte in any case.
        Value::Text(text) if ty == Type::CHAR => vec![text.bytes().next().unwrap_or(0)],
        Value::Array(array) => {
            let element = ty.element().unwrap_or(Type::TEXT);
            let mut bytes = Vec::new();
            let is_empty = array.items.is_empty();
            bytes.extend(i32::from(!is_empty).to_be_bytes());
            bytes.extend(i32::from(array.items.iter().any(Value::is_null)).to_be_bytes());
            bytes.extend(element.0.to_be_bytes());
            if !is_empty {
                bytes.extend((array.items.len() as u32).to_be_bytes());
                bytes.extend((array.first as u32).to_be_bytes());
            }
            for item in &array.items {
                if item.is_null() {
                    bytes.extend((-1_i32).to_be_bytes());
                    continue;
                }
                let item = binary(item, element, objects);
                bytes.extend((item.len() as u32).to_be_bytes());
                bytes.extend(item);
            }
            bytes
        }
        other => output(other, ty, objects).into_bytes(),
    }
}

/// A number that is written in digits, as `numeric` has it in binary: groups of four digits.
fn numeric(text: &str) -> Vec<u8> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (0x4000_u16, digits),
        None => (0, text),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let scale = fraction.len();
    let mut padded = "0".repeat((4 - whole.len() % 4) % 4) + whole;
    let weight = (padded.len() / 4) as i32 - 1;
    padded.push_str(fraction);
    let tail = (4 - padded.len() % 4) % 4;
    let _ = write!(padded, "{}", "0".repeat(tail));
    let groups: Vec<u16> = padded
        .as_bytes()
        .chunks(4)
        .map(|group| {
            group.iter().fold(0, |sum, digit| {
                sum * 10 + u16::from(digit.wrapping_sub(b'0'))
            })
        })
        .collect();
    let leading = groups.iter().take_while(|group| **group == 0).count();
    let groups = &groups[leading..];
    let mut bytes = Vec::new();
    bytes.extend((groups.len() as u16).to_be_bytes());
    // It is negative where the number begins behind the first four digits of its fraction.
    let weight = match groups {
        [] => 0,
        _ => weight - leading as i32,
    };
    bytes.extend((weight as i16).to_be_bytes());
    bytes.extend(sign.to_be_bytes());
    bytes.extend((scale as u16).to_be_bytes());
    bytes.extend(groups.iter().flat_map(|group| group.to_be_bytes()));
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contents::Contents;

    fn cast(text: &str, to: Type) -> std::result::Result<String, &'static str> {
        let contents = Contents {
            user: "alice".into(),
            ..Contents::default()
        };
        let objects = Objects::of(&contents);
        let value = input(text, to, &objects).map_err(|error| error.code)?;
        Ok(output(&value, to, &objects))
    }

    #[test]
    fn texts_become_values_and_texts_again() {
        for (text, ty, expected) in [
            ("7", Type::INT4, Ok("7")),
            ("40000", Type::INT2, Err("22003")),
            ("x", Type::INT4, Err("22P02")),
            ("-1", Type::OID, Ok("4294967295")),
            ("yes", Type::BOOL, Ok("t")),
            ("maybe", Type::BOOL, Err("22P02")),
            ("pg_class", Type::REGCLASS, Ok("pg_class")),
            (
                "information_schema.tables",
                Type::REGCLASS,
                Ok("information_schema.tables"),
            ),
            ("nosuch", Type::REGCLASS, Err("42P01")),
            ("INT4", Type::REGTYPE, Ok("integer")),
            ("text[]", Type::REGTYPE, Ok("text[]")),
            ("alice", Type::REGROLE, Ok("alice")),
            (
                "{a,\"b c\",NULL,\"\"}",
                Type::TEXT_ARRAY,
                Ok("{a,\"b c\",NULL,\"\"}"),
            ),
            ("{a", Type::TEXT_ARRAY, Err("22P02")),
            ("1 2", Type::INT2VECTOR, Ok("1 2")),
            ("1.5", Type::FLOAT8, Ok("1.5")),
            ("1e20", Type::FLOAT8, Ok("1e+20")),
            ("2024-01-01", Type::DATE, Err("0A000")),
        ] {
            assert_eq!(
                cast(text, ty).as_deref().map_err(|code| *code),
                expected,
                "{text}"
            );
        }
    }

    #[test]
    fn numerics_are_groups_of_digits() {
        assert_eq!(
            numeric("12345.678"),
            [0, 3, 0, 1, 0, 0, 0, 3, 0, 1, 9, 41, 26, 124]
        );
        assert_eq!(numeric("0"), [0; 8]);
        assert_eq!(numeric("0.0001"), [0, 1, 255, 255, 0, 0, 0, 4, 0, 1]);
        assert_eq!(numeric("-0.5"), [0, 1, 255, 255, 64, 0, 0, 1, 19, 136]);
    }
}
