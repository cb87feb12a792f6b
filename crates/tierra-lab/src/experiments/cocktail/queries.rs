//! Figure 4.16 and the batches: the thesis's three queries by SQL, one by one and eight at once, each for itself and in a batch.

use std::sync::Arc;
use std::time::Instant;

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use tierra_column::bits::Level;
use tierra_engine::Database;
use tierra_sql::{Outcome, Session, SessionOptions, Work};

use super::data::{COLUMNS, Memory, value_of};
use super::levels::{AGAIN, AUTO};
use crate::answer::Answer;
use crate::contender::Tierra;
use crate::error::{Context, LabError};
use crate::lab::{self, Lab};
use crate::replicas::emulating;
use crate::row::{Cell, Row, find};
use crate::turns::samples;

/// Queries at once.
const QUERIES: usize = 8;

/// The queries of section 4.3.3: their names, and their text behind the name of the table.
const TEXTS: [(&str, &str); 3] = [
    ("SUM(a)", "SELECT SUM(a) FROM {table}"),
    (
        "SUM of four",
        "SELECT SUM(a), SUM(b), SUM(c), SUM(d) FROM {table}",
    ),
    (
        "SUM(a) of 1 %",
        "SELECT SUM(a) FROM {table} WHERE b < 10000",
    ),
];

/// What they answer where the tables have so many rows.
pub(super) fn answers(rows: u64) -> Result<Vec<Answer>, LabError> {
    let of = |column| (0..rows).map(move |row| value_of(column, row, rows));
    let sum = |column| of(column).sum::<i64>();
    let selected = of(0).zip(of(1)).filter(|(_, b)| *b < 10_000);
    let selected = selected.map(|(a, _)| a).sum();
    let all = [
        vec![sum(0)],
        (0..COLUMNS.len()).map(sum).collect(),
        vec![selected],
    ];
    let answer = |sums: Vec<i64>| {
        let array = |sum: i64| -> ArrayRef { Arc::new(Int64Array::from(vec![sum])) };
        let named = COLUMNS.into_iter().zip(sums.into_iter().map(array));
        let batch = RecordBatch::try_from_iter(named).by("Arrow", "making an answer")?;
        Answer::of(&[batch]).by("Arrow", "showing an answer")
    };
    all.into_iter().map(answer).collect()
}

/// The key of a query and its memory.
pub(super) const QUERY: &str = "query";
/// The key of how queries run.
pub(super) const RUNS: &str = "runs";
const ALONE: &str = "alone, batch_queries = 1";
const ALONE_DEFAULTS: &str = "alone, defaults";
const APART: &str = "eight at once, batch_queries = 1";
const DEFAULTS: &str = "eight at once, defaults";
const WAITING: &str = "eight at once, batch_queries = 8, batch_ms = 1000";
/// The key of a query on one and more threads, and of its level.
pub(super) const SWITCHED: &str = "switched query";
pub(super) const LEVEL: &str = "level";

/// How queries run.
#[derive(Clone, Copy)]
struct Way {
    name: &'static str,
    queries: usize,
    /// What their sessions set.
    settings: &'static [&'static str],
}

/// Each query for itself.
const UNBATCHED: &[&str] = &["SET tierra.batch_queries = 1"];

const WAYS: [Way; 5] = [
    Way {
        name: ALONE,
        queries: 1,
        settings: UNBATCHED,
    },
    Way {
        name: ALONE_DEFAULTS,
        queries: 1,
        settings: &[],
    },
    Way {
        name: APART,
        queries: QUERIES,
        settings: UNBATCHED,
    },
    Way {
        name: DEFAULTS,
        queries: QUERIES,
        settings: &[],
    },
    // Waits for all of them.
    Way {
        name: WAITING,
        queries: QUERIES,
        settings: &["SET tierra.batch_queries = 8", "SET tierra.batch_ms = 1000"],
    },
];

/// How a batch of eight comes about.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Batch {
    /// Queries join those that run.
    Defaults,
    /// The first one waits for the others.
    Waiting,
}

impl Batch {
    fn runs(self) -> &'static str {
        match self {
            Batch::Defaults => DEFAULTS,
            Batch::Waiting => WAITING,
        }
    }
}

/// A session with settings.
fn session(
    lab: &Lab,
    database: &Arc<Database>,
    threads: usize,
    settings: &[impl AsRef<str>],
) -> Result<Session, LabError> {
    let options = SessionOptions {
        threads: Some(threads),
        ..SessionOptions::default()
    };
    let session = Session::new(Arc::clone(database), &options);
    let session = session.by(Tierra::ENGINE, "opening a session")?;
    for sql in settings {
        let sql = sql.as_ref();
        let done = lab.runtime().block_on(session.sql(sql)).map(drop);
        done.by(Tierra::ENGINE, format!("running {sql}"))?;
    }
    Ok(session)
}

/// The answer, and what the query read.
async fn ask(session: &Session, sql: &str) -> Result<(Answer, Work), LabError> {
    let outcome = session.sql(sql).await.by(Tierra::ENGINE, "asking")?;
    let Outcome::Rows(mut rows) = outcome else {
        return Err("a query yields rows").by(Tierra::ENGINE, "asking");
    };
    let batches = rows.collect().await.by(Tierra::ENGINE, "asking")?;
    let answer = Answer::of(&batches).by("Arrow", "showing an answer")?;
    Ok((answer, rows.work()))
}

/// All queries of these sessions at once: the wall time, and what they read together.
fn at_once(
    lab: &Lab,
    sessions: &[Arc<Session>],
    sql: &str,
    expected: &Answer,
) -> Result<(u64, Work), LabError> {
    let start = Instant::now();
    let running = sessions.iter().map(|session| {
        let (session, sql) = (Arc::clone(session), sql.to_owned());
        lab.runtime()
            .spawn(async move { ask(&session, &sql).await })
    });
    let running = Vec::from_iter(running);
    let all: Result<Vec<_>, _> = lab.runtime().block_on(async {
        let mut all = Vec::new();
        for query in running {
            all.push(query.await?);
        }
        Ok::<_, tokio::task::JoinError>(all)
    });
    let time_ns = start.elapsed().as_nanos() as u64;
    let mut sum = Work::default();
    for answered in all.by("the runtime", "running queries")? {
        let (answer, work) = answered?;
        if answer != *expected {
            return Err(LabError::AnswersDiffer {
                what: sql.to_owned(),
                left: "the values".to_owned(),
                right: "a query".to_owned(),
                detail: format!("{expected:?} against {answer:?}"),
            });
        }
        sum.bytes_near += work.bytes_near;
        sum.bytes_far += work.bytes_far;
        sum.blocks_read += work.blocks_read;
        sum.blocks_shared += work.blocks_shared;
    }
    Ok((time_ns, sum))
}

/// Each query in each way, by turns.
pub(super) fn batches(
    lab: &Lab,
    database: &Arc<Database>,
    memory: Memory,
    answers: &[Answer],
    rounds: usize,
) -> Result<Vec<Row>, LabError> {
    let mut rows = Vec::new();
    for ((name, text), expected) in TEXTS.into_iter().zip(answers) {
        let sql = text.replace("{table}", memory.table);
        let mut sessions = Vec::new();
        for way in WAYS {
            let of_way = (0..way.queries)
                .map(|_| session(lab, database, lab::threads(), way.settings).map(Arc::new));
            sessions.push(of_way.collect::<Result<Vec<_>, _>>()?);
        }
        let all = emulating(memory.far(lab::threads()), || {
            samples(WAYS.len(), rounds, |turn| {
                at_once(lab, &sessions[turn.contender], &sql, expected)
            })
        })?;
        for (way, of_way) in WAYS.iter().zip(all) {
            let all = |of: fn(&(u64, Work)) -> u64| of_way.iter().map(of).collect::<Vec<_>>();
            rows.push(
                Row::new()
                    .text(QUERY, format!("{name}, {}", memory.name))
                    .text(RUNS, way.name)
                    .count("queries", way.queries as u64)
                    .samples("bytes", "far", all(|(_, work)| work.bytes_far))
                    .samples("bytes", "near", all(|(_, work)| work.bytes_near))
                    .samples("blocks", "read", all(|(_, work)| work.blocks_read))
                    .samples("blocks", "shared", all(|(_, work)| work.blocks_shared))
                    .samples("time", "ns", all(|(time_ns, _)| *time_ns)),
            );
        }
    }
    Ok(rows)
}

/// Figure 4.16: each query on one thread and on more, a query a thread, with the chosen levels and with every level, the widest one twice.
pub(super) fn levels(
    lab: &Lab,
    database: &Arc<Database>,
    memory: Memory,
    answers: &[Answer],
    rounds: usize,
) -> Result<Vec<Row>, LabError> {
    let mut choices = vec![AUTO.to_owned()];
    choices.extend(Level::available().map(|level| level.to_string()));
    choices.push(format!("{}{AGAIN}", Level::detect()));
    let mut rows = Vec::new();
    for ((name, text), expected) in TEXTS.into_iter().zip(answers) {
        let sql = text.replace("{table}", memory.table);
        for queries in lab::thread_counts() {
            let mut sessions = Vec::new();
            for choice in &choices {
                let level = choice.strip_suffix(AGAIN).unwrap_or(choice);
                let settings = [
                    format!("SET tierra.simd = '{level}'"),
                    "SET tierra.batch_queries = 1".to_owned(),
                ];
                let of_level =
                    (0..queries).map(|_| session(lab, database, 1, &settings).map(Arc::new));
                sessions.push(of_level.collect::<Result<Vec<_>, _>>()?);
            }
            let times = emulating(memory.far(queries), || {
                samples(choices.len(), rounds, |turn| {
                    let done = at_once(lab, &sessions[turn.contender], &sql, expected);
                    done.map(|(time_ns, _)| time_ns)
                })
            })?;
            for (choice, times) in choices.iter().zip(times) {
                let is_uniform = choice != AUTO && !choice.ends_with(AGAIN);
                rows.push(
                    Row::new()
                        .text(
                            SWITCHED,
                            format!("{name}, {}, {queries} at once", memory.name),
                        )
                        .text(LEVEL, choice)
                        .count("queries", queries as u64)
                        .flag("is_uniform", is_uniform)
                        .samples("time", "ns", times),
                );
            }
        }
    }
    Ok(rows)
}

fn of<'a>(rows: &'a [Row], memory: Memory, runs: &str) -> Option<&'a Row> {
    let query = format!("{}, {}", TEXTS[0].0, memory.name);
    find(rows, &[(QUERY, &query), (RUNS, runs)])
}

/// Bytes from far memory that a batch of `SUM(a)` reads in the worst round, over those of one query.
pub(super) fn bytes(rows: &[Row], memory: Memory, batch: Batch) -> Option<f64> {
    let samples = |runs| match of(rows, memory, runs)?.get("bytes_far")? {
        Cell::Samples(samples) => Some(samples),
        _ => None,
    };
    let one = samples(ALONE)?.iter().min()?;
    let most = samples(batch.runs())?.iter().max()?;
    Some(*most as f64 / *one as f64)
}

/// Queries a second in a batch over those of as many for themselves, by round.
pub(super) fn throughput(rows: &[Row], memory: Memory, batch: Batch) -> Option<f64> {
    of(rows, memory, APART)?.over(of(rows, memory, batch.runs())?, "time_ns")
}

/// The time of a lone query with the default settings over that without batches, by round.
pub(super) fn lone(rows: &[Row], memory: Memory) -> Option<f64> {
    of(rows, memory, ALONE_DEFAULTS)?.over(of(rows, memory, ALONE)?, "time_ns")
}

/// A batch of both kinds takes and reads so much.
#[cfg(test)]
pub(super) fn planted(memory: Memory, together_ns: u64, bytes: u64, lone_ns: u64) -> Vec<Row> {
    let row = |runs: &str, time_ns: u64, bytes: u64| {
        Row::new()
            .text(QUERY, format!("{}, {}", TEXTS[0].0, memory.name))
            .text(RUNS, runs)
            // One round is the worst.
            .samples("bytes", "far", vec![100, bytes, 100])
            .samples("time", "ns", vec![time_ns; 3])
    };
    vec![
        row(ALONE, 1000, 100),
        row(ALONE_DEFAULTS, lone_ns, 100),
        row(APART, 8000, 800),
        row(DEFAULTS, together_ns, bytes),
        row(WAITING, together_ns, bytes),
    ]
}
