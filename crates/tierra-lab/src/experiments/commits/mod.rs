//! Durable commits of one row: how many a second by 1 and by 16 sessions, beside SQLite and PostgreSQL; how long one takes while tables
//! are compacted, backed up, altered, copied, sealed and merged; and how fast it is backed up meanwhile.
//!
//! Every commit is durable when it is acknowledged, on every side. On tmpfs a sync costs nothing, so that work is compared, not disks.
//! On the disk a file is measured beside all, whose blocks are written and synced one at a time: no commit is durable sooner than one of
//! these. Tierra is measured as a library, as SQLite is, and served over PostgreSQL's protocol to the client that drives PostgreSQL.

mod beside;
mod blocks;
mod database;
mod durable;
mod library;
mod remote;
mod side;
mod sqlite;
mod upkeep;
mod writes;

use self::blocks::SYNCED;
use self::durable::Medium;
use self::library::IN_PROCESS;
use self::sqlite::SQLITE;
use self::writes::Statement;
use super::{Experiment, Measured};
use crate::bar::Bar;
use crate::error::LabError;
use crate::lab::Lab;
use crate::peers::Peer;
use crate::peers::postgres::Postgres;
use crate::results::Tier;
use crate::row::{Row, find};
use crate::served::Served;
use crate::view::{Unit, View};

/// The media.
const IN_MEMORY: &str = "on tmpfs";
const DISK: &str = "on the disk";
const SESSIONS: [usize; 2] = [1, 16];

/// The experiment.
pub(super) struct Commits;

impl Experiment for Commits {
    fn name(&self) -> &'static str {
        "commits"
    }

    fn about(&self) -> &'static str {
        "how many rows a second are committed one at a time, beside SQLite and PostgreSQL, and how long is a commit beside a backup?"
    }

    fn peers(&self) -> &'static [Peer] {
        &[Postgres::PEER]
    }

    fn run(&self, lab: &Lab) -> Result<Measured, LabError> {
        let mut rows = Vec::new();
        for medium in Medium::both(lab) {
            rows.extend(durable::measure(lab, medium)?);
        }
        rows.extend(beside::measure(lab)?);
        let is_there = find(&rows, &[("engine", Postgres::ENGINE)]).is_some();
        let version = Postgres::version().filter(|_| is_there);
        Ok(Measured {
            tier: Tier::Real,
            parameters: Row::new()
                .text("postgres", version.unwrap_or_else(|| "absent".to_owned()))
                .text("sqlite", rusqlite::version()),
            rows,
        })
    }

    fn bars(&self, rows: &[Row]) -> Vec<Bar> {
        let ours_over = |medium: &str, sessions: usize, ours: &str, theirs: &str| {
            slowest(|statement| {
                // As many commits, in the same rounds.
                let of = |who| of(rows, medium, statement, sessions, who);
                of(theirs)?.over(of(ours)?, "time_ns")
            })
        };
        let mut bars = Vec::new();
        for sessions in SESSIONS {
            bars.push(Bar::at_least(
                format!(
                    "tmpfs, {}, over PostgreSQL's protocol: rows a second over PostgreSQL's, the least of INSERT, UPDATE, DELETE",
                    of_sessions(sessions)
                ),
                2.0,
                ours_over(IN_MEMORY, sessions, Served::ENGINE, Postgres::ENGINE),
            ));
        }
        let many_over_one = slowest(|statement| {
            let speed = |sessions| speed(rows, DISK, statement, sessions, IN_PROCESS);
            Some(speed(SESSIONS[1])? / speed(SESSIONS[0])?)
        });
        let longest = |beside: &str| {
            let row = find(rows, &[("beside", beside), ("of commits", beside::MOST)])?;
            let is_enough = row.value("commits")? >= beside::COMMITS_LEAST as f64;
            row.value("latency_ns")
                .filter(|_| is_enough)
                .map(|time_ns| time_ns / 1e6)
        };
        let written = |what: &str| find(rows, &[("written", what)])?.value("written_bytes_per_s");
        let backup = written(beside::BACKUP).zip(written(beside::FILE_ALONE));
        bars.extend([
            Bar::at_least(
                "tmpfs, 1 session, library: rows a second over SQLite's, the least of INSERT, UPDATE, DELETE",
                0.5,
                ours_over(IN_MEMORY, 1, IN_PROCESS, SQLITE),
            ),
            Bar::at_least(
                "disk, 1 session, library: rows a second over synced blocks a second, the least of INSERT, UPDATE, DELETE",
                0.8,
                ours_over(DISK, 1, IN_PROCESS, SYNCED),
            ),
            Bar::at_least(
                "disk, library: rows a second of 16 sessions over those of one, the least of INSERT, UPDATE, DELETE",
                8.0,
                many_over_one,
            ),
            Bar::at_least(
                "disk: backup of SSB while rows are appended: bytes a second over those of a file that is written with nothing beside it",
                0.5,
                backup.map(|(ours, file)| ours / file),
            ),
        ]);
        bars.extend(beside::BARRED.map(|beside| {
            Bar::at_most(
                format!("disk: commit of a row beside {beside}, 99.9 % of at least 10,000, ms"),
                50.0,
                longest(beside),
            )
        }));
        bars
    }

    fn views(&self) -> &'static [View] {
        &VIEWS
    }
}

const fn commits(title: &'static str, category: &'static str) -> View {
    View {
        title,
        category,
        series: "engine",
        value: "time_ns",
        per: Some("commits"),
        unit: Unit::Nanoseconds,
        mean: false,
    }
}

const VIEWS: [View; 4] = [
    commits(
        "time of a durable commit of one row, over all sessions, files on tmpfs",
        IN_MEMORY,
    ),
    commits("the same, files on the disk", DISK),
    View {
        title: "a commit of one row on the disk takes at most, with something beside it",
        category: "beside",
        series: "of commits",
        value: "latency_ns",
        per: None,
        unit: Unit::Nanoseconds,
        mean: false,
    },
    View {
        title: "bytes written in a second",
        category: "written",
        series: "to",
        value: "written_bytes_per_s",
        per: None,
        unit: Unit::Bytes,
        mean: false,
    },
];

fn of_sessions(sessions: usize) -> String {
    match sessions {
        1 => "1 session".to_owned(),
        many => format!("{many} sessions"),
    }
}

/// The name of a point.
fn point(statement: Statement, sessions: usize) -> String {
    format!("{}, {}", statement.name(), of_sessions(sessions))
}

/// The row of a contender.
fn of<'a>(
    rows: &'a [Row],
    medium: &str,
    statement: Statement,
    sessions: usize,
    who: &str,
) -> Option<&'a Row> {
    let point = point(statement, sessions);
    find(rows, &[(medium, &point), ("engine", who)])
}

/// Commits a second.
fn speed(
    rows: &[Row],
    medium: &str,
    statement: Statement,
    sessions: usize,
    who: &str,
) -> Option<f64> {
    let row = of(rows, medium, statement, sessions, who)?;
    Some(row.value("commits")? / row.value("time_ns")? * 1e9)
}

/// The least over all statements; `None` if one was not measured.
fn slowest(of: impl Fn(Statement) -> Option<f64>) -> Option<f64> {
    let all = Statement::ALL.into_iter().map(of);
    let all: Vec<f64> = all.collect::<Option<_>>()?;
    all.into_iter().reduce(f64::min)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(medium: &str, statement: Statement, sessions: usize, who: &str, time_ns: u64) -> Row {
        Row::new()
            .text(medium, point(statement, sessions))
            .text("engine", who)
            .count("commits", 10)
            .samples("time", "ns", vec![time_ns])
    }

    fn rows(ours: u64) -> Vec<Row> {
        let mut rows = Vec::new();
        for statement in Statement::ALL {
            // UPDATE is the slowest.
            let ours = ours + 10 * u64::from(statement == Statement::Update);
            for sessions in SESSIONS {
                rows.push(row(IN_MEMORY, statement, sessions, Served::ENGINE, ours));
                rows.push(row(IN_MEMORY, statement, sessions, Postgres::ENGINE, 220));
            }
            rows.push(row(IN_MEMORY, statement, 1, IN_PROCESS, ours));
            rows.push(row(IN_MEMORY, statement, 1, SQLITE, 55));
            rows.push(row(DISK, statement, 1, IN_PROCESS, ours));
            rows.push(row(DISK, statement, 1, SYNCED, 88));
            rows.push(row(DISK, statement, 16, IN_PROCESS, ours / 10));
        }
        for beside in beside::BARRED {
            let row = Row::new().text("beside", beside);
            let row = row.text("of commits", beside::MOST);
            let row = row.count("commits", beside::COMMITS_LEAST);
            rows.push(row.count("latency_ns", 50_000_000));
        }
        for (written, per_s) in [(beside::BACKUP, 5), (beside::FILE_ALONE, 10)] {
            let row = Row::new().text("written", written);
            rows.push(row.samples("written", "bytes_per_s", vec![per_s]));
        }
        rows
    }

    #[test]
    fn the_slowest_statement_decides() {
        let bars = Commits.bars(&rows(100));
        let measured: Vec<f64> = bars.iter().filter_map(|bar| bar.measured).collect();
        assert_eq!(measured[..6], [2.0, 2.0, 0.5, 0.8, 10.0, 0.5]);
        assert_eq!(measured[6..], [50.0; beside::BARRED.len()]);
        assert!(bars.iter().all(|bar| bar.met));
        let missed = Commits.bars(&rows(101));
        assert_eq!(missed.iter().filter(|bar| !bar.met).count(), 4);
    }

    #[test]
    fn of_few_commits_one_of_a_thousand_is_not_told() {
        let row = |commits| {
            let row = Row::new().text("beside", beside::COMPACTION);
            let row = row.text("of commits", beside::MOST);
            row.count("commits", commits).count("latency_ns", 1)
        };
        let measured = |commits| {
            let bars = Commits.bars(&[row(commits)]);
            bars.iter().filter(|bar| bar.measured.is_some()).count()
        };
        assert_eq!(measured(beside::COMMITS_LEAST), 1);
        assert_eq!(measured(beside::COMMITS_LEAST - 1), 0);
    }

    #[test]
    fn without_a_peer_nothing_is_met() {
        let all = rows(100);
        let without: Vec<Row> = all
            .into_iter()
            .filter(|row| !row.is(&[("engine", Postgres::ENGINE)]))
            .collect();
        let bars = Commits.bars(&without);
        assert_eq!(bars.iter().filter(|bar| bar.measured.is_none()).count(), 2);
    }
}
