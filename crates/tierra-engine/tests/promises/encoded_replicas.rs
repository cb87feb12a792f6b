//! Promise: the replicas of a column, each in an encoding and tiers of its own, have the same rows. Each answers alone, and is made
//! again of another one, whatever was damaged. They come and go while the table is used.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use arrow::array::{ArrayRef, Int64Array};
use tierra_column::Encoding;
use tierra_engine::{
    Backup, BackupOptions, Calibration, Change, CopyInfo, Database, DatabaseOptions, FaultOutcome,
    Replicas, ReplicasError, RestoreOptions, ScanError, ScanSpec, ScrubOptions, StorageError,
    TableError,
};
use tierra_interleave::{Lookups, Scheduling};

use crate::copied::{self, ROWS, damage, starts};
use crate::replicated::{Place, check, fill, indexed};
use crate::simulated::{Images, Program, RECORDERS, Scenario, assert_kept};
use crate::support::{self, all_rows, options, rows, sorted};
use tierra_memory::simulation::Limits;

/// All columns in two tiers, each of which has all of the table: a column's encodings in the first and in the second.
const ENCODINGS: [(&str, &str, &str); 10] = [
    ("id", "far/static", "b/delta"),
    ("flag", "far/plain", "b/rle"),
    ("small", "far/static", "b/dynamic"),
    ("price", "far/fastpfor", "b/for"),
    ("wide", "far", "b/plain"),
    ("ratio", "far/lz4", "b/plain"),
    ("day", "far", "b/dynamic128"),
    ("moment", "far/snappy", "b/lz4-hc"),
    ("city", "far/dictionary", "b/fsst"),
    ("note", "far/front", "b/prefix"),
];

fn encoded() -> Replicas {
    let column = |(column, far, b): (&str, &str, &str)| {
        let tiers = vec![far.to_owned(), b.to_owned()];
        (column.to_owned(), tiers)
    };
    Replicas {
        table: vec!["far".to_owned()],
        columns: ENCODINGS.map(column).into(),
    }
}

/// The same in one tier, which has each column twice.
fn in_one_tier(tier: &str) -> Replicas {
    let mut replicas = encoded();
    replicas.table = vec![tier.to_owned()];
    for name in replicas.columns.values_mut().flatten() {
        let encoding = name.split_once('/').map(|(_, encoding)| encoding);
        *name = encoding.map_or(tier.to_owned(), |encoding| format!("{tier}/{encoding}"));
    }
    replicas
}

fn all_complete(database: &Database) -> bool {
    incomplete(database).is_empty()
}

fn incomplete(database: &Database) -> Vec<CopyInfo> {
    let copies = database.copies().unwrap().into_iter();
    copies.filter(|copy| !copy.is_complete).collect()
}

/// The encodings that are read.
fn read_encodings(database: &Database) -> BTreeMap<String, Vec<Encoding>> {
    let placements = database.placements().into_iter();
    let encodings = placements.map(|it| (it.column, it.encodings.into_iter().collect()));
    encodings.collect()
}

#[test]
fn each_tier_alone_answers_and_goes_on() {
    let place = Place::new();
    let database = place.create(&["b"]);
    let table = database.create_table_in(indexed("t"), encoded()).unwrap();
    assert_eq!(table.replicas(), encoded());
    let mut count = fill(&table, 0);
    check(&database, count);
    assert!(all_complete(&database), "{:?}", incomplete(&database));
    // What costs least; codes, where there are any.
    let read = read_encodings(&database);
    assert_eq!(read["id"], [Encoding::Static]);
    assert_eq!(read["city"], [Encoding::Dictionary]);
    drop((table, database));
    for gone in ["far", "b", "far"] {
        place.take_away(gone);
        let database = place.open();
        let table = database.table("t").unwrap();
        check(&database, count);
        // It answers, and takes rows, without the other one.
        count = fill(&table, count);
        check(&database, count);
        assert!(!all_complete(&database));
        drop((table, database));
        place.bring_back(gone);
        let database = place.open();
        assert_eq!(database.missing_tiers(), []);
        check(&database, count);
        database.wait_for_near_copies().unwrap();
        assert!(all_complete(&database), "{:?}", incomplete(&database));
        assert_eq!(database.table("t").unwrap().replicas(), encoded());
    }
    let database = place.open();
    let verified = ScrubOptions {
        only_verify: true,
        ..ScrubOptions::default()
    };
    let told = database.scrub(&verified, |_| {}).unwrap();
    assert_eq!((told.damaged_copies, told.lost), (0, vec![]));
}

#[test]
fn values_are_scanned_in_one_replica_and_looked_up_in_another() {
    let place = Place::new();
    let database = place.create(&["b"]);
    let mut replicas = encoded();
    let of_id = ["far/plain", "b/dynamic"].map(str::to_owned).to_vec();
    replicas.columns.insert("id".to_owned(), of_id);
    let table = database.create_table_in(indexed("t"), replicas).unwrap();
    let count = fill(&table, 0);
    let of_id = |database: &Database| {
        let mut placements = database.placements().into_iter();
        let id = placements.find(|it| it.column == "id").unwrap();
        let [scanned, looked_up] = [id.encodings, id.lookup_encodings]
            .map(|encodings| encodings.into_iter().collect::<Vec<Encoding>>());
        (scanned, looked_up)
    };
    let chosen = (vec![Encoding::Dynamic], vec![Encoding::Plain]);
    assert_eq!(of_id(&database), chosen);
    check(&database, count);
    // What tiers take is measured where they lie, and kept.
    let measured = database.calibrate_tiers().unwrap();
    let names: Vec<&str> = measured.iter().map(|(tier, _)| tier.as_str()).collect();
    assert_eq!(names, ["far", "b"]);
    let calibration = Calibration::default().with_tiers(measured);
    calibration.write(&place.db()).unwrap();
    check(&database, count);
    drop((table, database));
    let database = place.open();
    assert_eq!(of_id(&database).1, chosen.1);
    check(&database, count);
    drop(database);
    // Without one of them, both are done in the other.
    for (gone, left) in [("far", Encoding::Dynamic), ("b", Encoding::Plain)] {
        place.take_away(gone);
        let database = place.open();
        assert_eq!(of_id(&database), (vec![left], vec![left]));
        check(&database, count);
        drop(database);
        place.bring_back(gone);
    }
}

#[test]
fn damage_of_one_is_read_past_and_put_right() {
    let place = copied::Place::in_replicas(encoded(), |_| {});
    for seed in 0..18 {
        let (victim, other) = [("far", "b"), ("b", "far")][(seed / 3 % 2) as usize];
        let len_bytes = fs::metadata(place.pool(victim)).unwrap().len();
        let ranges = damage(seed, len_bytes);
        println!("seed {seed}: {victim} damaged in {} places", ranges.len());
        place.change(victim, &ranges);
        let database = place.open(if seed % 2 == 0 { 0 } else { 1 << 20 });
        copied::check(&database);
        database.wait_for_near_copies().unwrap();
        copied::put_right(&database, seed);
        assert!(
            all_complete(&database),
            "seed {seed}: {:?}",
            incomplete(&database)
        );
        drop(database);
        // It is enough alone again.
        let away = place.pool(other).with_extension("away");
        let kept = fs::read(place.pool(victim)).unwrap();
        fs::rename(place.pool(other), &away).unwrap();
        copied::check(&place.open(0));
        fs::rename(&away, place.pool(other)).unwrap();
        fs::write(place.pool(victim), kept).unwrap();
    }
}

/// A byte in every line of the blocks of all chunks of a tier.
fn all_blocks(place: &copied::Place, tier: &str) -> Vec<Range<u64>> {
    let pool = fs::read(place.pool(tier)).unwrap();
    let u64_at = |at: usize| u64::from_le_bytes(pool[at..at + 8].try_into().unwrap());
    let chunks = starts(&pool, b"TCHK").filter(|at| pool[*at as usize + 4] == 1);
    let lines = chunks.flat_map(|chunk| {
        let at = chunk as usize;
        // Behind the last block are 64 bytes of zeros.
        let blocks = chunk + u64_at(at + 40)..chunk + u64_at(at + 48) - 64;
        blocks.step_by(64).map(|line| line..line + 1)
    });
    lines.collect()
}

/// The bytes of all chunks of a tier, by place.
fn chunks(place: &copied::Place, tier: &str) -> Vec<(u64, Vec<u8>)> {
    let pool = fs::read(place.pool(tier)).unwrap();
    let u64_at = |at: usize| u64::from_le_bytes(pool[at..at + 8].try_into().unwrap());
    let chunks = starts(&pool, b"TCHK").filter(|at| pool[*at as usize + 4] == 1);
    let bytes = chunks.map(|chunk| {
        let at = chunk as usize;
        (chunk, pool[at..at + u64_at(at + 48) as usize].to_vec())
    });
    bytes.collect()
}

#[test]
fn a_tier_without_any_right_block_is_made_again() {
    for victim in ["far", "b"] {
        let place = copied::Place::in_replicas(encoded(), |_| {});
        let database = place.open(0);
        copied::check(&database);
        let before = chunks(&place, victim);
        let lines = all_blocks(&place, victim);
        assert!(lines.len() > 10_000, "{}", lines.len());
        place.change(victim, &lines);
        // Blocks that were read before are trusted: a pass finds the damage.
        let told = database.scrub(&ScrubOptions::default(), |_| {}).unwrap();
        assert!(told.damaged_copies > 0, "{told:?}");
        assert_eq!(
            (told.damaged_copies, told.lost),
            (told.repaired_copies, vec![])
        );
        copied::check(&database);
        assert!(chunks(&place, victim) == before, "{victim} has other bytes");
        let (faults, _) = database.faults();
        let from: Vec<String> = faults
            .iter()
            .map(|fault| fault.outcome.to_string())
            .collect();
        let other = if victim == "far" {
            "from b/"
        } else {
            "from far/"
        };
        assert!(from.iter().any(|from| from.contains(other)), "{from:?}");
        drop(database);
        // Queries do the same.
        place.change(victim, &lines);
        let database = place.open(0);
        copied::check(&database);
        let told = database.scrub(&ScrubOptions::default(), |_| {}).unwrap();
        assert_eq!(
            (told.damaged_copies, told.lost),
            (told.repaired_copies, vec![])
        );
        drop(database);
        assert!(chunks(&place, victim) == before, "{victim} has other bytes");
    }
}

/// Queries read headers near memory's; those that are stored are right again before another replica is given up.
#[test]
fn a_header_that_was_damaged_meanwhile_is_put_right_before_others_go() {
    for kept in ["far", "b"] {
        let place = copied::Place::in_replicas(encoded(), |_| {});
        let database = place.open(0);
        copied::check(&database);
        let pool = fs::read(place.pool(kept)).unwrap();
        let headers = starts(&pool, b"TCHK").filter(|at| pool[*at as usize + 4] == 1);
        let entries: Vec<Range<u64>> = headers.map(|at| at + 200..at + 201).collect();
        assert!(entries.len() >= ENCODINGS.len());
        place.change(kept, &entries);
        let table = database.table("t").unwrap();
        let mut replicas = encoded();
        for tiers in replicas.columns.values_mut() {
            tiers.retain(|tier| tier.split('/').next() == Some(kept));
        }
        // An index needs codes.
        let codes = if kept == "far" { "far/dictionary" } else { "b" };
        replicas
            .columns
            .insert("city".to_owned(), vec![codes.to_owned()]);
        table.set_replicas(&replicas).unwrap();
        copied::check(&database);
        drop((table, database));
        copied::check(&place.open(0));
    }
}

/// What both have lost is named, and the rest is there: the checks can fail.
#[test]
fn what_no_replica_has_is_named() {
    let place = copied::Place::in_replicas(encoded(), |_| {});
    // BIGINT: block 0 of `id`, in both encodings.
    for tier in ["far", "b"] {
        let at = place.first_block(tier, 3);
        place.change(tier, std::slice::from_ref(&(at..at + 1)));
    }
    let database = place.open(0);
    let snapshot = database.table("t").unwrap().snapshot();
    let scan = snapshot.scan(ScanSpec {
        projection: vec![0],
        filters: vec![],
        batch_rows: 1024,
        execution: Scheduling::Auto,
    });
    let mut cursor = scan.cursor();
    let error = loop {
        match cursor.next(&[], 0) {
            Ok(Some(_)) => {}
            Ok(None) => panic!("damage was not noticed"),
            Err(error) => break error,
        }
    };
    let is_named = matches!(&error, ScanError::Damaged { column, block: 0, .. } if column == "id");
    assert!(is_named, "{error}");
    let others: Vec<usize> = (1..10).collect();
    let expected = rows(0..ROWS).project(&others).unwrap();
    let (found, _) = support::scan(&snapshot, &others, &[]);
    assert_eq!(found.num_rows(), expected.num_rows());
    let told = database.scrub(&ScrubOptions::default(), |_| {}).unwrap();
    let lost: Vec<_> = told
        .lost
        .iter()
        .map(|lost| (lost.column.as_deref(), lost.rows.clone()))
        .collect();
    assert_eq!(lost, vec![(Some("id"), 0..1024); 2]);
    let (faults, totals) = database.faults();
    assert!(totals.lost > 0, "{faults:?}");
    let is_lost = |fault: &tierra_engine::Fault| fault.outcome == FaultOutcome::Lost;
    assert!(faults.iter().any(is_lost));
}

/// Half of the blocks of each replica are damaged: together they have all rows. Salvage and verification know that too.
#[test]
fn replicas_damaged_in_different_blocks_make_up_all_rows() {
    let place = copied::Place::in_replicas(encoded(), |_| {});
    for (tier, odd) in [("far", 0), ("b", 1)] {
        let pool = fs::read(place.pool(tier)).unwrap();
        let chunks = starts(&pool, b"TCHK").filter(|at| pool[*at as usize + 4] == 1);
        let u32_at = |at: usize| u32::from_le_bytes(pool[at..at + 4].try_into().unwrap());
        let u64_at = |at: usize| u64::from_le_bytes(pool[at..at + 8].try_into().unwrap());
        let blocks = chunks.flat_map(|chunk| {
            let at = chunk as usize;
            let (blocks, data) = (u32_at(at + 20) as usize, chunk + u64_at(at + 40));
            (0..blocks)
                .filter(move |block| block % 2 == odd)
                .filter_map(move |block| {
                    let entry = at + 128 + block * 32;
                    let block = data + 64 * u64::from(u32_at(entry + 20));
                    (u32_at(entry + 24) > 0).then_some(block..block + 1)
                })
        });
        let blocks: Vec<_> = blocks.collect();
        assert!(blocks.len() > 300);
        place.change(tier, &blocks);
    }
    let salvaged = place.0.path().join("salvaged");
    {
        let how = DatabaseOptions {
            read_only: true,
            ..options()
        };
        let from = Database::open(&place.db(), &how).unwrap();
        let told = tierra_engine::salvage(&from, &salvaged, &options(), |_| {}).unwrap();
        let to = Database::open(&salvaged, &options()).unwrap();
        assert!(told.is_complete(), "{told:?}");
        assert_eq!(all_rows(&to.table("t").unwrap()), rows(0..ROWS));
    }
    let database = place.open(0);
    let verify = ScrubOptions {
        only_verify: true,
        ..ScrubOptions::default()
    };
    let told = database.scrub(&verify, |_| {}).unwrap();
    assert!(told.damaged_copies > 0 && told.lost.is_empty(), "{told:?}");
    copied::check(&database);
    let told = database.scrub(&ScrubOptions::default(), |_| {}).unwrap();
    assert_eq!(
        (told.damaged_copies, told.lost),
        (told.repaired_copies, vec![])
    );
}

#[test]
fn replicas_come_and_go_while_rows_are_read_and_appended() {
    let place = Place::new();
    let database = place.create(&["b"]);
    let table = database
        .create_table_in(indexed("t"), Replicas::default())
        .unwrap();
    let first = fill(&table, 0);
    let (count, is_over) = (AtomicI64::new(first), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let _stops = support::Stops(&is_over);
        scope.spawn(|| {
            while !is_over.load(Ordering::Acquire) {
                let now = count.load(Ordering::Acquire);
                table.append(&[rows(now..now + 40)]).unwrap();
                count.store(now + 40, Ordering::Release);
                std::thread::sleep(std::time::Duration::from_millis(2));
            }
        });
        scope.spawn(|| {
            let columns: Vec<usize> = (0..10).collect();
            while !is_over.load(Ordering::Acquire) {
                let least = count.load(Ordering::Acquire);
                let (found, _) = support::scan(&table.snapshot(), &columns, &[]);
                let found = sorted(&found);
                let seen = found.num_rows() as i64;
                assert!(seen >= least, "{seen} of {least}");
                assert_eq!(found, rows(0..seen));
            }
        });
        for replicas in [
            encoded(),
            in_one_tier("b"),
            encoded(),
            Replicas::of_table(["far"]),
        ] {
            table.set_replicas(&replicas).unwrap();
            assert_eq!(table.replicas(), replicas);
            table.seal().unwrap();
            table.merge_dictionaries().unwrap();
            assert!(all_complete(&database), "{:?}", incomplete(&database));
        }
    });
    let count = count.into_inner();
    check(&database, count);
    // What was given up takes no space.
    let b = database
        .tiers()
        .into_iter()
        .find(|tier| tier.name == "b")
        .unwrap();
    assert!(b.used_bytes < 200_000, "{}", b.used_bytes);
    database.drop_tier("b").unwrap();
    let told = database.scrub(&ScrubOptions::default(), |_| {}).unwrap();
    assert_eq!(told.damaged_copies, 0);
    drop((table, database));
    check(&place.open(), count);
}

/// Two callers place a table at once: whatever one of them wants meanwhile, all rows are there, and what one of them asked for last is
/// reached.
#[test]
fn placements_that_are_changed_at_once_lose_nothing() {
    let place = Place::new();
    let database = place.create(&["b"]);
    let table = database
        .create_table_in(indexed("t"), Replicas::of_table(["far"]))
        .unwrap();
    let count = fill(&table, 0);
    let wanted = [
        [encoded(), Replicas::of_table(["b"]), in_one_tier("far")],
        [in_one_tier("b"), encoded(), Replicas::of_table(["far"])],
    ];
    let columns: Vec<usize> = (0..10).collect();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Acquire) {
                let (found, _) = support::scan(&table.snapshot(), &columns, &[]);
                assert_eq!(sorted(&found), rows(0..count));
            }
        });
        let _stops = support::Stops(&is_over);
        std::thread::scope(|callers| {
            for of_one in &wanted {
                let table = &table;
                callers.spawn(move || {
                    let each = of_one.iter();
                    each.for_each(|replicas| table.set_replicas(replicas).unwrap());
                });
            }
        });
    });
    let last = table.replicas();
    assert!(wanted.iter().any(|of_one| of_one[2] == last), "{last:?}");
    assert!(all_complete(&database), "{:?}", incomplete(&database));
    check(&database, count);
    let told = database.scrub(&ScrubOptions::default(), |_| {}).unwrap();
    assert_eq!((told.damaged_copies, told.lost), (0, vec![]));
    drop((table, database));
    check(&place.open(), count);
}

/// Altered again and again: no extent keeps what nothing names.
#[test]
fn replicas_that_are_given_up_take_no_space() {
    let place = Place::new();
    let database = place.create(&["b"]);
    let table = database
        .create_table_in(indexed("t"), Replicas::of_table(["far"]))
        .unwrap();
    let count = fill(&table, 0);
    let used = || {
        database.wait_for_near_copies().unwrap();
        let tiers = database.tiers();
        let used = |name: &str| tiers.iter().find(|it| it.name == name).unwrap().used_bytes;
        (used("far"), used("b"))
    };
    let (far, b) = used();
    for round in 0..3 {
        table.set_replicas(&encoded()).unwrap();
        assert!(used().1 > b + 500_000, "{round}");
        table.set_replicas(&in_one_tier("far")).unwrap();
        assert!(used().0 > far + 500_000, "{round}");
        table.set_replicas(&Replicas::of_table(["far"])).unwrap();
        let now = used();
        // Chunks that are there keep their encodings, some of which take more.
        assert!(
            now.0 < 2 * far && now.1 < b + 100_000,
            "{round}: {now:?} {far} {b}"
        );
        check(&database, count);
    }
}

#[test]
fn a_tier_that_is_full_leaves_the_replicas_that_there_were() {
    let place = Place::new();
    let small = DatabaseOptions {
        capacity_bytes: Some(8 << 20),
        ..options()
    };
    let database = Database::create(&place.db(), &small).unwrap();
    database.add_tier("b", &place.pool("b")).unwrap();
    let table = database
        .create_table_in(indexed("t"), Replicas::of_table(["b"]))
        .unwrap();
    let mut count = 0;
    for _ in 0..4 {
        count = fill(&table, count);
    }
    database.wait_for_near_copies().unwrap();
    let more = Replicas {
        table: vec!["b".to_owned()],
        columns: ["city", "note", "wide"]
            .map(|column| {
                (
                    column.to_owned(),
                    vec!["b".to_owned(), "far/plain".to_owned()],
                )
            })
            .into(),
    };
    let error = table.set_replicas(&more).unwrap_err();
    let is_full = matches!(
        &error,
        TableError::Storage(StorageError::Pool(tierra_memory::PoolError::Full { .. }))
    );
    assert!(is_full, "{error}");
    check(&database, count);
    let told = database.scrub(&ScrubOptions::default(), |_| {}).unwrap();
    assert_eq!((told.damaged_copies, told.lost), (0, vec![]));
    assert!(!all_complete(&database));
    // Back again: what fitted is given up.
    let b = Replicas::of_table(["b"]);
    table.set_replicas(&b).unwrap();
    assert!(all_complete(&database));
    check(&database, count);
    drop((table, database));
    let database = Database::open(&place.db(), &small).unwrap();
    check(&database, count);
    assert_eq!(database.table("t").unwrap().replicas(), b);
}

#[test]
fn what_cannot_be_is_refused_and_nothing_changes() {
    let place = Place::new();
    let database = place.create(&["b"]);
    let table = database.create_table_in(indexed("t"), encoded()).unwrap();
    let count = fill(&table, 0);
    let refused = |column: &str, tiers: &[&str]| {
        let tiers = tiers.iter().map(|tier| (*tier).to_owned()).collect();
        let replicas = Replicas {
            table: vec!["far".to_owned()],
            columns: [(column.to_owned(), tiers)].into(),
        };
        match table.set_replicas(&replicas).unwrap_err() {
            TableError::Replicas(error) => error,
            other => panic!("{other}"),
        }
    };
    type Is = fn(&ReplicasError) -> bool;
    let cases: [(&str, &[&str], Is, &str); 10] = [
        (
            "id",
            &["far", "auto"],
            |it| matches!(it, ReplicasError::Auto),
            "\"auto\" stands alone",
        ),
        (
            "id",
            &["far/zip"],
            |it| matches!(it, ReplicasError::Encoding { .. }),
            "unknown encoding \"zip\"",
        ),
        (
            "id",
            &["c/static"],
            |it| matches!(it, ReplicasError::Tier { .. }),
            "no tier \"c\"",
        ),
        // Near memory is no tier: a replica there alone would not be durable.
        (
            "id",
            &["near/static"],
            |it| matches!(it, ReplicasError::Tier { .. }),
            "no tier \"near\"",
        ),
        (
            "id",
            &[],
            |it| matches!(it, ReplicasError::None { .. }),
            "in no tier",
        ),
        (
            "id",
            &["b/static", "far", "b/static"],
            |it| matches!(it, ReplicasError::Twice { .. }),
            "\"b/static\" is named twice",
        ),
        (
            "note",
            &["far/static"],
            |it| matches!(it, ReplicasError::EncodingType { .. }),
            "VARCHAR cannot be stored",
        ),
        (
            "wide",
            &["far/delta"],
            |it| matches!(it, ReplicasError::EncodingType { .. }),
            "cannot be stored with encoding delta",
        ),
        (
            "note",
            &["far", "b/dictionary"],
            |it| matches!(it, ReplicasError::DictionaryFirst { .. }),
            "only its first replica",
        ),
        (
            "city",
            &["far/plain", "b"],
            |it| matches!(it, ReplicasError::Index { .. }),
            "has an index",
        ),
    ];
    for (column, tiers, is_it, says) in cases {
        let error = refused(column, tiers);
        assert!(is_it(&error) && error.to_string().contains(says), "{error}");
        assert_eq!(table.replicas(), encoded());
    }
    let of_table = Replicas::of_table(["far/static"]);
    let error = table.set_replicas(&of_table).unwrap_err().to_string();
    assert!(error.contains("column by column"), "{error}");
    let of_table = Replicas::of_table(["auto"]);
    let error = table.set_replicas(&of_table).unwrap_err().to_string();
    assert!(error.contains("for one column"), "{error}");
    check(&database, count);
}

/// Numbers have an encoding for single values and one for scans, others the same bytes in both tiers, and declared encodings stay.
#[test]
fn what_is_left_to_the_database_is_named_and_answers() {
    let place = Place::new();
    let database = place.create(&["b"]);
    let mut spec = indexed("t");
    let small = spec
        .columns
        .iter_mut()
        .find(|column| column.name == "small");
    small.unwrap().encoding = Some(Encoding::Plain);
    let auto = |column: &&str| ((*column).to_owned(), vec![Replicas::AUTO.to_owned()]);
    let columns = ENCODINGS.map(|(column, _, _)| column);
    let replicas = Replicas {
        table: Vec::new(),
        columns: columns.iter().map(auto).collect(),
    };
    let table = database.create_table_in(spec, replicas).unwrap();
    let named = |numbers: [&str; 2], others: [&str; 2]| -> BTreeMap<String, Vec<String>> {
        let of = |column: &&str| {
            let tiers = match ["id", "price", "day", "moment"].contains(column) {
                true => numbers,
                false => others,
            };
            ((*column).to_owned(), tiers.map(str::to_owned).to_vec())
        };
        columns.iter().map(of).collect()
    };
    let expected = named(["far/static", "b/dynamic"], ["far", "b"]);
    assert_eq!(table.replicas().columns, expected);
    let count = fill(&table, 0);
    check(&database, count);
    assert!(all_complete(&database), "{:?}", incomplete(&database));
    // In the tier of the table first.
    for of_table in [&["b"][..], &["b", "far"]] {
        let replicas = Replicas {
            columns: columns.iter().map(auto).collect(),
            ..Replicas::of_table(of_table.iter().copied())
        };
        table.set_replicas(&replicas).unwrap();
        let expected = named(["b/static", "far/dynamic"], ["b", "far"]);
        assert_eq!(table.replicas().columns, expected);
        check(&database, count);
        assert!(all_complete(&database), "{:?}", incomplete(&database));
    }
}

#[test]
fn a_backup_has_the_replicas() {
    let place = Place::new();
    let database = place.create(&["b"]);
    let table = database.create_table_in(indexed("t"), encoded()).unwrap();
    let count = fill(&table, 0);
    database.wait_for_near_copies().unwrap();
    let restored = |name: &str| {
        let (file, dir) = (
            place.0.path().join(name),
            place.0.path().join(format!("{name}.db")),
        );
        let backup = Backup::open(&file).unwrap();
        let how = RestoreOptions::default();
        backup.restore(&dir, &options(), &how, |_| {}).unwrap();
        let database = Database::open(&dir, &options()).unwrap();
        check(&database, count);
        assert_eq!(database.table("t").unwrap().replicas(), encoded());
        database.wait_for_near_copies().unwrap();
        assert!(all_complete(&database), "{:?}", incomplete(&database));
        let told = database.scrub(&ScrubOptions::default(), |_| {}).unwrap();
        assert_eq!((told.damaged_copies, told.lost), (0, vec![]));
        drop(database);
        for gone in ["far.pool", "b.pool"] {
            let pool = dir.join(gone);
            let kept = ["far.pool", "b.pool"].map(|it| fs::read(dir.join(it)).unwrap());
            fs::remove_file(&pool).unwrap();
            let degraded = crate::replicated::degraded();
            check(&Database::open(&dir, &degraded).unwrap(), count);
            for (it, bytes) in ["far.pool", "b.pool"].iter().zip(&kept) {
                fs::write(dir.join(it), bytes).unwrap();
            }
        }
    };
    let taken = |database: &Database, name: &str| {
        let file = place.0.path().join(name);
        database
            .backup(&file, &BackupOptions::default(), |_| {})
            .unwrap();
    };
    taken(&database, "whole");
    drop((table, database));
    restored("whole");
    // Without one of the tiers, the other one's replicas are backed up.
    place.take_away("b");
    let database = place.open();
    taken(&database, "half");
    drop(database);
    restored("half");
}

/// Deletions move rows into new segments, which have the replicas as well.
#[test]
fn compaction_keeps_them() {
    let place = Place::new();
    let database = place.create(&["b"]);
    let table = database.create_table_in(indexed("t"), encoded()).unwrap();
    let count = fill(&table, 0);
    let ids: Vec<i64> = (0..count).filter(|id| id % 2 == 0).collect();
    let keys: ArrayRef = Arc::new(Int64Array::from(ids));
    let snapshot = table.snapshot();
    let mut lookups = Lookups::new(Scheduling::Auto);
    let found = snapshot.rows_by_key(&[keys], &mut lookups).unwrap();
    let change = Change {
        snapshot: snapshot.clone(),
        deleted: found.into_iter().flatten().collect(),
        appended: Vec::new(),
    };
    database.commit(vec![change]).unwrap();
    drop(snapshot);
    database.wait_for_near_copies().unwrap();
    assert!(all_complete(&database), "{:?}", incomplete(&database));
    let odd: Vec<i64> = (0..count).filter(|id| id % 2 == 1).collect();
    let expected = support::rows_of(&odd);
    assert_eq!(all_rows(&table), expected);
    assert_eq!(table.snapshot().deleted_rows(), 50);
    drop((table, database));
    for gone in ["far", "b"] {
        place.take_away(gone);
        let database = place.open();
        assert_eq!(all_rows(&database.table("t").unwrap()), expected);
        drop(database);
        place.bring_back(gone);
    }
}

/// The power is cut while replicas are made, dropped, and written with new rows: what was acknowledged is there with both tiers, and
/// with either alone.
#[test]
fn a_power_cut_keeps_them() {
    let images = Images::new();
    for recorder in RECORDERS {
        let recorded = Program::new(recorder()).run_encoded(0);
        for scenario in Scenario::ALL {
            let limits = Limits {
                images_per_cut: 3,
                seed: 5,
                ..Limits::default()
            };
            let report = images.explore(&recorded.trace, &limits, scenario, &recorded.steps);
            println!(
                "{scenario:?}: {} images, {} cuts",
                report.images, report.cuts
            );
            assert_kept(&report, &limits);
            assert!(report.images > 100, "{report:?}");
        }
    }
}
