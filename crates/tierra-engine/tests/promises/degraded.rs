//! Going on without a tier is asked for, and said; what was only read is not split, and a state that is known to be old is not taken
//! for the newest.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use crate::support::{self, all_rows, options, rows, spec};
use tempfile::TempDir;
use tierra_engine::{AdoptOptions, Database, DatabaseOptions, OpenError, Replicas};

struct Place(TempDir);

impl Place {
    fn new() -> Place {
        let place = Place(tempfile::tempdir().unwrap());
        let database = Database::create(&place.db(), &options()).unwrap();
        database.add_tier("b", &place.pool("b")).unwrap();
        let both = Replicas::of_table(["far", "b"]);
        let mut spec = spec("t", vec![0]);
        spec.columns[support::CITY].index = Some(tierra_engine::IndexKind::Inverted);
        spec.columns[support::CITY].encoding = Some(tierra_column::Encoding::Dictionary);
        let table = database.create_table_in(spec, both).unwrap();
        table.append(&[rows(0..100)]).unwrap();
        table.seal().unwrap();
        table.append(&[rows(100..120)]).unwrap();
        database.wait_for_near_copies().unwrap();
        drop((table, database));
        place
    }

    fn db(&self) -> PathBuf {
        self.0.path().join("db")
    }

    fn pool(&self, tier: &str) -> PathBuf {
        self.db().join(format!("{tier}.pool"))
    }

    fn open(&self) -> Result<Arc<Database>, OpenError> {
        Database::open(&self.db(), &options())
    }

    fn open_degraded(&self) -> Result<Arc<Database>, OpenError> {
        let degraded = DatabaseOptions {
            degraded: true,
            ..options()
        };
        Database::open(&self.db(), &degraded)
    }

    fn take_away(&self, tier: &str) {
        fs::rename(self.pool(tier), self.pool(tier).with_extension("away")).unwrap();
    }

    fn bring_back(&self, tier: &str) {
        fs::rename(self.pool(tier).with_extension("away"), self.pool(tier)).unwrap();
    }

    fn pools(&self) -> [Option<Vec<u8>>; 2] {
        ["far", "b"].map(|tier| fs::read(self.pool(tier)).ok())
    }
}

fn rows_of(database: &Database) -> arrow::array::RecordBatch {
    all_rows(&database.table("t").unwrap())
}

#[test]
fn a_missing_tier_is_told_and_gone_without_only_if_asked() {
    let place = Place::new();
    for tier in ["far", "b"] {
        place.take_away(tier);
        let before = place.pools();
        let told = place.open().unwrap_err().to_string();
        for part in [
            &format!("{tier:?}"),
            place.pool(tier).to_str().unwrap(),
            "--degraded",
            "degraded = true",
        ] {
            assert!(told.contains(part), "{part}: {told}");
        }
        assert!(place.pools() == before, "nothing was touched");
        let database = place.open_degraded().unwrap();
        assert_eq!(database.missing_tiers().len(), 1);
        assert_eq!(rows_of(&database), rows(0..120));
        drop(database);
        place.bring_back(tier);
    }
}

/// Each tier was opened and read without the other: they are still one.
#[test]
fn reading_alone_splits_nothing() {
    let place = Place::new();
    let before = place.pools();
    for tier in ["far", "b"] {
        place.take_away(tier);
        let database = place.open_degraded().unwrap();
        assert_eq!(rows_of(&database), rows(0..120));
        database.wait_for_near_copies().unwrap();
        drop(database);
        place.bring_back(tier);
    }
    assert!(
        place.pools() == before,
        "opening and reading publish nothing"
    );
    let database = place.open().unwrap();
    assert_eq!(database.missing_tiers(), []);
    assert_eq!(rows_of(&database), rows(0..120));
}

#[test]
fn a_tier_that_is_behind_is_not_taken_for_the_newest() {
    for gone in ["far", "b"] {
        let other = if gone == "b" { "far" } else { "b" };
        let place = Place::new();
        place.take_away(gone);
        let database = place.open_degraded().unwrap();
        database
            .table("t")
            .unwrap()
            .append(&[rows(120..130)])
            .unwrap();
        drop(database);
        // The old one comes, the new one goes.
        place.bring_back(gone);
        place.take_away(other);
        let before = place.pools();
        for opened in [place.open(), place.open_degraded()] {
            let refused = opened.unwrap_err();
            assert!(matches!(refused, OpenError::Stale { .. }), "{refused}");
            let told = refused.to_string();
            assert!(told.contains(place.pool(other).to_str().unwrap()), "{told}");
        }
        assert!(place.pools() == before, "nothing was touched");
        // Both: it is brought up to date, and enough alone.
        place.bring_back(other);
        let database = place.open().unwrap();
        assert_eq!(rows_of(&database), rows(0..130));
        database.wait_for_near_copies().unwrap();
        drop(database);
        place.take_away(other);
        assert_eq!(rows_of(&place.open_degraded().unwrap()), rows(0..130));
    }
}

/// The newest tier is lost: what is left is gone on from if it is said so.
#[test]
fn an_old_state_is_gone_on_from_if_it_is_adopted() {
    let place = Place::new();
    place.take_away("b");
    let database = place.open_degraded().unwrap();
    database
        .table("t")
        .unwrap()
        .append(&[rows(120..130)])
        .unwrap();
    drop(database);
    place.bring_back("b");
    place.take_away("far");
    let degraded = DatabaseOptions {
        degraded: true,
        ..options()
    };
    let refused = Database::adopt(&place.db(), &degraded, &AdoptOptions::default());
    assert!(
        matches!(refused, Err(OpenError::Stale { .. })),
        "{refused:?}"
    );
    let stale = AdoptOptions {
        stale: true,
        ..AdoptOptions::default()
    };
    Database::adopt(&place.db(), &degraded, &stale).unwrap();
    let database = place.open_degraded().unwrap();
    assert_eq!(rows_of(&database), rows(0..120));
    database.drop_table("t").unwrap();
    database.drop_tier("far").unwrap();
    drop(database);
    drop(place.open().unwrap());
}

/// Until something else is written, a write of each split them.
#[test]
fn tiers_that_were_both_written_to_alone_are_not_joined() {
    let place = Place::new();
    let whole = place.pools();
    place.take_away("b");
    let database = place.open_degraded().unwrap();
    let table = database.table("t").unwrap();
    table.append(&[rows(120..121)]).unwrap();
    drop((table, database));
    let far = fs::read(place.pool("far")).unwrap();
    place.bring_back("b");
    // As on another machine, where the directory knows nothing of it.
    fs::write(place.pool("far"), whole[0].as_ref().unwrap()).unwrap();
    let refused = place.open().unwrap_err();
    assert!(matches!(refused, OpenError::Stale { .. }), "{refused}");
    fs::write(place.pool("far"), far).unwrap();
    assert_eq!(rows_of(&place.open().unwrap()), rows(0..121));
}

/// What may pass by itself is an error, and no loss.
#[test]
fn a_tier_that_may_not_be_opened_now_is_no_lost_one() {
    let place = Place::new();
    let held = fs::File::open(place.pool("b")).unwrap();
    rustix::fs::flock(&held, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let refused = place.open_degraded().unwrap_err();
    assert!(matches!(refused, OpenError::Pool(_)), "{refused}");
    drop(held);
    assert_eq!(place.open().unwrap().missing_tiers(), []);
}
