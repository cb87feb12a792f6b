//! Dates, times and intervals as PostgreSQL writes them (ISO), and from texts.

use std::fmt::Write;

use arrow::datatypes::IntervalMonthDayNano;
use bytes::{BufMut, BytesMut};
use chrono::{Datelike, NaiveDate};

/// Days from 1970 to 2000, when PostgreSQL's time begins.
pub(super) const EPOCH_DAYS: i32 = 10_957;
/// Microseconds from 1970 to 2000.
pub(super) const EPOCH_US: i64 = EPOCH_DAYS as i64 * DAY_US;
const DAY_US: i64 = 86_400_000_000;

fn put(output: &mut BytesMut, text: std::fmt::Arguments<'_>) {
    output.write_fmt(text).expect("the buffer grows");
}

/// A number below 100, in two digits.
fn put_two(number: u32, output: &mut BytesMut) {
    output.put_slice(&[b'0' + (number / 10) as u8, b'0' + (number % 10) as u8]);
}

fn date_of(days: i64) -> Option<NaiveDate> {
    let days = i32::try_from(days).ok()?;
    NaiveDate::from_num_days_from_ce_opt(days.checked_add(719_163)?)
}

/// The year without a sign, and whether it is before Christ.
fn put_date_of(date: NaiveDate, output: &mut BytesMut) -> bool {
    let (is_before, year) = match date.year() {
        year @ 1.. => (false, year),
        year => (true, 1 - year),
    };
    match u32::try_from(year) {
        Ok(year @ ..10_000) => {
            put_two(year / 100, output);
            put_two(year % 100, output);
        }
        _ => put(output, format_args!("{year}")),
    }
    output.put_u8(b'-');
    put_two(date.month(), output);
    output.put_u8(b'-');
    put_two(date.day(), output);
    is_before
}

/// Days since 1970.
pub(super) fn put_date(days: i32, output: &mut BytesMut) {
    match date_of(days.into()) {
        Some(date) => {
            if put_date_of(date, output) {
                output.extend_from_slice(b" BC");
            }
        }
        // Beyond the years that calendars know.
        None => put(output, format_args!("{days} days after 1970-01-01")),
    }
}

/// Microseconds since 1970.
pub(super) fn put_timestamp(us: i64, is_instant: bool, output: &mut BytesMut) {
    let Some(date) = date_of(us.div_euclid(DAY_US)) else {
        return put(output, format_args!("{us} us after 1970-01-01"));
    };
    let is_before = put_date_of(date, output);
    output.extend_from_slice(b" ");
    put_time(us.rem_euclid(DAY_US), output);
    if is_instant {
        output.extend_from_slice(b"+00");
    }
    if is_before {
        output.extend_from_slice(b" BC");
    }
}

/// Microseconds since midnight.
pub(super) fn put_time(us: i64, output: &mut BytesMut) {
    let seconds = us / 1_000_000;
    let (hours, minutes) = (seconds / 3_600, seconds / 60 % 60);
    match u32::try_from(hours) {
        Ok(hours @ ..100) => put_two(hours, output),
        // No time of a day.
        _ => put(output, format_args!("{hours:02}")),
    }
    for part in [minutes, seconds % 60] {
        output.put_u8(b':');
        put_two(part.unsigned_abs() as u32, output);
    }
    put_fraction((us % 1_000_000).unsigned_abs(), output);
}

fn put_fraction(mut us: u64, output: &mut BytesMut) {
    if us == 0 {
        return;
    }
    let mut digits = [0; 6];
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (us % 10) as u8;
        us /= 10;
    }
    let zeros = digits.iter().rev().take_while(|digit| **digit == b'0');
    let len = digits.len() - zeros.count();
    output.put_u8(b'.');
    output.put_slice(&digits[..len]);
}

/// As `intervalstyle` postgres.
pub(super) fn put_interval(value: IntervalMonthDayNano, output: &mut BytesMut) {
    let start = output.len();
    let mut was_negative = false;
    let mut part = |count: i32, unit: &str, output: &mut BytesMut| {
        if count == 0 {
            return;
        }
        let blank = if output.len() > start { " " } else { "" };
        let sign = if was_negative && count > 0 { "+" } else { "" };
        let several = if count == 1 { "" } else { "s" };
        put(output, format_args!("{blank}{sign}{count} {unit}{several}"));
        was_negative = count < 0;
    };
    part(value.months / 12, "year", output);
    part(value.months % 12, "mon", output);
    part(value.days, "day", output);
    let us = value.nanoseconds / 1_000;
    if us != 0 || output.len() == start {
        let blank = if output.len() > start { " " } else { "" };
        let sign = match us {
            ..0 => "-",
            _ if was_negative => "+",
            _ => "",
        };
        let us = us.unsigned_abs();
        let seconds = us / 1_000_000;
        put(
            output,
            format_args!(
                "{blank}{sign}{:02}:{:02}:{:02}",
                seconds / 3_600,
                seconds / 60 % 60,
                seconds % 60
            ),
        );
        put_fraction(us % 1_000_000, output);
    }
}

/// Whether the text is one of the two moments that no calendar has.
pub(super) fn is_infinite(text: &str) -> bool {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    unsigned.eq_ignore_ascii_case("infinity")
}

/// Days since 1970. A date with a time of day is a date, as in PostgreSQL, and so is one with a zone.
pub(super) fn date(text: &str) -> Option<i32> {
    let moment = Moment::of(text)?;
    Some(moment.date.num_days_from_ce() - 719_163)
}

/// Microseconds since 1970. An offset is heeded if the moment is an instant, and else ignored, as in PostgreSQL.
pub(super) fn timestamp(text: &str, is_instant: bool) -> Option<i64> {
    let moment = Moment::of(text)?;
    let days = i64::from(moment.date.num_days_from_ce() - 719_163);
    let us = days.checked_mul(DAY_US)?.checked_add(moment.us)?;
    match moment.offset_s {
        Some(offset) if is_instant => us.checked_sub(offset * 1_000_000),
        _ => Some(us),
    }
}

/// Microseconds since midnight. A zone says nothing, as in PostgreSQL.
pub(super) fn time(text: &str) -> Option<i64> {
    let (time, zone) = parted(text);
    if let Some(zone) = zone {
        offset(zone)?;
    }
    time_of_day(time)
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

    fn of(write: impl FnOnce(&mut BytesMut)) -> String {
        let mut output = BytesMut::new();
        write(&mut output);
        String::from_utf8(output.to_vec()).unwrap()
    }

    #[test]
    fn dates_and_timestamps_are_as_postgresql_writes_them() {
        assert_eq!(of(|output| put_date(0, output)), "1970-01-01");
        assert_eq!(of(|output| put_date(-719_163, output)), "0001-12-31 BC");
        assert_eq!(of(|output| put_date(2_932_897, output)), "10000-01-01");
        assert_eq!(
            of(|output| put_timestamp(-1, false, output)),
            "1969-12-31 23:59:59.999999"
        );
        assert_eq!(
            of(|output| put_timestamp(1_500_000, true, output)),
            "1970-01-01 00:00:01.5+00"
        );
        assert_eq!(
            of(|output| put_time(3_723_000_100, output)),
            "01:02:03.0001"
        );
        for days in [i32::MIN, i32::MAX] {
            assert!(!of(|output| put_date(days, output)).is_empty());
        }
        for us in [i64::MIN, i64::MAX] {
            assert!(!of(|output| put_timestamp(us, true, output)).is_empty());
        }
    }

    /// What is written can be read.
    #[test]
    fn every_date_there_and_back() {
        for days in [0, -719_163, -1_000_000, 2_932_897, 90_000_000, -90_000_000] {
            assert_eq!(date(&of(|output| put_date(days, output))), Some(days));
            let us = i64::from(days) * DAY_US + 12_345_678;
            for is_instant in [false, true] {
                let text = of(|output| put_timestamp(us, is_instant, output));
                assert_eq!(timestamp(&text, is_instant), Some(us), "{text}");
            }
        }
    }

    /// As PostgreSQL 15 prints them.
    #[test]
    fn intervals_are_as_postgresql_writes_them() {
        for (months, days, ns, text) in [
            (0, 0, 0, "00:00:00"),
            (14, 3, 0, "1 year 2 mons 3 days"),
            (0, 1, 3_661_500_000_000, "1 day 01:01:01.5"),
            (-14, 3, -1_000_000_000, "-1 years -2 mons +3 days -00:00:01"),
            (0, -1, 1_000_000_000, "-1 days +00:00:01"),
        ] {
            let value = IntervalMonthDayNano::new(months, days, ns);
            assert_eq!(of(|output| put_interval(value, output)), text);
        }
    }

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
        assert!(is_infinite("-Infinity") && !is_infinite("inf"));
        assert_eq!(time("01:02:03.25"), Some(3_723_250_000));
    }
}
