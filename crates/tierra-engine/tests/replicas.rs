//! What has copies in several tiers is there as long as one of them is: whichever is missing when the
//! database is opened, and whatever was done before and meanwhile. Copies come, move and go while the table is used.

mod support;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use support::{all_rows, options, rows, sorted, spec};
use tempfile::TempDir;
use tierra_column::Encoding;
use tierra_engine::{
    Database, DatabaseOptions, Fault, FaultKind, IndexKind, OpenError, Replicas, ReplicasError,
    ScrubOptions, Table, TableError, TableSpec, TierError,
};

/// A directory on tmpfs where there is one: these tests write every byte several times.
struct Place(TempDir);

impl Place {
    fn new() -> Place {
        Place(
            TempDir::new_in("/dev/shm")
                .or_else(|_| TempDir::new())
                .unwrap(),
        )
    }

    fn db(&self) -> PathBuf {
        self.0.path().join("db")
    }

    /// The pool of a tier.
    fn pool(&self, tier: &str) -> PathBuf {
        match tier {
            "far" => self.db().join("far.pool"),
            "b" => self.db().join("b"),
            other => self.0.path().join(other),
        }
    }

    /// A database with these tiers beside the first.
    fn create(&self, tiers: &[&str]) -> Arc<Database> {
        let database = Database::create(&self.db(), &options()).unwrap();
        for tier in tiers {
            database.add_tier(tier, &self.pool(tier)).unwrap();
        }
        database
    }

    fn open(&self) -> Arc<Database> {
        Database::open(&self.db(), &degraded()).unwrap()
    }

    fn take_away(&self, tier: &str) {
        fs::rename(self.pool(tier), self.pool(tier).with_extension("away")).unwrap();
    }

    fn bring_back(&self, tier: &str) {
        fs::rename(self.pool(tier).with_extension("away"), self.pool(tier)).unwrap();
    }
}

/// Without tiers that are missing.
fn degraded() -> DatabaseOptions {
    DatabaseOptions {
        degraded: true,
        ..options()
    }
}

/// A table with an index and dictionaries beside all else.
fn indexed(name: &str) -> TableSpec {
    let mut spec = spec(name, vec![0]);
    spec.columns[support::CITY].encoding = Some(Encoding::Dictionary);
    spec.columns[support::CITY].index = Some(IndexKind::Inverted);
    spec
}

/// Segments, two generations of dictionaries, an index, and a tail.
fn fill(table: &Arc<Table>, first: i64) -> i64 {
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

fn check(database: &Database, count: i64) {
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
        // Healing is done once what was asked for before is.
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
        // Copies that are read still are kept until nobody does.
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

/// Columns whose only tier is missing: the others answer, whoever needs one is told, and nothing is forgotten.
#[test]
fn a_column_whose_only_tier_is_missing_takes_nothing_along() {
    const PRICE: usize = 3;
    let place = Place::new();
    let database = place.create(&["b"]);
    // A chunk of numbers, and one of codes with an index.
    let alone = ["price", "city"].map(|column| (column.to_owned(), vec!["b".to_owned()]));
    let replicas = Replicas {
        table: vec!["far".to_owned()],
        columns: alone.into(),
    };
    let table = database.create_table_in(indexed("t"), replicas).unwrap();
    let count = fill(&table, 0);
    let others = Replicas::of_table(["far"]);
    let other = database.create_table_in(indexed("other"), others).unwrap();
    let others = fill(&other, 0);
    database.wait_for_near_copies().unwrap();
    drop((table, other, database));
    place.take_away("b");
    for round in 0..2 {
        let database = place.open();
        let other = database.table("other").unwrap();
        other
            .append(&[rows(others + round..others + round + 1)])
            .unwrap();
        other.seal().unwrap();
        database.wait_for_near_copies().unwrap();
        let table = database.table("t").unwrap();
        let snapshot = table.snapshot();
        table.check_available().unwrap();
        assert_eq!(snapshot.rows(), count as u64);

        let is_there = |column: &usize| ![PRICE, support::CITY].contains(column);
        let there: Vec<usize> = (0..table.spec().columns.len()).filter(is_there).collect();
        let expected = rows(0..count).project(&there).unwrap();
        assert_eq!(sorted(&support::scan(&snapshot, &there, &[]).0), expected);
        let by_id = |id: i64| {
            let id = tierra_column::ordinal::of_i64(id);
            (
                0,
                tierra_column::Filter::eq(tierra_column::Value::Ordinal(id)),
            )
        };
        let (found, _) = support::scan(&snapshot, &there, &[by_id(66_450)]);
        assert_eq!(found, expected.slice(66_450, 1));
        assert_eq!(
            support::scan(&snapshot, &[], &[]).0.num_rows() as i64,
            count
        );
        assert!(snapshot.statistics(PRICE).lacks_rows);
        assert!(!snapshot.statistics(0).lacks_rows);

        let told = |error: String, column: Option<&str>| {
            let pool = place.pool("b");
            let says = [
                "table \"t\"",
                "\"b\"",
                "bring the file back",
                pool.to_str().unwrap(),
            ];
            for part in says.into_iter().chain(column) {
                assert!(error.contains(part), "{part}: {error}");
            }
        };
        let scan = |projection: &[usize], filters: &[(usize, tierra_column::Filter)]| {
            let scan = snapshot.scan(tierra_engine::ScanSpec {
                projection: projection.to_vec(),
                filters: filters.to_vec(),
                batch_rows: 8192,
                execution: tierra_interleave::Scheduling::Auto,
            });
            let mut cursor = scan.cursor();
            let mut found = 0;
            while let Some(batch) = cursor.next(&[], 0)? {
                found += batch.num_rows();
            }
            Ok::<_, tierra_engine::ScanError>(found)
        };
        told(
            scan(&[0, PRICE], &[]).unwrap_err().to_string(),
            Some("\"price\""),
        );
        let is_null = (PRICE, tierra_column::Filter::is_null());
        let error = scan(&[0], std::slice::from_ref(&is_null)).unwrap_err();
        told(error.to_string(), Some("\"price\""));
        let city = tierra_column::Value::Bytes("city number 007".as_bytes().into());
        let of_city = (support::CITY, tierra_column::Filter::eq(city));
        let error = scan(&[0], std::slice::from_ref(&of_city)).unwrap_err();
        told(error.to_string(), Some("\"city\""));
        // In the tail all columns are there, and what other conditions rule out is not needed.
        assert_eq!(scan(&[0, PRICE], &[by_id(66_450)]).unwrap(), 1);
        assert_eq!(scan(&[0], &[by_id(66_450), is_null]).unwrap(), 0);
        assert_eq!(scan(&[0], &[by_id(-1), of_city]).unwrap(), 0);

        let keys: arrow::array::ArrayRef =
            Arc::new(arrow::array::Int64Array::from(vec![5, 66_450]));
        let mut lookups = tierra_interleave::Lookups::new(tierra_interleave::Scheduling::Auto);
        let found = snapshot.rows_by_key(&[keys], &mut lookups).unwrap();
        let found: Vec<_> = found.into_iter().flatten().collect();
        let cells = |columns: &[usize]| {
            let projection = table.projection(columns);
            let mut lookups = tierra_interleave::Lookups::new(tierra_interleave::Scheduling::Auto);
            snapshot.gather(&found, &projection, &mut lookups).map(drop)
        };
        cells(&there).unwrap();
        told(
            cells(&[0, PRICE]).unwrap_err().to_string(),
            Some("\"price\""),
        );

        // What is written is checked against what is there, and names it.
        told(
            table
                .append(&[rows(count..count + 1)])
                .unwrap_err()
                .to_string(),
            None,
        );
        told(table.seal().unwrap_err().to_string(), None);
        told(table.merge_dictionaries().unwrap_err().to_string(), None);
        let mut loader = table.loader();
        let loaded = loader.push(rows(count..count + 66_000));
        told(
            loaded
                .and_then(|()| loader.finish())
                .unwrap_err()
                .to_string(),
            None,
        );
        database.make_copies().unwrap();
        let walked = database.scrub(&ScrubOptions::default(), |_| {}).unwrap();
        assert_eq!((walked.damaged_copies, walked.lost), (0, vec![]));
    }
    place.bring_back("b");
    let database = place.open();
    check(&database, count);
    let table = database.table("t").unwrap();
    table.append(&[rows(count..count + 5)]).unwrap();
    check(&database, count + 5);
    let other = database.table("other").unwrap();
    assert_eq!(all_rows(&other), rows(0..others + 2));
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

/// A table whose only tier is missing: the others go on, it can be dropped, and it is there again with its tier.
#[test]
fn a_table_whose_only_tier_is_missing_waits_for_it() {
    let place = Place::new();
    let database = place.create(&["b"]);
    let of_b = |name: &str| {
        let table = database.create_table_in(indexed(name), Replicas::of_table(["b"]));
        table.unwrap()
    };
    let (gone, dropped) = (of_b("gone"), of_b("dropped"));
    let count = fill(&gone, 0);
    dropped.append(&[rows(0..10)]).unwrap();
    let table = database
        .create_table_in(indexed("t"), Replicas::of_table(["far"]))
        .unwrap();
    let others = fill(&table, 0);
    drop((gone, dropped, table, database));
    place.take_away("b");
    for round in 0..2 {
        let database = place.open();
        check(&database, others + round);
        let gone = database.table("gone").unwrap();
        let told = |error: String| {
            let says = |part: &str| assert!(error.contains(part), "{error}");
            ["gone", "\"b\"", "drop the table"]
                .into_iter()
                .for_each(says);
            says(place.pool("b").to_str().unwrap());
        };
        told(gone.check_available().unwrap_err().to_string());
        told(gone.append(&[rows(0..1)]).unwrap_err().to_string());
        told(gone.seal().unwrap_err().to_string());
        let keys: arrow::array::ArrayRef = Arc::new(arrow::array::Int64Array::from(vec![1]));
        let mut lookups = tierra_interleave::Lookups::new(tierra_interleave::Scheduling::Auto);
        let found = gone.snapshot().rows_by_key(&[keys], &mut lookups);
        told(found.unwrap_err().to_string());
        let scan = gone.snapshot().scan(tierra_engine::ScanSpec {
            projection: vec![],
            filters: vec![],
            batch_rows: 8192,
            execution: tierra_interleave::Scheduling::Auto,
        });
        told(scan.cursor().next(&[], 0).unwrap_err().to_string());
        // Much is published meanwhile, and nothing of it forgotten.
        let table = database.table("t").unwrap();
        table
            .append(&[rows(others + round..others + round + 1)])
            .unwrap();
        table.seal().unwrap();
        if round == 0 {
            database.drop_table("dropped").unwrap();
            assert!(matches!(
                database.drop_tier("b").unwrap_err(),
                TierError::InUse { .. }
            ));
        }
        database.make_copies().unwrap();
        let walked = database.scrub(&tierra_engine::ScrubOptions::default(), |_| {});
        assert_eq!(walked.unwrap().damaged_copies, 0);
    }
    place.bring_back("b");
    let database = place.open();
    check(&database, others + 2);
    assert_eq!(database.tables(), ["gone", "t"]);
    let gone = database.table("gone").unwrap();
    assert_eq!(all_rows(&gone), rows(0..count));
    gone.append(&[rows(count..count + 5)]).unwrap();
    drop((gone, database));
    let database = place.open();
    assert_eq!(
        all_rows(&database.table("gone").unwrap()),
        rows(0..count + 5)
    );
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
    let walked = database.scrub(&tierra_engine::ScrubOptions::default(), |_| {});
    assert_eq!(walked.unwrap().damaged_copies, 0);
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

/// A tier whose file lost its end, while nobody had it open or while somebody had, and did not touch it: it has its end again, and
/// what lay there.
#[test]
fn a_tier_that_is_cut_short_has_its_end_again() {
    let place = Place::new();
    let database = place.create(&["b"]);
    let replicas = Replicas::of_table(["far", "b"]);
    let table = database.create_table_in(indexed("t"), replicas).unwrap();
    let count = fill(&table, 0);
    drop((table, database));
    for (victim, other) in [("far", "b"), ("b", "far")] {
        let len_bytes = fs::metadata(place.pool(victim)).unwrap().len();
        let cut = |to: u64| {
            let file = File::options().write(true).open(place.pool(victim));
            file.unwrap().set_len(to).unwrap();
        };
        // From nothing that lies there to nearly everything.
        for to in [len_bytes - 1, len_bytes / 8 + 100, 16_384] {
            for is_open in [true, false] {
                println!("{victim} cut to {to}, while open: {is_open}");
                let database = if is_open {
                    let database = place.open();
                    check(&database, count);
                    cut(to);
                    database
                } else {
                    cut(to);
                    place.open()
                };
                assert_eq!(database.missing_tiers(), []);
                let scrubbed = database.scrub(&ScrubOptions::default(), |_| {}).unwrap();
                assert_eq!(scrubbed.lost, []);
                check(&database, count);
                let (faults, totals) = database.faults();
                let is_cut = |fault: &&Fault| fault.kind == FaultKind::CutShort;
                assert_eq!(faults.iter().filter(is_cut).count(), 1, "{faults:?}");
                assert_eq!(totals.lost, 0);
                assert!(fs::metadata(place.pool(victim)).unwrap().len() >= len_bytes);
                database.wait_for_near_copies().unwrap();
                let again = database.scrub(&ScrubOptions::default(), |_| {}).unwrap();
                assert_eq!((again.damaged_copies, again.lost), (0, vec![]));
                drop(database);
                place.take_away(other);
                check(&place.open(), count);
                place.bring_back(other);
                place.open().wait_for_near_copies().unwrap();
            }
        }
    }
}

/// What lay at the end of a tier alone may still be had back: the file is left as it is, and the tier named.
#[test]
fn a_tier_that_is_cut_short_of_what_it_has_alone_is_missing() {
    let place = Place::new();
    let database = place.create(&["b"]);
    let both = Replicas::of_table(["far", "b"]);
    let table = database.create_table_in(indexed("t"), both).unwrap();
    let count = fill(&table, 0);
    let alone = Replicas::of_table(["b"]);
    let only = database.create_table_in(indexed("alone"), alone).unwrap();
    fill(&only, 0);
    drop((table, only, database));
    let whole = fs::read(place.pool("b")).unwrap();
    let file = File::options().write(true).open(place.pool("b")).unwrap();
    file.set_len(16_384).unwrap();
    let database = place.open();
    let missing = database.missing_tiers();
    assert!(missing[0].1.contains("truncated"), "{missing:?}");
    assert!(database.table("alone").unwrap().check_available().is_err());
    check(&database, count);
    assert_eq!(fs::metadata(place.pool("b")).unwrap().len(), 16_384);
    drop(database);
    fs::write(place.pool("b"), whole).unwrap();
    let database = place.open();
    assert_eq!(
        all_rows(&database.table("alone").unwrap()).num_rows() as i64,
        count
    );
}
