//! The dimension `date`: every day from 1992-01-01 to 1998-12-31.

use std::{ops::Range, sync::Arc};

use arrow::{
    array::{ArrayRef, Int32Array, StringViewArray},
    datatypes::DataType::{self, Int32, Utf8View},
};

/// Names and types, in order.
pub(super) const COLUMNS: [(&str, DataType); 17] = [
    ("d_datekey", Int32),
    ("d_date", Utf8View),
    ("d_dayofweek", Utf8View),
    ("d_month", Utf8View),
    ("d_year", Int32),
    ("d_yearmonthnum", Int32),
    ("d_yearmonth", Utf8View),
    ("d_daynuminweek", Int32),
    ("d_daynuminmonth", Int32),
    ("d_daynuminyear", Int32),
    ("d_monthnuminyear", Int32),
    ("d_weeknuminyear", Int32),
    ("d_sellingseason", Utf8View),
    ("d_lastdayinweekfl", Int32),
    ("d_lastdayinmonthfl", Int32),
    ("d_holidayfl", Int32),
    ("d_weekdayfl", Int32),
];

/// Number of days in the table.
pub(super) const DAYS: usize = 2_557;

/// Days of the table on which orders are placed: those until 1998-08-02, 151 days before the end,
/// as in TPC-H.
pub(super) const ORDER_DAYS: usize = DAYS - 151;

const MONTHS: [(&str, i32); 12] = [
    ("January", 31),
    ("February", 28),
    ("March", 31),
    ("April", 30),
    ("May", 31),
    ("June", 30),
    ("July", 31),
    ("August", 31),
    ("September", 30),
    ("October", 31),
    ("November", 30),
    ("December", 31),
];

const WEEK: [&str; 7] = [
    "Sunday",
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
];

/// Holidays with a fixed date, as (month, day).
const HOLIDAYS: [(i32, i32); 7] = [
    (1, 1),
    (5, 1),
    (7, 4),
    (10, 31),
    (12, 24),
    (12, 25),
    (12, 31),
];

/// A day of the calendar.
#[derive(Clone, Copy)]
struct Day {
    /// Days since 1992-01-01.
    index: i32,
    year: i32,
    /// From 1.
    month: i32,
    /// From 1.
    day: i32,
    /// From 1.
    day_of_year: i32,
    month_days: i32,
}

impl Day {
    /// Day `index` since 1992-01-01, below [`DAYS`].
    const fn at(index: usize) -> Self {
        debug_assert!(index < DAYS);
        let mut rest = index as i32;
        let mut year = 1992;
        // Good for 1901 to 2099, where every fourth year is a leap year.
        while rest >= 365 + (year % 4 == 0) as i32 {
            rest -= 365 + (year % 4 == 0) as i32;
            year += 1;
        }
        let day_of_year = rest + 1;
        let mut month = 1;
        loop {
            let leap_day = (month == 2 && year % 4 == 0) as i32;
            let month_days = MONTHS[month as usize - 1].1 + leap_day;
            if rest < month_days {
                return Self {
                    index: index as i32,
                    year,
                    month,
                    day: rest + 1,
                    day_of_year,
                    month_days,
                };
            }
            rest -= month_days;
            month += 1;
        }
    }

    const fn key(self) -> i32 {
        self.year * 10_000 + self.month * 100 + self.day
    }

    /// Sunday is 0. 1992-01-01 was a Wednesday.
    fn weekday(self) -> usize {
        (self.index as usize + 3) % 7
    }

    fn month_name(self) -> &'static str {
        MONTHS[self.month as usize - 1].0
    }

    fn season(self) -> &'static str {
        match (self.month, self.day) {
            (11, _) | (12, ..=25) => "Christmas",
            (12, _) | (1..=3, _) => "Winter",
            (4..=5, _) => "Spring",
            (6..=8, _) => "Summer",
            _ => "Fall",
        }
    }
}

/// The key of every day, for the dates of orders.
pub(super) static KEYS: [i32; DAYS] = {
    let mut keys = [0; DAYS];
    let mut index = 0;
    while index < DAYS {
        keys[index] = Day::at(index).key();
        index += 1;
    }
    keys
};

/// The columns of `rows`.
pub(super) fn columns(rows: Range<u64>) -> Vec<ArrayRef> {
    let days: Vec<Day> = rows.map(|row| Day::at(row as usize)).collect();
    let int = |f: fn(Day) -> i32| -> ArrayRef {
        Arc::new(Int32Array::from_iter_values(days.iter().map(|&day| f(day))))
    };
    let word = |f: fn(Day) -> &'static str| -> ArrayRef {
        let words = days.iter().map(|&day| f(day));
        Arc::new(StringViewArray::from_iter_values(words))
    };
    let text = |f: fn(Day) -> String| -> ArrayRef {
        let texts = days.iter().map(|&day| f(day));
        Arc::new(StringViewArray::from_iter_values(texts))
    };
    vec![
        int(Day::key),
        text(|d| format!("{} {}, {}", d.month_name(), d.day, d.year)),
        word(|d| WEEK[d.weekday()]),
        word(Day::month_name),
        int(|d| d.year),
        int(|d| d.year * 100 + d.month),
        text(|d| format!("{}{}", &d.month_name()[..3], d.year)),
        int(|d| d.weekday() as i32 + 1),
        int(|d| d.day),
        int(|d| d.day_of_year),
        int(|d| d.month),
        int(|d| (d.day_of_year - 1) / 7 + 1),
        word(Day::season),
        int(|d| (d.weekday() == 6).into()),
        int(|d| (d.day == d.month_days).into()),
        int(|d| HOLIDAYS.contains(&(d.month, d.day)).into()),
        int(|d| (1..=5).contains(&d.weekday()).into()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_calendar_is_right() {
        // Index, key, weekday, day of the year.
        for (index, key, weekday, day_of_year) in [
            (0, 19_920_101, "Wednesday", 1),
            (59, 19_920_229, "Saturday", 60),
            (60, 19_920_301, "Sunday", 61),
            (365, 19_921_231, "Thursday", 366),
            (366, 19_930_101, "Friday", 1),
            (ORDER_DAYS - 1, 19_980_802, "Sunday", 214),
            (DAYS - 1, 19_981_231, "Thursday", 365),
        ] {
            let day = Day::at(index);
            assert_eq!(day.key(), key);
            assert_eq!(KEYS[index], key);
            assert_eq!(WEEK[day.weekday()], weekday, "{key}");
            assert_eq!(day.day_of_year, day_of_year, "{key}");
        }
        assert!(KEYS.is_sorted());
    }
}
