//! `moment AT TIME ZONE zone`, and PostgreSQL's function `timezone(zone, moment)`, which it calls: an instant becomes the TIMESTAMP that
//! the zone's clocks show then, and a TIMESTAMP the instant at which they show it.
//!
//! A time that the clocks pass over is counted with the offset before, one that they show twice with the offset after it, as in
//! PostgreSQL. So are its abbreviations: `CET` is winter time all year.

use std::ops::ControlFlow;
use std::str::FromStr;

use arrow::array::timezone::Tz;
use arrow::array::{ArrayRef, AsArray};
use arrow::datatypes::{DataType, TimeUnit, TimestampMicrosecondType};
use chrono::{
    DateTime, Datelike, Days, MappedLocalTime, NaiveDate, NaiveDateTime, Offset, TimeZone as _,
};
use datafusion::common::{ScalarValue, exec_datafusion_err, exec_err, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::sql::sqlparser::ast::{
    self, BinaryOperator, CastKind, Expr, FunctionArg, FunctionArgExpr, FunctionArguments,
    TimezoneInfo, Value, VisitMut, VisitorMut,
};

use super::intervals::each;
use crate::list::call;
use crate::names::last_name;
use crate::visit::visit_mut;

const NAME: &str = "timezone";
const MICROS: DataType = DataType::Timestamp(TimeUnit::Microsecond, None);

/// Offsets that PostgreSQL knows by a short name, where the names of zones have none, or one with summer time.
const ABBREVIATIONS: &[(&str, &str)] = &[
    ("AKST", "-09:00"),
    ("BST", "+01:00"),
    ("CDT", "-05:00"),
    ("CEST", "+02:00"),
    ("CET", "+01:00"),
    ("CST", "-06:00"),
    ("EDT", "-04:00"),
    ("EEST", "+03:00"),
    ("EET", "+02:00"),
    ("EST", "-05:00"),
    ("HST", "-10:00"),
    ("JST", "+09:00"),
    ("KST", "+09:00"),
    ("MDT", "-06:00"),
    ("MET", "+01:00"),
    ("MSK", "+03:00"),
    ("MST", "-07:00"),
    ("PDT", "-07:00"),
    ("PST", "-08:00"),
    ("WEST", "+01:00"),
    ("WET", "+00:00"),
    ("Z", "+00:00"),
];

/// Writes `AT TIME ZONE` as calls. The planner would keep an instant, which only shows itself otherwise.
pub(crate) fn write_calls(statement: &mut impl VisitMut) {
    // The visitor never breaks.
    let _ = visit_mut(statement, &mut Calls);
}

struct Calls;

impl VisitorMut for Calls {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::AtTimeZone {
            timestamp,
            time_zone,
        } = expr
        {
            let null = || Expr::Value(Value::Null.into());
            let mut moment = std::mem::replace(timestamp.as_mut(), null());
            if is_instant(&moment) {
                moment = Expr::Cast {
                    kind: CastKind::Cast,
                    expr: Box::new(moment),
                    data_type: ast::DataType::Timestamp(None, TimezoneInfo::Tz),
                    array: false,
                    format: None,
                };
            }
            let zone = std::mem::replace(time_zone.as_mut(), null());
            *expr = call(NAME.to_owned(), [zone, moment]);
        }
        ControlFlow::Continue(())
    }
}

/// Functions that give instants in PostgreSQL, and TIMESTAMPs in UTC here.
const INSTANTS: [&str; 3] = ["now", "current_timestamp", "to_timestamp"];

/// Whether it is such an instant, with an interval perhaps, or the beginning of its day.
fn is_instant(moment: &Expr) -> bool {
    match moment {
        Expr::Nested(inner) => is_instant(inner),
        Expr::BinaryOp {
            left,
            op: BinaryOperator::Plus | BinaryOperator::Minus,
            ..
        } => is_instant(left),
        Expr::Function(call) => {
            let name = last_name(&call.name);
            let arguments = match &call.args {
                FunctionArguments::List(list) => list.args.as_slice(),
                _ => &[],
            };
            INSTANTS.contains(&name.as_str())
                || match arguments {
                    [_, FunctionArg::Unnamed(FunctionArgExpr::Expr(moment))] => {
                        name == "date_trunc" && is_instant(moment)
                    }
                    _ => false,
                }
        }
        _ => false,
    }
}

/// The function.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct TimeZone {
    signature: Signature,
}

impl TimeZone {
    pub(super) fn new() -> Self {
        Self {
            signature: Signature::user_defined(Volatility::Immutable),
        }
    }
}

fn instant() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, Some("+00:00".into()))
}

impl ScalarUDFImpl for TimeZone {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    /// A date and a text are instants, as in PostgreSQL.
    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        use DataType::{Date32, LargeUtf8, Null, Timestamp, Utf8, Utf8View};
        match types {
            [Utf8 | LargeUtf8 | Utf8View | Null, moment] => {
                let moment = match moment {
                    Timestamp(_, None) => MICROS,
                    Timestamp(_, Some(_)) | Date32 | Utf8 | LargeUtf8 | Utf8View | Null => {
                        instant()
                    }
                    other => return plan_err!("{other} has no time zone"),
                };
                Ok(vec![Utf8, moment])
            }
            _ => plan_err!("a time zone is a name: moment AT TIME ZONE 'Europe/Berlin'"),
        }
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [_, DataType::Timestamp(_, None)] => Ok(instant()),
            _ => Ok(MICROS),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [zone, moment] = args.args.as_slice() else {
            return plan_err!("timezone takes a zone and a moment");
        };
        let is_constant = |arg: &ColumnarValue| matches!(arg, ColumnarValue::Scalar(_));
        let rows = match is_constant(zone) && is_constant(moment) {
            true => 1,
            false => args.number_rows,
        };
        let moments = moment.to_array(rows)?;
        let to_instant = moments.data_type() == &MICROS;
        let converted = |zone: Tz, moment: i64| {
            let converted = match to_instant {
                true => instant_of(zone, moment),
                false => shown_in(zone, moment),
            };
            converted
                .filter(|moment| has_year(*moment))
                .ok_or_else(|| exec_datafusion_err!("the moment has no year from 1 to 9999"))
        };
        let value = |row| {
            moments
                .as_primitive::<TimestampMicrosecondType>()
                .value(row)
        };
        let all = match zone {
            ColumnarValue::Scalar(zone) => match zone.try_as_str().flatten() {
                Some(name) => {
                    let zone = zone_of(name)?;
                    let moments = std::slice::from_ref(&moments);
                    each::<TimestampMicrosecondType>(moments, rows, |row| {
                        converted(zone, value(row))
                    })?
                }
                None => {
                    return Ok(ColumnarValue::Scalar(ScalarValue::try_new_null(
                        args.return_field.data_type(),
                    )?));
                }
            },
            ColumnarValue::Array(zones) => {
                let arrays: [ArrayRef; 2] = [zones.clone(), moments.clone()];
                each::<TimestampMicrosecondType>(&arrays, rows, |row| {
                    converted(zone_of(zones.as_string::<i32>().value(row))?, value(row))
                })?
            }
        };
        let all = arrow::compute::cast(&all, args.return_field.data_type())?;
        match rows == 1 && is_constant(zone) && is_constant(moment) {
            true => ScalarValue::try_from_array(&all, 0).map(ColumnarValue::Scalar),
            false => Ok(ColumnarValue::Array(all)),
        }
    }
}

/// The zone of a name, in upper or lower case. Offsets are refused: PostgreSQL counts `+02:00` westwards.
fn zone_of(name: &str) -> Result<Tz> {
    let upper = name.to_ascii_uppercase();
    if let Some((_, offset)) = ABBREVIATIONS.iter().find(|(short, _)| *short == upper) {
        return Ok(Tz::from_str(offset)?);
    }
    let is_name = name.starts_with(|first: char| first.is_ascii_alphabetic());
    let forms = [name.to_owned(), upper, capitalised(name)];
    let found = forms.iter().find_map(|form| Tz::from_str(form).ok());
    match found {
        Some(zone) if is_name => Ok(zone),
        _ => exec_err!(
            "there is no time zone \"{name}\": it is a name such as UTC or Europe/Berlin, or an abbreviation such as CET"
        ),
    }
}

/// `europe/berlin` as `Europe/Berlin`.
fn capitalised(name: &str) -> String {
    let mut begins = true;
    let letter = |char: char| {
        let letter = match begins {
            true => char.to_ascii_uppercase(),
            false => char.to_ascii_lowercase(),
        };
        begins = !char.is_ascii_alphabetic();
        letter
    };
    name.chars().map(letter).collect()
}

/// The years of which zones have a table: the last of them have every calendar, and the rules of all years after.
const TABLED: std::ops::Range<i32> = 2072..2100;

/// A moment of a year that the tables of zones have, at which they show what they would show then.
fn in_tables(moment: NaiveDateTime) -> NaiveDateTime {
    if moment.year() < TABLED.end {
        return moment;
    }
    let calendar = |year| {
        let first = NaiveDate::from_ymd_opt(year, 1, 1)?;
        Some((first.weekday(), first.leap_year()))
    };
    let mut years = TABLED;
    let alike = years.find(|year| calendar(*year) == calendar(moment.year()));
    alike
        .and_then(|year| moment.with_year(year))
        .unwrap_or(moment)
}

fn has_year(moment: i64) -> bool {
    DateTime::from_timestamp_micros(moment).is_some_and(|it| (1..=9999).contains(&it.year()))
}

/// What the clocks of a zone show at an instant. Both in microseconds.
fn shown_in(zone: Tz, instant: i64) -> Option<i64> {
    let utc = DateTime::from_timestamp_micros(instant)?.naive_utc();
    let offset = zone.offset_from_utc_datetime(&in_tables(utc)).fix();
    instant.checked_add(i64::from(offset.local_minus_utc()) * 1_000_000)
}

/// The instant at which the clocks of a zone show a time. Both in microseconds.
fn instant_of(zone: Tz, shown: i64) -> Option<i64> {
    let local = in_tables(DateTime::from_timestamp_micros(shown)?.naive_utc());
    let offset = match zone.offset_from_local_datetime(&local) {
        MappedLocalTime::Single(offset) | MappedLocalTime::Ambiguous(_, offset) => offset,
        MappedLocalTime::None => {
            let before = local.checked_sub_days(Days::new(1))?;
            zone.offset_from_local_datetime(&before).latest()?
        }
    };
    shown.checked_sub(i64::from(offset.fix().local_minus_utc()) * 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_zones_are_read_in_any_case() {
        for name in [
            "UTC",
            "utc",
            "Europe/Berlin",
            "america/NEW_york",
            "cet",
            "Z",
            "Etc/GMT+2",
        ] {
            zone_of(name).unwrap();
        }
        for name in ["", "Nowhere", "+02:00", "2", "Europe/"] {
            let error = zone_of(name).unwrap_err().to_string();
            assert!(error.contains("there is no time zone"), "{error}");
        }
    }
}
