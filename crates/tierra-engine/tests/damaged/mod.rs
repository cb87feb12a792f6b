//! What the test of offline damage shares: databases made once, what they hold, and what is damaged of them.

mod ask;
mod harm;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::TempDir;
use tierra_column::Encoding;
use tierra_engine::{Database, DatabaseOptions, IndexKind, Replicas, Table, TableSpec};

pub(crate) use ask::{Answers, ask};
pub(crate) use harm::{Harm, harm};

use crate::support::{self, CITY, NOTE};

/// The tiers, the first one first, and where their pools lie in the directory.
pub(crate) const TIERS: [(&str, &str); 2] = [("far", "far.pool"), ("b", "b.pool")];

/// How many databases are made to be damaged.
pub(crate) const BASES: u64 = 6;

/// The ids that each table has.
pub(crate) type State = BTreeMap<String, Vec<i64>>;

/// The content of files, by name.
pub(crate) type Files = BTreeMap<String, Vec<u8>>;

pub(crate) struct Random(pub(crate) u64);

impl Random {
    /// SplitMix64.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }

    pub(crate) fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }
}

/// In memory where possible.
pub(crate) fn folder() -> TempDir {
    TempDir::new_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .unwrap()
}

/// Nothing is put right but by who reads or repairs.
pub(crate) fn options(near_memory_bytes: u64) -> DatabaseOptions {
    DatabaseOptions {
        near_memory_bytes: Some(near_memory_bytes),
        scrub_bytes_per_s: Some(0),
        threads: std::num::NonZeroUsize::new(2),
        ..DatabaseOptions::default()
    }
}

/// A closed database, and what it was before.
pub(crate) struct Base {
    pub(crate) tiers: usize,
    pub(crate) files: Files,
    pub(crate) state: State,
    /// Older content of its files, with the states they had: what a lost write leaves.
    pub(crate) older: Vec<(Files, State)>,
}

impl Base {
    /// With one tier or two, differing by number.
    pub(crate) fn new(tiers: usize, number: u64) -> Base {
        let dir = folder();
        let db = dir.path().join("db");
        let mut making = Making {
            tiers,
            number,
            db: db.clone(),
            database: Some(Database::create(&db, &options(1 << 20)).unwrap()),
            state: State::new(),
            older: Vec::new(),
        };
        making.make();
        let Making {
            database,
            state,
            older,
            ..
        } = making;
        drop(database);
        Base {
            tiers,
            files: read(&db),
            state,
            older,
        }
    }

    pub(crate) fn write(files: &Files, db: &Path) {
        fs::create_dir(db).unwrap();
        for (name, bytes) in files {
            fs::write(db.join(name), bytes).unwrap();
        }
    }
}

fn read(db: &Path) -> Files {
    let files = fs::read_dir(db).unwrap().map(|entry| entry.unwrap());
    let read = files.map(|entry| {
        let name = entry.file_name().into_string().unwrap();
        (name, fs::read(entry.path()).unwrap())
    });
    read.collect()
}

struct Making {
    tiers: usize,
    number: u64,
    db: PathBuf,
    /// None only while it is opened again.
    database: Option<Arc<Database>>,
    state: State,
    older: Vec<(Files, State)>,
}

impl Making {
    fn database(&self) -> &Arc<Database> {
        self.database.as_ref().unwrap()
    }

    fn spec(&self, name: &str, primary_key: Vec<usize>) -> TableSpec {
        let mut spec = support::spec(name, primary_key);
        spec.columns[CITY].encoding = Some(Encoding::Dictionary);
        spec.columns[CITY].index = Some(IndexKind::Inverted);
        if self.number.is_multiple_of(2) {
            spec.columns[NOTE].encoding = Some(Encoding::Dictionary);
        }
        spec
    }

    fn create(&mut self, name: &str, primary_key: Vec<usize>) -> Arc<Table> {
        let spec = self.spec(name, primary_key);
        let replicas = match (self.tiers, self.number % 3) {
            (1, _) => Replicas::default(),
            (_, 0) => Replicas::of_table(["b", "far"]),
            _ => Replicas::of_table(["far", "b"]),
        };
        self.state.insert(name.to_owned(), Vec::new());
        self.database().create_table_in(spec, replicas).unwrap()
    }

    fn append(&mut self, name: &str, count: i64) {
        let ids = self.state.get_mut(name).unwrap();
        let first = ids.last().map_or(0, |last| last + 1);
        ids.extend(first..first + count);
        let table = self.database().table(name).unwrap();
        table
            .append(&[support::rows(first..first + count)])
            .unwrap();
    }

    fn seal(&self, name: &str) {
        self.database().table(name).unwrap().seal().unwrap();
    }

    /// What a write that is lost from here on leaves in its place.
    fn remember(&mut self) {
        self.older.push((read(&self.db), self.state.clone()));
    }

    fn reopen(&mut self) {
        self.database().wait_for_near_copies().unwrap();
        self.database = None;
        self.database = Some(Database::open(&self.db, &options(1 << 20)).unwrap());
    }

    fn make(&mut self) {
        if self.tiers == 2 {
            let (name, file) = TIERS[1];
            self.database().add_tier(name, &self.db.join(file)).unwrap();
        }
        let number = self.number as i64;
        self.create("t", vec![0]);
        self.create("again", vec![0]);
        self.append("again", 1500);
        self.seal("again");
        self.append("again", 30);
        self.create("gone", vec![]);
        self.append("gone", 700);
        self.remember();
        self.append("t", 900);
        self.seal("t");
        self.create("u", vec![0]);
        self.append("u", 7);
        self.append("t", 1200 + 100 * number);
        self.seal("t");
        self.database().wait_for_near_copies().unwrap();
        self.remember();
        for name in ["again", "gone"] {
            self.database().drop_table(name).unwrap();
            self.state.remove(name);
        }
        self.create("loaded", vec![0]);
        if number == 1 {
            let table = self.database().table("loaded").unwrap();
            let mut loader = table.loader();
            loader.push(support::rows(0..66_000)).unwrap();
            loader.finish().unwrap();
            self.state
                .insert("loaded".to_owned(), (0..66_000).collect());
        } else {
            self.append("loaded", 2500);
            self.seal("loaded");
        }
        self.create("empty", vec![]);
        self.remember();
        if number % 2 == 1 {
            self.reopen();
        }
        self.create("w", vec![]);
        self.append("w", 300);
        self.seal("w");
        self.create("again", vec![0]);
        self.append("again", 40);
        if number % 3 == 2 {
            self.seal("again");
        }
        self.append("t", 60);
        for round in 0..4 {
            self.append("u", 3 + round);
            self.append("t", 20);
        }
        self.remember();
        self.database().wait_for_near_copies().unwrap();
        if number % 2 == 0 {
            self.append("t", 11);
        }
        self.append("u", 2);
        self.remember();
        if number % 3 == 1 {
            self.append("t", 5);
        }
        if number == 3 {
            self.append("w", 9);
            self.seal("w");
        }
    }
}
