//! Functions that make intervals and moments of their parts, as PostgreSQL's: `age`, `justify_days`, `justify_hours`, `justify_interval`,
//! `make_interval`, `make_timestamp`.
//!
//! Invariant: NULL if any argument is.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, PrimitiveArray};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Float64Type, Int64Type, IntervalMonthDayNano,
    IntervalMonthDayNanoType, IntervalUnit, TimeUnit, TimestampMicrosecondType,
};
use chrono::{DateTime, Datelike, NaiveDate, NaiveDateTime, NaiveTime, Timelike};
use datafusion::common::{ScalarValue, exec_datafusion_err, exec_err, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

const DAY_NS: i64 = 24 * 60 * 60 * 1_000_000_000;
const MONTH_DAYS: i32 = 30;
const YEAR_MONTHS: i64 = 12;
/// Of a TIMESTAMP.
const LAST_YEAR: i32 = 9999;
const MICROS: DataType = DataType::Timestamp(TimeUnit::Microsecond, None);
const INTERVAL: DataType = DataType::Interval(IntervalUnit::MonthDayNano);

/// The arguments of `make_interval`.
pub(super) const PARTS: [&str; 7] = ["years", "months", "weeks", "days", "hours", "mins", "secs"];

/// What a function makes of what.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Makes {
    Age,
    JustifiedDays,
    JustifiedHours,
    Justified,
    Interval,
    Timestamp,
}

/// One of the functions.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Made {
    makes: Makes,
    signature: Signature,
}

/// All of them.
pub(super) fn functions() -> impl Iterator<Item = Arc<ScalarUDF>> {
    use Makes::{Age, Interval, Justified, JustifiedDays, JustifiedHours, Timestamp};
    let all = [
        Age,
        JustifiedDays,
        JustifiedHours,
        Justified,
        Interval,
        Timestamp,
    ];
    all.into_iter().map(|makes| {
        let plain = || Signature::user_defined(Volatility::Immutable);
        let named = plain().with_parameter_names(makes.parameters().to_vec());
        let signature = named.unwrap_or_else(|_| plain());
        Arc::new(ScalarUDF::from(Made { makes, signature }))
    })
}

impl Makes {
    fn name(self) -> &'static str {
        match self {
            Self::Age => "age",
            Self::JustifiedDays => "justify_days",
            Self::JustifiedHours => "justify_hours",
            Self::Justified => "justify_interval",
            Self::Interval => "make_interval",
            Self::Timestamp => "make_timestamp",
        }
    }

    /// The names of its arguments.
    fn parameters(self) -> &'static [&'static str] {
        match self {
            Self::Age => &["later", "earlier"],
            Self::JustifiedDays | Self::JustifiedHours | Self::Justified => &["interval"],
            Self::Interval => &PARTS,
            Self::Timestamp => &["year", "month", "mday", "hour", "min", "sec"],
        }
    }

    /// The types of its arguments.
    fn takes(self) -> Vec<DataType> {
        match self {
            Self::Age => vec![MICROS; 2],
            Self::JustifiedDays | Self::JustifiedHours | Self::Justified => vec![INTERVAL],
            Self::Interval => numbers(6),
            Self::Timestamp => numbers(5),
        }
    }
}

/// Integers, and a number of seconds.
fn numbers(integers: usize) -> Vec<DataType> {
    let mut all = vec![DataType::Int64; integers];
    all.push(DataType::Float64);
    all
}

impl ScalarUDFImpl for Made {
    fn name(&self) -> &str {
        self.makes.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let (takes, name) = (self.makes.takes(), self.makes.name());
        let fits = |(ty, taken): (&DataType, &DataType)| {
            let is_text = matches!(
                ty,
                DataType::Utf8 | DataType::Utf8View | DataType::LargeUtf8
            );
            let is_untyped = *ty == DataType::Null;
            is_untyped
                || match taken {
                    DataType::Int64 => ty.is_integer(),
                    DataType::Float64 => ty.is_numeric(),
                    DataType::Interval(_) => {
                        is_text || matches!(ty, DataType::Interval(_) | DataType::Duration(_))
                    }
                    _ => is_text || matches!(ty, DataType::Timestamp(_, _) | DataType::Date32),
                }
        };
        match types.len() == takes.len() && types.iter().zip(&takes).all(fits) {
            true => Ok(takes),
            false => {
                let found: Vec<String> = types.iter().map(DataType::to_string).collect();
                plan_err!("there is no {name}({})", found.join(", "))
            }
        }
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(match self.makes {
            Makes::Timestamp => MICROS,
            _ => INTERVAL,
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_scalar = |arg: &ColumnarValue| matches!(arg, ColumnarValue::Scalar(_));
        let rows = match args.args.iter().all(is_scalar) {
            true => 1,
            false => args.number_rows,
        };
        let arrays = args.args.iter().map(|arg| arg.to_array(rows));
        let arrays = arrays.collect::<Result<Vec<ArrayRef>>>()?;
        let made = self.made(&arrays, rows)?;
        match args.args.iter().all(is_scalar) {
            true => ScalarValue::try_from_array(&made, 0).map(ColumnarValue::Scalar),
            false => Ok(ColumnarValue::Array(made)),
        }
    }
}

impl Made {
    fn made(&self, arrays: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        let moment = |of: usize, row| {
            arrays[of]
                .as_primitive::<TimestampMicrosecondType>()
                .value(row)
        };
        let interval = |row| {
            arrays[0]
                .as_primitive::<IntervalMonthDayNanoType>()
                .value(row)
        };
        let whole = |of: usize, row| arrays[of].as_primitive::<Int64Type>().value(row);
        let seconds = |row| {
            let last = arrays.last().expect("it has arguments");
            last.as_primitive::<Float64Type>().value(row)
        };
        let beyond = || exec_datafusion_err!("{}: the interval is out of range", self.name());
        let of_interval = |make: fn(IntervalMonthDayNano) -> Option<IntervalMonthDayNano>| {
            each::<IntervalMonthDayNanoType>(arrays, rows, |row| {
                make(interval(row)).ok_or_else(beyond)
            })
        };
        match self.makes {
            Makes::Age => each::<IntervalMonthDayNanoType>(arrays, rows, |row| {
                age(moment(0, row), moment(1, row)).ok_or_else(beyond)
            }),
            Makes::JustifiedDays => of_interval(with_months),
            Makes::JustifiedHours => of_interval(with_days),
            Makes::Justified => of_interval(justified),
            Makes::Interval => each::<IntervalMonthDayNanoType>(arrays, rows, |row| {
                let parts = [0, 1, 2, 3, 4, 5].map(|part| whole(part, row));
                interval_of(parts, seconds(row)).ok_or_else(beyond)
            }),
            Makes::Timestamp => each::<TimestampMicrosecondType>(arrays, rows, |row| {
                let parts = [0, 1, 2, 3, 4].map(|part| whole(part, row));
                timestamp_of(parts, seconds(row))
            }),
        }
    }
}

/// What is made of each row; NULL where any of `arrays` is.
pub(super) fn each<T: ArrowPrimitiveType>(
    arrays: &[ArrayRef],
    rows: usize,
    make: impl Fn(usize) -> Result<T::Native>,
) -> Result<ArrayRef> {
    let is_there = |row: &usize| arrays.iter().all(|array| array.is_valid(*row));
    let values = (0..rows).map(|row| is_there(&row).then(|| make(row)).transpose());
    let values = values.collect::<Result<PrimitiveArray<T>>>()?;
    Ok(Arc::new(values))
}

/// The years, months, days and time between two moments, as a calendar counts them; `None` if one has no year of a TIMESTAMP.
fn age(later: i64, earlier: i64) -> Option<IntervalMonthDayNano> {
    let is_negative = later < earlier;
    let moment = |micros| DateTime::from_timestamp_micros(micros).map(|it| it.naive_utc());
    let (one, other) = (moment(later)?, moment(earlier)?);
    let (from, to) = match is_negative {
        true => (one, other),
        false => (other, one),
    };
    let time = |it: NaiveDateTime| {
        i64::from(it.num_seconds_from_midnight()) * 1_000_000_000 + i64::from(it.nanosecond())
    };
    let mut months = (to.year() - from.year()) * 12 + to.month() as i32 - from.month() as i32;
    let mut days = to.day() as i32 - from.day() as i32;
    let mut nanoseconds = time(to) - time(from);
    if nanoseconds < 0 {
        (nanoseconds, days) = (nanoseconds + DAY_NS, days - 1);
    }
    while days < 0 {
        // The days of the month in which the time begins.
        days += days_of_month(from)?;
        months -= 1;
    }
    let all = IntervalMonthDayNano::new(months, days, nanoseconds);
    match is_negative {
        true => negated(all),
        false => Some(all),
    }
}

fn negated(interval: IntervalMonthDayNano) -> Option<IntervalMonthDayNano> {
    Some(IntervalMonthDayNano {
        months: interval.months.checked_neg()?,
        days: interval.days.checked_neg()?,
        nanoseconds: interval.nanoseconds.checked_neg()?,
    })
}

fn days_of_month(moment: NaiveDateTime) -> Option<i32> {
    let (year, month) = (moment.year(), moment.month());
    let next = match month {
        12 => NaiveDate::from_ymd_opt(year + 1, 1, 1),
        _ => NaiveDate::from_ymd_opt(year, month + 1, 1),
    };
    let last = next?.pred_opt()?;
    Some(last.day() as i32)
}

/// 24 hours as a day; days and time have one sign.
fn with_days(interval: IntervalMonthDayNano) -> Option<IntervalMonthDayNano> {
    let IntervalMonthDayNano {
        months,
        days,
        nanoseconds,
    } = interval;
    let whole = i32::try_from(nanoseconds / DAY_NS).ok()?;
    let (mut days, mut nanoseconds) = (days.checked_add(whole)?, nanoseconds % DAY_NS);
    if days > 0 && nanoseconds < 0 {
        (days, nanoseconds) = (days - 1, nanoseconds + DAY_NS);
    } else if days < 0 && nanoseconds > 0 {
        (days, nanoseconds) = (days + 1, nanoseconds - DAY_NS);
    }
    Some(IntervalMonthDayNano::new(months, days, nanoseconds))
}

/// 30 days as a month; months and days have one sign.
fn with_months(interval: IntervalMonthDayNano) -> Option<IntervalMonthDayNano> {
    let IntervalMonthDayNano {
        months,
        days,
        nanoseconds,
    } = interval;
    let (mut months, mut days) = (months.checked_add(days / MONTH_DAYS)?, days % MONTH_DAYS);
    if months > 0 && days < 0 {
        (months, days) = (months - 1, days + MONTH_DAYS);
    } else if months < 0 && days > 0 {
        (months, days) = (months + 1, days - MONTH_DAYS);
    }
    Some(IntervalMonthDayNano::new(months, days, nanoseconds))
}

/// Both; all parts have one sign.
fn justified(interval: IntervalMonthDayNano) -> Option<IntervalMonthDayNano> {
    let whole = i32::try_from(interval.nanoseconds / DAY_NS).ok()?;
    let mut nanoseconds = interval.nanoseconds % DAY_NS;
    // The sum may be beyond an i32 before months are taken of it.
    let days = i64::from(interval.days) + i64::from(whole);
    let months = i64::from(interval.months) + days / i64::from(MONTH_DAYS);
    let (mut months, mut days) = (
        i32::try_from(months).ok()?,
        (days % i64::from(MONTH_DAYS)) as i32,
    );
    if months > 0 && (days < 0 || days == 0 && nanoseconds < 0) {
        (months, days) = (months - 1, days + MONTH_DAYS);
    } else if months < 0 && (days > 0 || days == 0 && nanoseconds > 0) {
        (months, days) = (months + 1, days - MONTH_DAYS);
    }
    if days > 0 && nanoseconds < 0 {
        (days, nanoseconds) = (days - 1, nanoseconds + DAY_NS);
    } else if days < 0 && nanoseconds > 0 {
        (days, nanoseconds) = (days + 1, nanoseconds - DAY_NS);
    }
    Some(IntervalMonthDayNano::new(months, days, nanoseconds))
}

/// Of years, months, weeks, days, hours, minutes and seconds.
fn interval_of(parts: [i64; 6], seconds: f64) -> Option<IntervalMonthDayNano> {
    let [years, months, weeks, days, hours, minutes] = parts;
    let months = years.checked_mul(YEAR_MONTHS)?.checked_add(months)?;
    let days = weeks.checked_mul(7)?.checked_add(days)?;
    let minutes = hours.checked_mul(60)?.checked_add(minutes)?;
    let nanoseconds = minutes
        .checked_mul(60_000_000_000)?
        .checked_add(nanoseconds(seconds)?)?;
    Some(IntervalMonthDayNano {
        months: months.try_into().ok()?,
        days: days.try_into().ok()?,
        nanoseconds,
    })
}

/// Seconds, rounded to microseconds, in nanoseconds.
fn nanoseconds(seconds: f64) -> Option<i64> {
    let micros = (seconds * 1e6).round_ties_even();
    // Of more, a double counts no single ones.
    let is_exact = micros.abs() < 2f64.powi(53);
    is_exact.then(|| (micros as i64).checked_mul(1_000))?
}

/// Of a year, month, day, hour, minute and second.
fn timestamp_of(parts: [i64; 5], seconds: f64) -> Result<i64> {
    let [year, month, day, hour, minute] = parts;
    let small = |part: i64| u32::try_from(part).ok();
    let date = || {
        let year = i32::try_from(year)
            .ok()
            .filter(|it| (1..=LAST_YEAR).contains(it))?;
        NaiveDate::from_ymd_opt(year, small(month)?, small(day)?)
    };
    let Some(date) = date() else {
        return exec_err!("make_timestamp: the date {year}-{month:02}-{day:02} is out of range");
    };
    // The end of a minute and of a day is the beginning of the next.
    let nanos = nanoseconds(seconds).filter(|it| (0..=60_000_000_000).contains(it));
    let is_time = (0..24).contains(&hour) && (0..60).contains(&minute)
        || (hour, minute, nanos) == (24, 0, Some(0));
    let Some(nanos) = nanos.filter(|_| is_time) else {
        return exec_err!(
            "make_timestamp: the time {hour}:{minute:02}:{seconds:02} is out of range"
        );
    };
    let midnight = date.and_time(NaiveTime::MIN).and_utc().timestamp_micros();
    let micros = midnight + (hour * 60 + minute) * 60_000_000 + nanos / 1_000;
    match DateTime::from_timestamp_micros(micros) {
        Some(moment) if moment.year() <= LAST_YEAR => Ok(micros),
        _ => exec_err!("make_timestamp: the end of year {year} is out of range"),
    }
}
