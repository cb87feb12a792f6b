//! What the tests of repair share: a table with two copies, and ways to damage one.
#![allow(dead_code, reason = "each test file uses a part")]

use std::fs::{self, File};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;

use tempfile::TempDir;
use tierra_column::Encoding;
use tierra_engine::{Database, DatabaseOptions, IndexKind, Replicas, ScrubOptions, TableSpec};

use crate::support::{self, all_rows, options, rows, spec};

pub(crate) const ROWS: i64 = 67_000;

pub(crate) struct Place(pub(crate) TempDir);

impl Place {
    /// A table with two copies, of segments, dictionaries, an index and a tail.
    pub(crate) fn new() -> Place {
        Self::with(|_| {})
    }

    /// The same with a specification that is changed so.
    pub(crate) fn with(change: impl FnOnce(&mut TableSpec)) -> Place {
        Self::in_replicas(Replicas::of_table(["far", "b"]), change)
    }

    /// The same with other replicas in these two tiers.
    pub(crate) fn in_replicas(replicas: Replicas, change: impl FnOnce(&mut TableSpec)) -> Place {
        let dir = TempDir::new_in("/dev/shm").or_else(|_| TempDir::new());
        let place = Place(dir.unwrap());
        let database = Database::create(&place.db(), &options()).unwrap();
        database.add_tier("b", &place.pool("b")).unwrap();
        let mut spec = spec("t", vec![0]);
        spec.columns[support::CITY].encoding = Some(Encoding::Dictionary);
        spec.columns[support::CITY].index = Some(IndexKind::Inverted);
        change(&mut spec);
        let table = database.create_table_in(spec, replicas).unwrap();
        let mut loader = table.loader();
        loader.push(rows(0..ROWS - 500)).unwrap();
        loader.finish().unwrap();
        for start in (ROWS - 500..ROWS).step_by(50) {
            table.append(&[rows(start..start + 50)]).unwrap();
        }
        database.wait_for_near_copies().unwrap();
        place
    }

    pub(crate) fn db(&self) -> PathBuf {
        self.0.path().join("db")
    }

    pub(crate) fn pool(&self, tier: &str) -> PathBuf {
        match tier {
            "far" => self.db().join("far.pool"),
            other => self.0.path().join(other),
        }
    }

    pub(crate) fn open(&self, near_bytes: u64) -> Arc<Database> {
        let options = DatabaseOptions {
            near_memory_bytes: Some(near_bytes),
            degraded: true,
            ..options()
        };
        Database::open(&self.db(), &options).unwrap()
    }

    /// Changes bytes of a pool's file, which is seen where it is mapped.
    pub(crate) fn change(&self, tier: &str, ranges: &[Range<u64>]) {
        let file = File::options()
            .read(true)
            .write(true)
            .open(self.pool(tier))
            .unwrap();
        for range in ranges {
            let mut bytes = vec![0; (range.end - range.start) as usize];
            file.read_exact_at(&mut bytes, range.start).unwrap();
            bytes.iter_mut().for_each(|byte| *byte ^= 0x11);
            file.write_all_at(&bytes, range.start).unwrap();
        }
    }

    /// Where block 0 of the largest chunk of this type lies, whose code is in `docs/file-format.md`.
    pub(crate) fn first_block(&self, tier: &str, type_code: u8) -> u64 {
        self.first_chunk(tier, type_code).end
    }

    /// Where the head of that chunk lies.
    pub(crate) fn first_chunk(&self, tier: &str, type_code: u8) -> Range<u64> {
        let bytes = fs::read(self.pool(tier)).unwrap();
        let starts = bytes.windows(5).enumerate();
        let starts = starts.filter(|(_, window)| window[..4] == *b"TCHK" && window[4] == 1);
        let u64_at = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
        let of_type = starts.filter(|(at, _)| bytes[at + 5] == type_code);
        let (at, _) = of_type.max_by_key(|(at, _)| u64_at(at + 48)).unwrap();
        at as u64..at as u64 + u64_at(at + 40)
    }
}

pub(crate) fn check(database: &Database) {
    let table = database.table("t").unwrap();
    assert_eq!(all_rows(&table), rows(0..ROWS));
    let city = tierra_column::Value::Bytes("city number 007".as_bytes().into());
    let filter = tierra_column::Filter::eq(city);
    let (found, _) = support::scan(&table.snapshot(), &[0], &[(support::CITY, filter)]);
    let expected = (0..ROWS).filter(|id| id % 200 == 7).count();
    assert_eq!(found.num_rows(), expected);
}

/// Scrubs until nothing is damaged; nothing may be lost.
pub(crate) fn put_right(database: &Database, seed: u64) {
    let scrub = || database.scrub(&ScrubOptions::default(), |_| {}).unwrap();
    let found = scrub();
    assert_eq!(found.lost, [], "seed {seed}: {found:?}");
    // Chunks whose headers were damaged in their only copy are given up for new ones.
    database.make_copies().unwrap();
    let again = scrub();
    assert_eq!(
        (again.damaged_copies, &again.lost),
        (0, &vec![]),
        "seed {seed}: {again:?}"
    );
}

/// Where these bytes begin a line of a pool.
pub(crate) fn starts<'a>(pool: &'a [u8], begin: &'a [u8]) -> impl Iterator<Item = u64> + 'a {
    let lines = (0..pool.len()).step_by(64);
    lines
        .filter(|at| pool[*at..].starts_with(begin))
        .map(|at| at as u64)
}

/// Behind the header and the superblock, which have a test of their own.
pub(crate) const FIRST_EXTENT: u64 = 16_384;

/// Places spread by a seed.
pub(crate) fn damage(seed: u64, len_bytes: u64) -> Vec<Range<u64>> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut random = |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        FIRST_EXTENT + state % (below - FIRST_EXTENT)
    };
    match seed % 3 {
        // Single cells.
        0 => (0..300)
            .map(|_| random(len_bytes))
            .map(|at| at..at + 1)
            .collect(),
        // Pages.
        1 => {
            let pages = (0..6).map(|_| random(len_bytes - 4096) / 4096 * 4096);
            pages.map(|at| at..at + 4096).collect()
        }
        // A chip: every eighth line of a megabyte.
        _ => {
            let start = random(len_bytes - (1 << 20)) / 64 * 64;
            let lines = (start..start + (1 << 20)).step_by(512);
            lines.map(|at| at..at + 64).collect()
        }
    }
}
