//! Dates, times and intervals as PostgreSQL writes them (ISO), into texts that grow. [`moments`](crate::moments) reads them.

use std::fmt::Write;

use arrow::datatypes::IntervalMonthDayNano;
use chrono::{Datelike, NaiveDate};

const DAY_US: i64 = 86_400_000_000;

/// # Panics
/// If `output` does not grow.
fn put(output: &mut impl Write, text: std::fmt::Arguments<'_>) {
    output.write_fmt(text).expect("it grows");
}

fn put_text(output: &mut impl Write, text: &str) {
    output.write_str(text).expect("it grows");
}

/// Digits of a number, the last ones.
fn put_digits<const COUNT: usize>(mut number: u32, output: &mut impl Write) {
    let mut digits = [b'0'; COUNT];
    for digit in digits.iter_mut().rev() {
        *digit += (number % 10) as u8;
        number /= 10;
    }
    put_text(output, str::from_utf8(&digits).expect("digits are ASCII"));
}

fn date_of(days: i64) -> Option<NaiveDate> {
    let days = i32::try_from(days).ok()?;
    NaiveDate::from_num_days_from_ce_opt(days.checked_add(719_163)?)
}

/// The year without a sign, and whether it is before Christ.
fn put_date_of(date: NaiveDate, output: &mut impl Write) -> bool {
    let (is_before, year) = match date.year() {
        year @ 1.. => (false, year),
        year => (true, 1 - year),
    };
    match u32::try_from(year) {
        Ok(year @ ..10_000) => put_digits::<4>(year, output),
        _ => put(output, format_args!("{year}")),
    }
    put_text(output, "-");
    put_digits::<2>(date.month(), output);
    put_text(output, "-");
    put_digits::<2>(date.day(), output);
    is_before
}

/// Days since 1970.
pub fn put_date(days: i32, output: &mut impl Write) {
    match date_of(days.into()) {
        Some(date) => {
            if put_date_of(date, output) {
                put_text(output, " BC");
            }
        }
        // Beyond the years that calendars know.
        None => put(output, format_args!("{days} days after 1970-01-01")),
    }
}

/// Microseconds since 1970.
pub fn put_timestamp(us: i64, is_instant: bool, output: &mut impl Write) {
    let Some(date) = date_of(us.div_euclid(DAY_US)) else {
        return put(output, format_args!("{us} us after 1970-01-01"));
    };
    let is_before = put_date_of(date, output);
    put_text(output, " ");
    put_time(us.rem_euclid(DAY_US), output);
    if is_instant {
        put_text(output, "+00");
    }
    if is_before {
        put_text(output, " BC");
    }
}

/// Microseconds since midnight.
pub fn put_time(us: i64, output: &mut impl Write) {
    let seconds = us / 1_000_000;
    let (hours, minutes) = (seconds / 3_600, seconds / 60 % 60);
    match u32::try_from(hours) {
        Ok(hours @ ..100) => put_digits::<2>(hours, output),
        // No time of a day.
        _ => put(output, format_args!("{hours:02}")),
    }
    for part in [minutes, seconds % 60] {
        put_text(output, ":");
        put_digits::<2>(part.unsigned_abs() as u32, output);
    }
    put_fraction((us % 1_000_000).unsigned_abs(), output);
}

fn put_fraction(mut us: u64, output: &mut impl Write) {
    if us == 0 {
        return;
    }
    let mut digits = *b".000000";
    for digit in digits[1..].iter_mut().rev() {
        *digit += (us % 10) as u8;
        us /= 10;
    }
    let digits = str::from_utf8(&digits).expect("digits are ASCII");
    put_text(output, digits.trim_end_matches('0'));
}

/// As `intervalstyle` postgres.
pub fn put_interval(value: IntervalMonthDayNano, output: &mut impl Write) {
    let (mut is_first, mut was_negative) = (true, false);
    for (count, unit) in [
        (value.months / 12, "year"),
        (value.months % 12, "mon"),
        (value.days, "day"),
    ] {
        if count == 0 {
            continue;
        }
        let blank = if is_first { "" } else { " " };
        let sign = if was_negative && count > 0 { "+" } else { "" };
        let several = if count == 1 { "" } else { "s" };
        put(output, format_args!("{blank}{sign}{count} {unit}{several}"));
        (is_first, was_negative) = (false, count < 0);
    }
    let us = value.nanoseconds / 1_000;
    if us == 0 && !is_first {
        return;
    }
    let blank = if is_first { "" } else { " " };
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

#[cfg(test)]
mod tests {
    use crate::moments::{date, timestamp};

    use super::*;

    fn of(write: impl FnOnce(&mut String)) -> String {
        let mut output = String::new();
        write(&mut output);
        output
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
}
