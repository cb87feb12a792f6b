//! Dates and timestamps.
//!
//! For both, [`Expr::most`] is the greatest distance from 1970 (in days, in microseconds), so that no sum leaves the calendar.

use super::super::construct::Construct;
use super::super::sql::{Sql, sql};
use super::super::value::Type;
use super::{Expr, Grammar, Scope};

/// The most days from 1970 that an expression may reach: years 54 to 3886.
const MOST_DAYS: u128 = 700_000;
/// Microseconds of a day.
const DAY: u128 = 86_400_000_000;
/// The most days of an interval below.
const INTERVAL_DAYS: u128 = 800;
/// Intervals without months.
const SHORT: [&str; 9] = [
    "5 hours",
    "36 hours",
    "90 minutes",
    "-7 hours",
    "24 hours",
    "1 day 2 hours",
    "30 seconds",
    "0.5 seconds",
    "2 weeks",
];
const MONTHS: [&str; 4] = ["1 month", "1 year", "-13 months", "1 month 2 days 3 hours"];

impl Grammar<'_> {
    /// A DATE.
    pub(super) fn date(&mut self, scope: &Scope, depth: u32) -> Expr {
        let sqlite = self.limits.sqlite;
        match self.choices.weighted(&[4, 3, if sqlite { 0 } else { 5 }]) {
            0 => {
                let when = self.expr(scope, Type::Timestamp, depth);
                self.date_of(&when)
            }
            1 => {
                // A date far enough from the ends of the calendar that days can be added.
                let day = self.literal(Type::Date, None);
                let days = self.choices.below(80) as i64 - 30;
                let sql = sql![
                    Sql::each("CAST(", "CAST(", "date("),
                    &day.sql,
                    Sql::each(
                        format!(" + INTERVAL '{days}' DAY AS DATE)"),
                        format!(" + INTERVAL '{days}' DAY AS DATE)"),
                        format!(", '{days:+} day')"),
                    ),
                ];
                Expr::new(sql, Type::Date).within(day.most.saturating_add(100))
            }
            _ => {
                let day = self.expr(scope, Type::Date, depth);
                if day.most > MOST_DAYS {
                    return day;
                }
                let sql = match self.choices.below(4) {
                    0 | 1 => sql!["CAST(", &day.sql, self.interval(), " AS DATE)"],
                    2 => {
                        let days = self.choices.below(900) as i64 - 400;
                        let sign = if days < 0 { '-' } else { '+' };
                        let days = days.unsigned_abs();
                        sql![
                            "(",
                            Construct::DateAndDays,
                            &day.sql,
                            format!(" {sign} {days})")
                        ]
                    }
                    _ => return self.truncated(&day),
                };
                let most = day.most + INTERVAL_DAYS;
                Expr::of(sql, &[&day]).within(most)
            }
        }
    }

    /// A TIMESTAMP.
    pub(super) fn timestamp(&mut self, scope: &Scope, depth: u32) -> Expr {
        let sqlite = self.limits.sqlite;
        match self.choices.weighted(&[4, if sqlite { 0 } else { 6 }]) {
            0 => {
                let day = self.expr(scope, Type::Date, depth);
                let sql = sql![
                    Sql::each("CAST(", "CAST(", "("),
                    &day.sql,
                    Sql::each(
                        " AS TIMESTAMP)",
                        " AS TIMESTAMP)",
                        " || ' 00:00:00.000000')"
                    ),
                ];
                let most = day.most.saturating_mul(DAY);
                Expr::of(sql, &[&day]).typed(Type::Timestamp).within(most)
            }
            _ if self.choices.below(2) == 0 => {
                let day = self.expr(scope, Type::Date, depth);
                if day.most > MOST_DAYS {
                    return self.leaf(scope, Type::Timestamp);
                }
                let sql = sql![Construct::DateAndHours, &day.sql, self.interval()];
                let most = (day.most + INTERVAL_DAYS) * DAY;
                Expr::of(self.cast(sql, Type::Timestamp), &[&day])
                    .typed(Type::Timestamp)
                    .within(most)
            }
            _ => {
                let when = self.expr(scope, Type::Timestamp, depth);
                if self.choices.once_in(4) {
                    return self.truncated(&when);
                }
                if when.most > MOST_DAYS * DAY {
                    return when;
                }
                let sql = sql![
                    "(",
                    Construct::TimestampAndInterval,
                    &when.sql,
                    self.interval(),
                    ")"
                ];
                let most = when.most + INTERVAL_DAYS * DAY;
                Expr::of(sql, &[&when]).within(most)
            }
        }
    }

    /// An interval with the sign before it.
    fn interval(&mut self) -> Sql {
        let sign = self.choices.one_of(&[" + ", " - "]);
        let (mark, text) = match self.choices.below(3) {
            0 | 1 => (Sql::default(), self.choices.one_of(&SHORT)),
            _ => (Construct::Months.into(), self.choices.one_of(&MONTHS)),
        };
        sql![sign, mark, format!("INTERVAL '{text}'")]
    }

    /// The day of a TIMESTAMP.
    pub(super) fn date_of(&self, when: &Expr) -> Expr {
        let sql = sql![
            Sql::each("CAST(", "CAST(", "date("),
            &when.sql,
            Sql::each(" AS DATE)", " AS DATE)", ")"),
        ];
        let most = when.most.saturating_add(DAY) / DAY;
        Expr::of(sql, &[when]).typed(Type::Date).within(most)
    }

    /// The beginning of a month, of an hour, and so on, of the same type.
    pub(super) fn truncated(&mut self, when: &Expr) -> Expr {
        let units = [
            "month", "year", "week", "quarter", "day", "hour", "minute", "second",
        ];
        let count = if when.ty == Type::Date { 5 } else { 8 };
        // The first week of the calendar begins before it.
        if when.most == u128::MAX {
            return when.clone();
        }
        let unit = self.choices.one_of(&units[..count]);
        let sql = sql![
            Construct::DateTrunc,
            format!("date_trunc('{unit}', "),
            &when.sql,
            ")"
        ];
        let unit = if when.ty == Type::Date { 1 } else { DAY };
        let most = when.most.saturating_add(366 * unit);
        Expr::of(self.cast(sql, when.ty), &[when]).within(most)
    }

    /// A year, a day of a week, and so on; coarse ones only if asked.
    pub(super) fn part_of_time(&mut self, when: &Expr, coarse: bool) -> Expr {
        let known: &[(&str, &str)] = &[
            ("year", "%Y"),
            ("month", "%m"),
            ("day", "%d"),
            ("dow", ""),
            ("doy", ""),
            ("week", ""),
            ("quarter", ""),
            ("hour", ""),
            ("minute", ""),
        ];
        let count = match (self.limits.sqlite, when.ty) {
            (true, _) => 3,
            (_, Type::Date) => 7,
            _ => 9,
        };
        let (field, sqlite) = match coarse {
            true => known[self.choices.index(count.min(2))],
            false => self.choices.one_of(&known[..count]),
        };
        let sql = sql![
            Sql::each(
                format!("CAST(extract({field} FROM "),
                format!("CAST(extract({field} FROM "),
                format!("CAST(strftime('{sqlite}', "),
            ),
            Construct::Extract,
            &when.sql,
            Sql::each(") AS BIGINT)", ") AS BIGINT)", ") AS INTEGER)"),
        ];
        Expr::new(sql, Type::Big).within(10_000).same(when.same)
    }

    /// The days from one DATE to another.
    pub(super) fn days_between(&mut self, scope: &Scope, depth: u32) -> Expr {
        let (one, another) = (
            self.expr(scope, Type::Date, depth),
            self.leaf(scope, Type::Date),
        );
        let sql = sql![
            "(",
            Construct::DaysBetween,
            &one.sql,
            " - ",
            &another.sql,
            ")"
        ];
        Expr::new(self.cast(sql, Type::Big), Type::Big)
            .within(4_000_000)
            .same(one.same && another.same)
    }
}
