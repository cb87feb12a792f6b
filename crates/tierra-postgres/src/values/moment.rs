//! Dates, times and intervals as PostgreSQL writes them (ISO), and from texts.

use std::fmt::Write;

use arrow::datatypes::IntervalMonthDayNano;
use bytes::BytesMut;
use chrono::{DateTime, Datelike, FixedOffset, NaiveDate, NaiveDateTime, NaiveTime, Timelike};

/// Days from 1970 to 2000, when PostgreSQL's time begins.
pub(super) const EPOCH_DAYS: i32 = 10_957;
/// Microseconds from 1970 to 2000.
pub(super) const EPOCH_US: i64 = EPOCH_DAYS as i64 * DAY_US;
const DAY_US: i64 = 86_400_000_000;

fn put(output: &mut BytesMut, text: std::fmt::Arguments<'_>) {
    output.write_fmt(text).expect("the buffer grows");
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
    put(
        output,
        format_args!("{year:04}-{:02}-{:02}", date.month(), date.day()),
    );
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
    put(
        output,
        format_args!("{hours:02}:{minutes:02}:{:02}", seconds % 60),
    );
    put_fraction((us % 1_000_000).unsigned_abs(), output);
}

fn put_fraction(mut us: u64, output: &mut BytesMut) {
    if us == 0 {
        return;
    }
    let mut digits = 6;
    while us.is_multiple_of(10) {
        us /= 10;
        digits -= 1;
    }
    put(output, format_args!(".{us:0digits$}"));
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

/// Days since 1970.
pub(super) fn date(text: &str) -> Option<i32> {
    let date = NaiveDate::parse_from_str(text, "%Y-%m-%d").ok();
    // A date with a time of day is a date, as in PostgreSQL.
    let date = date.or_else(|| moment(text).map(|(at, _)| at.date()))?;
    Some(date.num_days_from_ce() - 719_163)
}

/// Microseconds since 1970. An offset is heeded if the moment is an instant, and else ignored, as in PostgreSQL.
pub(super) fn timestamp(text: &str, is_instant: bool) -> Option<i64> {
    let (at, offset) = moment(text)?;
    let us = at.and_utc().timestamp_micros();
    match offset {
        Some(offset) if is_instant => {
            us.checked_sub(i64::from(offset.local_minus_utc()) * 1_000_000)
        }
        _ => Some(us),
    }
}

/// Microseconds since midnight.
pub(super) fn time(text: &str) -> Option<i64> {
    let formats = ["%H:%M:%S%.f", "%H:%M"].iter();
    let mut found = formats.filter_map(|format| NaiveTime::parse_from_str(text, format).ok());
    let time = found.next()?;
    let seconds = i64::from(time.num_seconds_from_midnight());
    Some(seconds * 1_000_000 + i64::from(time.nanosecond() / 1_000))
}

fn moment(text: &str) -> Option<(NaiveDateTime, Option<FixedOffset>)> {
    if let Ok(date) = NaiveDate::parse_from_str(text, "%Y-%m-%d") {
        return Some((date.and_time(NaiveTime::MIN), None));
    }
    for format in [
        "%Y-%m-%d %H:%M:%S%.f",
        "%Y-%m-%dT%H:%M:%S%.f",
        "%Y-%m-%d %H:%M",
    ] {
        if let Ok(at) = NaiveDateTime::parse_from_str(text, format) {
            return Some((rounded(at)?, None));
        }
    }
    // Offsets of PostgreSQL are +01, +0130 or +01:30.
    let text = match text.strip_suffix(['Z', 'z']) {
        Some(text) => format!("{}+00:00", text.trim_end()),
        None => {
            let sign = text.rfind(['+', '-']).filter(|at| *at > 10)?;
            let hours = text.len() - sign - 1 == 2;
            format!("{text}{}", if hours { ":00" } else { "" })
        }
    };
    let formats = [
        "%Y-%m-%d %H:%M:%S%.f%:z",
        "%Y-%m-%dT%H:%M:%S%.f%:z",
        "%Y-%m-%d %H:%M:%S%.f %:z",
    ];
    let mut found = formats
        .iter()
        .filter_map(|format| DateTime::parse_from_str(&text, format).ok());
    let at = found.next()?;
    Some((rounded(at.naive_local())?, Some(*at.offset())))
}

/// To the nearest microsecond.
fn rounded(at: NaiveDateTime) -> Option<NaiveDateTime> {
    let us = at.nanosecond() / 1_000 + u32::from(at.nanosecond() % 1_000 >= 500);
    let start = at.with_nanosecond(0)?;
    start.checked_add_signed(chrono::TimeDelta::microseconds(us.into()))
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
        assert_eq!(timestamp("yesterday", false), None);
        assert_eq!(time("01:02:03.25"), Some(3_723_250_000));
    }
}
