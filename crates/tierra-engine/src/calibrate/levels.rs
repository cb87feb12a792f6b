//! Measures which instructions scans should use: every mix of levels, for each memory, operator, number of threads and of shared
//! columns. Each thread scans a column of its own, or one that it shares with others, again and again for a short time.
//!
//! The mixes take turns round by round, so that other load on the machine affects all of them alike; medians are compared.

use std::ops::Range;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use arrow::array::{Array, ArrayRef, AsArray, Int64Array};
use arrow::datatypes::Int64Type;
use tierra_column::bits::{Kernels, Level};
use tierra_column::{Filter, LogicalType, Value, ordinal};
use tierra_interleave::Scheduling;
use tierra_memory::Speed;
use tierra_memory::emulation::{self, FarMemory};

use super::scratch::Scratch;
use super::subject::spread;
use super::{Before, CalibrateError, Effort};
use crate::calibration::{Mix, Operator, Situation};
use crate::database::Database;
use crate::error::ScanError;
use crate::read::scan::ScanSpec;
use crate::spec::{ColumnSpec, TableSpec};
use crate::storage::access::Reading;
use crate::table::snapshot::Snapshot;

/// Columns of a scratch table, and the numbers of them that threads share.
const COLUMNS: usize = 4;
const SHARED: [usize; 3] = [1, 2, COLUMNS];
/// Values are 1 to this, uniformly; the select takes the least hundredth.
const VALUES: u64 = 1_000_000;
const SELECTED: i64 = (VALUES / 100) as i64;
/// How long the threads of a mix scan in a round, for so many lookups of [`Effort`].
const NS_PER_LOOKUP: u64 = 2_000;
/// A mix must be better than the best level alone by this factor to be used, and that better than a wider one.
const CLEARLY_BETTER: f64 = 1.03;
const HARDLY_BETTER: f64 = 1.01;

/// How fast each mix is in a situation.
#[derive(Clone, Debug)]
pub struct MeasuredMixes {
    /// The situation.
    pub situation: Situation,
    /// Values a second of all threads, by mix.
    pub values_per_s: Vec<(Mix, f64)>,
}

impl MeasuredMixes {
    /// The mix to be used: the best level alone, the widest of those that hardly differ, unless a mix is clearly better.
    pub fn best(&self) -> Option<&Mix> {
        let fastest = |is_uniform: bool| {
            let of = self.values_per_s.iter();
            let of = of.filter(move |(mix, _)| mix.level().is_some() == is_uniform);
            of.max_by(|(_, one), (_, other)| one.total_cmp(other))
        };
        let (_, most) = fastest(true)?;
        // Levels are in ascending order of width.
        let mut uniform = self.values_per_s.iter().rev();
        let widest =
            uniform.find(|(mix, rate)| mix.level().is_some() && rate * HARDLY_BETTER >= *most);
        let mixed = fastest(false).filter(|(_, rate)| *rate > most * CLEARLY_BETTER);
        mixed.or(widest).map(|(mix, _)| mix)
    }
}

/// Numbers of threads that are measured: powers of two, and all cores.
fn threads() -> Vec<usize> {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let powers = (0..).map(|power| 1 << power);
    let mut all = Vec::from_iter(powers.take_while(|threads| *threads < cores));
    all.push(cores);
    all
}

/// The situations that are measured in one memory.
fn situations(speed: Speed, far: Option<FarMemory>) -> Vec<Situation> {
    let mut all = Vec::new();
    for operator in Operator::ALL {
        for threads in threads() {
            for columns in SHARED.into_iter().filter(|columns| *columns <= threads) {
                all.push(Situation {
                    speed,
                    far,
                    operator,
                    threads,
                    columns,
                });
            }
        }
    }
    all
}

impl Effort {
    /// The most steps that [`Database::calibrate_levels`] reports with this many far memories.
    pub fn steps_of_levels(self, fars: usize) -> u64 {
        let cells = situations(Speed::Far, None).len() * 2 * fars;
        Scratch::steps(self) + (cells * self.rounds) as u64
    }
}

impl Database {
    /// Measures mixes of levels on tables of a scratch database beside the pool, which is removed at the end; under each of `fars`
    /// as [`Database::calibrate`] does.
    ///
    /// # Errors
    /// [`CalibrateError`].
    pub fn calibrate_levels(
        &self,
        effort: Effort,
        fars: &[Option<FarMemory>],
        mut step: impl FnMut(),
    ) -> Result<Vec<MeasuredMixes>, CalibrateError> {
        let _before = Before(emulation::current());
        emulation::set(None)?;
        let scratch = Scratch::make_of(self, effort, spec, columns, &mut step)?;
        let mut all = Vec::new();
        for (speed, snapshot) in scratch.tables_of() {
            for far in fars {
                emulation::set(*far)?;
                for situation in situations(speed, *far) {
                    all.push(measure(snapshot, situation, effort, &mut step)?);
                }
            }
        }
        Ok(all)
    }
}

fn measure(
    snapshot: &Snapshot,
    situation: Situation,
    effort: Effort,
    step: &mut impl FnMut(),
) -> Result<MeasuredMixes, CalibrateError> {
    let levels = Vec::from_iter(Level::available());
    let mixes = Mix::all(&levels, situation.threads);
    let lasts = Duration::from_nanos(effort.lookups as u64 * NS_PER_LOOKUP);
    let mut rates = vec![Vec::with_capacity(effort.rounds); mixes.len()];
    for round in 0..effort.rounds {
        for turn in 0..mixes.len() {
            let at = (round + turn) % mixes.len();
            let rate = rate(snapshot, situation, &mixes[at], lasts);
            rates[at].push(rate.map_err(CalibrateError::Scan)?);
        }
        step();
    }
    let medians = rates.into_iter().map(|mut rates| {
        rates.sort_unstable_by(f64::total_cmp);
        rates[rates.len() / 2]
    });
    Ok(MeasuredMixes {
        situation,
        values_per_s: mixes.into_iter().zip(medians).collect(),
    })
}

/// Values that all threads scan in a second.
fn rate(
    snapshot: &Snapshot,
    situation: Situation,
    mix: &Mix,
    lasts: Duration,
) -> Result<f64, ScanError> {
    let begin = Barrier::new(situation.threads);
    thread::scope(|scope| {
        let thread = |core: usize| {
            let (begin, level) = (&begin, mix.level_of(core));
            let column = core % situation.columns;
            scope.spawn(move || {
                begin.wait();
                scan_for(snapshot, situation.operator, column, level, lasts)
            })
        };
        let threads = Vec::from_iter((0..situation.threads).map(thread));
        let rates = threads.into_iter().map(|thread| {
            let rate = thread.join();
            rate.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        rates.sum()
    })
}

/// Scans a column again and again; returns values a second.
fn scan_for(
    snapshot: &Snapshot,
    operator: Operator,
    column: usize,
    level: Level,
    lasts: Duration,
) -> Result<f64, ScanError> {
    let kernels = Kernels::at(level).ok_or(ScanError::Level(level))?;
    let reading = Reading {
        level: Some(level),
        ..Reading::default()
    };
    let filters = match operator {
        Operator::Aggregate => vec![],
        Operator::Select => {
            let most = Value::Ordinal(ordinal::of_i64(SELECTED));
            vec![(column, Filter::less_or_equal(most))]
        }
    };
    let spec = ScanSpec {
        projection: vec![column],
        filters,
        batch_rows: 8192,
        execution: Scheduling::Auto,
    };
    let start = Instant::now();
    let (mut whole, mut sum) = (0.0, 0_i64);
    loop {
        let scan = snapshot.scan(spec.clone());
        let mut cursor = scan.cursor_by(reading)?;
        while let Some(batch) = cursor.next(&[], 0)? {
            let values = batch.column(0).as_primitive::<Int64Type>().values();
            let of_batch = kernels.compiled(|| {
                values
                    .iter()
                    .fold(0, |sum: i64, value| sum.wrapping_add(*value))
            });
            sum = sum.wrapping_add(of_batch);
            // A select returns few rows, and of a whole column only.
            if operator == Operator::Aggregate && start.elapsed() >= lasts {
                let read = whole * snapshot.rows() as f64 + cursor.counters().rows as f64;
                std::hint::black_box(sum);
                return Ok(read / start.elapsed().as_secs_f64());
            }
        }
        whole += 1.0;
        if start.elapsed() >= lasts {
            std::hint::black_box(sum);
            return Ok(whole * snapshot.rows() as f64 / start.elapsed().as_secs_f64());
        }
    }
}

fn spec(speed: Speed) -> TableSpec {
    let column = |number: usize| ColumnSpec {
        near: Some(speed == Speed::Near),
        ..ColumnSpec::new(format!("c{number}"), LogicalType::BigInt).not_null()
    };
    TableSpec {
        name: speed.to_string(),
        columns: (0..COLUMNS).map(column).collect(),
        primary_key: vec![],
    }
}

fn columns(_: Speed, rows: Range<u64>, all: u64) -> Vec<ArrayRef> {
    let column = |number: usize| {
        let value = |row: u64| (spread(row + all * number as u64) % VALUES) as i64 + 1;
        Arc::new(Int64Array::from_iter_values(rows.clone().map(value))) as ArrayRef
    };
    let columns = Vec::from_iter((0..COLUMNS).map(column));
    debug_assert!(columns.iter().all(|column| column.null_count() == 0));
    columns
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(threads: usize, rate: impl Fn(&Mix) -> f64) -> MeasuredMixes {
        let levels = [Level::Scalar, Level::Avx2, Level::Avx512];
        let mixes = Mix::all(&levels, threads).into_iter();
        MeasuredMixes {
            situation: Situation {
                speed: Speed::Near,
                far: None,
                operator: Operator::Aggregate,
                threads,
                columns: 1,
            },
            values_per_s: mixes.map(|mix| (mix.clone(), rate(&mix))).collect(),
        }
    }

    #[test]
    fn a_mix_is_taken_only_if_it_is_clearly_better() {
        let best = |threads, rate: fn(&Mix) -> f64| measured(threads, rate).best().cloned();
        let uniform = |level, threads| Some(Mix::uniform(level, threads));
        assert_eq!(best(4, |_| 1.0), uniform(Level::Avx512, 4));
        let slower = |mix: &Mix| {
            if mix.level() == Some(Level::Avx512) {
                0.8
            } else {
                1.0
            }
        };
        assert_eq!(best(4, slower), uniform(Level::Avx2, 4));
        let little = |mix: &Mix| if mix.level().is_none() { 1.02 } else { 1.0 };
        assert_eq!(best(4, little), uniform(Level::Avx512, 4));
        let halves = Mix::halves(Level::Scalar, Level::Avx512, 4);
        let much = |mix: &Mix| match *mix == Mix::halves(Level::Scalar, Level::Avx512, 4) {
            true => 1.3,
            false => 1.0,
        };
        assert_eq!(best(4, much), Some(halves));
    }
}
