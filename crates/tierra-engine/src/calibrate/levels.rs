//! Measures which instructions scans should use: every mix of levels, for each memory, operator, number of threads and of shared
//! columns. Each thread scans a column of its own, or one that it shares with others, again and again for a short time.
//!
//! The mixes take turns round by round, so that other load on the machine affects all of them alike; rates of the same round are
//! compared. From turn to turn the threads scan other columns, so that they do not find in the caches what the turn before has read.

use std::ops::Range;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use arrow::array::{Array, ArrayRef, Int64Array};
use tierra_column::LogicalType;
use tierra_column::bits::Level;
use tierra_memory::emulation::{self, FarMemory};
use tierra_memory::{Speed, machine};

use super::scans::{ColumnScans, Scanned};
use super::scratch::Scratch;
use super::subject::spread;
use super::{Before, CalibrateError, Effort};
use crate::calibration::{Mix, Operator, Situation};
use crate::database::Database;
use crate::error::ScanError;
use crate::spec::{ColumnSpec, TableSpec};
use crate::table::snapshot::Snapshot;

/// Columns of a scratch table, and the numbers of them that threads share.
const COLUMNS: usize = 4;
const SHARED: [usize; 3] = [1, 2, COLUMNS];
/// Values are 1 to this, uniformly; the select takes the least hundredth.
const VALUES: u64 = 1_000_000;
const SELECTED: i64 = (VALUES / 100) as i64;
/// How long the threads of a mix scan in a round, for so many lookups of [`Effort`].
const NS_PER_LOOKUP: u64 = 2_000;
/// A mix must be better than the best level alone by this factor to be used, in the median of the rounds, and better at all in three
/// quarters of them: the best of several mixes is often one that was lucky. That level must be better than a wider one by the
/// other.
const CLEARLY_BETTER: f64 = 1.03;
const HARDLY_BETTER: f64 = 1.01;
/// Bits of a packed value.
const BITS_PER_VALUE: u64 = 20;
/// Approximate bytes of a row: of both scratch tables in the pool, and with the copies near.
const POOL_BYTES_PER_ROW: u64 = 2 * COLUMNS as u64 * BITS_PER_VALUE / 8;
const BYTES_PER_ROW: u64 = POOL_BYTES_PER_ROW * 3 / 2;

/// How fast each mix is in a situation.
#[derive(Clone, Debug)]
pub struct MeasuredMixes {
    /// The situation.
    pub situation: Situation,
    /// Values a second of all threads, by mix and by round.
    pub values_per_s: Vec<(Mix, Vec<f64>)>,
}

impl MeasuredMixes {
    /// The median rate of each mix.
    pub fn medians(&self) -> impl Iterator<Item = (&Mix, f64)> {
        let all = self.values_per_s.iter();
        all.map(|(mix, rates)| (mix, quantile(rates, 0.5)))
    }

    /// The mix to be used: the best level alone, the widest of those that hardly differ, unless a mix is clearly better.
    pub fn best(&self) -> Option<&Mix> {
        let median = |rates: &[f64]| quantile(rates, 0.5);
        let all = self.values_per_s.iter();
        let (alone, mixed): (Vec<_>, Vec<_>) = all.partition(|(mix, _)| mix.level().is_some());
        let by_median = |one: &&(Mix, Vec<f64>), other: &&(Mix, Vec<f64>)| {
            median(&one.1).total_cmp(&median(&other.1))
        };
        let (_, fastest) = alone.iter().copied().max_by(by_median)?;
        let most = median(fastest);
        // Levels are in ascending order of width.
        let mut widest = alone.iter().copied().rev();
        let widest = widest.find(|(_, rates)| median(rates) * HARDLY_BETTER >= most);
        let gains = mixed.into_iter().filter_map(|(mix, rates)| {
            let by_round = rates.iter().zip(fastest);
            let by_round = Vec::from_iter(by_round.map(|(mixed, alone)| mixed / alone));
            let gain = median(&by_round);
            let is_better = gain > CLEARLY_BETTER && quantile(&by_round, 0.25) > 1.0;
            is_better.then_some((mix, gain))
        });
        let mixed = gains.max_by(|(_, one), (_, other)| one.total_cmp(other));
        mixed.map(|(mix, _)| mix).or(widest.map(|(mix, _)| mix))
    }
}

/// That part of some values, in any order: the lower of two. 0 without any.
fn quantile(values: &[f64], part: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let place = values.len().saturating_sub(1) as f64 * part;
    sorted.get(place as usize).copied().unwrap_or(0.0)
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
        Scratch::steps(self.of_levels()) + (cells * self.rounds) as u64
    }

    /// The same on columns that the caches do not hold, if it asks for that: together they are twice as large, as far as they take
    /// no more than a quarter of the memory.
    fn of_levels(self) -> Effort {
        if !self.beyond_caches {
            return self;
        }
        let row_bits = COLUMNS as u64 * BITS_PER_VALUE;
        let rows = 2 * 8 * machine::last_level_cache_bytes() / row_bits;
        let most = machine::memory_bytes() / 4 / BYTES_PER_ROW;
        Effort {
            rows: self.rows.max(rows.min(most)),
            ..self
        }
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
        let effort = effort.of_levels();
        let scratch =
            Scratch::make_of(self, effort, (spec, columns), POOL_BYTES_PER_ROW, &mut step)?;
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
            let number = round * mixes.len() + turn;
            let rate = rate(snapshot, situation, &mixes[at], number, lasts);
            rates[at].push(rate.map_err(CalibrateError::Scan)?);
        }
        step();
    }
    Ok(MeasuredMixes {
        situation,
        values_per_s: mixes.into_iter().zip(rates).collect(),
    })
}

/// Values that all threads scan in a second, in the turn of this number.
fn rate(
    snapshot: &Snapshot,
    situation: Situation,
    mix: &Mix,
    number: usize,
    lasts: Duration,
) -> Result<f64, ScanError> {
    let first = number * situation.columns;
    let scans = (0..situation.threads).map(|core| ColumnScans {
        snapshot,
        column: (first + core % situation.columns) % COLUMNS,
        most: (situation.operator == Operator::Select).then_some(SELECTED),
        level: Some(mix.level_of(core)),
    });
    let scanned = ColumnScans::at_once(&Vec::from_iter(scans), lasts)?;
    Ok(scanned.iter().map(Scanned::rows_per_s).sum())
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

    /// Rates of three rounds, of which the machine is half as fast in the last.
    fn measured(threads: usize, rates: impl Fn(&Mix) -> [f64; 3]) -> MeasuredMixes {
        let levels = [Level::Scalar, Level::Avx2, Level::Avx512];
        let mixes = Mix::all(&levels, threads).into_iter();
        let of = |mix: Mix| {
            let [first, second, third] = rates(&mix);
            (mix, vec![first, second, third / 2.0])
        };
        MeasuredMixes {
            situation: Situation {
                speed: Speed::Near,
                far: None,
                operator: Operator::Aggregate,
                threads,
                columns: 1,
            },
            values_per_s: mixes.map(of).collect(),
        }
    }

    #[test]
    fn a_mix_is_taken_only_if_it_is_clearly_better() {
        let best = |threads, rates: fn(&Mix) -> [f64; 3]| measured(threads, rates).best().cloned();
        let uniform = |level, threads| Some(Mix::uniform(level, threads));
        assert_eq!(best(4, |_| [1.0; 3]), uniform(Level::Avx512, 4));
        let slower = |mix: &Mix| {
            if mix.level() == Some(Level::Avx512) {
                [0.8; 3]
            } else {
                [1.0; 3]
            }
        };
        assert_eq!(best(4, slower), uniform(Level::Avx2, 4));
        let little = |mix: &Mix| [if mix.level().is_none() { 1.02 } else { 1.0 }; 3];
        assert_eq!(best(4, little), uniform(Level::Avx512, 4));
        let halves = Mix::halves(Level::Scalar, Level::Avx512, 4);
        let much = |mix: &Mix| match *mix == Mix::halves(Level::Scalar, Level::Avx512, 4) {
            true => [1.3; 3],
            false => [1.0; 3],
        };
        assert_eq!(best(4, much), Some(halves));
        // Better in the median only.
        let lucky = |mix: &Mix| match mix.level() {
            None => [1.3, 0.9, 1.3],
            Some(_) => [1.0; 3],
        };
        assert_eq!(best(4, lucky), uniform(Level::Avx512, 4));
    }

    #[test]
    fn a_first_impression_is_as_small_as_it_says() {
        assert_eq!(Effort::QUICK.of_levels().rows, Effort::QUICK.rows);
        let most = machine::memory_bytes() / 4 / BYTES_PER_ROW;
        let rows = Effort::FULL.of_levels().rows;
        assert!(rows >= Effort::FULL.rows && rows <= most.max(Effort::FULL.rows));
    }
}
