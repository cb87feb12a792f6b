//! Experiment `sql-fuzz`: does Tierra answer random queries over random tables as DuckDB does, and equivalent queries alike?
//!
//! One query in ten runs over tables one of which has more than 200,000 rows. A difference is reduced and printed as a script;
//! `--seed N` runs case N again. A full run that was ended early is continued by the next one of the same program.

mod asked;

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use self::asked::Asked;
use super::{Experiment, Measured};
use crate::bar::Bar;
use crate::error::LabError;
use crate::fuzz::{
    CASES_OF_A_SET, Construct, Difference, Fuzzer, Journal, Kind, Tally, case_number,
};
use crate::lab::{self, Lab, SEED, ScaleOption};
use crate::peers::Peer;
use crate::peers::duckdb::{DuckDb, Library};
use crate::progress;
use crate::results::Tier;
use crate::row::Row;
use crate::view::{Unit, View};

/// Queries of a full run.
const QUERIES: usize = 1_000_000;
/// One query in this many is over large tables.
const LARGE_ONCE_IN: usize = 10;
/// Queries over one set of small tables, and of large ones.
const OF_A_SET: [usize; 2] = [500, 2_500];
/// The sizes in results, small first.
const SIZES: [&str; 2] = ["up to 60 rows", "over 200,000 rows"];
/// The file in which a run notes what it has done.
const JOURNAL: &str = "tierra-sql-fuzz.journal";
/// The share of queries allowed without a comparison, because Tierra or DuckDB does not answer them.
const MOST_REFUSED: f64 = 0.02;

/// The experiment.
pub(super) struct SqlFuzz;

impl Experiment for SqlFuzz {
    fn name(&self) -> &'static str {
        "sql-fuzz"
    }

    fn about(&self) -> &'static str {
        "are random queries over random tables answered as DuckDB answers them, and alike in other words?"
    }

    fn heeds(&self) -> &'static [ScaleOption] {
        &[ScaleOption::Operations, ScaleOption::Seed]
    }

    fn is_timed(&self) -> bool {
        false
    }

    fn peers(&self) -> &'static [Peer] {
        &[Library::PEER]
    }

    fn run(&self, lab: &Lab) -> Result<Measured, LabError> {
        let work = match lab.seed() {
            Some(case) => vec![(case, 1)],
            None => work(lab.operations(400, QUERIES)),
        };
        let version = DuckDb::with_threads(1)
            .map_or("absent".to_owned(), |duckdb| duckdb.version().to_owned());
        if version == "absent" {
            println!("Queries are compared with themselves alone: Python has no module `duckdb`.");
        }
        let start = Instant::now();
        let tallies = run_all(lab, &work)?;
        let total: u64 = tallies.iter().map(Tally::total).sum();
        let mut rows = Vec::new();
        for (size, tally) in SIZES.into_iter().zip(&tallies) {
            rows.extend(rows_of(size, tally));
        }
        Ok(Measured {
            tier: Tier::Real,
            parameters: Row::new()
                .text("duckdb", version)
                .count("queries", total)
                .count("table_sets", tallies.iter().map(|tally| tally.sets).sum())
                .number("elapsed_s", start.elapsed().as_secs_f64()),
            rows,
        })
    }

    fn written(&self, lab: &Lab) {
        if has_journal(lab) {
            Journal::remove(&lab.lasting_file(JOURNAL));
        }
    }

    fn bars(&self, rows: &[Row]) -> Vec<Bar> {
        let sum = |key: &str, size: Option<&str>| {
            let rows = rows
                .iter()
                .filter(|row| size.is_none_or(|size| row.is(&[("tables", size)])));
            let values: Vec<f64> = rows.filter_map(|row| row.value(key)).collect();
            (!values.is_empty()).then(|| values.iter().sum::<f64>())
        };
        let queries = sum("queries", None);
        let refused = sum("refused", None).zip(sum("duckdb_refused", None));
        let share = refused
            .zip(queries)
            .map(|((ours, theirs), all)| (ours + theirs) / all);
        let mut bars = vec![
            Bar::at_most(
                "sql-fuzz: queries whose answers differ",
                0.0,
                sum("differences", None),
            ),
            Bar::at_least("sql-fuzz: queries", QUERIES as f64, queries),
            Bar::at_least(
                "sql-fuzz: queries over tables of more than 200,000 rows",
                (QUERIES / LARGE_ONCE_IN) as f64,
                sum("queries", Some(SIZES[1])),
            ),
            Bar::at_most(
                "sql-fuzz: share of queries that one side does not answer",
                MOST_REFUSED,
                share,
            ),
        ];
        // An earlier run did not count them.
        let constructs: Vec<f64> = rows
            .iter()
            .filter(|row| row.is(&[("tables", SIZES[0])]))
            .filter_map(|row| row.value("with_it_compared"))
            .collect();
        if !constructs.is_empty() {
            let missing = constructs.iter().filter(|compared| **compared == 0.0);
            bars.push(Bar::at_most(
                "sql-fuzz: constructs of the grammar that no compared query has",
                0.0,
                Some(missing.count() as f64),
            ));
        }
        bars
    }

    fn views(&self) -> &'static [View] {
        &VIEWS
    }
}

const VIEWS: [View; 2] = [
    View {
        title: "queries",
        category: "compared",
        series: "tables",
        value: "queries",
        per: None,
        unit: Unit::Count,
        mean: false,
    },
    View {
        title: "answers that differ",
        category: "compared",
        series: "tables",
        value: "differences",
        per: None,
        unit: Unit::Count,
        mean: false,
    },
];

/// First cases and their numbers of sets: the large tables are spread among the small ones.
fn work(queries: usize) -> Vec<(u64, u64)> {
    let share = [queries - queries / LARGE_ONCE_IN, queries / LARGE_ONCE_IN];
    let mut work = Vec::new();
    for (large, queries) in share.into_iter().enumerate() {
        let sets = queries.div_ceil(OF_A_SET[large]);
        for set in 0..sets {
            let count = OF_A_SET[large].min(queries - set * OF_A_SET[large]);
            let place = set as f64 / sets as f64;
            work.push((
                place,
                (
                    case_number(SEED % 1_000 * 1_000 + set as u64, large == 1, 0),
                    count as u64,
                ),
            ));
        }
    }
    work.sort_by(|one, another| one.0.total_cmp(&another.0));
    work.into_iter().map(|(_, work)| work).collect()
}

/// Whether a run notes what it has done: one of a single case and a quick one do not.
fn has_journal(lab: &Lab) -> bool {
    lab.seed().is_none() && !lab.is_quick()
}

/// Runs all work with one fuzzer per thread; returns the tallies of small and of large tables. A full run goes on where the same
/// program ended one early.
fn run_all(lab: &Lab, work: &[(u64, u64)]) -> Result<[Tally; 2], LabError> {
    let total: u64 = work.iter().map(|(_, count)| count).sum();
    let mut tallies = [Tally::default(), Tally::default()];
    let (mut journal, mut done) = (None, HashMap::new());
    if has_journal(lab) {
        let opened = Journal::open(&lab.lasting_file(JOURNAL), total)?;
        (journal, done) = (Some(opened.0), opened.1);
    }
    let bar = progress::bar("queries", total as usize);
    let mut left = Vec::new();
    for &(first, count) in work {
        match done.remove(&first) {
            Some(tally) => {
                bar.inc(count);
                tallies[is_large(first)].add(tally);
            }
            None => left.push((first, count)),
        }
    }
    if left.len() < work.len() {
        println!(
            "An earlier run did {} of {} sets of tables.",
            work.len() - left.len(),
            work.len()
        );
    }
    let next = AtomicUsize::new(0);
    let so_far = Mutex::new((tallies, journal));
    let folder = lab.folder_in_memory()?;
    let work = || -> Result<(), LabError> {
        let mut fuzzer = Fuzzer::new(lab.runtime(), Asked::start(), folder.path());
        while let Some((first, count)) = left.get(next.fetch_add(1, Ordering::Relaxed)) {
            let mut tally = Tally::default();
            fuzzer.run(
                *first,
                *count,
                &mut tally,
                &mut |difference: &Difference| println!("{}", difference.script),
            )?;
            bar.inc(*count);
            let (tallies, journal) = &mut *so_far.lock().expect("no thread panics with it");
            if let Some(journal) = journal {
                journal.note(*first, &tally)?;
            }
            tallies[is_large(*first)].add(tally);
            let found: usize = tallies.iter().map(|tally| tally.differences.len()).sum();
            bar.set_message(format!("{found} differ"));
        }
        fuzzer.end()
    };
    // Without one of them the others would go on for hours before its error is told.
    let worker = || work().inspect_err(|_| next.store(left.len(), Ordering::Relaxed));
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..lab::threads().min(left.len()))
            .map(|_| scope.spawn(worker))
            .collect();
        let done = workers.into_iter().map(|worker| {
            worker
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        done.collect::<Result<(), LabError>>()
    })?;
    bar.finish_and_clear();
    let (tallies, _) = so_far.into_inner().expect("no thread panicked with it");
    Ok(tallies)
}

/// Whether a case is over large tables, as an index of small and large.
fn is_large(case: u64) -> usize {
    usize::from(case / CASES_OF_A_SET % 2 == 1)
}

fn rows_of(size: &str, tally: &Tally) -> Vec<Row> {
    let mut rows = Vec::new();
    for kind in Kind::ALL {
        let counts = tally.counts(kind);
        rows.push(
            Row::new()
                .text("tables", size)
                .text("compared", kind.name())
                .count("queries", counts.queries)
                .count("refused", counts.refused)
                .count("duckdb_refused", counts.peer_refused)
                .count("differences", counts.differences),
        );
    }
    for construct in Construct::ALL {
        let (all, compared) = tally.with(*construct);
        rows.push(
            Row::new()
                .text("tables", size)
                .text("construct", construct.name())
                .count("with_it", all)
                .count("with_it_compared", compared),
        );
    }
    let reasons = tally
        .refused
        .iter()
        .map(|(reason, found)| ("Tierra", reason.clone(), found));
    let reasons = reasons.chain(
        tally
            .peer_refused
            .iter()
            .map(|(reason, found)| ("DuckDB", reason.clone(), found)),
    );
    for (who, reason, (count, example)) in reasons {
        rows.push(
            Row::new()
                .text("tables", size)
                .text("who", who)
                .text("reason", reason)
                .count("refusals", *count)
                .text("example", example),
        );
    }
    for difference in &tally.differences {
        rows.push(
            Row::new()
                .text("tables", size)
                .count("case", difference.case)
                .text("statement", &difference.statement)
                .text("detail", &difference.detail),
        );
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_all_the_queries_and_a_tenth_of_them_is_over_large_tables() {
        let work = work(10_000);
        let count = |large: u64| {
            let of_size = work
                .iter()
                .filter(|(first, _)| first / CASES_OF_A_SET % 2 == large);
            of_size.map(|(_, count)| count).sum::<u64>()
        };
        assert_eq!([count(0), count(1)], [9_000, 1_000]);
    }

    #[test]
    fn one_difference_misses_the_bar() {
        let row = |size: &str, queries, differences| {
            Row::new()
                .text("tables", size)
                .count("queries", queries)
                .count("refused", 0)
                .count("duckdb_refused", 0)
                .count("differences", differences)
        };
        let met = |differences| {
            let rows = [
                row(SIZES[0], 900_000, differences),
                row(SIZES[1], 100_000, 0),
            ];
            SqlFuzz
                .bars(&rows)
                .iter()
                .map(|bar| bar.met)
                .collect::<Vec<_>>()
        };
        assert_eq!(met(0), [true; 4]);
        assert_eq!(met(1), [false, true, true, true]);
        let construct = |compared| {
            let row = Row::new()
                .text("tables", SIZES[0])
                .count("with_it_compared", compared);
            SqlFuzz.bars(&[row]).last().expect("a bar").met
        };
        assert!(construct(1) && !construct(0));
        assert!(SqlFuzz.bars(&[]).iter().all(|bar| !bar.met));
    }
}
