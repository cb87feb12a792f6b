//! Figures 4.10, 4.12 to 4.14 and table 4.1: operators on one thread and on more, each with a level of its own, on columns that they
//! share or do not; and what the profile would have chosen.

use std::hint::black_box;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use tierra_column::bits::{Kernels, Level};
use tierra_column::{Filter, Value, ordinal};
use tierra_engine::{
    LevelProfile, Mix, Operator, Reading, ScanError, ScanSpec, Situation, Snapshot,
};
use tierra_interleave::Scheduling;

use super::data::{COLUMNS, Memory, VALUES};
use crate::error::{Context, LabError};
use crate::lab;
use crate::row::{Row, distinct, find};
use crate::stats::Summary;
use crate::turns::turns;

/// Columns that threads share, as they are calibrated.
const SHARED: [usize; 3] = [1, 2, COLUMNS.len()];
/// Choices of levels that are timed.
const CHOICES: usize = 101;

/// An operator, and of how many of a hundred rows it returns values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Task {
    pub(super) name: &'static str,
    operator: Operator,
    percent: u64,
}

pub(super) const TASKS: [Task; 3] = [
    Task {
        name: "aggregate",
        operator: Operator::Aggregate,
        percent: 100,
    },
    Task {
        name: "select 1 %",
        operator: Operator::Select,
        percent: 1,
    },
    Task {
        name: "select 10 %",
        operator: Operator::Select,
        percent: 10,
    },
];

/// The key of a cell: what is measured with every mix.
pub(super) const CELL: &str = "cell";
/// The key of a mix.
pub(super) const LEVELS: &str = "levels";
/// The key of the rate.
pub(super) const RATE: &str = "values_per_s";

/// Threads, and the columns that they share.
fn shapes() -> impl Iterator<Item = (usize, usize)> {
    lab::thread_counts().flat_map(|threads| {
        let shared = SHARED.into_iter();
        let shared = shared.filter(move |columns| *columns <= threads);
        shared.map(move |columns| (threads, columns))
    })
}

/// All mixes in all cells of a memory, by turns.
pub(super) fn measure(
    snapshot: &Snapshot,
    memory: Memory,
    profile: &LevelProfile,
    lasts: Duration,
    rounds: usize,
) -> Result<Vec<Row>, LabError> {
    let levels = Vec::from_iter(Level::available());
    let mut rows = Vec::new();
    for task in TASKS {
        for (threads, columns) in shapes() {
            let mixes = Mix::all(&levels, threads);
            let mut samples = vec![Vec::with_capacity(rounds); mixes.len()];
            for turn in turns(mixes.len(), rounds) {
                let rate = rate(
                    snapshot,
                    task,
                    columns,
                    threads,
                    &mixes[turn.contender],
                    lasts,
                );
                let rate = rate.by("Tierra", format!("measuring {}", task.name))?;
                if !turn.is_warm_up() {
                    samples[turn.contender].push(rate as u64);
                }
            }
            let situation = Situation {
                speed: memory.speed,
                far: memory.far,
                operator: task.operator,
                threads,
                columns,
            };
            let chosen = profile.mix(&situation);
            let mut choices = [0; CHOICES].map(|_: u64| {
                let start = Instant::now();
                black_box(profile.mix(black_box(&situation)));
                start.elapsed().as_nanos() as u64
            });
            choices.sort_unstable();
            let choice_ns = choices[CHOICES / 2];
            let cell = format!(
                "{}, {}, {}",
                task.name,
                memory.name,
                shape(threads, columns)
            );
            for (mix, samples) in mixes.iter().zip(samples) {
                rows.push(
                    Row::new()
                        .text(CELL, &cell)
                        .text("operator", task.name)
                        .text("memory", memory.name)
                        .count("threads", threads as u64)
                        .count("columns", columns as u64)
                        .text(LEVELS, name_of(mix, threads))
                        .text("profile", mix.to_string())
                        .flag("is_uniform", mix.level().is_some())
                        .flag("is_chosen", Some(mix) == chosen)
                        .count("choice_ns", choice_ns)
                        .samples("values", "per_s", samples),
                );
            }
        }
    }
    Ok(rows)
}

fn shape(threads: usize, columns: usize) -> String {
    match (threads, columns) {
        (1, _) => "1 thread".to_owned(),
        (_, 1) => format!("{threads} threads, 1 shared column"),
        _ => format!("{threads} threads, {columns} shared columns"),
    }
}

/// A mix as the figures name it: `avx2`, `scalar/avx512`.
fn name_of(mix: &Mix, threads: usize) -> String {
    if let Some(level) = mix.level() {
        return level.to_string();
    }
    let levels = (0..threads).map(|core| mix.level_of(core).to_string());
    Vec::from_iter(levels).join("/")
}

/// Values that all threads scan in a second.
fn rate(
    snapshot: &Snapshot,
    task: Task,
    columns: usize,
    threads: usize,
    mix: &Mix,
    lasts: Duration,
) -> Result<f64, ScanError> {
    let begin = Barrier::new(threads);
    thread::scope(|scope| {
        let thread = |core: usize| {
            let (begin, level) = (&begin, mix.level_of(core));
            scope.spawn(move || {
                begin.wait();
                scan_for(snapshot, task, core % columns, level, lasts)
            })
        };
        let threads = Vec::from_iter((0..threads).map(thread));
        let rates = threads.into_iter().map(|thread| {
            let rate = thread.join();
            rate.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        rates.sum()
    })
}

/// Scans a column again and again, as the thesis's threads run queries; values a second.
fn scan_for(
    snapshot: &Snapshot,
    task: Task,
    column: usize,
    level: Level,
    lasts: Duration,
) -> Result<f64, ScanError> {
    let kernels = Kernels::at(level).ok_or(ScanError::Level(level))?;
    let most = Value::Ordinal(ordinal::of_i64((VALUES * task.percent / 100) as i64));
    let filters = match task.operator {
        Operator::Aggregate => vec![],
        Operator::Select => vec![(column, Filter::less_or_equal(most))],
    };
    let reading = Reading {
        level: Some(level),
        ..Reading::default()
    };
    let (start, mut runs, mut sum) = (Instant::now(), 0_u64, 0_i64);
    while runs == 0 || start.elapsed() < lasts {
        let scan = snapshot.scan(ScanSpec {
            projection: vec![column],
            filters: filters.clone(),
            batch_rows: 8192,
            execution: Scheduling::Auto,
        });
        let mut cursor = scan.cursor_by(reading)?;
        while let Some(batch) = cursor.next(&[], 0)? {
            let values = batch.column(0).as_primitive::<Int64Type>().values();
            sum += kernels.compiled(|| values.iter().sum::<i64>());
        }
        runs += 1;
    }
    std::hint::black_box(sum);
    Ok((runs * snapshot.rows()) as f64 / start.elapsed().as_secs_f64())
}

/// The rates of a cell: of the chosen mix, of the best one, and of the best level alone.
struct Rates {
    chosen: Summary,
    best: f64,
    uniform: Summary,
}

fn rates(rows: &[Row]) -> Option<Vec<Rates>> {
    let of_cell = |cell: &String| {
        let is_measured = |row: &&Row| row.is(&[(CELL, cell)]) && row.get(RATE).is_some();
        let of = || rows.iter().filter(is_measured);
        let most = |of: &mut dyn Iterator<Item = &Row>| {
            let all = of
                .map(|row| row.summary(RATE))
                .collect::<Option<Vec<_>>>()?;
            all.into_iter()
                .max_by(|one, other| one.median.total_cmp(&other.median))
        };
        Some(Rates {
            chosen: most(&mut of().filter(|row| row.is(&[("is_chosen", "true")])))?,
            best: most(&mut of())?.median,
            uniform: most(&mut of().filter(|row| row.is(&[("is_uniform", "true")])))?,
        })
    };
    let cells = distinct(rows, CELL);
    let all: Option<Vec<Rates>> = cells.iter().map(of_cell).collect();
    all.filter(|all| !all.is_empty())
}

/// The share of cells in which the chosen mix has at least this part of the best one's rate.
pub(super) fn near_the_best(rows: &[Row], least: f64) -> Option<f64> {
    let rates = rates(rows)?;
    let near = rates
        .iter()
        .filter(|cell| cell.chosen.median >= least * cell.best);
    Some(near.count() as f64 / rates.len() as f64)
}

/// Cells in which the chosen mix is slower than the best level alone by more than both scatter: three quarters of its samples are
/// below three quarters of the others'.
pub(super) fn below_uniform(rows: &[Row]) -> Option<f64> {
    let rates = rates(rows)?;
    let below = rates.iter().filter(|cell| cell.chosen.q3 < cell.uniform.q1);
    Some(below.count() as f64)
}

/// The longest median time of a choice.
pub(super) fn choice_ns(rows: &[Row]) -> Option<f64> {
    let of = rows.iter().filter_map(|row| row.value("choice_ns"));
    of.reduce(f64::max)
}

/// The rate of a mix in a cell over that of AVX-512.
pub(super) fn over_widest(rows: &[Row]) -> Vec<Row> {
    let mut over = Vec::new();
    for row in rows {
        let (Some(cell), Some(levels), Some(rate)) =
            (row.get(CELL), row.get(LEVELS), row.value(RATE))
        else {
            continue;
        };
        let (cell, levels) = (cell.to_string(), levels.to_string());
        let widest = Level::detect().to_string();
        let base = find(rows, &[(CELL, &cell), (LEVELS, &widest)]).and_then(|row| row.value(RATE));
        if let Some(base) = base {
            over.push(
                Row::new()
                    .text(CELL, cell)
                    .text(LEVELS, levels)
                    .number("over_widest", rate / base),
            );
        }
    }
    over
}
