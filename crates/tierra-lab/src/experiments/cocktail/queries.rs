//! Figure 4.16 and the batches: the thesis's three queries by SQL, one by one and eight at once, each for itself and in a batch.

use std::sync::Arc;
use std::time::Instant;

use tierra_engine::Database;
use tierra_sql::{Outcome, Session, SessionOptions, Work};

use super::data::Memory;
use crate::answer::Answer;
use crate::contender::Tierra;
use crate::error::{Context, LabError};
use crate::lab::{self, Lab};
use crate::row::{Row, find};
use crate::turns::turns;

/// Queries at once.
const QUERIES: usize = 8;
/// Milliseconds that a batch waits for all of them.
const BATCH_MS: u32 = 1_000;

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

/// The key of a query and its memory.
pub(super) const QUERY: &str = "query";
/// The key of how queries run.
pub(super) const RUNS: &str = "runs";
const ALONE: &str = "alone";
const ALONE_BATCHED: &str = "alone, batches on";
const APART: &str = "eight at once, each for itself";
const TOGETHER: &str = "eight at once, in a batch";

/// How queries run.
#[derive(Clone, Copy)]
struct Way {
    name: &'static str,
    queries: usize,
    /// The most queries of a batch.
    batch_queries: usize,
    batch_ms: u32,
}

const WAYS: [Way; 4] = [
    Way {
        name: ALONE,
        queries: 1,
        batch_queries: 1,
        batch_ms: 0,
    },
    Way {
        name: ALONE_BATCHED,
        queries: 1,
        batch_queries: 64,
        batch_ms: 0,
    },
    Way {
        name: APART,
        queries: QUERIES,
        batch_queries: 1,
        batch_ms: 0,
    },
    Way {
        name: TOGETHER,
        queries: QUERIES,
        batch_queries: QUERIES,
        batch_ms: BATCH_MS,
    },
];

/// A session with settings.
fn session(
    lab: &Lab,
    database: &Arc<Database>,
    threads: usize,
    settings: &[String],
) -> Result<Session, LabError> {
    let options = SessionOptions {
        threads: Some(threads),
        ..SessionOptions::default()
    };
    let session = Session::new(Arc::clone(database), &options);
    let session = session.by(Tierra::ENGINE, "opening a session")?;
    for sql in settings {
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
                left: "alone".to_owned(),
                right: "at once".to_owned(),
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
    rounds: usize,
) -> Result<Vec<Row>, LabError> {
    let mut rows = Vec::new();
    for (name, text) in TEXTS {
        let sql = text.replace("{table}", memory.table);
        let mut sessions = Vec::new();
        for way in WAYS {
            let settings = [
                format!("SET tierra.batch_queries = {}", way.batch_queries),
                format!("SET tierra.batch_ms = {}", way.batch_ms),
            ];
            let of_way = (0..way.queries)
                .map(|_| session(lab, database, lab::threads(), &settings).map(Arc::new));
            sessions.push(of_way.collect::<Result<Vec<_>, _>>()?);
        }
        let (expected, _) = lab.runtime().block_on(ask(&sessions[0][0], &sql))?;
        let mut times = WAYS.map(|_| Vec::new());
        let mut works = WAYS.map(|_| Work::default());
        for turn in turns(WAYS.len(), rounds) {
            let (time_ns, work) = at_once(lab, &sessions[turn.contender], &sql, &expected)?;
            works[turn.contender] = work;
            if !turn.is_warm_up() {
                times[turn.contender].push(time_ns);
            }
        }
        for ((way, times), work) in WAYS.iter().zip(times).zip(works) {
            rows.push(
                Row::new()
                    .text(QUERY, format!("{name}, {}", memory.name))
                    .text(RUNS, way.name)
                    .count("queries", way.queries as u64)
                    .count("bytes_far", work.bytes_far)
                    .count("bytes_near", work.bytes_near)
                    .count("blocks_read", work.blocks_read)
                    .count("blocks_shared", work.blocks_shared)
                    .samples("time", "ns", times),
            );
        }
    }
    Ok(rows)
}

/// Figure 4.16: each query on one thread and on more, a query a thread, with every level and with the chosen ones.
pub(super) fn levels(
    lab: &Lab,
    database: &Arc<Database>,
    memory: Memory,
    rounds: usize,
) -> Result<Vec<Row>, LabError> {
    let mut choices = vec!["auto".to_owned()];
    choices.extend(tierra_column::bits::Level::available().map(|level| level.to_string()));
    let mut rows = Vec::new();
    for (name, text) in TEXTS {
        let sql = text.replace("{table}", memory.table);
        for queries in lab::thread_counts() {
            let mut sessions = Vec::new();
            for level in &choices {
                let settings = [
                    format!("SET tierra.simd = '{level}'"),
                    "SET tierra.batch_queries = 1".to_owned(),
                ];
                let of_level =
                    (0..queries).map(|_| session(lab, database, 1, &settings).map(Arc::new));
                sessions.push(of_level.collect::<Result<Vec<_>, _>>()?);
            }
            let (expected, _) = lab.runtime().block_on(ask(&sessions[0][0], &sql))?;
            let mut times = vec![Vec::new(); choices.len()];
            for turn in turns(choices.len(), rounds) {
                let (time_ns, _) = at_once(lab, &sessions[turn.contender], &sql, &expected)?;
                if !turn.is_warm_up() {
                    times[turn.contender].push(time_ns);
                }
            }
            for (level, times) in choices.iter().zip(times) {
                rows.push(
                    Row::new()
                        .text(
                            "switched query",
                            format!("{name}, {}, {queries} at once", memory.name),
                        )
                        .text("level", level)
                        .count("queries", queries as u64)
                        .samples("time", "ns", times),
                );
            }
        }
    }
    Ok(rows)
}

fn of(rows: &[Row], memory: Memory, runs: &str, key: &str) -> Option<f64> {
    let query = format!("{}, {}", TEXTS[0].0, memory.name);
    find(rows, &[(QUERY, &query), (RUNS, runs)])?.value(key)
}

/// Bytes from far memory that a batch of `SUM(a)` reads, over those of one query.
pub(super) fn bytes(rows: &[Row], memory: Memory) -> Option<f64> {
    let one = of(rows, memory, ALONE, "bytes_far")?;
    Some(of(rows, memory, TOGETHER, "bytes_far")? / one)
}

/// Queries a second in a batch over those of as many for themselves.
pub(super) fn throughput(rows: &[Row], memory: Memory) -> Option<f64> {
    Some(of(rows, memory, APART, "time_ns")? / of(rows, memory, TOGETHER, "time_ns")?)
}

/// The time of a lone query with batches on over that with batches off.
pub(super) fn lone(rows: &[Row], memory: Memory) -> Option<f64> {
    Some(of(rows, memory, ALONE_BATCHED, "time_ns")? / of(rows, memory, ALONE, "time_ns")?)
}

#[cfg(test)]
pub(super) fn planted(memory: Memory, together_ns: u64, bytes: u64, lone_ns: u64) -> Vec<Row> {
    let row = |runs: &str, time_ns: u64, bytes: u64| {
        Row::new()
            .text(QUERY, format!("{}, {}", TEXTS[0].0, memory.name))
            .text(RUNS, runs)
            .count("bytes_far", bytes)
            .samples("time", "ns", vec![time_ns; 3])
    };
    vec![
        row(ALONE, 1000, 100),
        row(ALONE_BATCHED, lone_ns, 100),
        row(APART, 8000, 800),
        row(TOGETHER, together_ns, bytes),
    ]
}
