//! The faults, and how a database with two tiers handles each.

use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tierra_engine::{Database, DatabaseOptions, Replicas, ScrubOptions, VerifyReads};
use tierra_memory::faults::{Injector, Target};

use super::super::database::killed::Place;
use super::super::database::simulated::{SECOND, encoded, rows, spec};
use super::ask::{Asked, Oracle};
use crate::random::Random;

/// A segment, and more in the tail.
const LOAD_ROWS: i64 = 66_000;
const APPENDS: i64 = 10;
const APPEND_ROWS: i64 = 41;
const ROWS: i64 = LOAD_ROWS + APPENDS * APPEND_ROWS;
/// After the header and the superblock.
const FIRST_EXTENT: u64 = 16 << 10;
/// Bits flipped, or regions of garbage, per fault.
const BITS: usize = 64;
const REGIONS: usize = 8;

/// A class of faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    Bits,
    Regions,
    Chip,
    Cut,
    Absent,
    Socket,
}

/// What the two copies of the table have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Copies {
    /// Each byte.
    Alike,
    /// The rows: each column has an encoding of its own in each tier, which the seed chooses.
    Encoded,
}

impl Copies {
    pub(super) const ALL: [Copies; 2] = [Copies::Alike, Copies::Encoded];

    pub(super) fn name(self) -> &'static str {
        match self {
            Copies::Alike => "alike",
            Copies::Encoded => "in different encodings",
        }
    }

    fn replicas(self, seed: u64) -> Replicas {
        match self {
            Copies::Alike => Replicas::of_table(["far", SECOND]),
            Copies::Encoded => encoded(seed),
        }
    }
}

/// The outcome of a fault.
#[derive(Clone, Debug, Default)]
pub(super) struct Outcome {
    /// Whether everything had been read before.
    pub(super) was_read: bool,
    pub(super) queries: u64,
    pub(super) refused: u64,
    pub(super) panics: u64,
    /// Wrong answers, or errors instead of answers.
    pub(super) wrong: Vec<String>,
    pub(super) damaged_copies: u64,
    pub(super) repaired_copies: u64,
    /// Damage that was not repaired in the end.
    pub(super) unrepaired: Vec<String>,
}

impl Class {
    pub(super) const ALL: [Class; 6] = [
        Class::Bits,
        Class::Regions,
        Class::Chip,
        Class::Cut,
        Class::Absent,
        Class::Socket,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Class::Bits => "bits flipped",
            Class::Regions => "regions of 4 KiB",
            Class::Chip => "a chip of a module",
            Class::Cut => "the file cut short",
            Class::Absent => "the file absent",
            Class::Socket => "a socket gone",
        }
    }

    /// Whether only a checksum shows that bytes have changed.
    pub(super) fn is_silent(self) -> bool {
        matches!(self, Class::Bits | Class::Regions | Class::Chip)
    }

    /// Makes a database, causes the fault of that seed, and checks that the database recovers.
    pub(super) fn suffer(
        self,
        dir: &Path,
        seed: u64,
        reads: VerifyReads,
        copies: Copies,
    ) -> Result<Outcome, String> {
        let both = copies.replicas(seed);
        let place = make(dir, both.clone())?;
        let open = |place: &Place| open(place, reads);
        let mut random = Random::new(seed);
        // A lost socket's pool is never back: the victim is the second pool, which can be added anew.
        let victim = if self == Class::Socket {
            1
        } else {
            random.below(2) as usize
        };
        let mut outcome = Outcome {
            was_read: random.below(2) == 0,
            ..Outcome::default()
        };
        let mut oracle = Oracle::of(0..ROWS);
        if self == Class::Absent {
            let away = place.pools[victim].with_extension("away");
            fs::rename(&place.pools[victim], &away).map_err(text)?;
            let database = open(&place)?;
            outcome.take(oracle.keep_asking(&database, &AtomicBool::new(true)));
            // Rows that the tier lacks when it comes back.
            append(&database, ROWS)?;
            oracle = Oracle::of(0..ROWS + APPEND_ROWS);
            drop(database);
            fs::rename(&away, &place.pools[victim]).map_err(text)?;
        }
        let mut database = open(&place)?;
        let pause = Duration::from_micros(random.below(20_000));
        let asked = ask_beside(&oracle, &database, outcome.was_read, pause, || {
            self.damage(&place, victim, seed)
        });
        outcome.take(asked?);
        if self == Class::Socket {
            // It is missing when the database is opened again, and another one replaces it.
            drop(database);
            database = open(&place)?;
            outcome.take(oracle.keep_asking(&database, &AtomicBool::new(true)));
            replace_second(&database, &place, &both)?;
        }
        outcome.put_right(&database, &oracle)?;
        drop(database);
        // Opening compares and repairs records of logs.
        open(&place)?.wait_for_near_copies().map_err(text)?;
        for tier in 0..2 {
            outcome.check_alone(&place, &oracle, tier, open)?;
        }
        Ok(outcome)
    }

    /// Damages the pool of a tier of an open database.
    fn damage(self, place: &Place, victim: usize, seed: u64) -> Result<(), String> {
        let path = &place.pools[victim];
        let mut options = File::options();
        let pool = options.read(true).write(true).open(path).map_err(text)?;
        let all = FIRST_EXTENT..pool.len_bytes().map_err(text)?;
        let mut injector = Injector::new(seed);
        match self {
            Class::Bits => injector.flip_bits(&pool, all, BITS).map(drop),
            Class::Regions => {
                (0..REGIONS).try_for_each(|_| injector.garbage(&pool, all.clone()).map(drop))
            }
            Class::Chip => injector.stripes(&pool, all, 64, 8).map(drop),
            Class::Cut => {
                let at = Random::new(seed).below(all.end - all.start);
                injector.cut(&pool, all.start + at).map(drop)
            }
            Class::Absent => Ok(()),
            Class::Socket => {
                let cut = injector.cut(&pool, 0);
                cut.and_then(|_| fs::remove_file(path))
            }
        }
        .map_err(text)
    }
}

impl Outcome {
    fn take(&mut self, asked: Asked) {
        self.queries += asked.queries;
        self.refused += asked.refused;
        self.panics += asked.panics;
        self.wrong.extend(asked.wrong);
    }

    /// A scrub pass repairs everything, and then all answers are right.
    fn put_right(&mut self, database: &Database, oracle: &Oracle) -> Result<(), String> {
        database.wait_for_near_copies().map_err(text)?;
        let report = database.scrub(&ScrubOptions::default(), |_| {});
        let report = report.map_err(text)?;
        self.damaged_copies += report.damaged_copies;
        self.repaired_copies += report.repaired_copies;
        let verify = ScrubOptions {
            only_verify: true,
            ..ScrubOptions::default()
        };
        let left = database.scrub(&verify, |_| {}).map_err(text)?;
        if !report.lost.is_empty() || left.damaged_copies > 0 {
            self.unrepaired.push(format!("{report:?}, then {left:?}"));
        }
        let asked = oracle.keep_asking(database, &AtomicBool::new(true));
        let refused = (asked.refused > 0).then(|| "refused after the scrub pass".to_owned());
        self.unrepaired
            .extend(asked.wrong.into_iter().chain(refused));
        Ok(())
    }

    /// The tier suffices alone; then the other is brought up to date.
    fn check_alone(
        &mut self,
        place: &Place,
        oracle: &Oracle,
        tier: usize,
        open: impl Fn(&Place) -> Result<Arc<Database>, String>,
    ) -> Result<(), String> {
        let other = &place.pools[1 - tier];
        let away = other.with_extension("away");
        fs::rename(other, &away).map_err(text)?;
        match open(place) {
            Ok(database) => {
                let asked = oracle.keep_asking(&database, &AtomicBool::new(true));
                let refused = (asked.refused > 0).then(|| "refused".to_owned());
                let wrong = asked.wrong.into_iter().chain(refused);
                self.unrepaired
                    .extend(wrong.map(|what| format!("tier {tier} alone: {what}")));
            }
            Err(what) => self.unrepaired.push(format!("tier {tier} alone: {what}")),
        }
        fs::rename(&away, other).map_err(text)?;
        open(place)?.wait_for_near_copies().map_err(text)
    }
}

/// Asks in a thread while something is done after a delay. If `first`, everything was asked once before.
fn ask_beside(
    oracle: &Oracle,
    database: &Database,
    first: bool,
    pause: Duration,
    act: impl FnOnce() -> Result<(), String>,
) -> Result<Asked, String> {
    let end = AtomicBool::new(false);
    if !first {
        act()?;
        end.store(true, Ordering::Release);
        return Ok(oracle.keep_asking(database, &end));
    }
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| oracle.keep_asking(database, &end));
        std::thread::sleep(pause);
        let acted = act();
        std::thread::sleep(pause);
        end.store(true, Ordering::Release);
        let asked = asking.join().map_err(|_| "asking panicked".to_owned())?;
        acted.map(|()| asked)
    })
}

/// A table with a copy in each of two tiers, closed.
fn make(dir: &Path, both: Replicas) -> Result<Place, String> {
    let place = Place::of(dir);
    let database = Database::create(&place.db, &options()).map_err(text)?;
    database.add_tier(SECOND, &place.pools[1]).map_err(text)?;
    let table = database.create_table_in(spec("t"), both).map_err(text)?;
    let mut loader = table.loader();
    loader.push(rows(0..LOAD_ROWS)).map_err(text)?;
    loader.finish().map_err(text)?;
    for first in (LOAD_ROWS..ROWS).step_by(APPEND_ROWS as usize) {
        append(&database, first)?;
    }
    database.wait_for_near_copies().map_err(text)?;
    Ok(place)
}

fn append(database: &Database, first: i64) -> Result<(), String> {
    let table = database.table("t").ok_or("the table is gone")?;
    let appended = table.append(&[rows(first..first + APPEND_ROWS)]);
    appended.map(drop).map_err(text)
}

/// Replaces the second pool by another one, with a copy of everything.
fn replace_second(database: &Database, place: &Place, both: &Replicas) -> Result<(), String> {
    let table = database.table("t").ok_or("the table is gone")?;
    table
        .set_replicas(&Replicas::of_table(["far"]))
        .map_err(text)?;
    database.drop_tier(SECOND).map_err(text)?;
    database.add_tier(SECOND, &place.pools[1]).map_err(text)?;
    table.set_replicas(both).map_err(text)
}

/// No near copies: everything is read where it is damaged.
fn options() -> DatabaseOptions {
    DatabaseOptions {
        near_memory_bytes: Some(0),
        degraded: true,
        ..DatabaseOptions::default()
    }
}

fn open(place: &Place, reads: VerifyReads) -> Result<Arc<Database>, String> {
    let options = DatabaseOptions {
        verify_reads: Some(reads),
        ..options()
    };
    Database::open(&place.db, &options).map_err(text)
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
