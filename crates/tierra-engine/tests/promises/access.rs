//! The promise of access modes: in place or in frames, a scan answers the same, however few frames there are; damage is
//! repaired or named; and a mode that a tier cannot do is refused.

use std::sync::Arc;

use crate::copied::{Place, ROWS};
use crate::support::{CITY, NOTE, rows, sorted, spec};
use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use tempfile::TempDir;
use tierra_column::{Filter, Value, ordinal};
use tierra_engine::{
    Access, Database, DatabaseOptions, Reading, ScanCounters, ScanError, ScanSpec, Snapshot,
    TierError,
};
use tierra_interleave::Scheduling;
use tierra_memory::CopyMethod;

/// Nothing is read near, so that every block is far.
fn all_far() -> DatabaseOptions {
    DatabaseOptions {
        near_memory_bytes: Some(0),
        ..DatabaseOptions::default()
    }
}

/// 150,000 rows in a segment, 1,000 in the tail.
fn database(dir: &TempDir) -> Arc<Database> {
    let database = Database::create(&dir.path().join("db"), &all_far()).unwrap();
    let table = database.create_table(spec("t", vec![])).unwrap();
    let mut loader = table.loader();
    loader.push(rows(0..150_000)).unwrap();
    loader.finish().unwrap();
    table.append(&[rows(150_000..151_000)]).unwrap();
    database
}

fn read(
    snapshot: &Snapshot,
    access: Access,
    filters: &[(usize, Filter)],
) -> Result<(RecordBatch, ScanCounters), ScanError> {
    let access = Some(access);
    let reading = Reading {
        access,
        ..Reading::default()
    };
    read_by(snapshot, reading, filters)
}

fn read_by(
    snapshot: &Snapshot,
    reading: Reading,
    filters: &[(usize, Filter)],
) -> Result<(RecordBatch, ScanCounters), ScanError> {
    let scan = snapshot.scan(ScanSpec {
        projection: (0..10).collect(),
        filters: filters.to_vec(),
        batch_rows: 8192,
        execution: Scheduling::Auto,
    });
    let mut cursor = scan.cursor_by(reading)?;
    let mut batches = Vec::new();
    while let Some(batch) = cursor.next(&[], 0)? {
        batches.push(batch);
    }
    let all = concat_batches(&scan.schema(), &batches).unwrap();
    Ok((all, cursor.counters()))
}

fn filters() -> [Vec<(usize, Filter)>; 4] {
    let i32_value = |value| Value::Ordinal(ordinal::of_i32(value));
    let i64_value = |value| Value::Ordinal(ordinal::of_i64(value));
    [
        vec![],
        // A row of each hundred: few rows of each block are decoded.
        vec![(2, Filter::eq(i32_value(42)))],
        // Some blocks only.
        vec![(0, Filter::between(i64_value(70_100), i64_value(71_900)))],
        vec![
            (
                CITY,
                Filter::eq(Value::Bytes(Box::from(*b"city number 007"))),
            ),
            (NOTE, Filter::is_not_null()),
        ],
    ]
}

#[test]
fn frames_of_any_number_change_no_answer() {
    for dir in [
        Some(tempfile::tempdir().unwrap()),
        TempDir::new_in("/dev/shm").ok(),
    ]
    .into_iter()
    .flatten()
    {
        let database = database(&dir);
        let snapshot = database.table("t").unwrap().snapshot();
        for filters in filters() {
            let (expected, in_place) = read(&snapshot, Access::InPlace, &filters).unwrap();
            assert!(expected.num_rows() > 0);
            assert_eq!(in_place.bytes_copied, 0);
            for lines in [1, 16, 64, usize::MAX] {
                let reading = Reading {
                    prefetch_lines: lines,
                    ..Reading::default()
                };
                let (found, counters) = read_by(&snapshot, reading, &filters).unwrap();
                assert_eq!((found, counters), (expected.clone(), in_place), "{lines}");
            }
            for blocks in [1, 8] {
                let reading = Reading {
                    helper_blocks: blocks,
                    ..Reading::default()
                };
                let (found, mut counters) = read_by(&snapshot, reading, &filters).unwrap();
                // Other tests may take the cores.
                assert!(counters.blocks_helped <= counters.blocks_read + blocks as u64 * 10);
                counters.blocks_helped = 0;
                assert_eq!((found, counters), (expected.clone(), in_place), "{blocks}");
            }
            let fixed = |access: &Access| *access != Access::Auto;
            for access in Access::ALL.into_iter().filter(fixed) {
                if matches!(read(&snapshot, access, &[]), Err(ScanError::Access(_))) {
                    assert_eq!(access, Access::Framed(CopyMethod::Direct));
                    continue;
                }
                for frame_bytes in [0, 300_000, 64 << 20] {
                    database.frames().clear();
                    database.frames().set(frame_bytes);
                    let what = format!("{access}, {frame_bytes} bytes of frames, {filters:?}");
                    for again in [false, true] {
                        let (found, counters) = read(&snapshot, access, &filters).unwrap();
                        assert_eq!(sorted(&found), sorted(&expected), "{what}");
                        assert_eq!(counters.bytes_far, in_place.bytes_far, "{what}");
                        let is_framed = access != Access::InPlace;
                        let is_kept = again && frame_bytes == 64 << 20;
                        let is_copied = counters.bytes_copied > 0;
                        assert_eq!(is_copied, is_framed && !is_kept, "{what}");
                        assert!(database.frames().used() <= frame_bytes, "{what}");
                    }
                }
            }
        }
    }
}

#[test]
fn damage_is_repaired_before_a_frame_is_trusted() {
    let place = Place::new();
    // The place lies in memory, and so is not read past the page cache.
    let direct = Access::Framed(CopyMethod::Direct);
    for access in Access::ALL.into_iter().filter(|access| *access != direct) {
        let database = place.open(0);
        let snapshot = database.table("t").unwrap().snapshot();
        let block = place.first_block("far", 4);
        place.change("far", std::slice::from_ref(&(block..block + 1)));
        let (found, _) = read(&snapshot, access, &[]).unwrap();
        assert_eq!(found.num_rows() as i64, ROWS, "{access}");
        // Without a right copy it is named, and no frame stands in for it.
        for tier in ["far", "b"] {
            let block = place.first_block(tier, 4);
            place.change(tier, std::slice::from_ref(&(block..block + 1)));
        }
        database.frames().clear();
        drop((snapshot, database));
        let database = place.open(0);
        let snapshot = database.table("t").unwrap().snapshot();
        match read(&snapshot, access, &[]) {
            Err(ScanError::Damaged {
                column, block: 0, ..
            }) => assert_eq!(column, "wide"),
            other => panic!("{access}: {other:?}"),
        }
        drop((snapshot, database));
        // Changed back: a change inverts bits.
        for tier in ["far", "b"] {
            let block = place.first_block(tier, 4);
            place.change(tier, std::slice::from_ref(&(block..block + 1)));
        }
    }
}

#[test]
fn what_a_tier_cannot_do_is_refused_with_what_it_can() {
    let Ok(dir) = TempDir::new_in("/dev/shm") else {
        return;
    };
    let database = database(&dir);
    let snapshot = database.table("t").unwrap().snapshot();
    let direct = Access::Framed(CopyMethod::Direct);
    let refused = read(&snapshot, direct, &[]).unwrap_err().to_string();
    assert!(
        refused.contains("tmpfs cannot be read 'direct'"),
        "{refused}"
    );
    assert!(
        refused.contains("use 'buffered', 'mapped' or 'in-place'"),
        "{refused}"
    );
}

#[test]
fn a_tier_is_read_as_it_says_until_a_session_says_otherwise() {
    let dir = tempfile::tempdir().unwrap();
    let options = DatabaseOptions {
        near_memory_bytes: Some(0),
        ..DatabaseOptions::default()
    };
    let mut database = database(&dir);
    let copied = |database: &Database, access| {
        database.frames().clear();
        let snapshot = database.table("t").unwrap().snapshot();
        let reading = Reading {
            access,
            ..Reading::default()
        };
        read_by(&snapshot, reading, &[]).unwrap().1.bytes_copied
    };
    assert_eq!(copied(&database, None), 0);
    for method in [CopyMethod::Mapped, CopyMethod::Buffered] {
        let access = Access::Framed(method);
        database.set_access("far", access).unwrap();
        let tiers = database.tiers();
        assert_eq!(tiers[1].access, Some(access));
        assert!(copied(&database, None) > 0, "{method}");
        assert_eq!(copied(&database, Some(Access::InPlace)), 0, "{method}");
        // It is durable.
        drop(database);
        database = Database::open(&dir.path().join("db"), &options).unwrap();
        assert!(copied(&database, None) > 0, "{method}, opened again");
    }
    match database.set_access("b", Access::Auto) {
        Err(TierError::Unknown { name }) => assert_eq!(name, "b"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_tier_is_not_made_if_its_medium_cannot_do_what_it_says() {
    let Ok(memory) = TempDir::new_in("/dev/shm") else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let database = database(&dir);
    let direct = Access::Framed(CopyMethod::Direct);
    let path = memory.path().join("b");
    let refused = database.add_tier_with("b", &path, direct).unwrap_err();
    let said = refused.to_string();
    assert!(matches!(refused, TierError::Access(_)), "{said}");
    assert!(
        said.contains("use 'buffered', 'mapped' or 'in-place'"),
        "{said}"
    );
    assert_eq!(database.tiers().len(), 2);
    assert!(!path.exists(), "nothing is left");
    database.add_tier_with("b", &path, Access::Auto).unwrap();
    let refused = database.set_access("b", direct).unwrap_err().to_string();
    assert!(
        refused.contains("tmpfs cannot be read 'direct'"),
        "{refused}"
    );
    assert_eq!(database.tiers()[2].access, Some(Access::Auto));
}

#[test]
fn auto_measures_and_answers_as_any_other() {
    let dir = tempfile::tempdir().unwrap();
    let database = database(&dir);
    let snapshot = database.table("t").unwrap().snapshot();
    let (_, counters) = read(&snapshot, Access::InPlace, &[]).unwrap();
    // It measures only when more was scanned than this.
    let scans = (256 << 20) / counters.bytes_far;
    for filters in filters() {
        let (expected, _) = read(&snapshot, Access::InPlace, &filters).unwrap();
        for _ in 0..=scans / 4 {
            let (found, _) = read(&snapshot, Access::Auto, &filters).unwrap();
            assert_eq!(sorted(&found), sorted(&expected));
        }
    }
}
