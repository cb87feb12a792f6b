//! Tables that show the activity: `tierra_sessions`, `tierra_queries` and `tierra_slow_queries`.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use arrow::array::{ArrayRef, Float64Array, Int64Array, StringArray, TimestampMicrosecondArray};
use datafusion::error::Result;

use super::running::{Running, Slow};
use super::{Activity, Client};
use crate::system_table::{SystemTable, microseconds};
use crate::work::Work;

const SESSIONS: &str = "tierra_sessions";
const QUERIES: &str = "tierra_queries";
const SLOW_QUERIES: &str = "tierra_slow_queries";

/// The names of the tables.
pub(crate) const TABLES: [&str; 3] = [SESSIONS, QUERIES, SLOW_QUERIES];

/// The table of that name that shows `activity`, if there is one.
pub(crate) fn find(activity: &Activity, name: &str) -> Result<Option<SystemTable>> {
    match name {
        SESSIONS => sessions(activity).map(Some),
        QUERIES => queries(&activity.running()).map(Some),
        SLOW_QUERIES => slow_queries(&activity.slow()).map(Some),
        _ => Ok(None),
    }
}

fn sessions(activity: &Activity) -> Result<SystemTable> {
    let (sessions, running) = (activity.sessions(), activity.running());
    let all = sessions.iter().map(|session| &**session);
    let of_session = |client: &Arc<Client>| running.iter().filter(|one| one.is_of(client)).count();
    SystemTable::new([
        ("session", false, number(all.clone().map(|one| one.id))),
        (
            "user_name",
            false,
            text(all.clone().map(|one| one.name().user)),
        ),
        (
            "application",
            false,
            text(all.clone().map(|one| one.name().application)),
        ),
        (
            "began",
            false,
            Arc::new(TimestampMicrosecondArray::from_iter_values(
                all.clone().map(|one| microseconds(one.began)),
            )),
        ),
        (
            "statements",
            false,
            number(all.map(|one| one.statements.load(Ordering::Relaxed))),
        ),
        (
            "running",
            false,
            number(sessions.iter().map(|one| of_session(one) as u64)),
        ),
    ])
}

fn queries(running: &[Arc<Running>]) -> Result<SystemTable> {
    let all = running.iter();
    let work: Vec<Work> = all.clone().map(|one| one.work()).collect();
    let states = all.clone().map(|one| one.state());
    SystemTable::new([
        ("id", false, number(all.clone().map(|one| one.id))),
        (
            "session",
            false,
            number(all.clone().map(|one| one.client.id)),
        ),
        (
            "user_name",
            false,
            text(all.clone().map(|one| one.client.name().user)),
        ),
        (
            "application",
            false,
            text(all.clone().map(|one| one.client.name().application)),
        ),
        (
            "began",
            false,
            Arc::new(TimestampMicrosecondArray::from_iter_values(
                all.clone().map(|one| microseconds(one.began_at)),
            )),
        ),
        (
            "elapsed_ms",
            false,
            milliseconds(all.clone().map(|one| one.elapsed())),
        ),
        ("state", false, text(states)),
        ("rows", false, number(all.clone().map(|one| one.rows()))),
        (
            "bytes_near",
            false,
            number(work.iter().map(|work| work.bytes_near)),
        ),
        (
            "bytes_far",
            false,
            number(work.iter().map(|work| work.bytes_far)),
        ),
        ("text", false, text(all.map(|one| one.text.to_string()))),
    ])
}

fn slow_queries(slow: &[Slow]) -> Result<SystemTable> {
    let all = slow.iter();
    SystemTable::new([
        ("id", false, number(all.clone().map(|one| one.id))),
        (
            "session",
            false,
            number(all.clone().map(|one| one.client.id)),
        ),
        (
            "user_name",
            false,
            text(all.clone().map(|one| one.client.name().user)),
        ),
        (
            "application",
            false,
            text(all.clone().map(|one| one.client.name().application)),
        ),
        (
            "began",
            false,
            Arc::new(TimestampMicrosecondArray::from_iter_values(
                all.clone().map(|one| microseconds(one.began_at)),
            )),
        ),
        (
            "elapsed_ms",
            false,
            milliseconds(all.clone().map(|one| one.elapsed)),
        ),
        ("rows", false, number(all.clone().map(|one| one.rows))),
        (
            "bytes_near",
            false,
            number(all.clone().map(|one| one.work.bytes_near)),
        ),
        (
            "bytes_far",
            false,
            number(all.clone().map(|one| one.work.bytes_far)),
        ),
        (
            "error",
            true,
            Arc::new(
                all.clone()
                    .map(|one| one.error.as_deref())
                    .collect::<StringArray>(),
            ),
        ),
        ("text", false, text(all.map(|one| one.text.to_string()))),
    ])
}

fn number(values: impl Iterator<Item = u64>) -> ArrayRef {
    let values = values.map(|value| i64::try_from(value).unwrap_or(i64::MAX));
    Arc::new(Int64Array::from_iter_values(values))
}

fn text(values: impl Iterator<Item = String>) -> ArrayRef {
    Arc::new(StringArray::from_iter_values(values))
}

fn milliseconds(values: impl Iterator<Item = Duration>) -> ArrayRef {
    Arc::new(Float64Array::from_iter_values(
        values.map(|elapsed| elapsed.as_secs_f64() * 1e3),
    ))
}
