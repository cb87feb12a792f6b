//! Dates, times and intervals as PostgreSQL writes them (ISO). [`tierra_sql::moments`] reads them.

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

#[cfg(test)]
mod tests {
    use tierra_sql::moments::{date, timestamp};

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
    fn infinity_is_no_moment() {
        assert!(is_infinite("-Infinity") && !is_infinite("inf"));
    }
}
