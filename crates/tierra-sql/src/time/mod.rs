//! TIMESTAMP counts microseconds, from year 1 to 9999, in every computation of a statement.
//!
//! DataFusion parses types, strings and dates as nanoseconds, whose range is 1677 to 2262. Here
//!
//! ```text
//! types.rs   TIMESTAMP in a statement is in microseconds
//! rule.rs    nanoseconds that are left after type coercion (dates beside timestamps, now()) become microseconds
//! to_char.rs, from_char.rs      to_char, to_timestamp and to_date take PostgreSQL's patterns
//! trunc.rs, bin.rs, parse.rs    date_trunc, date_bin and to_timestamp count microseconds
//! digits.rs  TIMESTAMP(0) and TIMESTAMP(3) are rounded
//! texts.rs   the text of a moment or an interval is PostgreSQL's
//! untyped.rs a text beside a moment or an interval
//! hours.rs   a DATE and hours are a TIMESTAMP
//! scaled.rs  an INTERVAL times a number, and differences as INTERVALs
//! lengths.rs intervals are compared by their lengths
//! intervals.rs, left_out.rs     age, justify_days, make_interval and others, and the arguments that their calls leave out
//! zone.rs    AT TIME ZONE
//! series.rs  generate_series and range in FROM take microseconds
//! ```

mod bin;
mod digits;
mod from_char;
mod hours;
mod intervals;
pub(crate) mod left_out;
mod lengths;
mod parse;
mod rule;
mod scaled;
mod series;
mod texts;
mod to_char;
mod trunc;
mod types;
mod untyped;
pub(crate) mod zone;

use std::sync::Arc;

use datafusion::execution::SessionStateBuilder;
use datafusion::execution::context::SessionContext;
use datafusion::logical_expr::ScalarUDF;
use datafusion::logical_expr::planner::ExprPlanner;

pub(crate) use lengths::{IntervalLengths, OrderedWindows};
pub(crate) use rule::{Microseconds, Seconds, microseconds, settled};
pub(crate) use texts::{MomentTexts, is_moment, texts_of};

/// Adds timestamps in microseconds to a session, except for [rules](crate::rules) and table functions.
pub(crate) fn add_to(mut builder: SessionStateBuilder) -> SessionStateBuilder {
    let functions = builder.scalar_functions().get_or_insert_with(Vec::new);
    functions.extend([
        Arc::new(ScalarUDF::from(trunc::DateTrunc::default())),
        Arc::new(ScalarUDF::from(bin::DateBin::new())),
        Arc::new(ScalarUDF::from(parse::ToTimestamp::new())),
        Arc::new(ScalarUDF::from(parse::ToDate::new())),
        Arc::new(ScalarUDF::from(to_char::ToChar::new())),
        Arc::new(ScalarUDF::from(zone::TimeZone::new())),
    ]);
    functions.extend(intervals::functions());
    let planners = builder.expr_planners().get_or_insert_with(Vec::new);
    planners.splice(
        0..0,
        [
            Arc::new(untyped::Untyped) as Arc<dyn ExprPlanner>,
            Arc::new(hours::Hours),
            Arc::new(scaled::Products),
        ],
    );
    builder.with_type_planner(Arc::new(types::Types))
}

/// Lets the table functions of `context` take timestamps in microseconds.
pub(crate) fn add_series(context: &SessionContext) {
    let functions = context.state().table_functions().clone();
    for name in ["generate_series", "range"] {
        if let Some(function) = functions.get(name) {
            context.register_udtf(name, Arc::new(series::Series::of(Arc::clone(function))));
        }
    }
}
