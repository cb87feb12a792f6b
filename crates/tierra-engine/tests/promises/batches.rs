//! The promise of batches: scans that share a pass answer as if each were alone, whatever their conditions and snapshots, when
//! others join late, leave early or fail, and while rows are appended; and together they read little more than one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::support::{CITY, NOTE, Stops, rows, sorted, spec};
use arrow::array::{AsArray, RecordBatch};
use arrow::compute::concat_batches;
use arrow::datatypes::Int64Type;
use tempfile::TempDir;
use tierra_column::bits::Level;
use tierra_column::{Filter, Value, ordinal};
use tierra_engine::{
    BatchLimits, Batches, Database, DatabaseOptions, Reading, Scan, ScanCounters, ScanCursor,
    ScanSpec, Snapshot, Table,
};
use tierra_interleave::Scheduling;

const BATCH_ROWS: usize = 8192;
/// 50 pieces of 8 blocks in two segments.
const SEALED_ROWS: i64 = 400_000;

struct Random(u64);

impl Random {
    /// SplitMix64.
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

/// Sealed rows, of which nothing is near, and some in the tail.
fn database(dir: &TempDir) -> (Arc<Database>, Arc<Table>) {
    let options = DatabaseOptions {
        near_memory_bytes: Some(0),
        ..DatabaseOptions::default()
    };
    let database = Database::create(&dir.path().join("db"), &options).unwrap();
    let table = database.create_table(spec("t", vec![])).unwrap();
    for first in [0, SEALED_ROWS / 2] {
        let mut loader = table.loader();
        loader.push(rows(first..first + SEALED_ROWS / 2)).unwrap();
        loader.finish().unwrap();
    }
    table
        .append(&[rows(SEALED_ROWS..SEALED_ROWS + 1000)])
        .unwrap();
    (database, table)
}

fn spec_of(projection: &[usize], filters: &[(usize, Filter)]) -> ScanSpec {
    ScanSpec {
        projection: projection.to_vec(),
        filters: filters.to_vec(),
        batch_rows: BATCH_ROWS,
        execution: Scheduling::Auto,
    }
}

fn drain(cursor: &mut ScanCursor) -> Vec<RecordBatch> {
    let mut batches = Vec::new();
    while let Some(batch) = cursor.next(&[], 0).unwrap() {
        assert!(batch.num_rows() < 2 * BATCH_ROWS);
        batches.push(batch);
    }
    batches
}

fn together(scan: &Scan, batches: &[RecordBatch]) -> RecordBatch {
    sorted(&concat_batches(&scan.schema(), batches).unwrap())
}

fn alone(snapshot: &Snapshot, projection: &[usize], filters: &[(usize, Filter)]) -> RecordBatch {
    let scan = snapshot.scan(spec_of(projection, filters));
    together(&scan, &drain(&mut scan.cursor()))
}

fn joined(
    snapshot: &Snapshot,
    batches: &Batches,
    projection: &[usize],
    filters: &[(usize, Filter)],
) -> Arc<Scan> {
    snapshot.scan_in_batch(
        spec_of(projection, filters),
        batches,
        BatchLimits::default(),
    )
}

/// The id, by which answers are sorted, and some of the columns.
fn projection(random: &mut Random) -> Vec<usize> {
    let mut columns = vec![0];
    columns.extend((1..10).filter(|_| random.below(3) == 0));
    columns
}

fn filters(random: &mut Random) -> Vec<(usize, Filter)> {
    let i64_value = |value| Value::Ordinal(ordinal::of_i64(value));
    let i32_value = |value| Value::Ordinal(ordinal::of_i32(value));
    let first = random.below(SEALED_ROWS as u64) as i64;
    let some = random.below(100) as i32;
    match random.below(6) {
        0 => vec![(
            0,
            Filter::between(i64_value(first), i64_value(first + 90_000)),
        )],
        1 => vec![(2, Filter::eq(i32_value(some)))],
        2 => vec![(2, Filter::between(i32_value(0), i32_value(some)))],
        3 => vec![
            (NOTE, Filter::is_not_null()),
            (
                CITY,
                Filter::eq(Value::Bytes(Box::from(
                    format!("city number {some:03}").as_bytes(),
                ))),
            ),
        ],
        _ => vec![],
    }
}

#[test]
fn queries_that_run_at_once_answer_as_each_alone() {
    let seed = std::env::var("TIERRA_SEED").map_or(7, |seed| seed.parse().unwrap());
    println!("TIERRA_SEED={seed}");
    let dir = tempfile::tempdir().unwrap();
    let (database, table) = database(&dir);
    let batches = database.batches();
    let is_over = AtomicBool::new(false);
    let (mut shared, mut cancelled) = (0, 0);
    std::thread::scope(|threads| {
        let _stops = Stops(&is_over);
        // Rows are appended and sealed meanwhile, so that snapshots differ.
        threads.spawn(|| {
            let mut first = SEALED_ROWS + 1000;
            while !is_over.load(Ordering::Relaxed) {
                table.append(&[rows(first..first + 20_000)]).unwrap();
                table.seal().unwrap();
                first += 20_000;
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let queries = (0..4).map(|query| {
            let table = &table;
            threads.spawn(move || {
                let mut random = Random(seed + query);
                let (mut counters, mut cancelled) = (ScanCounters::default(), 0);
                for _ in 0..12 {
                    let (projection, filters) = (projection(&mut random), filters(&mut random));
                    let snapshot = table.snapshot();
                    let scan = joined(&snapshot, batches, &projection, &filters);
                    // Two threads of one query.
                    let mut other = scan.cursor();
                    let mut cursor = scan.cursor();
                    if random.below(4) == 0 {
                        // Cancelled in the middle, with a morsel begun.
                        for _ in 0..random.below(20) {
                            cursor.next(&[], 0).unwrap();
                        }
                        cancelled += 1;
                        continue;
                    }
                    let mut found = std::thread::scope(|threads| {
                        let other = threads.spawn(|| drain(&mut other));
                        let mut found = drain(&mut cursor);
                        found.extend(other.join().unwrap());
                        found
                    });
                    found.retain(|batch| batch.num_rows() > 0);
                    counters += cursor.counters();
                    counters += other.counters();
                    let expected = alone(&snapshot, &projection, &filters);
                    assert_eq!(
                        together(&scan, &found),
                        expected,
                        "{projection:?} {filters:?}"
                    );
                }
                (counters, cancelled)
            })
        });
        for query in Vec::from_iter(queries) {
            let (counters, of_query) = query.join().unwrap();
            shared += counters.blocks_shared;
            cancelled += of_query;
        }
    });
    assert!(shared > 0 && cancelled > 0, "{shared} {cancelled}");
}

/// Scans that take turns, batch by batch, as tasks of one thread do; their answers and what all of them read.
fn in_turns(scans: &[Arc<Scan>]) -> (Vec<RecordBatch>, Vec<ScanCounters>) {
    let mut cursors: Vec<_> = scans.iter().map(|scan| scan.cursor()).collect();
    let mut found = vec![Vec::new(); scans.len()];
    let mut is_over = vec![false; scans.len()];
    while is_over.contains(&false) {
        for (at, cursor) in cursors.iter_mut().enumerate() {
            while !is_over[at] {
                match cursor.next(&[], 0).unwrap() {
                    Some(batch) if batch.num_rows() == 0 => break,
                    Some(batch) => found[at].push(batch),
                    None => is_over[at] = true,
                }
            }
        }
    }
    let answers = scans.iter().zip(&found);
    (
        answers.map(|(scan, found)| together(scan, found)).collect(),
        cursors.iter().map(ScanCursor::counters).collect(),
    )
}

#[test]
fn eight_scans_at_once_read_little_more_than_one() {
    let dir = tempfile::tempdir().unwrap();
    let (database, table) = database(&dir);
    let snapshot = table.snapshot();
    for (columns, filters) in [
        (vec![0, 3, CITY], vec![]),
        (
            vec![0, 3],
            vec![(
                2,
                Filter::between(
                    Value::Ordinal(ordinal::of_i32(0)),
                    Value::Ordinal(ordinal::of_i32(50)),
                ),
            )],
        ),
    ] {
        let lone = joined(&snapshot, database.batches(), &columns, &filters);
        let (expected, one) = in_turns(&[lone]);
        assert_eq!(expected[0], alone(&snapshot, &columns, &filters));
        assert!(one[0].bytes_far > 0);
        assert_eq!(one[0].blocks_shared, 0);
        let limits = BatchLimits {
            queries: 8,
            wait: Duration::from_millis(1),
        };
        // A scan that takes nothing for 2 ms is not waited for, so a system that is busy elsewhere tears many batches apart, and seldom
        // each of a hundred.
        let is_little = |_: usize| {
            let scans = Vec::from_iter((0..8).map(|_| {
                let spec = spec_of(&columns, &filters);
                snapshot.scan_in_batch(spec, database.batches(), limits)
            }));
            let (answers, all) = in_turns(&scans);
            assert!(answers.iter().all(|answer| *answer == expected[0]));
            let blocks: u64 = all
                .iter()
                .map(|counters| counters.blocks_read + counters.blocks_shared)
                .sum();
            assert_eq!(blocks, one[0].blocks_read * 8);
            assert!(scans.iter().all(|scan| scan.batch_queries() == Some(8)));
            let bytes: u64 = all.iter().map(|counters| counters.bytes_far).sum();
            println!("{bytes} instead of {}", one[0].bytes_far);
            bytes * 10 <= one[0].bytes_far * 11
        };
        assert!((0..100).any(is_little));
    }
}

#[test]
fn a_late_scan_sees_every_row_once() {
    let dir = tempfile::tempdir().unwrap();
    let (database, table) = database(&dir);
    for columns in [vec![0], vec![0, 1, 4, NOTE]] {
        let snapshot = table.snapshot();
        let first = joined(&snapshot, database.batches(), &columns, &[]);
        let mut cursor = first.cursor();
        let mut found = Vec::from_iter((0..20).filter_map(|_| cursor.next(&[], 0).unwrap()));
        // Later rows, which the first scan does not see, and of which there are more.
        let more = rows(1_000_000..1_050_000);
        table.append(std::slice::from_ref(&more)).unwrap();
        table.seal().unwrap();
        let newer = table.snapshot();
        let late = joined(&newer, database.batches(), &columns, &[]);
        let mut late_cursor = late.cursor();
        let mut late_found = Vec::new();
        let late_first = late_cursor.next(&[], 0).unwrap().unwrap();
        let id = late_first.column(0).as_primitive::<Int64Type>().value(0);
        assert!(id > 0, "it begins where the first is, not with row {id}");
        late_found.push(late_first);
        found.extend(drain(&mut cursor));
        late_found.extend(drain(&mut late_cursor));
        assert_eq!(together(&first, &found), alone(&snapshot, &columns, &[]));
        assert_eq!(together(&late, &late_found), alone(&newer, &columns, &[]));
        assert!(late_cursor.counters().blocks_shared + cursor.counters().blocks_shared > 0);
        assert_eq!(late.batch_queries(), Some(2));
    }
}

#[test]
fn a_scan_that_stops_does_not_hold_up_the_others() {
    let dir = tempfile::tempdir().unwrap();
    let (database, table) = database(&dir);
    let snapshot = table.snapshot();
    let columns = [0, 2, CITY];
    let expected = alone(&snapshot, &columns, &[]);
    // One stops for ever with a morsel begun, one is dropped, one has no thread any more.
    let idle = joined(&snapshot, database.batches(), &columns, &[]);
    let mut idle_cursor = idle.cursor();
    idle_cursor.next(&[], 0).unwrap();
    let dropped = joined(&snapshot, database.batches(), &columns, &[]);
    drop(dropped);
    let without = joined(&snapshot, database.batches(), &columns, &[]);
    let mut cursor = without.cursor();
    let begun = cursor.next(&[], 0).unwrap().unwrap();
    drop(cursor);
    let (answers, _) = in_turns(&[
        joined(&snapshot, database.batches(), &columns, &[]),
        joined(&snapshot, database.batches(), &columns, &[]),
    ]);
    assert!(answers.iter().all(|answer| *answer == expected));
    // What the thread had not taken is still there for another one.
    let mut rest = drain(&mut without.cursor());
    let rows: usize = rest.iter().map(RecordBatch::num_rows).sum();
    rest.push(begun);
    assert!(rows < expected.num_rows());
    // A thread takes four pieces at a time.
    assert!(rows + 5 * BATCH_ROWS >= expected.num_rows());
    // The idle one goes on, and misses nothing.
    let rows: usize = drain(&mut idle_cursor)
        .iter()
        .map(RecordBatch::num_rows)
        .sum();
    assert_eq!(rows + BATCH_ROWS, expected.num_rows());
}

#[test]
fn a_batch_waits_no_longer_than_its_first_query_said() {
    let dir = tempfile::tempdir().unwrap();
    let (database, table) = database(&dir);
    let join = |wait| {
        let limits = BatchLimits { queries: 2, wait };
        let spec = spec_of(&[0], &[]);
        table
            .snapshot()
            .scan_in_batch(spec, database.batches(), limits)
    };
    let begins = |scan: &Scan| {
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        scan.poll_begin(&mut context).is_ready()
    };
    // Longer than this test is ever held up.
    let (short, long) = (Duration::from_millis(30), Duration::from_secs(3600));
    let first = join(long);
    assert!(!begins(&first));
    drop(first);
    let first = join(short);
    std::thread::sleep(short);
    assert!(begins(&first));
    drop(first);
    // A full batch begins at once, and a third query has one of its own.
    let (first, second) = (join(long), join(long));
    assert!(begins(&first) && begins(&second));
    let third = join(long);
    assert!(!begins(&third));
    assert_eq!(first.batch_queries(), Some(2));
    assert_eq!(third.batch_queries(), Some(1));
}

#[test]
fn every_level_answers_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let (_database, table) = database(&dir);
    let snapshot = table.snapshot();
    let mut random = Random(3);
    for _ in 0..6 {
        let (projection, filters) = (projection(&mut random), filters(&mut random));
        let expected = alone(&snapshot, &projection, &filters);
        for level in Level::available() {
            let reading = Reading {
                level: Some(level),
                ..Reading::default()
            };
            let scan = snapshot.scan(spec_of(&projection, &filters));
            let mut cursor = scan.cursor_by(reading).unwrap();
            assert_eq!(cursor.level(), level);
            assert_eq!(together(&scan, &drain(&mut cursor)), expected, "{level}");
        }
    }
}
