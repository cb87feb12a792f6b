//! Promise: where every reading is checked, damage of what was read before is read past or named. Where the first alone is, what was verified
//! is verified again once damage was found.

use std::fs;
use std::sync::Arc;

use crate::copied::{Place, ROWS, check, damage};
use crate::support::{self, all_rows, rows};
use arrow::array::{ArrayRef, Int64Array};
use tierra_engine::{Database, LookupError, RowId, ScanError, ScrubOptions, VerifyReads};
use tierra_interleave::{Lookups, Scheduling};

/// Everything was read before, and nothing says that it changed.
#[test]
fn where_every_reading_is_checked_silent_damage_is_read_past() {
    let place = Place::new();
    let open = |reads| {
        let database = place.open(0);
        database.read_checks().set(reads);
        database
    };
    for (seed, victim) in (0..12).zip(["far", "far", "b"].iter().cycle()) {
        println!("seed {seed}");
        let database = open(VerifyReads::Every);
        check(&database);
        check_rows(&database);
        let len_bytes = fs::metadata(place.pool(victim)).unwrap().len();
        place.change(victim, &damage(seed, len_bytes));
        match seed % 2 {
            0 => check(&database),
            _ => check_rows(&database),
        }
        check_rows(&database);
        check(&database);
        let found = database.scrub(&ScrubOptions::default(), |_| {}).unwrap();
        assert_eq!(found.lost, [], "seed {seed}: {found:?}");
        assert_eq!(found.damaged_copies, found.repaired_copies);
    }
    // Checked at first only, the same is not noticed: the test can fail.
    let database = open(VerifyReads::First);
    check(&database);
    let block = place.first_block("far", 4);
    place.change("far", std::slice::from_ref(&(block..block + 1)));
    let table = database.table("t").unwrap();
    assert_ne!(all_rows(&table), rows(0..ROWS));
    // It is asked for while the database is used.
    database.read_checks().set(VerifyReads::Every);
    check(&database);
    assert!(database.faults().1.repaired > 0);
}

/// Blocks that were verified are believed until damage is found: by a scrub pass here, which changes nothing, and by a reader who
/// meets another damaged block.
#[test]
fn what_was_verified_is_verified_again_once_damage_was_found() {
    let place = Place::new();
    let wrong = |database: &Database| all_rows(&database.table("t").unwrap()) != rows(0..ROWS);
    let block = place.first_block("far", 4);
    // A byte of the chunk's first block, and one of its last.
    let bytes = [block..block + 1, block + 100_000..block + 100_001];
    let found_by: [fn(&Database); 2] = [
        |database| {
            let only_look = ScrubOptions {
                only_verify: true,
                ..ScrubOptions::default()
            };
            let found = database.scrub(&only_look, |_| {}).unwrap();
            assert!(found.damaged_copies > 0);
        },
        |database| {
            database.read_checks().set(VerifyReads::Every);
            let table = database.table("t").unwrap();
            // One row of the first block; the last one is not met.
            let mut lookups = Lookups::new(Scheduling::Auto);
            let row = [RowId::from_number((1 << 20) + 1)];
            let every = table.projection(&Vec::from_iter(0..10));
            table.snapshot().gather(&row, &every, &mut lookups).unwrap();
            database.read_checks().set(VerifyReads::First);
        },
    ];
    for find in found_by {
        let database = place.open(0);
        assert!(!wrong(&database));
        place.change("far", &bytes);
        assert!(wrong(&database), "the damage is not found yet");
        find(&database);
        assert!(!wrong(&database));
        check_rows(&database);
        assert!(database.faults().1.repaired >= 1);
    }
}

/// What is damaged in all copies is named, whether it was read before or not.
#[test]
fn where_every_reading_is_checked_what_no_copy_has_is_named() {
    let place = Place::new();
    let database = place.open(0);
    database.read_checks().set(VerifyReads::Every);
    check(&database);
    for tier in ["far", "b"] {
        let block = place.first_block(tier, 4);
        place.change(tier, std::slice::from_ref(&(block + 8..block + 9)));
    }
    let read = |row: u32| {
        let table = database.table("t").unwrap();
        let mut lookups = Lookups::new(Scheduling::Auto);
        let rows = [RowId::from_number((1 << 20) + u64::from(row))];
        let projection = table.projection(&[4]);
        let read = table.snapshot().gather(&rows, &projection, &mut lookups);
        read.map(|_| ())
    };
    let error = read(5).unwrap_err();
    assert!(
        matches!(
            &error,
            LookupError::Scan(ScanError::Damaged { block: 0, .. })
        ),
        "{error}"
    );
    read(1024).unwrap();
}

/// Some rows by their keys, cell by cell.
fn check_rows(database: &Database) {
    let table = database.table("t").unwrap();
    let (snapshot, ids) = (table.snapshot(), Vec::from_iter((0..ROWS).step_by(83)));
    let keys: ArrayRef = Arc::new(Int64Array::from(ids.clone()));
    let mut lookups = Lookups::new(Scheduling::Auto);
    let found = snapshot.rows_by_key(&[keys], &mut lookups).unwrap();
    let found: Vec<_> = found.into_iter().map(Option::unwrap).collect();
    let projection = table.projection(&Vec::from_iter(0..10));
    let read = snapshot.reconstruct(&found, &projection, &mut lookups);
    assert_eq!(read.unwrap(), support::rows_of(&ids));
}
