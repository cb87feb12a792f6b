//! Dates, times and intervals of texts, as PostgreSQL reads them.
//!
//! Arrow reads fewer: no `2024-01-03 12:00`, no `3 days 04:05:06`, and `5` as five months.

use std::ops::Range;

use arrow::compute::kernels::cast_utils::{
    IntervalParseConfig, IntervalUnit, parse_interval_month_day_nano_config,
};
use arrow::datatypes::IntervalMonthDayNano;
use chrono::{Datelike, NaiveDate};

const DAY_US: i64 = 86_400_000_000;
/// Days from the first of year 1 to 1970, counted from 1.
const EPOCH_DAY: i32 = 719_163;

/// Days since 1970. A date with a time of day is a date, as in PostgreSQL, and so is one with a zone.
pub fn date(text: &str) -> Option<i32> {
    let moment = Moment::of(text)?;
    Some(moment.date.num_days_from_ce() - EPOCH_DAY)
}

/// Microseconds since 1970. An offset is heeded if the moment is an instant, and else ignored, as in PostgreSQL.
pub fn timestamp(text: &str, is_instant: bool) -> Option<i64> {
    let moment = Moment::of(text)?;
    let days = i64::from(moment.date.num_days_from_ce() - EPOCH_DAY);
    let us = days.checked_mul(DAY_US)?.checked_add(moment.us)?;
    match moment.offset_s {
        Some(offset) if is_instant => us.checked_sub(offset * 1_000_000),
        _ => Some(us),
    }
}

/// Microseconds since 1970 of a moment in the years 1 to 9999, less its offset.
pub(crate) fn in_four_digits(text: &str) -> Option<i64> {
    const YEARS: Range<i64> = -719_162 * DAY_US..2_932_897 * DAY_US;
    timestamp(text, true).filter(|us| YEARS.contains(us))
}

/// Microseconds since midnight. A zone says nothing, as in PostgreSQL.
pub fn time(text: &str) -> Option<i64> {
    let (time, zone) = parted(text);
    if let Some(zone) = zone {
        offset(zone)?;
    }
    time_of_day(time)
}

/// An interval of units and a time: `1 year 2 mons -3 days +04:05:06.7`. A number without a unit counts seconds, and days before a time.
pub fn interval(text: &str) -> Option<IntervalMonthDayNano> {
    let config = IntervalParseConfig::new(IntervalUnit::Second);
    if text.trim().is_empty() {
        return None;
    }
    parse_interval_month_day_nano_config(&interval_in_units(text)?, config).ok()
}

/// The text of an interval with its time written in units, as Arrow reads it: `3 days 4 hours 5 minutes 6 seconds`.
pub(crate) fn interval_in_units(text: &str) -> Option<String> {
    let mut units: Vec<String> = Vec::new();
    // Python writes `1 day, 2:03:04`.
    let words = text.split(|letter: char| letter.is_ascii_whitespace() || letter == ',');
    for word in words.filter(|word| !word.is_empty()) {
        if !word.contains(':') {
            // Arrow reads no plus sign.
            let unsigned = word.strip_prefix('+').unwrap_or(word);
            let is_signed =
                unsigned.starts_with(|letter: char| letter.is_ascii_digit() || letter == '.');
            units.push(if is_signed { unsigned } else { word }.to_owned());
            continue;
        }
        let counts_days = units.last().is_some_and(|word| word.parse::<i64>().is_ok());
        if counts_days {
            units.push("days".to_owned());
        }
        let (sign, time) = match word.as_bytes()[0] {
            b'-' => ("-", &word[1..]),
            b'+' => ("", &word[1..]),
            _ => ("", word),
        };
        let mut parts = time.splitn(3, ':');
        let hours = number(parts.next()?, 1..=9)?;
        let minutes = number(parts.next()?, 1..=2).filter(|minutes| *minutes < 60)?;
        units.push(format!("{sign}{hours} hours {sign}{minutes} minutes"));
        if let Some(seconds) = parts.next() {
            let whole = seconds.split('.').next()?;
            number(whole, 1..=2).filter(|seconds| *seconds < 60)?;
            units.push(format!("{sign}{seconds} seconds"));
        }
    }
    Some(units.join(" "))
}

/// A text of a date, and of what may follow it.
///
/// ```text
/// 2024-02-29 [(blank or T) 12:00[:00[.123456]]] [blank] [Z or +01 or +0130 or +01:30 or +00:53:28] [BC]
/// ```
struct Moment {
    date: NaiveDate,
    /// The time of day, which may be a whole day.
    us: i64,
    /// Seconds east of Greenwich.
    offset_s: Option<i64>,
}

impl Moment {
    fn of(text: &str) -> Option<Self> {
        let text = text.trim();
        let (text, is_before) = match text.get(..text.len().saturating_sub(2)) {
            Some(before) if text[before.len()..].eq_ignore_ascii_case("bc") => {
                (before.trim_end(), true)
            }
            _ => (text, false),
        };
        let end = text
            .find([' ', 'T', 't', 'Z', 'z', '+'])
            .unwrap_or(text.len());
        let (date, rest) = text.split_at(end);
        let date = date_of_text(date, is_before)?;
        let (time, zone) = parted(rest.trim_start_matches([' ', 'T', 't']));
        Some(Self {
            date,
            us: match time {
                "" => 0,
                time => time_of_day(time)?,
            },
            offset_s: zone.map_or(Some(None), |zone| offset(zone).map(Some))?,
        })
    }
}

/// A time of day, and the zone behind it.
fn parted(text: &str) -> (&str, Option<&str>) {
    match text.find(['+', '-', 'Z', 'z']) {
        Some(at) => (text[..at].trim_end(), Some(&text[at..])),
        None => (text.trim_end(), None),
    }
}

/// A number of so many digits, and nothing else.
fn number(text: &str, digits: std::ops::RangeInclusive<usize>) -> Option<u32> {
    let is_number = digits.contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok())?
}

fn date_of_text(text: &str, is_before: bool) -> Option<NaiveDate> {
    let mut parts = text.split('-');
    let year = i32::try_from(number(parts.next()?, 4..=6)?).ok()?;
    let month = number(parts.next()?, 1..=2)?;
    let day = number(parts.next()?, 1..=2)?;
    if parts.next().is_some() || year == 0 {
        return None;
    }
    // The year before 1 is 1 BC.
    let year = if is_before { 1 - year } else { year };
    NaiveDate::from_ymd_opt(year, month, day)
}

/// Microseconds, to the nearest one.
fn time_of_day(text: &str) -> Option<i64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let mut parts = whole.split(':');
    let hours = number(parts.next()?, 1..=2)?;
    let minutes = number(parts.next()?, 2..=2)?;
    let seconds = parts.next().map_or(Some(0), |part| number(part, 2..=2))?;
    if parts.next().is_some() || minutes > 59 || seconds > 60 {
        return None;
    }
    let mut us = 0;
    if !fraction.is_empty() {
        let digits = fraction.get(..fraction.len().min(6))?;
        let power = 10_i64.pow(6 - digits.len() as u32);
        us = i64::from(number(digits, 1..=6)?) * power;
        let rest = &fraction[digits.len()..];
        if !rest.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        us += i64::from(rest.as_bytes().first().is_some_and(|digit| *digit >= b'5'));
    }
    let time = i64::from(hours * 3_600 + minutes * 60 + seconds) * 1_000_000 + us;
    // 24:00:00 is the end of the day.
    (time <= DAY_US).then_some(time)
}

/// Seconds east of Greenwich.
fn offset(text: &str) -> Option<i64> {
    let (sign, text) = match text.as_bytes().first()? {
        b'+' => (1, &text[1..]),
        b'-' => (-1, &text[1..]),
        _ => return text.eq_ignore_ascii_case("z").then_some(0),
    };
    let mut parts = text.split(':');
    let first = parts.next()?;
    let (hours, minutes) = match first.len() {
        4 => (number(&first[..2], 2..=2)?, number(&first[2..], 2..=2)?),
        _ => (
            number(first, 1..=2)?,
            parts.next().map_or(Some(0), |part| number(part, 2..=2))?,
        ),
    };
    let seconds = parts.next().map_or(Some(0), |part| number(part, 2..=2))?;
    let is_offset = parts.next().is_none() && hours < 16 && minutes < 60 && seconds < 60;
    is_offset.then_some(sign * i64::from(hours * 3_600 + minutes * 60 + seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_moments() {
        assert_eq!(date("1970-01-02"), Some(1));
        assert_eq!(date("1970-01-02 03:04:05"), Some(1));
        assert_eq!(date("1970-02-30"), None);
        assert_eq!(timestamp("1970-01-01 00:00:01.5", false), Some(1_500_000));
        assert_eq!(timestamp("1970-01-01T00:00:01", false), Some(1_000_000));
        assert_eq!(timestamp("1970-01-01", false), Some(0));
        assert_eq!(timestamp("1970-01-01 01:00:00+01", true), Some(0));
        assert_eq!(
            timestamp("1970-01-01 01:00:00+01", false),
            Some(3_600_000_000)
        );
        assert_eq!(timestamp("1970-01-01 05:30:00+05:30", true), Some(0));
        assert_eq!(timestamp("1970-01-01T00:00:00Z", true), Some(0));
        assert_eq!(
            timestamp("1970-01-01 00:00:00.9999999", false),
            Some(1_000_000)
        );
        // As drivers of Java send them, and old zones.
        assert_eq!(date("2024-02-29 +01"), date("2024-02-29"));
        assert_eq!(date("2024-02-29+01:30"), date("2024-02-29"));
        assert_eq!(time("12:00:00+01"), time("12:00"));
        assert_eq!(timestamp("1970-01-01 00:53:28+00:53:28", true), Some(0));
        assert_eq!(
            timestamp("1970-01-01 00:00:00 +0130", true),
            Some(-5_400_000_000)
        );
        assert_eq!(timestamp("1970-01-01 24:00:00", false), Some(DAY_US));
        for (text, year) in [
            ("0001-01-01", true),
            ("9999-12-31 23:59", true),
            ("0001-01-01 BC", false),
            ("10000-01-01", false),
        ] {
            assert_eq!(in_four_digits(text).is_some(), year, "{text}");
        }
        for wrong in [
            "yesterday",
            "",
            "BC",
            "1970-01",
            "1970-01-01x",
            "1970-01-01 1",
            "1970-01-01 00:00:00.x",
            "1970-01-01 24:00:01",
            "1970-01-01 00:00 +",
            "1970-01-01 00:00 é",
            "é970-01-01",
            "0000-01-01",
            "970-01-01",
        ] {
            assert_eq!(timestamp(wrong, false), None, "{wrong}");
        }
        assert_eq!(time("01:02:03.25"), Some(3_723_250_000));
    }

    /// The values that PostgreSQL 15 reads.
    #[test]
    fn intervals_have_units_and_times() {
        let second = 1_000_000_000;
        let clock = |hours: i64, minutes: i64, seconds: i64| {
            ((hours * 60 + minutes) * 60 + seconds) * second
        };
        for (text, months, days, ns) in [
            (
                "1 year 2 mons -3 days +04:05:06.7",
                14,
                -3,
                clock(4, 5, 6) + second / 10 * 7,
            ),
            ("3 days 04:05:06", 0, 3, clock(4, 5, 6)),
            ("3 04:05", 0, 3, clock(4, 5, 0)),
            ("-3 -04:05:06.5", 0, -3, -clock(4, 5, 6) - second / 2),
            ("-1 day, 23:59:59", 0, -1, clock(23, 59, 59)),
            ("100:00:00", 0, 0, clock(100, 0, 0)),
            ("4:5:6", 0, 0, clock(4, 5, 6)),
            ("5", 0, 0, 5 * second),
            (" 2 hours  ", 0, 0, clock(2, 0, 0)),
        ] {
            let expected = IntervalMonthDayNano::new(months, days, ns);
            assert_eq!(interval(text), Some(expected), "{text}");
        }
        for wrong in [
            "",
            "04:65",
            "04:05:61",
            "4:05:06:07",
            ":05",
            "1 hour 04:05",
            "day",
            "04:05:06.x",
            "é:00",
            "04:05:",
        ] {
            assert_eq!(interval(wrong), None, "{wrong}");
        }
    }
}
