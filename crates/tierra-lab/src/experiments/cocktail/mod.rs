//! Queries in batches, and the SIMD cocktail: what do eight queries at once save by sharing a pass, and do threads gain from
//! registers of different widths?
//!
//! The thesis's columns, uniform integers of 1 to a million, near and in emulated Optane with the bandwidth that as many of its
//! cores have as there are threads. What a level does to each operator is measured on scans; what batches do, on SQL. Its machine had
//! 18 cores that lower their clocks under AVX-512.
//!
//! There are the thesis's 100 M rows, and more where the last-level caches would hold a column: a cache of 300 MiB takes 142 M
//! rows, which take 4.3 GB of memory, and the tables that are calibrated with 2 GB more. All sums are compared with those of the values.
//!
//! Source: Zarubin's thesis, section 4.3, figures 4.10 to 4.14, 4.16 and table 4.1.

mod append;
mod choice;
mod data;
mod levels;
mod queries;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tierra_engine::{Calibration, Database, Effort, LevelProfile};

use self::data::{FAR, MEMORIES, Memory, NEAR, Sums};
use self::queries::Batch;
use super::{Experiment, Measured};
use crate::answer::Answer;
use crate::bar::Bar;
use crate::contender::Tierra;
use crate::error::{Context, LabError};
use crate::lab::{self, Lab, ScaleOption};
use crate::progress;
use crate::results::Tier;
use crate::row::Row;
use crate::view::{Unit, View};

const VIEWS: [View; 5] = [
    View {
        title: "values a second of all threads, over those of the widest level (figures 4.10, 4.12 to 4.14)",
        category: levels::CELL,
        series: levels::LEVELS,
        value: "over_widest",
        per: None,
        unit: Unit::Ratio,
        mean: true,
    },
    View {
        title: "values a second of all threads",
        category: levels::CELL,
        series: levels::LEVELS,
        value: levels::RATE,
        per: None,
        unit: Unit::PerSecond,
        mean: false,
    },
    View {
        title: "bytes appended a second (figure 4.11)",
        category: "append",
        series: "stores",
        value: "bytes_per_s",
        per: None,
        unit: Unit::PerSecond,
        mean: false,
    },
    View {
        title: "time of queries on a thread each (figure 4.16)",
        category: queries::SWITCHED,
        series: queries::LEVEL,
        value: "time_ns",
        per: None,
        unit: Unit::Nanoseconds,
        mean: false,
    },
    View {
        title: "time of a query, of eight, and of eight in a batch",
        category: queries::QUERY,
        series: queries::RUNS,
        value: "time_ns",
        per: None,
        unit: Unit::Nanoseconds,
        mean: false,
    },
];

/// The experiment.
pub(super) struct Cocktail;

impl Experiment for Cocktail {
    fn name(&self) -> &'static str {
        "cocktail"
    }

    fn about(&self) -> &'static str {
        "what do queries save that share one pass, and which instructions should the threads of a scan use?"
    }

    fn heeds(&self) -> &'static [ScaleOption] {
        &[ScaleOption::Runs]
    }

    fn run(&self, lab: &Lab) -> Result<Measured, LabError> {
        let count = data::rows(lab);
        let effort = lab.size(Effort::QUICK, Effort::FULL);
        let effort = Effort {
            rounds: lab.runs(effort.rounds, effort.rounds),
            ..effort
        };
        let folder = lab.folder_in_memory()?;
        let dir = folder.path().join("db");
        let database = data::create(&dir, count)?;
        // The profile is what the product measures, and is in effect from the next open on.
        let of_threads =
            |memory: Memory| lab::thread_counts().map(move |threads| memory.far(threads));
        let mut fars = Vec::from_iter(MEMORIES.into_iter().flat_map(of_threads));
        fars.dedup();
        let measured = database.calibrate_levels(effort, &fars, || ());
        let measured = measured.by(Tierra::ENGINE, "calibrating")?;
        let best = measured
            .iter()
            .filter_map(|it| Some((it.situation, it.best()?.clone())));
        let calibration = Calibration::default().with_levels(best.collect());
        let written = calibration.write(&dir);
        written.by(Tierra::ENGINE, "writing a calibration")?;
        drop(database);
        let database = Database::open(&dir, &data::options()).by(Tierra::ENGINE, "opening")?;
        database
            .wait_for_near_copies()
            .by(Tierra::ENGINE, "copying rows near")?;
        let mut rows = profile(calibration.levels());
        let work = Work {
            lab,
            database: &database,
            folder: folder.path(),
            sums: levels::sums(count),
            answers: queries::answers(count)?,
        };
        let bar = progress::bar("memories", MEMORIES.len());
        for memory in MEMORIES {
            bar.set_message(memory.name);
            rows.extend(work.measure(memory)?);
            bar.inc(1);
        }
        bar.finish_and_clear();
        let over = levels::over_widest(&rows);
        rows.extend(over);
        let (column_bytes, memory_bytes) = data::sizes(count);
        let parameters = Row::new()
            .count("rows", count)
            .count("column_bytes", column_bytes)
            .count("tables_bytes", memory_bytes)
            .count("rounds", rounds(lab) as u64)
            .count("lasts_ms", lasts(lab).as_millis() as u64);
        Ok(Measured {
            tier: Tier::Emulated,
            parameters,
            rows,
        })
    }

    fn bars(&self, rows: &[Row]) -> Vec<Bar> {
        let mut bars = Vec::new();
        // The same settings as the lone query's, and those of programs that send many queries at once.
        for (batch, settings) in [
            (Batch::Defaults, "defaults"),
            (Batch::Waiting, "batch_queries = 8, batch_ms = 1000"),
        ] {
            bars.extend([
                Bar::at_most(
                    format!("cocktail: bytes that eight SUM(a) in a batch read from far memory over those of one, {settings}, worst round"),
                    1.1,
                    queries::bytes(rows, FAR, batch),
                ),
                Bar::at_least(
                    format!("cocktail: throughput of eight SUM(a) in a batch, {settings}, over each for itself, emulated optane"),
                    4.0,
                    queries::throughput(rows, FAR, batch),
                ),
                // Near memory is not what they wait for: sharing its bytes must not cost more than it saves.
                Bar::at_least(
                    format!("cocktail: throughput of eight SUM(a) in a batch, {settings}, over each for itself, near"),
                    0.9,
                    queries::throughput(rows, NEAR, batch),
                ),
            ]);
        }
        bars.extend([NEAR, FAR].map(|memory| {
            Bar::at_most(
                format!(
                    "cocktail: time of a lone SUM(a), defaults, over batch_queries = 1, {}",
                    memory.name
                ),
                1.02,
                queries::lone(rows, memory),
            )
        }));
        bars.extend([
            Bar::at_least(
                "cocktail: cells of scans and queries in which the product's levels have at least 0.95 of the best measured speed",
                0.95,
                choice::near_the_best(rows, 0.95),
            ),
            Bar::at_most(
                "cocktail: cells in which they are slower than the best level alone by more than a level than itself",
                0.0,
                choice::below_uniform(rows),
            ),
            Bar::at_most(
                "cocktail: nanoseconds of a choice of levels",
                10_000.0,
                levels::choice_ns(rows),
            ),
        ]);
        bars
    }

    fn views(&self) -> &'static [View] {
        &VIEWS
    }

    fn paper(&self) -> Vec<Row> {
        // Section 4.3.2, from the text: the figures are pictures.
        let over = |cell: &str, levels: &str, times: f64| {
            Row::new()
                .text(levels::CELL, cell)
                .text(levels::LEVELS, levels)
                .number("over_widest", times)
        };
        vec![
            // "half scalar, half AVX-512 is 2x AVX-512".
            over("aggregate, near, 24 threads (paper)", "scalar/avx512", 2.0),
            // Over the best level alone.
            over(
                "aggregate, near, 18 threads over the best level (paper)",
                "scalar/avx2",
                1.29,
            ),
            over(
                "aggregate, optane, 18 threads over the best level (paper)",
                "best mix",
                1.05,
            ),
            over(
                "aggregate, optane, 36 threads over the best level (paper)",
                "best mix",
                1.10,
            ),
            over(
                "select 1 %, near, 24 threads over the best level (paper)",
                "scalar/avx512",
                1.25,
            ),
            over("select 10 %, over the best level (paper)", "best mix", 1.0),
        ]
    }
}

fn rounds(lab: &Lab) -> usize {
    lab.runs(1, 9)
}

/// How long threads scan with one mix: more of them scan as much sooner.
fn lasts(lab: &Lab) -> Duration {
    let share = lab::threads().div_ceil(2) as u64;
    Duration::from_millis(lab.size(2, (200 / share).max(2)))
}

/// What is measured in each memory.
struct Work<'a> {
    lab: &'a Lab,
    database: &'a Arc<Database>,
    folder: &'a Path,
    /// By task of the scans, and by column.
    sums: Vec<Vec<Sums>>,
    /// Of the queries.
    answers: Vec<Answer>,
}

impl Work<'_> {
    fn measure(&self, memory: Memory) -> Result<Vec<Row>, LabError> {
        let Work {
            lab,
            database,
            folder,
            sums,
            answers,
        } = self;
        let rounds = rounds(lab);
        let snapshot = data::snapshot(database, memory)?;
        let mut rows = levels::measure(&snapshot, memory, sums, lasts(lab), rounds)?;
        let appended = lab.size(2 << 20, 512 << 20) / lab::threads();
        rows.extend(append::measure(folder, memory, appended, rounds)?);
        rows.extend(queries::levels(lab, database, memory, answers, rounds)?);
        rows.extend(queries::batches(lab, database, memory, answers, rounds)?);
        Ok(rows)
    }
}

/// Table 4.1: the rows of each mix that was chosen.
fn profile(levels: &LevelProfile) -> Vec<Row> {
    let mut rows = Vec::new();
    for (situation, mix) in levels.entries() {
        let far_memory = situation
            .far
            .map_or("off".to_owned(), |far| far.to_string());
        for row in mix.rows() {
            rows.push(
                Row::new()
                    .text("table 4.1", situation.operator.to_string())
                    .text("tier", situation.speed.to_string())
                    .text("far_memory", far_memory.as_str())
                    .count("threads", situation.threads as u64)
                    .count("columns", situation.columns as u64)
                    .text("level", row.level.to_string())
                    .count("first_core", row.first_core as u64)
                    .count("last_core", row.last_core as u64)
                    .flag("round_robin", row.round_robin),
            );
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_compare_batches_with_single_queries_and_choices_with_the_best() {
        let rows = |together_ns, bytes, lone_ns, auto_ns: u64| {
            let mut rows = queries::planted(FAR, together_ns, bytes, lone_ns);
            rows.extend(queries::planted(NEAR, together_ns, bytes, lone_ns));
            rows.extend(choice::planted(auto_ns));
            rows.push(Row::new().count("choice_ns", 900));
            rows
        };
        let met = |rows: &[Row]| Vec::from_iter(Cocktail.bars(rows).iter().map(|bar| bar.met));
        assert_eq!(met(&rows(1500, 105, 1010, 900)), [true; 11]);
        let mut missed = [false; 11];
        missed[10] = true;
        assert_eq!(met(&rows(9000, 200, 1050, 1200)), missed);
        assert_eq!(met(&[]), [false; 11]);
    }
}
