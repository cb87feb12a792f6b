//! Figures 4.10, 4.12 to 4.14 and table 4.1: operators on one thread and on more, each with a level of its own, on columns that they
//! share or do not; and the levels that the product chooses itself.

use std::hint::black_box;
use std::time::{Duration, Instant};

use tierra_column::bits::Level;
use tierra_engine::{ColumnScans, Mix, Operator, Snapshot};

use super::data::{COLUMNS, Memory, Sums, VALUES};
use crate::contender::Tierra;
use crate::error::{Context, LabError};
use crate::lab;
use crate::replicas::emulating;
use crate::row::{Row, find};
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

impl Task {
    /// The greatest value that it returns.
    fn most(self) -> i64 {
        (VALUES * self.percent / 100) as i64
    }
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
/// The contender whose levels the product chooses.
pub(super) const AUTO: &str = "auto";
/// What the widest level is named for in addition where it is measured once more: how it differs from itself is noise.
pub(super) const AGAIN: &str = ", again";
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

/// The true sums: by task, those of each column of so many rows.
pub(super) fn sums(rows: u64) -> Vec<Vec<Sums>> {
    let of = |task: Task| {
        let columns = 0..COLUMNS.len();
        columns.map(move |column| Sums::of(column, rows, task.most()))
    };
    TASKS.iter().map(|task| of(*task).collect()).collect()
}

/// What is measured with every mix.
struct Cell<'a> {
    snapshot: &'a Snapshot,
    task: Task,
    /// By column.
    sums: &'a [Sums],
    threads: usize,
    /// That they share.
    columns: usize,
    lasts: Duration,
}

impl Cell<'_> {
    /// All mixes by turns, and the product's choice, and the widest level once more.
    fn contenders(&self) -> Vec<(String, Option<Mix>)> {
        let levels = Vec::from_iter(Level::available());
        let mixes = Mix::all(&levels, self.threads).into_iter();
        let named = mixes.map(|mix| (name_of(&mix, self.threads), Some(mix)));
        let mut all = Vec::from_iter(named);
        let widest = Level::detect();
        let again = Mix::uniform(widest, self.threads);
        all.push((format!("{widest}{AGAIN}"), Some(again)));
        all.push((AUTO.to_owned(), None));
        all
    }

    /// What a thread scans in the turn of this number; without a mix, with what the product chooses. It is another column than in the
    /// turn before, whose first rows the caches may hold.
    fn scans(&self, mix: Option<&Mix>, core: usize, number: usize) -> ColumnScans<'_> {
        ColumnScans {
            snapshot: self.snapshot,
            column: (number * self.columns + core % self.columns) % COLUMNS.len(),
            most: (self.task.operator == Operator::Select).then(|| self.task.most()),
            level: mix.map(|mix| mix.level_of(core)),
        }
    }

    /// Values that all threads scan in a second.
    fn rate(&self, mix: Option<&Mix>, number: usize) -> Result<u64, LabError> {
        let all = (0..self.threads).map(|core| self.scans(mix, core, number));
        let all = Vec::from_iter(all);
        let scanned = ColumnScans::at_once(&all, self.lasts);
        let scanned = scanned.by(Tierra::ENGINE, format!("measuring {}", self.task.name))?;
        let mut rate = 0.0;
        for (scans, scanned) in all.iter().zip(scanned) {
            let expected = self.sums[scans.column].of_first(scanned.rows);
            if scanned.sum != expected {
                return Err(LabError::AnswersDiffer {
                    what: format!("{}, {} rows", self.task.name, scanned.rows),
                    left: "the values".to_owned(),
                    right: scans
                        .level
                        .map_or(AUTO.to_owned(), |level| level.to_string()),
                    detail: format!("{expected} against {}", scanned.sum),
                });
            }
            rate += scanned.rows_per_s();
        }
        Ok(rate as u64)
    }

    /// The median time of the product's whole choice.
    fn choice_ns(&self) -> u64 {
        let scan = self.scans(None, 0, 0).scan();
        let mut choices = [0; CHOICES].map(|_: u64| {
            let start = Instant::now();
            black_box(scan.level_for(self.task.operator, 0, black_box(self.threads)));
            start.elapsed().as_nanos() as u64
        });
        choices.sort_unstable();
        choices[CHOICES / 2]
    }

    /// A row of each contender.
    fn measure(&self, memory: Memory, rounds: usize) -> Result<Vec<Row>, LabError> {
        let contenders = self.contenders();
        let mut samples = vec![Vec::with_capacity(rounds); contenders.len()];
        for (number, turn) in turns(contenders.len(), rounds).enumerate() {
            let (_, mix) = &contenders[turn.contender];
            let rate = self.rate(mix.as_ref(), number)?;
            if !turn.is_warm_up() {
                samples[turn.contender].push(rate);
            }
        }
        let choice_ns = self.choice_ns();
        let shape = shape(self.threads, self.columns);
        let cell = format!("{}, {}, {shape}", self.task.name, memory.name);
        let row = |((name, mix), samples): ((String, Option<Mix>), Vec<u64>)| {
            let is_again = name.ends_with(AGAIN);
            let level = mix.as_ref().and_then(Mix::level);
            Row::new()
                .text(CELL, &cell)
                .text("operator", self.task.name)
                .text("memory", memory.name)
                .count("threads", self.threads as u64)
                .count("columns", self.columns as u64)
                .text(LEVELS, name)
                .text("profile", mix.map_or(String::new(), |mix| mix.to_string()))
                .flag("is_uniform", level.is_some() && !is_again)
                .count("choice_ns", choice_ns)
                .samples("values", "per_s", samples)
        };
        Ok(contenders.into_iter().zip(samples).map(row).collect())
    }
}

/// All cells of a memory.
pub(super) fn measure(
    snapshot: &Snapshot,
    memory: Memory,
    sums: &[Vec<Sums>],
    lasts: Duration,
    rounds: usize,
) -> Result<Vec<Row>, LabError> {
    let mut rows = Vec::new();
    for (task, sums) in TASKS.into_iter().zip(sums) {
        for (threads, columns) in shapes() {
            let cell = Cell {
                snapshot,
                task,
                sums,
                threads,
                columns,
                lasts,
            };
            rows.extend(emulating(memory.far(threads), || {
                cell.measure(memory, rounds)
            })?);
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
