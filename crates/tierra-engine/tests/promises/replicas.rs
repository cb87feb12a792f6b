//! What has copies in several tiers is there as long as one of them is: whichever is missing when the
//! database is opened, and whatever was done before and meanwhile. Copies come, move and go while the table is used.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use crate::replicated::{Place, check, degraded, fill, indexed};
use crate::support::{self, all_rows, options, rows, sorted, spec};
use tierra_engine::{
    Calibration, Database, DatabaseOptions, OpenError, ReadPattern, Replicas, ReplicasError,
    ScrubOptions, Table, TableError, TierError,
};
use tierra_memory::placement::LineTimes;

#[test]
fn every_tier_alone_has_everything() {
    let place = Place::new();
    let database = place.create(&["b", "c"]);
    let replicas = Replicas::of_table(["b", "far", "c"]);
    let table = database
        .create_table_in(indexed("t"), replicas.clone())
        .unwrap();
    assert_eq!(table.replicas(), replicas);
    let count = fill(&table, 0);
    check(&database, count);
    drop((table, database));
    for gone in [["far", "b"], ["far", "c"], ["b", "c"]] {
        let kept = tempfile::tempdir_in(place.0.path()).unwrap();
        for tier in ["far", "b", "c"] {
            fs::copy(place.pool(tier), kept.path().join(tier)).unwrap();
        }
        gone.iter().for_each(|tier| place.take_away(tier));
        let database = place.open();
        let missing: Vec<_> = database
            .missing_tiers()
            .into_iter()
            .map(|tier| tier.0)
            .collect();
        assert_eq!(missing, gone);
        check(&database, count);
        drop(database);
        for tier in ["far", "b", "c"] {
            let _ = fs::remove_file(place.pool(tier).with_extension("away"));
            fs::copy(kept.path().join(tier), place.pool(tier)).unwrap();
        }
    }
}

#[test]
fn a_tier_that_comes_back_gets_what_it_missed() {
    let place = Place::new();
    let database = place.create(&["b"]);
    let table = database
        .create_table_in(indexed("t"), Replicas::of_table(["far", "b"]))
        .unwrap();
    let mut count = fill(&table, 0);
    drop((table, database));
    for gone in ["far", "b", "far"] {
        place.take_away(gone);
        let database = place.open();
        let table = database.table("t").unwrap();
        check(&database, count);
        count = fill(&table, count);
        check(&database, count);
        drop((table, database));
        place.bring_back(gone);
        let database = place.open();
        assert_eq!(database.missing_tiers(), []);
        // Missing copies are made once what was asked for before is.
        check(&database, count);
        drop(database);
        // It has everything now, and is enough alone.
        let other = if gone == "b" { "far" } else { "b" };
        let copy = fs::read(place.pool(other)).unwrap();
        let back = fs::read(place.pool(gone)).unwrap();
        place.take_away(other);
        check(&place.open(), count);
        fs::remove_file(place.pool(other).with_extension("away")).unwrap();
        // As if it had not been opened alone.
        fs::write(place.pool(other), copy).unwrap();
        fs::write(place.pool(gone), back).unwrap();
    }
}

/// A record that was being written when the power was cut is in one tier alone. That one goes missing, and others are
/// acknowledged in the record's place: they are not what is given up when it comes back.
#[test]
fn a_record_that_was_given_up_does_not_come_back_with_its_tier() {
    for gone in ["far", "b"] {
        let other = if gone == "b" { "far" } else { "b" };
        let place = Place::new();
        let database = place.create(&["b"]);
        let table = database
            .create_table_in(spec("t", vec![0]), Replicas::of_table(["far", "b"]))
            .unwrap();
        table.append(&[rows(0..3)]).unwrap();
        let before = fs::read(place.pool(other)).unwrap();
        table.append(&[rows(3..9)]).unwrap();
        drop((table, database));
        fs::write(place.pool(other), before).unwrap();
        place.take_away(gone);
        let database = place.open();
        let table = database.table("t").unwrap();
        assert_eq!(all_rows(&table), rows(0..3));
        table.append(&[rows(3..5)]).unwrap();
        drop((table, database));
        place.bring_back(gone);
        let database = place.open();
        assert_eq!(all_rows(&database.table("t").unwrap()), rows(0..5));
        database.wait_for_near_copies().unwrap();
        drop(database);
        place.take_away(other);
        let database = place.open();
        assert_eq!(all_rows(&database.table("t").unwrap()), rows(0..5));
    }
}

#[test]
fn copies_move_while_the_table_is_used() {
    let place = Place::new();
    let database = place.create(&["b", "c"]);
    let table = database
        .create_table_in(indexed("t"), Replicas::default())
        .unwrap();
    assert_eq!(table.replicas(), Replicas::of_table(["far"]));
    let mut count = fill(&table, 0);
    database.wait_for_near_copies().unwrap();
    let used = |name: &str| {
        let tiers = database.tiers();
        tiers
            .iter()
            .find(|tier| tier.name == name)
            .unwrap()
            .used_bytes
    };
    for tiers in [
        &["far", "b"][..],
        &["b"],
        &["c", "far", "b"],
        &["c"],
        &["far"],
    ] {
        let before = table.snapshot();
        let seen_before = count;
        let replicas = Replicas::of_table(tiers.iter().copied());
        table.set_replicas(&replicas).unwrap();
        assert_eq!(table.replicas(), replicas);
        count = fill(&table, count);
        check(&database, count);
        // Copies that are read still are kept until they are not.
        let columns: Vec<usize> = (0..10).collect();
        let (seen, _) = support::scan(&before, &columns, &[]);
        assert_eq!(sorted(&seen), rows(0..seen_before));
        drop(before);
        database.wait_for_near_copies().unwrap();
        for tier in ["far", "b", "c"] {
            let holds = used(tier) > 100_000;
            assert_eq!(
                holds,
                tiers.contains(&tier),
                "{tier} of {tiers:?}: {}",
                used(tier)
            );
        }
    }
    database.drop_tier("b").unwrap();
    drop((table, database));
    let database = place.open();
    check(&database, count);
    assert_eq!(database.missing_tiers(), []);
    assert!(
        place.pool("b").exists(),
        "a dropped tier's file is its owner's business"
    );
}

/// Copies that are equally fast are each read for a part of the rows, and what is damaged in either is put right; of others the faster
/// one is read. What tiers take is kept, and known when the database is opened.
#[test]
fn the_fastest_copies_are_read() {
    let place = Place::new();
    drop(place.create(&["b"]));
    let without_near = DatabaseOptions {
        near_memory_bytes: Some(0),
        ..degraded()
    };
    let open = || Database::open(&place.db(), &without_near).unwrap();
    let database = open();
    let table = database
        .create_table_in(indexed("t"), Replicas::of_table(["far", "b"]))
        .unwrap();
    let mut count = fill(&table, 0);
    for _ in 0..10 {
        table.append(&[rows(count..count + 1000)]).unwrap();
        table.seal().unwrap();
        count += 1000;
    }
    database.wait_for_near_copies().unwrap();
    let read_in = |table: &Arc<Table>| {
        let sources = table.snapshot().sources(0, ReadPattern::Sequential);
        let mut tiers: Vec<_> = sources.into_iter().filter_map(|it| it.tier).collect();
        tiers.sort_unstable();
        tiers
    };
    let times = |in_order_ns: f64| LineTimes {
        in_order_ns,
        alone_ns: 20.0 * in_order_ns,
        shared_ns: 0.0,
    };
    assert_eq!(read_in(&table), ["far"], "nothing is measured");
    let snapshot = table.snapshot();
    let all: Vec<usize> = (0..table.spec().columns.len()).collect();
    for (far, b, read) in [
        (20.0, 5.0, &["b"][..]),
        (5.0, 20.0, &["far"]),
        (5.0, 5.2, &["b", "far"]),
    ] {
        for (tier, in_order_ns) in [("far", far), ("b", b)] {
            database
                .assume_line_times(tier, Some(times(in_order_ns)))
                .unwrap();
        }
        database.choose_replicas().unwrap();
        assert_eq!(read_in(&table), read);
        check(&database, count);
    }
    let before = support::scan(&snapshot, &all, &[]).0;
    assert_eq!(sorted(&before), rows(0..count));
    drop((snapshot, table, database));
    let alike = ["far", "b"].map(|tier| (tier.to_owned(), times(5.0)));
    let calibration = Calibration::default().with_tiers(alike.into());
    calibration.write(&place.db()).unwrap();
    for victim in ["far", "b"] {
        let database = open();
        let table = database.table("t").unwrap();
        assert_eq!(read_in(&table), ["b", "far"]);
        flip_chunks(&place.pool(victim));
        check(&database, count);
        let (_, totals) = database.faults();
        assert!(totals.found > 0, "some of its chunks are read");
        assert_eq!(totals.found, totals.repaired);
        let told = database.scrub(&ScrubOptions::default(), |_| {}).unwrap();
        assert_eq!(told.lost, []);
    }
    // Each is enough alone.
    for gone in ["far", "b"] {
        place.take_away(gone);
        check(&place.open(), count);
        place.bring_back(gone);
    }
}

/// Flips a bit of the first value of each chunk.
fn flip_chunks(pool: &Path) {
    let file = File::options().read(true).write(true).open(pool).unwrap();
    let bytes = fs::read(pool).unwrap();
    let chunks = (0..bytes.len()).step_by(64);
    for at in chunks.filter(|at| bytes[*at..].starts_with(b"TCHK")) {
        let head = u64::from_le_bytes(bytes[at + 40..at + 48].try_into().unwrap());
        let first = at + head as usize;
        file.write_all_at(&[bytes[first] ^ 4], first as u64)
            .unwrap();
    }
}

#[test]
fn columns_have_copies_of_their_own() {
    let place = Place::new();
    let database = place.create(&["b"]);
    let replicas = Replicas {
        table: vec!["far".to_owned()],
        columns: [("price".to_owned(), vec!["b".to_owned()])].into(),
    };
    let table = database
        .create_table_in(indexed("t"), replicas.clone())
        .unwrap();
    let count = fill(&table, 0);
    assert_eq!(table.replicas(), replicas);
    drop((table, database));
    let database = place.open();
    check(&database, count);
    assert_eq!(database.table("t").unwrap().replicas(), replicas);
}

#[test]
fn tiers_that_went_on_without_each_other_are_not_joined() {
    let place = Place::new();
    let database = place.create(&["b"]);
    let table = database
        .create_table_in(indexed("t"), Replicas::of_table(["far", "b"]))
        .unwrap();
    table.append(&[rows(0..10)]).unwrap();
    drop((table, database));
    // The directory knew nothing of the first when it went on with the second: as on another machine.
    let directory = ["database", "database.copy"].map(|file| place.db().join(file));
    let before = directory.each_ref().map(|file| fs::read(file).unwrap());
    for (gone, there) in [("far", "b"), ("b", "far")] {
        place.take_away(gone);
        let database = place.open();
        let table = database.table("t").unwrap();
        table.append(&[rows(10..11)]).unwrap();
        drop((table, database));
        assert!(place.pool(there).exists());
        place.bring_back(gone);
        for (file, bytes) in directory.iter().zip(&before) {
            fs::write(file, bytes).unwrap();
        }
    }
    let before = (
        fs::read(place.pool("far")).unwrap(),
        fs::read(place.pool("b")).unwrap(),
    );
    let error = Database::open(&place.db(), &options()).unwrap_err();
    assert!(matches!(error, OpenError::Diverged { .. }), "{error}");
    assert!(error.to_string().contains("keep one of the two"), "{error}");
    let after = (
        fs::read(place.pool("far")).unwrap(),
        fs::read(place.pool("b")).unwrap(),
    );
    assert!(before == after, "nothing was touched");
}

#[test]
fn what_cannot_be_is_refused_and_nothing_changes() {
    let place = Place::new();
    let database = place.create(&["b"]);
    let table = database
        .create_table_in(spec("t", vec![]), Replicas::of_table(["b"]))
        .unwrap();
    table.append(&[rows(0..10)]).unwrap();
    let refused = |replicas: &Replicas| match table.set_replicas(replicas).unwrap_err() {
        TableError::Replicas(error) => error,
        other => panic!("{other}"),
    };
    let error = refused(&Replicas::of_table(["far", "d"]));
    assert!(matches!(error, ReplicasError::Tier { .. }), "{error}");
    let error = refused(&Replicas::of_table(["b", "b"]));
    assert!(matches!(error, ReplicasError::Twice { .. }), "{error}");
    let error = refused(&Replicas {
        table: vec![],
        columns: [("nowhere".to_owned(), vec!["b".to_owned()])].into(),
    });
    assert!(matches!(error, ReplicasError::Column { .. }), "{error}");
    assert_eq!(table.replicas(), Replicas::of_table(["b"]));

    for name in ["", "a b", "ö", &"x".repeat(65)] {
        let error = database.add_tier(name, &place.pool("x")).unwrap_err();
        assert!(matches!(error, TierError::Name { .. }), "{error}");
    }
    let error = database.add_tier("b", &place.pool("x")).unwrap_err();
    assert!(matches!(error, TierError::Exists { .. }), "{error}");
    let error = database.add_tier("c", &place.pool("b")).unwrap_err();
    assert!(error.to_string().contains("exists"), "{error}");
    let error = database.drop_tier("b").unwrap_err();
    assert!(matches!(error, TierError::InUse { .. }), "{error}");
    let error = database.drop_tier("c").unwrap_err();
    assert!(matches!(error, TierError::Unknown { .. }), "{error}");
    assert_eq!(all_rows(&table), rows(0..10));
    drop((table, database));

    refuse_other_pools(&place);
}

/// The header of the only copy of an extent is damaged: what lies behind it has checksums of its own.
#[test]
fn extents_without_another_copy_outlive_their_headers() {
    let place = Place::new();
    let database = place.create(&[]);
    let table = database
        .create_table_in(indexed("t"), Replicas::default())
        .unwrap();
    let count = fill(&table, 0);
    check(&database, count);
    drop((table, database));
    let mut bytes = fs::read(place.pool("far")).unwrap();
    let magic = b"TIERRAEX";
    let manifest = 1_u64 << 56;
    let mut damaged = 0;
    for at in (16_384..bytes.len() - 64).step_by(64) {
        let owner = u64::from_le_bytes(bytes[at + 8..at + 16].try_into().unwrap());
        if bytes[at..at + 8] == *magic && owner != manifest {
            bytes[at + 20] ^= 1;
            damaged += 1;
        }
    }
    assert!(damaged >= 4, "segments, dictionaries, a log");
    fs::write(place.pool("far"), bytes).unwrap();
    let database = place.open();
    check(&database, count);
    let scrubbed = database.scrub(&tierra_engine::ScrubOptions::default(), |_| {});
    assert_eq!(scrubbed.unwrap().damaged_copies, 0);
    drop(database);
    check(&place.open(), count);
}

fn refuse_other_pools(place: &Place) {
    let other = Place::new();
    drop(other.create(&[]));
    place.take_away("b");
    fs::copy(other.pool("far"), place.pool("b")).unwrap();
    let error = Database::open(&place.db(), &options()).unwrap_err();
    assert!(matches!(error, OpenError::OtherPool { .. }), "{error}");
    fs::remove_file(place.pool("b")).unwrap();
    place.bring_back("b");
    assert_eq!(all_rows(&place.open().table("t").unwrap()), rows(0..10));
}

/// A pool whose manifest is damaged is still a tier: another one says what it holds.
#[test]
fn a_manifest_is_taken_from_another_tier() {
    let place = Place::new();
    let database = place.create(&["b"]);
    let table = database
        .create_table_in(indexed("t"), Replicas::of_table(["far", "b"]))
        .unwrap();
    let count = fill(&table, 0);
    drop((table, database));
    // What it says, and the header before it.
    for at in [30, -20] {
        damage_manifests(&place.pool("far"), at);
        let database = place.open();
        assert_eq!(database.missing_tiers(), []);
        check(&database, count);
    }
    // It was given a new one.
    place.take_away("b");
    check(&place.open(), count);
}

fn damage_manifests(pool: &Path, bytes_behind: isize) {
    let mut bytes = fs::read(pool).unwrap();
    let magic = b"TIERRAMF";
    let places: Vec<usize> = bytes
        .windows(magic.len())
        .enumerate()
        .filter(|(_, window)| window == magic)
        .map(|(at, _)| at)
        .collect();
    assert!(!places.is_empty());
    places
        .iter()
        .for_each(|at| bytes[at.strict_add_signed(bytes_behind)] ^= 4);
    fs::write(pool, bytes).unwrap();
}
