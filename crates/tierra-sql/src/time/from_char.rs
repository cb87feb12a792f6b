//! `to_timestamp(text, format)` and `to_date(text, format)` read PostgreSQL's patterns: `to_date('05 Dec 2023', 'DD Mon YYYY')`. A format
//! with a `%` is strftime's, which DataFusion's functions read.
//!
//! As in PostgreSQL, blanks before a field are passed over, any mark of the text stands for any of the format, a number ends where its digits
//! do unless the next field begins without a mark, and what is behind the last field is not looked at. Unlike there a text needs a year,
//! because no TIMESTAMP is before year 1.

use arrow::array::{Array, AsArray};
use arrow::datatypes::DataType;
use chrono::{DateTime, Datelike, Days, NaiveDate, NaiveDateTime, NaiveTime, Weekday};
use datafusion::common::exec_datafusion_err;
use datafusion::error::Result;
use datafusion::logical_expr::ColumnarValue;

use super::to_char::{
    DAYS, JULIAN_DAYS, MONTHS, Mode, ROMAN, behind_text, check, mode_at, pattern_at,
};

/// The microseconds of texts in a format of patterns; `None` if there is none.
pub(super) fn micros(
    function: &str,
    args: &[ColumnarValue],
    rows: usize,
) -> Result<Option<Vec<Option<i64>>>> {
    let [texts, formats] = args else {
        return Ok(None);
    };
    let is_text = |arg: &ColumnarValue| arg.data_type().is_string() || arg.data_type().is_null();
    if !is_text(texts) || !is_text(formats) {
        return Ok(None);
    }
    let strings = |arg: &ColumnarValue| arg.cast_to(&DataType::Utf8, None)?.to_array(rows);
    let (texts, formats) = (strings(texts)?, strings(formats)?);
    let (texts, formats) = (texts.as_string::<i32>(), formats.as_string::<i32>());
    if formats.iter().flatten().any(|format| format.contains('%')) {
        return Ok(None);
    }
    let mut last: Option<(&str, Vec<Node>)> = None;
    let mut all = Vec::with_capacity(texts.len());
    for row in 0..texts.len() {
        if texts.is_null(row) || formats.is_null(row) {
            all.push(None);
            continue;
        }
        let (text, format) = (texts.value(row), formats.value(row));
        let nodes = match &mut last {
            Some((known, nodes)) if *known == format => nodes,
            last => &mut last.insert((format, nodes_of(function, format)?)).1,
        };
        let moment = read(text, nodes).map_err(|why| {
            exec_datafusion_err!("{function}: '{text}' is not as '{format}' says: {why}")
        })?;
        all.push(Some(moment.and_utc().timestamp_micros()));
    }
    Ok(Some(all))
}

/// The day of a moment in microseconds, from 1970-01-01.
pub(super) fn day(micros: i64) -> i32 {
    let moment = DateTime::from_timestamp_micros(micros).unwrap_or_default();
    (moment.num_days_from_ce()) - NaiveDate::default().num_days_from_ce()
}

/// A part of a format.
#[derive(Debug)]
enum Node {
    /// A blank or a mark.
    Gap,
    /// Any other letter, or a quoted one; whether it is a digit.
    Text(bool),
    Field(Field),
}

#[derive(Debug)]
struct Field {
    name: &'static str,
    is_number: bool,
    /// FM: it takes all digits.
    takes_all: bool,
    has_ordinal: bool,
}

impl Field {
    /// Whether it is a year, week or day of ISO's weeks, or of months; `None` if it is of both.
    fn is_iso(&self) -> Option<bool> {
        match self.name.to_ascii_uppercase().as_str() {
            "IYYY" | "IYY" | "IY" | "I" | "IDDD" | "ID" | "IW" => Some(true),
            "YYYY" | "YYY" | "YY" | "Y" | "MONTH" | "MON" | "MM" | "RM" | "DDD" | "DD" | "D"
            | "WW" | "W" => Some(false),
            _ => None,
        }
    }

    /// The characters of a number that the next field follows at once.
    fn chars(&self) -> usize {
        match self.name {
            "HH24" | "HH12" => 2,
            "MS" | "IDDD" => 3,
            "US" => 6,
            name => match name.strip_prefix("FF") {
                Some(digits) => digits.parse().unwrap_or(6),
                None => name.len(),
            },
        }
    }
}

/// A mark as PostgreSQL has them.
fn is_mark(letter: char) -> bool {
    letter.is_ascii_punctuation()
}

fn nodes_of(function: &str, format: &str) -> Result<Vec<Node>> {
    let mut nodes = Vec::new();
    let mut rest = format;
    while let Some(letter) = rest.chars().next() {
        if let Some(quoted) = rest.strip_prefix('"') {
            let (text, behind) = behind_text(quoted);
            nodes.extend(
                text.chars()
                    .map(|letter| Node::Text(letter.is_ascii_digit())),
            );
            rest = behind;
            continue;
        }
        check(function, rest, format)?;
        let (mode, at) = mode_at(rest);
        if let Some((name, is_number)) = pattern_at(at) {
            let behind = &at[name.len()..];
            let has_ordinal = behind.starts_with("TH") || behind.starts_with("th");
            rest = if has_ordinal { &behind[2..] } else { behind };
            nodes.push(Node::Field(Field {
                name,
                is_number,
                takes_all: mode == Mode::Bare,
                has_ordinal,
            }));
            continue;
        }
        if mode != Mode::Filled {
            rest = at;
            continue;
        }
        rest = &rest[letter.len_utf8()..];
        nodes.push(match letter.is_whitespace() || is_mark(letter) {
            true => Node::Gap,
            false => Node::Text(letter.is_ascii_digit()),
        });
    }
    Ok(nodes)
}

/// What a text says.
#[derive(Default)]
struct Found {
    year: Option<i64>,
    /// The year has at most two digits.
    is_short: bool,
    century: Option<i64>,
    month: Option<i64>,
    day: Option<i64>,
    day_of_year: Option<i64>,
    week_of_month: Option<i64>,
    week: Option<i64>,
    iso_week: Option<i64>,
    iso_weekday: Option<i64>,
    iso_day: Option<i64>,
    julian: Option<i64>,
    hour: Option<i64>,
    is_afternoon: Option<bool>,
    is_of_twelve: bool,
    minute: Option<i64>,
    second: Option<i64>,
    second_of_day: Option<i64>,
    millis: Option<i64>,
    micros: Option<i64>,
}

fn read(text: &str, nodes: &[Node]) -> std::result::Result<NaiveDateTime, String> {
    let mut found = Found::default();
    let mut rest = text.trim_start();
    let mut passed = text.len() - rest.len();
    let mut weeks = None;
    for (place, node) in nodes.iter().enumerate() {
        if let Node::Field(_) = node {
            rest = rest.trim_start();
        }
        let Some(next) = rest.chars().next() else {
            break;
        };
        match node {
            Node::Gap => match next.is_whitespace() || is_mark(next) {
                true => rest = &rest[next.len_utf8()..],
                false => passed = passed.saturating_sub(1),
            },
            // The letter may be any other.
            Node::Text(_) => match passed {
                0 => rest = &rest[next.len_utf8()..],
                _ => passed -= 1,
            },
            Node::Field(field) => {
                if let Some(is_iso) = field.is_iso()
                    && weeks.replace(is_iso).is_some_and(|other| other != is_iso)
                {
                    let name = field.name;
                    return Err(format!(
                        "{name} is of another calendar than what is before it"
                    ));
                }
                let ends = field.takes_all || is_end(field, nodes.get(place + 1));
                rest = found.take(field, rest, ends)?;
                if field.has_ordinal && field.is_number {
                    let mut letters = rest.chars();
                    letters.by_ref().take(2).for_each(drop);
                    rest = letters.as_str();
                }
                let behind = rest.trim_start();
                passed = rest.len() - behind.len();
                rest = behind;
            }
        }
    }
    found.moment()
}

/// Whether a number ends where its digits do.
fn is_end(field: &Field, next: Option<&Node>) -> bool {
    field.has_ordinal
        || match next {
            None | Some(Node::Gap) => true,
            Some(Node::Text(is_digit)) => !is_digit,
            Some(Node::Field(next)) => !next.is_number,
        }
}

/// The whole number that a text begins with, and what is behind it.
fn whole(text: &str) -> Option<(i64, &str)> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let behind = unsigned.trim_start_matches(|letter: char| letter.is_ascii_digit());
    let number: i32 = text[..text.len() - behind.len()].parse().ok()?;
    Some((number.into(), behind))
}

/// The place of the name that a text begins with, and what is behind it.
fn named<'t>(text: &'t str, names: &[&str]) -> Option<(usize, &'t str)> {
    let begins = |name: &&str| {
        let start = text.get(..name.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(name))
    };
    let place = names.iter().position(begins)?;
    Some((place, &text[names[place].len()..]))
}

fn set(slot: &mut Option<i64>, value: i64, name: &str) -> std::result::Result<(), String> {
    match slot.replace(value) {
        // As in PostgreSQL, 0 is as good as nothing.
        Some(other) if other != value && other != 0 => {
            Err(format!("{name} says {value} after {other}"))
        }
        _ => Ok(()),
    }
}

impl Found {
    /// Takes a field from the beginning of a text; returns what is behind it.
    fn take<'t>(
        &mut self,
        field: &Field,
        text: &'t str,
        ends: bool,
    ) -> std::result::Result<&'t str, String> {
        let name = field.name;
        let start: String = text.chars().take(12).collect();
        let short =
            |names: &[&'static str]| names.iter().map(|name| &name[..3]).collect::<Vec<_>>();
        let names: Option<(Vec<&str>, &mut Option<i64>)> = match name {
            "MONTH" | "Month" | "month" => Some((MONTHS.to_vec(), &mut self.month)),
            "MON" | "Mon" | "mon" => Some((short(&MONTHS), &mut self.month)),
            "RM" | "rm" => {
                // The longer ones first: VIII begins as VI does.
                let mut names = ROMAN.to_vec();
                names.sort_by_key(|name| std::cmp::Reverse(name.len()));
                let (place, behind) = named(text, &names)
                    .ok_or_else(|| format!("'{start}' is no month in Roman numerals"))?;
                let month = ROMAN.iter().position(|name| *name == names[place]);
                set(&mut self.month, month.map_or(0, |at| at as i64 + 1), name)?;
                return Ok(behind);
            }
            _ => None,
        };
        if let Some((names, slot)) = names {
            let found = named(text, &names);
            let (place, behind) = found.ok_or_else(|| format!("'{start}' is no {name}"))?;
            set(slot, place as i64 + 1, name)?;
            return Ok(behind);
        }
        let passed_over = match name {
            "DAY" | "Day" | "day" => Some(named(text, &DAYS)),
            "DY" | "Dy" | "dy" => Some(named(text, &short(&DAYS))),
            "AM" | "PM" | "am" | "pm" => Some(named(text, &["AM", "PM"])),
            "A.M." | "P.M." | "a.m." | "p.m." => Some(named(text, &["A.M.", "P.M."])),
            "AD" | "BC" | "ad" | "bc" => Some(named(text, &["AD", "BC"])),
            "A.D." | "B.C." | "a.d." | "b.c." => Some(named(text, &["A.D.", "B.C."])),
            _ => None,
        };
        if let Some(found) = passed_over {
            let (place, behind) = found.ok_or_else(|| format!("'{start}' is no {name}"))?;
            match name.to_ascii_uppercase().as_str() {
                "AM" | "PM" | "A.M." | "P.M." => {
                    self.is_of_twelve = true;
                    self.is_afternoon = Some(place == 1);
                }
                "AD" | "BC" | "A.D." | "B.C." if place == 1 => {
                    return Err("a year before Christ is no year of a TIMESTAMP".to_owned());
                }
                _ => {}
            }
            return Ok(behind);
        }
        self.take_number(field, text, ends, &start)
    }

    fn take_number<'t>(
        &mut self,
        field: &Field,
        text: &'t str,
        ends: bool,
        start: &str,
    ) -> std::result::Result<&'t str, String> {
        let name = field.name;
        let no_number = || format!("'{start}' is no number for {name}");
        let (number, behind) = match ends {
            true => whole(text).ok_or_else(no_number)?,
            false => {
                let chars = field.chars();
                let digits = text.get(..chars);
                let digits = digits.ok_or_else(|| format!("{name} has {chars} digits"))?;
                match whole(digits).ok_or_else(no_number)? {
                    (number, "") => (number, &text[chars..]),
                    _ => return Err(format!("{name} has {chars} digits, not '{digits}'")),
                }
            }
        };
        let digits = text.len() - behind.len();
        // Of a fraction the first digits.
        let scaled = |places: usize| number * 10_i64.pow(places.saturating_sub(digits) as u32);
        let slot = match name {
            "YYYY" | "IYYY" => &mut self.year,
            "YYY" | "YY" | "Y" | "IYY" | "IY" | "I" => {
                self.is_short = name.len() <= 2;
                let year = if digits < 4 {
                    near_2020(number)
                } else {
                    number
                };
                set(&mut self.year, year, name)?;
                return Ok(behind);
            }
            "CC" => &mut self.century,
            "MM" => &mut self.month,
            "DD" => &mut self.day,
            "DDD" => &mut self.day_of_year,
            "W" => &mut self.week_of_month,
            "WW" => &mut self.week,
            "IW" => &mut self.iso_week,
            "ID" => &mut self.iso_weekday,
            "IDDD" => &mut self.iso_day,
            "J" => &mut self.julian,
            "HH24" => &mut self.hour,
            "HH12" | "HH" => {
                self.is_of_twelve = true;
                &mut self.hour
            }
            "MI" => &mut self.minute,
            "SS" => &mut self.second,
            "SSSS" | "SSSSS" => &mut self.second_of_day,
            "MS" => {
                set(&mut self.millis, scaled(3), name)?;
                return Ok(behind);
            }
            "US" => {
                set(&mut self.micros, scaled(6), name)?;
                return Ok(behind);
            }
            // Neither a quarter nor a day of the week says which day it is.
            "Q" | "D" => return Ok(behind),
            _ => {
                set(&mut self.micros, scaled(6), name)?;
                return Ok(behind);
            }
        };
        set(slot, number, name)?;
        Ok(behind)
    }

    fn moment(&self) -> std::result::Result<NaiveDateTime, String> {
        let date = self.date()?;
        let years = 1..=9999;
        if !years.contains(&date.year()) {
            return Err("its year is not one from 1 to 9999".to_owned());
        }
        Ok(date.and_time(self.time()?))
    }

    fn date(&self) -> std::result::Result<NaiveDate, String> {
        let none = || "there is no such day".to_owned();
        let small = |number: i64| u32::try_from(number).map_err(|_| none());
        if let Some(julian) = self.julian {
            let days = i32::try_from(julian - JULIAN_DAYS).ok();
            return days
                .and_then(NaiveDate::from_num_days_from_ce_opt)
                .ok_or_else(none);
        }
        let year = match (self.year, self.century) {
            (Some(year), Some(century)) if self.is_short => match year % 100 {
                0 => century * 100,
                year => (century - 1) * 100 + year,
            },
            (Some(year), _) => year,
            (None, Some(century)) => (century - 1) * 100 + 1,
            (None, None) => return Err("it has no year".to_owned()),
        };
        let year = i32::try_from(year).map_err(|_| none())?;
        let iso = match (self.iso_day, self.iso_week) {
            (Some(day), _) => Some(((day - 1) / 7 + 1, (day - 1) % 7 + 1)),
            (None, Some(week)) => Some((week, self.iso_weekday.unwrap_or(1))),
            (None, None) => None,
        };
        if let Some((week, day)) = iso {
            let day = u8::try_from(day - 1)
                .ok()
                .and_then(|day| Weekday::try_from(day).ok());
            let date = day.and_then(|day| NaiveDate::from_isoywd_opt(year, small(week).ok()?, day));
            return date.ok_or_else(none);
        }
        let of_week = self.week.map(|week| (week - 1) * 7 + 1);
        let day_of_year = self.day_of_year.or(of_week);
        if let Some(of_year) = day_of_year {
            let first = NaiveDate::from_ymd_opt(year, 1, 1).ok_or_else(none)?;
            let date = first.checked_add_days(Days::new(u64::from(small(of_year - 1)?)));
            // The days of a week may be those of the next year.
            let stays = |date: &NaiveDate| of_week.is_some() || date.year() == year;
            let date = date.filter(stays).ok_or_else(none)?;
            // As in PostgreSQL, a month and a day other than the first say more.
            let later = |number: Option<i64>| number.filter(|number| *number > 1);
            return match (later(self.month), later(self.day)) {
                (None, None) => Ok(date),
                (month, day) => {
                    let month = small(month.unwrap_or(date.month().into()))?;
                    let day = small(day.unwrap_or(date.day().into()))?;
                    NaiveDate::from_ymd_opt(date.year(), month, day).ok_or_else(none)
                }
            };
        }
        let of_month = self.week_of_month.map(|week| (week - 1) * 7 + 1);
        let day = of_month.or(self.day).unwrap_or(1);
        NaiveDate::from_ymd_opt(year, small(self.month.unwrap_or(1))?, small(day)?).ok_or_else(none)
    }

    fn time(&self) -> std::result::Result<NaiveTime, String> {
        let none = || "there is no such time of day".to_owned();
        let of_day = self.second_of_day.unwrap_or(0);
        let mut hour = self.hour.unwrap_or(of_day / 3600);
        if self.is_of_twelve {
            if !(1..=12).contains(&hour) {
                return Err(format!("{hour} is no hour of a clock with twelve"));
            }
            hour = hour % 12
                + if self.is_afternoon == Some(true) {
                    12
                } else {
                    0
                };
        }
        let minute = self.minute.unwrap_or(of_day / 60 % 60);
        let second = self.second.unwrap_or(of_day % 60);
        let micros = self.millis.unwrap_or(0) * 1_000 + self.micros.unwrap_or(0);
        let small = |number: i64| u32::try_from(number).ok();
        let time = || {
            let [hour, minute, second, micros] = [hour, minute, second, micros].map(small);
            NaiveTime::from_hms_micro_opt(hour?, minute?, second?, micros?)
        };
        time().filter(|_| micros < 1_000_000).ok_or_else(none)
    }
}

/// The year with these last digits that is next to 2020.
fn near_2020(digits: i64) -> i64 {
    digits
        + match digits {
            ..70 => 2_000,
            70..100 => 1_900,
            100..520 => 2_000,
            520..1_000 => 1_000,
            _ => 0,
        }
}
