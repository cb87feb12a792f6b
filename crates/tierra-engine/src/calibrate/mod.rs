//! Measures every kind of lookup, one after the other and in groups of every size.
//!
//! The ways take turns round by round, so that other load on the machine affects all of them alike; medians are compared. Each
//! looks up values that were last used long before.

use std::io;
use std::iter::once;
use std::path::PathBuf;
use std::time::Instant;

use tierra_interleave::{Execution, GroupSize, Lookups};
use tierra_memory::emulation::{self, EmulationError, FarMemory};
use tierra_memory::replication::ReplicationError;
use tierra_memory::{GateStart, Speed};

mod levels;
mod scans;
mod scratch;
mod subject;
mod tiers;
mod writes;

pub use self::levels::MeasuredMixes;
pub use self::scans::{ColumnScans, Scanned};
use self::scratch::Scratch;
use self::subject::Subject;
use crate::calibration::{Calibration, GateCalibration, LookupKind};
use crate::database::Database;
use crate::error::{DamageError, LoadError, LookupError, OpenError, ScanError, TableError};

/// Group sizes that are tried.
const SIZES: [usize; 8] = [8, 16, 24, 32, 40, 48, 56, 64];
/// Another size must be better than the default by one part in this many to be used.
const HARDLY_BETTER: f64 = 40.0;

/// The measurements, in this order.
const MEASURED: [(LookupKind, Speed); 10] = [
    (LookupKind::Key, Speed::Far),
    (LookupKind::Cell, Speed::Near),
    (LookupKind::Cell, Speed::Far),
    (LookupKind::Number, Speed::Near),
    (LookupKind::Text, Speed::Near),
    (LookupKind::List, Speed::Near),
    (LookupKind::List, Speed::Far),
    (LookupKind::Stretch, Speed::Near),
    (LookupKind::Stretch, Speed::Far),
    (LookupKind::Join, Speed::Near),
];

/// The extent of a calibration.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Rows of the scratch tables that replace structures that the database lacks: at least 65,536, because fewer stay in the
    /// tail.
    pub rows: u64,
    /// Whether the columns on which scans are measured have more rows where the last-level caches would hold them.
    pub beyond_caches: bool,
    /// A structure of the database must have this many bytes to be measured itself.
    pub least_bytes: u64,
    /// Lookups of one way in a round.
    pub lookups: usize,
    /// Rounds.
    pub rounds: usize,
}

impl Effort {
    /// Takes seconds, on data larger than the caches.
    pub const FULL: Effort = Effort {
        rows: 1 << 23,
        beyond_caches: true,
        least_bytes: 64 << 20,
        lookups: 10_000,
        rounds: 9,
    };
    /// A first impression, and a test that everything works.
    pub const QUICK: Effort = Effort {
        rows: 1 << 17,
        beyond_caches: false,
        least_bytes: 1 << 20,
        lookups: 1000,
        rounds: 3,
    };

    /// The most steps that [`Database::calibrate`] reports with this many far memories.
    pub fn steps(self, fars: usize) -> u64 {
        Scratch::steps(self) + (MEASURED.len() * fars * self.rounds) as u64
    }

    /// Batches of lookups that are measured.
    fn batches(self) -> usize {
        self.rounds * (1 + SIZES.len())
    }
}

/// Why lookups could not be measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CalibrateError {
    /// This far memory cannot be emulated.
    #[error(transparent)]
    Emulation(#[from] EmulationError),
    /// Reading the measured structure failed.
    #[error(transparent)]
    Lookup(#[from] LookupError),
    /// Scanning a scratch table failed.
    #[error(transparent)]
    Scan(ScanError),
    /// An index is damaged.
    #[error(transparent)]
    Index(#[from] DamageError),
    /// The writer failed.
    #[error(transparent)]
    Table(#[from] TableError),
    /// Copies of a log could not be written.
    #[error("cannot measure how logs are written: {0}")]
    Writes(#[source] ReplicationError),
    /// There is no room beside a pool on a device.
    #[error(
        "{}: a device holds one pool, so there is no room for what is measured beside it; \
         calibrate a database whose pool is a file in the same memory and copy its file `calibration`",
        path.display()
    )]
    Device {
        /// The device.
        path: PathBuf,
    },
    /// There is no room for a scratch database.
    #[error("cannot make {}, of some {mib} MiB, to calibrate with: {source}", path.display())]
    Scratch {
        /// The path, beside the database's own pool.
        path: PathBuf,
        /// Its size.
        mib: u64,
        /// The error.
        source: Box<ScratchError>,
    },
}

/// Why there is no scratch database.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScratchError {
    /// The system's answer.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// No database could be created.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// Its table could not be created.
    #[error(transparent)]
    Table(#[from] TableError),
    /// Its table could not be filled.
    #[error(transparent)]
    Load(#[from] LoadError),
}

/// The cost of lookups of one kind in one tier.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The kind of lookup.
    pub kind: LookupKind,
    /// The tier.
    pub speed: Speed,
    /// The far memory that was emulated, if any.
    pub far: Option<FarMemory>,
    /// The measured structure: a table or a column of the database, or of a scratch database.
    pub place: String,
    /// Nanoseconds per lookup, one after the other.
    pub plain_ns: f64,
    /// Nanoseconds per lookup, by group size.
    pub interleaved_ns: Vec<(GroupSize, f64)>,
}

impl Measured {
    /// Group sizes that are tried; lookups without groups are measured with the default.
    pub fn sizes() -> impl Iterator<Item = GroupSize> {
        SIZES.into_iter().filter_map(GroupSize::new)
    }

    /// The size to be used, and its nanoseconds per lookup: the default, unless another is clearly better. Differences of a few
    /// per cent are noise, and the default is good for structures of all sizes.
    pub fn best(&self) -> (GroupSize, f64) {
        let least = |best: (GroupSize, f64), way: &(GroupSize, f64)| match way.1 < best.1 {
            true => *way,
            false => best,
        };
        let default = self.interleaved_ns.iter();
        let default = default.copied().find(|way| way.0 == GroupSize::DEFAULT);
        let default = default.unwrap_or((GroupSize::DEFAULT, f64::INFINITY));
        let best = self.interleaved_ns.iter().fold(default, least);
        match best.1 < default.1 - default.1 / HARDLY_BETTER {
            true => best,
            false => default,
        }
    }

    /// The cheaper mode.
    pub fn execution(&self) -> Execution {
        match self.plain_ns < self.best().1 {
            true => Execution::Plain,
            false => Execution::Interleaved,
        }
    }

    fn start(&self) -> GateStart {
        GateStart {
            far: self.far,
            size: self.best().0,
            first: self.execution(),
        }
    }
}

impl Calibration {
    /// The results in the form in which they are stored.
    pub fn of(measured: &[Measured]) -> Calibration {
        let gate = |measured: &Measured| GateCalibration {
            kind: measured.kind,
            speed: measured.speed,
            start: measured.start(),
        };
        Calibration::new(measured.iter().map(gate).collect())
    }
}

/// Restores the previous emulation.
struct Before(Option<FarMemory>);

impl Drop for Before {
    fn drop(&mut self) {
        // It was in effect before, so it is valid.
        let _ = emulation::set(self.0);
    }
}

impl Database {
    /// Measures lookups of all kinds: in the database's structures if they are large enough, otherwise in those of a scratch
    /// database beside its pool, which is removed at the end. Emulates each of `fars` in turn for the whole process, so nothing
    /// else should run. `step` is called at most [`Effort::steps`] times.
    ///
    /// # Errors
    /// [`CalibrateError`]: no room for a scratch database, damaged bytes, a writer that has failed.
    pub fn calibrate(
        &self,
        effort: Effort,
        fars: &[Option<FarMemory>],
        mut step: impl FnMut(),
    ) -> Result<Vec<Measured>, CalibrateError> {
        self.wait_for_near_copies()?;
        let _before = Before(emulation::current());
        let tables = self
            .tables()
            .into_iter()
            .filter_map(|name| self.table(&name));
        let own: Vec<_> = tables.map(|table| table.snapshot()).collect();
        let (mut scratch, mut all) = (None, Vec::new());
        for (kind, speed) in MEASURED {
            emulation::set(None)?;
            let mut subject = match Subject::of(kind, speed, &own, effort)? {
                Some(subject) => subject,
                None => {
                    let made = match scratch.take() {
                        Some(made) => made,
                        None => Scratch::make(self, effort, &mut step)?,
                    };
                    let made = scratch.insert(made);
                    Subject::scratch(kind, speed, made.tables(), effort)?
                }
            };
            for far in fars {
                emulation::set(*far)?;
                let (plain_ns, interleaved_ns) = times(kind, &mut subject, effort, &mut step)?;
                all.push(Measured {
                    kind,
                    speed,
                    far: *far,
                    place: subject.place.clone(),
                    plain_ns,
                    interleaved_ns,
                });
            }
        }
        Ok(all)
    }
}

/// Nanoseconds per lookup, plain and by group size.
fn times(
    kind: LookupKind,
    subject: &mut Subject,
    effort: Effort,
    step: &mut impl FnMut(),
) -> Result<(f64, Vec<(GroupSize, f64)>), CalibrateError> {
    let takes_a_group =
        |size: &GroupSize| kind != LookupKind::Number || *size == GroupSize::DEFAULT;
    let sizes: Vec<_> = Measured::sizes().filter(takes_a_group).collect();
    let ways: Vec<_> = once(None).chain(sizes.iter().copied().map(Some)).collect();
    let mut samples = vec![Vec::with_capacity(effort.rounds); ways.len()];
    for round in 0..effort.rounds {
        for turn in 0..ways.len() {
            let way = (round + turn) % ways.len();
            let mut lookups = match ways[way] {
                None => Lookups::new(Execution::Plain),
                Some(size) => Lookups::new(Execution::Interleaved).in_groups_of(size),
            };
            let start = Instant::now();
            let done = (subject.look_up)(round * ways.len() + turn, &mut lookups)?;
            samples[way].push(start.elapsed().as_nanos() as f64 / done.max(1) as f64);
        }
        step();
    }
    let mut medians = samples.into_iter().map(|mut samples| {
        samples.sort_unstable_by(f64::total_cmp);
        samples[samples.len() / 2]
    });
    let plain = medians.next().unwrap_or(f64::INFINITY);
    Ok((plain, sizes.into_iter().zip(medians).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(plain_ns: f64, interleaved: impl Fn(usize) -> f64) -> Measured {
        Measured {
            kind: LookupKind::Key,
            speed: Speed::Near,
            far: None,
            place: String::new(),
            plain_ns,
            interleaved_ns: Measured::sizes()
                .map(|size| (size, interleaved(size.get())))
                .collect(),
        }
    }

    #[test]
    fn the_default_stays_unless_another_size_is_clearly_better() {
        let best = |interleaved: fn(usize) -> f64| measured(0.0, interleaved).best().0.get();
        assert_eq!(best(|_| 50.0), 48);
        assert_eq!(best(|size| 50.0 - size as f64 / 100.0), 48);
        assert_eq!(best(|size| 1000.0 / size as f64), 64);
        assert_eq!(best(|size| 100.0 + size.abs_diff(24) as f64), 24);
    }

    #[test]
    fn gates_start_with_the_cheaper_mode() {
        let start = measured(40.0, |size| 1000.0 / size as f64).start();
        assert_eq!(
            (start.size.get(), start.first),
            (64, Execution::Interleaved)
        );
        let start = measured(10.0, |_| 20.0).start();
        assert_eq!((start.size.get(), start.first), (48, Execution::Plain));
    }
}
