//! What the tests of replicas share: a directory with tiers that come and go, and a table that has everything a table can have.
#![allow(dead_code, reason = "each test file uses a part")]

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use tempfile::TempDir;
use tierra_column::Encoding;
use tierra_engine::{Database, DatabaseOptions, IndexKind, Table, TableSpec};

use crate::support::{self, all_rows, options, rows, spec};

/// A directory on tmpfs where there is one: these tests write every byte several times.
pub(crate) struct Place(pub(crate) TempDir);

impl Place {
    pub(crate) fn new() -> Place {
        Place(
            TempDir::new_in("/dev/shm")
                .or_else(|_| TempDir::new())
                .unwrap(),
        )
    }

    pub(crate) fn db(&self) -> PathBuf {
        self.0.path().join("db")
    }

    /// The pool of a tier.
    pub(crate) fn pool(&self, tier: &str) -> PathBuf {
        match tier {
            "far" => self.db().join("far.pool"),
            "b" => self.db().join("b"),
            other => self.0.path().join(other),
        }
    }

    /// A database with these tiers beside the first.
    pub(crate) fn create(&self, tiers: &[&str]) -> Arc<Database> {
        let database = Database::create(&self.db(), &options()).unwrap();
        for tier in tiers {
            database.add_tier(tier, &self.pool(tier)).unwrap();
        }
        database
    }

    pub(crate) fn open(&self) -> Arc<Database> {
        Database::open(&self.db(), &degraded()).unwrap()
    }

    pub(crate) fn take_away(&self, tier: &str) {
        fs::rename(self.pool(tier), self.pool(tier).with_extension("away")).unwrap();
    }

    pub(crate) fn bring_back(&self, tier: &str) {
        fs::rename(self.pool(tier).with_extension("away"), self.pool(tier)).unwrap();
    }
}

/// Without tiers that are missing.
pub(crate) fn degraded() -> DatabaseOptions {
    DatabaseOptions {
        degraded: true,
        ..options()
    }
}

/// A table with an index and dictionaries beside all else.
pub(crate) fn indexed(name: &str) -> TableSpec {
    let mut spec = spec(name, vec![0]);
    spec.columns[support::CITY].encoding = Some(Encoding::Dictionary);
    spec.columns[support::CITY].index = Some(IndexKind::Inverted);
    spec
}

/// Segments, two generations of dictionaries, an index, and a tail.
pub(crate) fn fill(table: &Arc<Table>, first: i64) -> i64 {
    let mut loader = table.loader();
    loader.push(rows(first..first + 66_000)).unwrap();
    loader.finish().unwrap();
    table
        .append(&[rows(first + 66_000..first + 66_400)])
        .unwrap();
    table.seal().unwrap();
    table.merge_dictionaries().unwrap();
    table
        .append(&[rows(first + 66_400..first + 66_500)])
        .unwrap();
    first + 66_500
}

pub(crate) fn check(database: &Database, count: i64) {
    let table = database.table("t").unwrap();
    database.wait_for_near_copies().unwrap();
    assert_eq!(all_rows(&table), rows(0..count));
    let city = tierra_column::Value::Bytes("city number 007".as_bytes().into());
    let filter = tierra_column::Filter::eq(city);
    let (found, _) = support::scan(&table.snapshot(), &[0], &[(support::CITY, filter)]);
    assert_eq!(
        found.num_rows() as i64,
        (0..count).filter(|id| id % 200 == 7).count() as i64
    );
}
