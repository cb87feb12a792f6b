//! `to_char` of a date or timestamp takes PostgreSQL's patterns: `to_char(t, 'YYYY-MM-DD HH24:MI:SS')`. A format with a `%` is one of
//! DataFusion's (`%Y-%m-%d`), whose function took all else for text.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringArray, StringBuilder};
use arrow::compute::cast;
use arrow::datatypes::{DataType, TimeUnit, TimestampMicrosecondType};
use chrono::{DateTime, Datelike, NaiveDateTime, Timelike};
use datafusion::common::{ScalarValue, exec_datafusion_err, exec_err, plan_err};
use datafusion::error::Result;
use datafusion::functions::datetime::to_char::ToCharFunc;
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};

const MICROS: DataType = DataType::Timestamp(TimeUnit::Microsecond, None);
/// Patterns of time zones, of the mode in which nothing is passed over, and of thousands with a comma.
const REFUSED: [&str; 6] = ["TZH", "TZM", "TZ", "OF", "FX", "Y,YYY"];
/// The length to which names of months and days are filled up.
const NAME_CHARS: usize = 9;
/// The Julian day before the first of year 1.
pub(super) const JULIAN_DAYS: i64 = 1_721_425;
pub(super) const ROMAN: [&str; 12] = [
    "I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI", "XII",
];
pub(super) const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
pub(super) const DAYS: [&str; 7] = [
    "Sunday",
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
];

/// The function.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct ToChar {
    signature: Signature,
    /// DataFusion's function, for its formats and for times of day.
    other: ToCharFunc,
}

impl ToChar {
    pub(super) fn new() -> Self {
        Self {
            signature: Signature::user_defined(Volatility::Immutable),
            other: ToCharFunc::new(),
        }
    }
}

impl ScalarUDFImpl for ToChar {
    fn name(&self) -> &str {
        self.other.name()
    }

    fn aliases(&self) -> &[String] {
        self.other.aliases()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let [value, _] = types else {
            return plan_err!("to_char takes a moment and a format");
        };
        let value = match value {
            DataType::Timestamp(_, zone) => {
                DataType::Timestamp(TimeUnit::Microsecond, zone.clone())
            }
            DataType::Null | DataType::Utf8 | DataType::Utf8View | DataType::LargeUtf8 => MICROS,
            DataType::Date32
            | DataType::Date64
            | DataType::Time32(_)
            | DataType::Time64(_)
            | DataType::Duration(_) => value.clone(),
            other => return plan_err!("to_char of {other} is not supported"),
        };
        Ok(vec![value, DataType::Utf8])
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_moment = matches!(
            args.args[0].data_type(),
            DataType::Timestamp(_, _) | DataType::Date32 | DataType::Date64
        );
        let is_other = |format: &str| format.contains('%');
        let formats = args.args[1].to_array(args.number_rows)?;
        let formats = formats.as_string::<i32>();
        if !is_moment || formats.iter().flatten().any(is_other) {
            return self.other.invoke_with_args(args);
        }
        let is_scalar = |arg: &ColumnarValue| matches!(arg, ColumnarValue::Scalar(_));
        let is_one = args.args.iter().all(is_scalar);
        // In a zone, the clock of that zone is shown.
        let moments = cast(&args.args[0].to_array(args.number_rows)?, &MICROS)?;
        let moments = moments.as_primitive::<TimestampMicrosecondType>();
        let mut texts = StringBuilder::new();
        let mut last: Option<(&str, Vec<Part>)> = None;
        for row in 0..moments.len() {
            if moments.is_null(row) || formats.is_null(row) {
                texts.append_null();
                continue;
            }
            let format = formats.value(row);
            let parts = match &mut last {
                Some((known, parts)) if *known == format => parts,
                last => &mut last.insert((format, parts_of(format)?)).1,
            };
            let micros = moments.value(row);
            let moment = DateTime::from_timestamp_micros(micros);
            let moment = moment.ok_or_else(|| {
                exec_datafusion_err!("to_char: the timestamp of {micros} µs is out of range")
            })?;
            let mut text = String::new();
            for part in parts.iter() {
                part.write(moment.naive_utc(), &mut text);
            }
            texts.append_value(text);
        }
        let texts: StringArray = texts.finish();
        match is_one && !texts.is_empty() {
            true => ScalarValue::try_from_array(&texts, 0).map(ColumnarValue::Scalar),
            false => Ok(ColumnarValue::Array(Arc::new(texts) as ArrayRef)),
        }
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.other.documentation()
    }
}

/// A part of a format.
#[derive(Debug)]
enum Part {
    Text(String),
    Number {
        of: fn(NaiveDateTime) -> i64,
        digits: usize,
        /// The last digits alone.
        is_cut: bool,
        /// Without zeros before it.
        is_bare: bool,
        ordinal: Option<Case>,
    },
    Name {
        of: fn(NaiveDateTime) -> &'static str,
        case: Case,
        chars: usize,
    },
}

#[derive(Debug, Clone, Copy)]
enum Case {
    Upper,
    Lower,
    First,
}

impl Case {
    /// The case of a pattern's name.
    fn of(pattern: &str) -> Case {
        let mut letters = pattern.chars().filter(char::is_ascii_alphabetic);
        let first = letters
            .next()
            .is_some_and(|letter| letter.is_ascii_uppercase());
        match (
            first,
            letters
                .next()
                .is_none_or(|letter| letter.is_ascii_uppercase()),
        ) {
            (true, true) => Case::Upper,
            (true, false) => Case::First,
            (false, _) => Case::Lower,
        }
    }

    fn apply(self, name: &str) -> String {
        match self {
            Case::Upper => name.to_uppercase(),
            Case::Lower => name.to_lowercase(),
            Case::First => name.to_owned(),
        }
    }
}

impl Part {
    fn write(&self, moment: NaiveDateTime, text: &mut String) {
        use std::fmt::Write;
        // Writing to a string does not fail.
        let _ = match self {
            Part::Text(literal) => text.write_str(literal),
            Part::Number {
                of,
                digits,
                is_cut,
                is_bare,
                ordinal,
            } => {
                let mut number = of(moment);
                if *is_cut {
                    number %= 10_i64.pow(*digits as u32);
                }
                let digits = if *is_bare { 0 } else { *digits };
                let suffix = ordinal.map(|case| case.apply(ordinal_of(number)));
                write!(text, "{number:0digits$}{}", suffix.unwrap_or_default())
            }
            Part::Name { of, case, chars } => {
                write!(text, "{:<chars$}", case.apply(of(moment)))
            }
        };
    }
}

fn ordinal_of(number: i64) -> &'static str {
    match (number % 100, number % 10) {
        (11..=13, _) => "th",
        (_, 1) => "st",
        (_, 2) => "nd",
        (_, 3) => "rd",
        _ => "th",
    }
}

/// What a pattern shows.
enum Shows {
    Number(fn(NaiveDateTime) -> i64, usize),
    /// The last digits of a number.
    Digits(fn(NaiveDateTime) -> i64, usize),
    /// Digits behind a point, all of them in every mode.
    Fraction(fn(NaiveDateTime) -> i64, usize),
    Name(fn(NaiveDateTime) -> &'static str, usize),
}

/// All patterns, longer ones before those that they begin with.
static PATTERNS: [(&str, Shows); 65] = {
    use Shows::{Digits, Fraction, Name, Number};
    [
        (
            "SSSSS",
            Number(|it| it.num_seconds_from_midnight().into(), 0),
        ),
        (
            "SSSS",
            Number(|it| it.num_seconds_from_midnight().into(), 0),
        ),
        ("MONTH", Name(month, NAME_CHARS)),
        ("Month", Name(month, NAME_CHARS)),
        ("month", Name(month, NAME_CHARS)),
        ("IYYY", Number(|it| it.iso_week().year().into(), 4)),
        ("IDDD", Number(|it| (iso_day(it)).into(), 3)),
        ("YYYY", Number(|it| it.year().into(), 4)),
        ("HH24", Number(|it| it.hour().into(), 2)),
        ("HH12", Number(|it| it.hour12().1.into(), 2)),
        ("A.M.", Name(dotted_noon, 0)),
        ("P.M.", Name(dotted_noon, 0)),
        ("a.m.", Name(dotted_noon, 0)),
        ("p.m.", Name(dotted_noon, 0)),
        ("A.D.", Name(|_| "A.D.", 0)),
        ("B.C.", Name(|_| "A.D.", 0)),
        ("a.d.", Name(|_| "A.D.", 0)),
        ("b.c.", Name(|_| "A.D.", 0)),
        ("MON", Name(short_month, 0)),
        ("Mon", Name(short_month, 0)),
        ("mon", Name(short_month, 0)),
        ("DAY", Name(day, NAME_CHARS)),
        ("Day", Name(day, NAME_CHARS)),
        ("day", Name(day, NAME_CHARS)),
        ("IYY", Digits(|it| it.iso_week().year().into(), 3)),
        ("YYY", Digits(|it| it.year().into(), 3)),
        ("DDD", Number(|it| it.ordinal().into(), 3)),
        (
            "FF1",
            Fraction(|it| i64::from(it.nanosecond()) / 100_000_000, 1),
        ),
        (
            "FF2",
            Fraction(|it| i64::from(it.nanosecond()) / 10_000_000, 2),
        ),
        (
            "FF3",
            Fraction(|it| i64::from(it.nanosecond()) / 1_000_000, 3),
        ),
        (
            "FF4",
            Fraction(|it| i64::from(it.nanosecond()) / 100_000, 4),
        ),
        ("FF5", Fraction(|it| i64::from(it.nanosecond()) / 10_000, 5)),
        ("FF6", Fraction(|it| i64::from(it.nanosecond()) / 1_000, 6)),
        ("IY", Digits(|it| it.iso_week().year().into(), 2)),
        ("YY", Digits(|it| it.year().into(), 2)),
        ("MM", Number(|it| it.month().into(), 2)),
        ("MI", Number(|it| it.minute().into(), 2)),
        (
            "MS",
            Fraction(|it| i64::from(it.nanosecond()) / 1_000_000, 3),
        ),
        ("US", Fraction(|it| i64::from(it.nanosecond()) / 1_000, 6)),
        ("DD", Number(|it| it.day().into(), 2)),
        ("DY", Name(short_day, 0)),
        ("Dy", Name(short_day, 0)),
        ("dy", Name(short_day, 0)),
        (
            "ID",
            Number(|it| it.weekday().number_from_monday().into(), 1),
        ),
        ("IW", Number(|it| it.iso_week().week().into(), 2)),
        ("WW", Number(|it| i64::from(it.ordinal0()) / 7 + 1, 2)),
        ("CC", Number(|it| (i64::from(it.year()) + 99) / 100, 2)),
        ("HH", Number(|it| it.hour12().1.into(), 2)),
        ("SS", Number(|it| it.second().into(), 2)),
        ("AM", Name(noon, 0)),
        ("PM", Name(noon, 0)),
        ("am", Name(noon, 0)),
        ("pm", Name(noon, 0)),
        ("RM", Name(|it| ROMAN[it.month0() as usize], 4)),
        ("rm", Name(|it| ROMAN[it.month0() as usize], 4)),
        ("AD", Name(|_| "AD", 0)),
        ("BC", Name(|_| "AD", 0)),
        ("ad", Name(|_| "AD", 0)),
        ("bc", Name(|_| "AD", 0)),
        (
            "J",
            Number(|it| i64::from(it.num_days_from_ce()) + JULIAN_DAYS, 0),
        ),
        ("I", Digits(|it| it.iso_week().year().into(), 1)),
        ("Y", Digits(|it| it.year().into(), 1)),
        ("Q", Number(|it| i64::from(it.month0()) / 3 + 1, 1)),
        (
            "D",
            Number(|it| it.weekday().number_from_sunday().into(), 1),
        ),
        ("W", Number(|it| i64::from(it.day0()) / 7 + 1, 1)),
    ]
};

fn iso_day(it: NaiveDateTime) -> u32 {
    (it.iso_week().week() - 1) * 7 + it.weekday().number_from_monday()
}

fn noon(it: NaiveDateTime) -> &'static str {
    if it.hour() < 12 { "AM" } else { "PM" }
}

fn dotted_noon(it: NaiveDateTime) -> &'static str {
    if it.hour() < 12 { "A.M." } else { "P.M." }
}

fn month(it: NaiveDateTime) -> &'static str {
    MONTHS[it.month0() as usize]
}

fn short_month(it: NaiveDateTime) -> &'static str {
    &month(it)[..3]
}

fn day(it: NaiveDateTime) -> &'static str {
    DAYS[it.weekday().num_days_from_sunday() as usize]
}

fn short_day(it: NaiveDateTime) -> &'static str {
    &day(it)[..3]
}

/// The parts of a format. What is no pattern is text, as is what stands in double quotes.
fn parts_of(format: &str) -> Result<Vec<Part>> {
    let mut parts = Vec::new();
    let mut rest = format;
    while !rest.is_empty() {
        if let Some(quoted) = rest.strip_prefix('"') {
            let (text, behind) = behind_text(quoted);
            parts.push(Part::Text(text));
            rest = behind;
            continue;
        }
        check("to_char", rest, format)?;
        let (mode, at) = mode_at(rest);
        if let Some((pattern, shows)) = shown_at(at) {
            let (name, behind) = at.split_at(pattern.len());
            let part;
            (part, rest) = part_of(name, shows, mode, behind);
            parts.push(part);
            continue;
        }
        rest = at;
        // A mode without a pattern behind it says nothing.
        if let Some(letter) = at.chars().next().filter(|_| mode == Mode::Filled) {
            rest = &at[letter.len_utf8()..];
            match parts.last_mut() {
                Some(Part::Text(text)) => text.push(letter),
                _ => parts.push(Part::Text(letter.into())),
            }
        }
    }
    Ok(parts)
}

/// How the pattern behind it is shown.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Mode {
    /// With blanks and zeros.
    Filled,
    /// FM: without.
    Bare,
    /// TM: names without blanks, which would be in the language of the user.
    Local,
}

/// The mode that a format begins with, and what is behind it.
pub(super) fn mode_at(format: &str) -> (Mode, &str) {
    match format.split_at_checked(2) {
        Some(("FM" | "fm", behind)) => (Mode::Bare, behind),
        Some(("TM" | "tm", behind)) => (Mode::Local, behind),
        _ => (Mode::Filled, format),
    }
}

/// An error if a format begins with a pattern that is not supported.
pub(super) fn check(function: &str, rest: &str, format: &str) -> Result<()> {
    let begins = |name: &&&str| {
        let start = rest.get(..name.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(name))
    };
    match REFUSED.iter().find(begins) {
        None => Ok(()),
        Some(name) => exec_err!(
            "{function}: the pattern {name} of '{format}' is not supported; text stands in double quotes"
        ),
    }
}

/// The pattern that a format begins with, and whether it is a number.
pub(super) fn pattern_at(format: &str) -> Option<(&'static str, bool)> {
    let found = shown_at(format);
    found.map(|(name, shows)| (name, !matches!(shows, Shows::Name(..))))
}

/// The pattern that a format begins with. Numbers are so whatever the case of their pattern.
fn shown_at(format: &str) -> Option<(&'static str, &'static Shows)> {
    let found = PATTERNS.iter().find(|(name, shows)| {
        let Some(start) = format.get(..name.len()) else {
            return false;
        };
        match shows {
            Shows::Name(..) => start == *name,
            _ => start.eq_ignore_ascii_case(name),
        }
    });
    found.map(|(name, shows)| (*name, shows))
}

/// A part, and what stands behind it and its suffix.
fn part_of<'f>(name: &str, shows: &Shows, mode: Mode, behind: &'f str) -> (Part, &'f str) {
    // Behind a name it says nothing.
    let ordinal = match behind.get(..2) {
        Some("TH") => Some(Case::Upper),
        Some("th") => Some(Case::Lower),
        _ => None,
    };
    let rest = if ordinal.is_some() {
        &behind[2..]
    } else {
        behind
    };
    let number = |of, digits, is_cut, is_bare| Part::Number {
        of,
        digits,
        is_cut,
        is_bare,
        ordinal,
    };
    let part = match *shows {
        Shows::Name(of, chars) => Part::Name {
            of,
            case: Case::of(name),
            chars: if mode == Mode::Filled { chars } else { 0 },
        },
        Shows::Number(of, digits) => number(of, digits, false, mode == Mode::Bare),
        Shows::Digits(of, digits) => number(of, digits, true, mode == Mode::Bare),
        Shows::Fraction(of, digits) => number(of, digits, false, false),
    };
    (part, rest)
}

/// The text up to the next double quote, in which a backslash takes the meaning of what follows, and what stands behind it.
pub(super) fn behind_text(quoted: &str) -> (String, &str) {
    let mut text = String::new();
    let mut letters = quoted.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return (text, &quoted[at + 1..]),
            '\\' => text.extend(letters.next().map(|(_, letter)| letter)),
            letter => text.push(letter),
        }
    }
    (text, "")
}
