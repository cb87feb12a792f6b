//! Experiment `sql-writes`: do random statements that change rows leave the rows that SQLite has after them?
//!
//! Scripts of INSERTs, UPDATEs, DELETEs, ON CONFLICTs and transactions run in Tierra and in SQLite. They are those of the promise
//! `random_writes` of `tierra-sql`, which runs a seed again: `TIERRA_SEED=n`.

#[path = "../../../tierra-sql/tests/written/mod.rs"]
mod written;

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use self::written::Counts;
use super::{Experiment, Measured};
use crate::bar::Bar;
use crate::error::LabError;
use crate::lab::{self, Lab, SEED, ScaleOption};
use crate::progress;
use crate::results::Tier;
use crate::row::Row;
use crate::view::{Unit, View};

/// Statements of a full run.
const STATEMENTS: usize = 100_000;
/// Statements of a script, without those that make its tables.
const OF_A_SCRIPT: usize = 60;

/// The experiment.
pub(super) struct SqlWrites;

impl Experiment for SqlWrites {
    fn name(&self) -> &'static str {
        "sql-writes"
    }

    fn about(&self) -> &'static str {
        "do random statements that change rows leave the rows that SQLite has after them?"
    }

    fn heeds(&self) -> &'static [ScaleOption] {
        &[ScaleOption::Operations]
    }

    fn is_timed(&self) -> bool {
        false
    }

    fn run(&self, lab: &Lab) -> Result<Measured, LabError> {
        let scripts = lab.operations(40, STATEMENTS).div_ceil(OF_A_SCRIPT) as u64;
        Ok(Measured {
            tier: Tier::Real,
            parameters: Row::new()
                .text("sqlite", rusqlite::version())
                .count("statements_of_a_script", OF_A_SCRIPT as u64),
            rows: vec![run_all(lab, scripts)?],
        })
    }

    fn bars(&self, rows: &[Row]) -> Vec<Bar> {
        let value = |key: &str| rows.iter().find_map(|row| row.value(key));
        vec![
            Bar::at_most(
                "sql-writes: scripts that leave other rows than in SQLite",
                0.0,
                value("differing_scripts"),
            ),
            Bar::at_least(
                "sql-writes: statements",
                STATEMENTS as f64,
                value("statements"),
            ),
        ]
    }

    fn views(&self) -> &'static [View] {
        &VIEWS
    }
}

const VIEWS: [View; 1] = [View {
    title: "statements that change rows",
    category: "compared",
    series: "tables",
    value: "statements",
    per: None,
    unit: Unit::Count,
    mean: false,
}];

/// Runs the scripts with one worker per thread, and gives their row.
fn run_all(lab: &Lab, scripts: u64) -> Result<Row, LabError> {
    let folder = lab.folder_in_memory()?;
    let bar = progress::bar("scripts", scripts as usize);
    let next = AtomicU64::new(0);
    let so_far = Mutex::new((Counts::default(), Vec::new()));
    let worker = || {
        loop {
            let script = next.fetch_add(1, Ordering::Relaxed);
            if script >= scripts {
                return;
            }
            let seed = SEED.wrapping_add(script);
            let done = written::run(seed, OF_A_SCRIPT, folder.path());
            let done = lab.runtime().block_on(done);
            bar.inc(1);
            let (counts, differences) = &mut *so_far.lock().expect("no thread panics with it");
            match done {
                Ok(more) => {
                    counts.statements += more.statements;
                    counts.failed += more.failed;
                    counts.rows += more.rows;
                }
                Err(difference) => {
                    println!("{difference}");
                    differences.push(difference);
                }
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..lab::threads() {
            scope.spawn(worker);
        }
    });
    bar.finish_and_clear();
    let (counts, differences) = so_far.into_inner().expect("no thread panicked with it");
    let row = Row::new()
        .text("tables", "two, changed")
        .text("compared", "with SQLite")
        .count("scripts", scripts)
        .count("statements", counts.statements)
        .count("failed_on_both_sides", counts.failed)
        .count("rows_compared", counts.rows)
        .count("differing_scripts", differences.len() as u64);
    Ok(match differences.into_iter().next() {
        Some(first) => row.text("first_difference", first),
        None => row,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_script_that_differs_misses_the_bar() {
        let met = |differing, statements| {
            let row = Row::new()
                .count("statements", statements)
                .count("differing_scripts", differing);
            let bars = SqlWrites.bars(&[row]);
            bars.iter().map(|bar| bar.met).collect::<Vec<_>>()
        };
        let all = STATEMENTS as u64;
        assert_eq!(met(0, all), [true, true]);
        assert_eq!(met(1, all), [false, true]);
        assert_eq!(met(0, all - 1), [true, false]);
        assert!(SqlWrites.bars(&[]).iter().all(|bar| !bar.met));
    }
}
