//! Functions of texts and numbers.

use super::function::{Function, OUTPUT, function};
use crate::error::{Error, Result};
use crate::names::quoted;
use crate::pattern::check_longest;
use crate::session::Session;
use crate::types::Type;
use crate::value::Value;

const T: Type = Type::TEXT;
const I: Type = Type::INT4;
/// The most bytes of a text that a function makes.
const TEXT_MOST_BYTES: usize = 1 << 20;

pub(super) const FUNCTIONS: &[Function] = &[
    function("lower", &[T], T, |_, a| {
        Ok(a[0].as_text().to_lowercase().into())
    }),
    function("upper", &[T], T, |_, a| {
        Ok(a[0].as_text().to_uppercase().into())
    }),
    function("length", &[T], I, |_, a| Ok(letters(&a[0]))),
    function("char_length", &[T], I, |_, a| Ok(letters(&a[0]))),
    function("character_length", &[T], I, |_, a| Ok(letters(&a[0]))),
    // Those of `character(n)` are counted with its blanks.
    function("octet_length", &[Type::BPCHAR], I, |_, a| {
        Ok(Value::Int(a[0].as_text().len() as i64))
    }),
    function("btrim", &[T], T, |_, a| {
        Ok(a[0].as_text().trim_matches(' ').into())
    }),
    function("ltrim", &[T], T, |_, a| {
        Ok(a[0].as_text().trim_start_matches(' ').into())
    }),
    function("rtrim", &[T], T, |_, a| {
        Ok(a[0].as_text().trim_end_matches(' ').into())
    }),
    function("btrim", &[T, T], T, |session, a| {
        check_pairs(session, a)?;
        Ok(a[0]
            .as_text()
            .trim_matches(|c| a[1].as_text().contains(c))
            .into())
    }),
    function("ltrim", &[T, T], T, |session, a| {
        check_pairs(session, a)?;
        Ok(a[0]
            .as_text()
            .trim_start_matches(|c| a[1].as_text().contains(c))
            .into())
    }),
    function("rtrim", &[T, T], T, |session, a| {
        check_pairs(session, a)?;
        Ok(a[0]
            .as_text()
            .trim_end_matches(|c| a[1].as_text().contains(c))
            .into())
    }),
    function("substr", &[T, I], T, |_, a| part(&a[0], &a[1], None)),
    function("substr", &[T, I, I], T, |_, a| {
        part(&a[0], &a[1], Some(&a[2]))
    }),
    function("substring", &[T, I], T, |_, a| part(&a[0], &a[1], None)),
    function("substring", &[T, I, I], T, |_, a| {
        part(&a[0], &a[1], Some(&a[2]))
    }),
    function("substring", &[T, T], T, |session, a| {
        session.searched(a[0].as_text())?;
        check_longest(a[1].as_text())?;
        let regex = session.regex(a[1].as_text(), false)?;
        let found = regex.captures(a[0].as_text());
        // The first part in brackets, if there is one.
        let part = found.and_then(|found| found.get(usize::from(found.len() > 1)));
        Ok(part.map(|part| part.as_str()).into())
    }),
    function("left", &[T, I], T, |_, a| {
        let count = end(&a[0], &a[1]);
        Ok(a[0]
            .as_text()
            .chars()
            .take(count)
            .collect::<String>()
            .into())
    }),
    function("right", &[T, I], T, |_, a| {
        let all = a[0].as_text().chars().count();
        let skipped = all - end(&a[0], &a[1]).min(all);
        Ok(a[0]
            .as_text()
            .chars()
            .skip(skipped)
            .collect::<String>()
            .into())
    }),
    function("replace", &[T, T, T], T, |session, a| {
        match a[1].as_text() {
            "" => Ok(a[0].clone()),
            from => {
                let times = a[0].as_text().matches(from).count();
                check(times.saturating_mul(a[2].as_text().len()))?;
                session.step(times as u64)?;
                Ok(a[0].as_text().replace(from, a[2].as_text()).into())
            }
        }
    }),
    function("strpos", &[T, T], I, |_, a| Ok(place(&a[0], &a[1]))),
    function("position", &[T, T], I, |_, a| Ok(place(&a[0], &a[1]))),
    function("split_part", &[T, T, I], T, |_, a| {
        let parts: Vec<&str> = match a[1].as_text() {
            "" => vec![a[0].as_text()],
            between => a[0].as_text().split(between).collect(),
        };
        let place = match a[2].as_int() {
            0 => return Err(Error::new("22023", "field position must not be zero")),
            place if place < 0 => parts.len() as i64 + place,
            place => place - 1,
        };
        let part = usize::try_from(place)
            .ok()
            .and_then(|place| parts.get(place));
        Ok(part.copied().unwrap_or_default().into())
    }),
    function("concat", &[OUTPUT], T, |_, a| {
        Ok(a.iter().map(Value::as_text).collect::<String>().into())
    })
    .called_on_null()
    .variadic(),
    function("concat_ws", &[T, OUTPUT], T, |_, a| {
        let parts = a[1..]
            .iter()
            .filter(|part| !part.is_null())
            .map(Value::as_text);
        Ok(match a[0].is_null() {
            true => Value::Null,
            false => parts.collect::<Vec<_>>().join(a[0].as_text()).into(),
        })
    })
    .called_on_null()
    .variadic(),
    function("format", &[T, OUTPUT], T, |_, a| format(a))
        .called_on_null()
        .variadic(),
    function("json_build_object", &[Type::ANY], Type(114), |_, a| json(a))
        .called_on_null()
        .variadic(),
    function("repeat", &[T, I], T, |_, a| {
        let times = usize::try_from(a[1].as_int()).unwrap_or(0);
        check(times.saturating_mul(a[0].as_text().len()))?;
        Ok(a[0].as_text().repeat(times).into())
    }),
    function("reverse", &[T], T, |_, a| {
        Ok(a[0].as_text().chars().rev().collect::<String>().into())
    }),
    function("starts_with", &[T, T], Type::BOOL, |_, a| {
        Ok(a[0].as_text().starts_with(a[1].as_text()).into())
    }),
    function("ascii", &[T], I, |_, a| {
        Ok(Value::Int(
            a[0].as_text()
                .chars()
                .next()
                .map_or(0, |c| u32::from(c).into()),
        ))
    }),
    function("chr", &[I], T, |_, a| {
        let letter = u32::try_from(a[0].as_int())
            .ok()
            .filter(|code| *code > 0)
            .and_then(char::from_u32);
        let letter =
            letter.ok_or_else(|| Error::new("54000", "requested character is not valid"))?;
        Ok(letter.to_string().into())
    }),
    function("translate", &[T, T, T], T, |session, a| {
        check_pairs(session, a)?;
        let to: Vec<char> = a[2].as_text().chars().collect();
        let letters = a[0].as_text().chars().filter_map(|letter| {
            match a[1].as_text().chars().position(|from| from == letter) {
                Some(place) => to.get(place).copied(),
                None => Some(letter),
            }
        });
        Ok(letters.collect::<String>().into())
    }),
    function("regexp_replace", &[T, T, T], T, |session, a| {
        replaced(session, a, "")
    }),
    function("regexp_replace", &[T, T, T, T], T, |session, a| {
        replaced(session, a, a[3].as_text())
    }),
    function("regexp_match", &[T, T], Type::TEXT_ARRAY, |session, a| {
        session.searched(a[0].as_text())?;
        check_longest(a[1].as_text())?;
        let regex = session.regex(a[1].as_text(), false)?;
        let Some(found) = regex.captures(a[0].as_text()) else {
            return Ok(Value::Null);
        };
        let skipped = usize::from(found.len() > 1);
        let parts = found
            .iter()
            .skip(skipped)
            .map(|part| part.map(|part| part.as_str()).into());
        Ok(Value::array(parts.collect()))
    }),
    function("quote_ident", &[T], T, |_, a| {
        Ok(quoted(a[0].as_text()).into())
    }),
    function("quote_literal", &[OUTPUT], T, |_, a| {
        Ok(literal(a[0].as_text()).into())
    }),
    function("quote_nullable", &[OUTPUT], T, |_, a| {
        Ok(if a[0].is_null() {
            "NULL".into()
        } else {
            literal(a[0].as_text()).into()
        })
    })
    .called_on_null(),
    function("abs", &[Type::INT8], Type::INT8, |_, a| {
        a[0].as_int()
            .checked_abs()
            .map(Value::Int)
            .ok_or_else(|| Error::new("22003", "bigint out of range"))
    }),
    function(
        "mod",
        &[Type::INT8, Type::INT8],
        Type::INT8,
        |_, a| match a[1].as_int() {
            0 => Err(Error::new("22012", "division by zero")),
            by => Ok(Value::Int(a[0].as_int().wrapping_rem(by))),
        },
    ),
];

fn check(bytes: usize) -> Result<()> {
    if bytes <= TEXT_MOST_BYTES {
        Ok(())
    } else {
        Err(Error::too_much())
    }
}

/// Counts the steps of looking for each letter of a text in another.
fn check_pairs(session: &Session<'_>, a: &[Value]) -> Result<()> {
    let pairs = (a[0].bytes() as u64).saturating_mul(a[1].bytes() as u64);
    session.step(pairs / 16)
}

fn letters(text: &Value) -> Value {
    Value::Int(text.as_text().chars().count() as i64)
}

/// The number of the letter at which `part` begins; 0 if it is not there.
fn place(text: &Value, part: &Value) -> Value {
    let text = text.as_text();
    let found = text.find(part.as_text());
    Value::Int(found.map_or(0, |at| text[..at].chars().count() as i64 + 1))
}

/// How many letters are meant by a number that may be negative: all but so many.
fn end(text: &Value, count: &Value) -> usize {
    let count = match count.as_int() {
        count if count < 0 => text.as_text().chars().count() as i64 + count,
        count => count,
    };
    usize::try_from(count).unwrap_or(0)
}

fn part(text: &Value, from: &Value, len: Option<&Value>) -> Result<Value> {
    let from = from.as_int();
    let to = match len.map(Value::as_int) {
        Some(len) if len < 0 => {
            return Err(Error::new("22011", "negative substring length not allowed"));
        }
        Some(len) => from.saturating_add(len),
        None => i64::MAX,
    };
    let letters = (1..).zip(text.as_text().chars());
    let letters = letters
        .filter(|(at, _)| (from..to).contains(at))
        .map(|(_, letter)| letter);
    Ok(letters.collect::<String>().into())
}

fn literal(text: &str) -> String {
    let quoted = text.replace('\'', "''");
    match text.contains('\\') {
        true => format!("E'{}'", quoted.replace('\\', "\\\\")),
        false => format!("'{quoted}'"),
    }
}

fn replaced(session: &Session<'_>, arguments: &[Value], flags: &str) -> Result<Value> {
    if let Some(flag) = flags.chars().find(|flag| !"gi".contains(*flag)) {
        return Err(Error::unsupported(format_args!(
            "the flag \"{flag}\" of regexp_replace"
        )));
    }
    session.searched(arguments[0].as_text())?;
    check_longest(arguments[1].as_text())?;
    let regex = session.regex(arguments[1].as_text(), flags.contains('i'))?;
    // `\1` and `\&` stand for what was found.
    let mut with = String::new();
    let mut letters = arguments[2].as_text().chars();
    while let Some(letter) = letters.next() {
        match (letter, letter == '\\') {
            ('$', _) => with.push_str("$$"),
            (_, false) => with.push(letter),
            _ => match letters.next() {
                Some('&') => with.push_str("${0}"),
                Some(digit) if digit.is_ascii_digit() => {
                    with.extend(["${", &digit.to_string(), "}"])
                }
                Some(other) => with.push(other),
                None => with.push('\\'),
            },
        }
    }
    let times = usize::from(!flags.contains('g'));
    let text = arguments[0].as_text();
    check(text.len().saturating_mul(with.len() + 1))?;
    Ok(regex.replacen(text, times, with.as_str()).as_ref().into())
}

/// Names and values as a JSON object.
fn json(arguments: &[Value]) -> Result<Value> {
    let quoted = |text: &str| {
        let letters = text.chars().map(|letter| match letter {
            '"' | '\\' => format!("\\{letter}"),
            '\n' => "\\n".to_owned(),
            letter if letter < ' ' => format!("\\u{:04x}", u32::from(letter)),
            letter => letter.to_string(),
        });
        format!("\"{}\"", letters.collect::<String>())
    };
    if arguments.len() % 2 == 1 {
        return Err(Error::new(
            "22023",
            "argument list must have even number of elements",
        ));
    }
    let pairs = arguments.chunks(2).map(|pair| {
        let name = match &pair[0] {
            Value::Text(name) => quoted(name),
            _ => return Err(Error::unsupported("a name in JSON that is not a text")),
        };
        Ok(match &pair[1] {
            Value::Null => format!("{name} : null"),
            Value::Bool(truth) => format!("{name} : {truth}"),
            Value::Int(int) => format!("{name} : {int}"),
            Value::Float(float) => format!("{name} : {float}"),
            Value::Text(text) => format!("{name} : {}", quoted(text)),
            Value::Array(_) | Value::Record(_) => {
                return Err(Error::unsupported("an array in JSON"));
            }
        })
    });
    let pairs = pairs.collect::<Result<Vec<_>>>()?;
    Ok(format!("{{{}}}", pairs.join(", ")).into())
}

/// `%s`, `%I` and `%L` in a text stand for the arguments behind it.
fn format(arguments: &[Value]) -> Result<Value> {
    if arguments[0].is_null() {
        return Ok(Value::Null);
    }
    let mut text = String::new();
    let mut rest = arguments[1..].iter();
    let mut letters = arguments[0].as_text().chars();
    while let Some(letter) = letters.next() {
        if letter != '%' {
            text.push(letter);
            continue;
        }
        let kind = letters.next();
        if kind == Some('%') {
            text.push('%');
            continue;
        }
        let next = rest
            .next()
            .ok_or_else(|| Error::new("22023", "too few arguments for format()"))?;
        match (kind, next.is_null()) {
            (Some('s'), _) => text.push_str(next.as_text()),
            (Some('I'), false) => text.push_str(&quoted(next.as_text())),
            (Some('I'), true) => {
                return Err(Error::new(
                    "22004",
                    "null values cannot be formatted as an SQL identifier",
                ));
            }
            (Some('L'), false) => text.push_str(&literal(next.as_text())),
            (Some('L'), true) => text.push_str("NULL"),
            _ => {
                return Err(Error::unsupported(
                    "format() with another conversion than %s, %I and %L",
                ));
            }
        }
    }
    Ok(text.into())
}
