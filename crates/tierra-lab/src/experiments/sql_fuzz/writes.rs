//! The statements that write: scripts of random INSERTs, UPDATEs, DELETEs, ON CONFLICTs and transactions, in Tierra and in SQLite.
//! They are those of the promise `random_writes` of `tierra-sql`, which runs a seed again: `TIERRA_SEED=n`.

#[path = "../../../../tierra-sql/tests/written/mod.rs"]
mod written;

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use self::written::Counts;
use crate::bar::Bar;
use crate::error::LabError;
use crate::lab::{self, Lab, SEED};
use crate::progress;
use crate::row::Row;

/// Statements of a full run.
const STATEMENTS: usize = 100_000;
/// One statement that writes for this many queries.
pub(super) const ONCE_IN: usize = 10;
/// Statements of a script, without those that make its tables.
const OF_A_SCRIPT: usize = 60;

/// Runs as many statements, and gives their row.
pub(super) fn run(lab: &Lab, statements: usize) -> Result<Row, LabError> {
    let scripts = statements.div_ceil(OF_A_SCRIPT) as u64;
    let folder = lab.folder_in_memory()?;
    let bar = progress::bar("scripts of writes", scripts as usize);
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

/// The bars of a run that has such a row.
pub(super) fn bars(rows: &[Row]) -> Vec<Bar> {
    let value = |key: &str| rows.iter().find_map(|row| row.value(key));
    if value("statements").is_none() {
        // An earlier run only asked.
        return Vec::new();
    }
    vec![
        Bar::at_most(
            "sql-fuzz: scripts of writes that leave other rows than in SQLite",
            0.0,
            value("differing_scripts"),
        ),
        Bar::at_least(
            "sql-fuzz: statements of these scripts",
            STATEMENTS as f64,
            value("statements"),
        ),
    ]
}
