//! Promise: where one of the two last publications of a tier is lost, and another tier has what it was, the tier is put right. Where none has,
//! it may be the only one that had the newest state, and counts as missing.

use std::fs;
use std::path::Path;

use crate::support::{all_rows, options, rows, spec};
use tierra_engine::{Database, DatabaseOptions, OpenError, Replicas, ScrubOptions};

/// Both copies of each slot of the superblock.
const SLOTS: [[usize; 2]; 2] = [[4096, 13_312], [8192, 14_336]];
const POOLS: [&str; 2] = ["far.pool", "b.pool"];

fn create(db: &Path) {
    let database = Database::create(db, &options()).unwrap();
    database.add_tier("b", &db.join("b.pool")).unwrap();
    let both = Replicas::of_table(["far", "b"]);
    let t = database.create_table_in(spec("t", vec![0]), both).unwrap();
    t.append(&[rows(0..500)]).unwrap();
    t.seal().unwrap();
    t.append(&[rows(500..550)]).unwrap();
    database.wait_for_near_copies().unwrap();
}

fn damage(pool: &Path, slot: usize) {
    let mut bytes = fs::read(pool).unwrap();
    for at in SLOTS[slot] {
        bytes[at + 20] ^= 0x10;
    }
    fs::write(pool, bytes).unwrap();
}

fn degraded() -> DatabaseOptions {
    DatabaseOptions {
        degraded: true,
        ..options()
    }
}

fn verify(database: &Database) -> u64 {
    let only_verify = ScrubOptions {
        only_verify: true,
        ..ScrubOptions::default()
    };
    let report = database.scrub(&only_verify, |_| {}).unwrap();
    assert_eq!(report.lost, []);
    report.damaged_copies
}

#[test]
fn a_tier_gets_it_back_from_another() {
    for victim in 0..2 {
        for slot in 0..2 {
            let dir = tempfile::tempdir().unwrap();
            let db = dir.path().join("db");
            create(&db);
            damage(&db.join(POOLS[victim]), slot);
            let database = Database::open(&db, &options()).unwrap();
            let t = database.table("t").unwrap();
            assert_eq!(all_rows(&t), rows(0..550));
            assert_eq!(verify(&database), 0);
            t.append(&[rows(550..560)]).unwrap();
            drop((t, database));
            // That one alone has everything, and is opened.
            fs::rename(db.join(POOLS[1 - victim]), dir.path().join("away")).unwrap();
            let database = Database::open(&db, &degraded()).unwrap();
            assert_eq!(all_rows(&database.table("t").unwrap()), rows(0..560));
            assert_eq!(verify(&database), 0);
        }
    }
}

/// The other tier was away when the newest rows were written: it cannot say what the lost publication was.
#[test]
fn a_lost_publication_that_no_tier_has_is_refused() {
    for slot in 0..2 {
        let dir = tempfile::tempdir().unwrap();
        let (db, away) = (dir.path().join("db"), dir.path().join("away"));
        create(&db);
        fs::rename(db.join("b.pool"), &away).unwrap();
        let database = Database::open(&db, &degraded()).unwrap();
        let t = database.table("t").unwrap();
        t.append(&[rows(550..600)]).unwrap();
        t.seal().unwrap();
        database.wait_for_near_copies().unwrap();
        drop((t, database));
        fs::rename(&away, db.join("b.pool")).unwrap();
        damage(&db.join("far.pool"), slot);
        for options in [options(), degraded()] {
            let error = Database::open(&db, &options).unwrap_err();
            assert!(matches!(error, OpenError::Stale { .. }), "{error}");
        }
    }
}
