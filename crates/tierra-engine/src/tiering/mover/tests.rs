//! The promises of the mover's rounds: what is read most becomes near and the rest does not, answers stay the same, and if
//! everything is read alike nothing keeps moving, in whatever encoding copies are. Costs and times are given, not measured.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch};
use arrow::datatypes::Int64Type;
use tierra_column::{Encoding, LogicalType};
use tierra_interleave::{Execution, Lookups, Scheduling};
use tierra_memory::placement::Costs;

use crate::tiering::mover::Rounds;
use crate::{
    ColumnSpec, Database, DatabaseOptions, RowId, ScanError, ScanSpec, Snapshot, Table, TableSpec,
};

const COLUMNS: usize = 20;
const SEGMENTS: usize = 6;
const ROWS: usize = 4096;
/// Far memory that is several times slower than near.
const COSTS: Costs = Costs {
    streamed_ns: 20.0,
    looked_up_ns: 50.0,
    copied_ns: 25.0,
};

/// Looks random, and takes all of its bits.
fn cell(column: usize, row: usize) -> i64 {
    let number = (row * COLUMNS + column + 1) as u64;
    let mixed = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb) as i64
}

/// The mover's own thread waits while a test holds [`Storage::held_by_test`](crate::storage::Storage).
struct Moved {
    database: Arc<Database>,
    table: Arc<Table>,
    rounds: Rounds,
}

impl Moved {
    /// A table of which near memory can hold this percentage of the bytes.
    fn new(dir: &tempfile::TempDir, percent: usize, spec: impl Fn(usize) -> ColumnSpec) -> Self {
        let stored_bytes = COLUMNS * SEGMENTS * ROWS * 8;
        let options = DatabaseOptions {
            threads: std::num::NonZeroUsize::new(1),
            near_memory_bytes: Some((stored_bytes * percent / 100) as u64),
            ..DatabaseOptions::default()
        };
        let database = Database::create(&dir.path().join("db"), &options).unwrap();
        let table = database.create_table(TableSpec {
            name: "t".to_owned(),
            columns: (0..COLUMNS).map(spec).collect(),
            primary_key: Vec::new(),
        });
        let table = table.unwrap();
        for segment in 0..SEGMENTS {
            let rows = segment * ROWS..(segment + 1) * ROWS;
            let column = |column| -> ArrayRef {
                let cells = rows.clone().map(|row| cell(column, row));
                Arc::new(Int64Array::from_iter_values(cells))
            };
            let columns = (0..COLUMNS).map(column).collect();
            let batch = RecordBatch::try_new(table.schema(), columns).unwrap();
            table.append(&[batch]).unwrap();
            table.seal().unwrap();
        }
        database.wait_for_near_copies().unwrap();
        let rounds = Rounds::new(
            table.shared_storage(),
            table.requests().clone(),
            database.catalog().clone(),
        );
        Self {
            database,
            table,
            rounds,
        }
    }

    /// Runs a round one second later; returns how many objects were copied near.
    fn round(&mut self) -> usize {
        let moved = self.rounds.round(&COSTS, Duration::from_secs(1), |_| true);
        let near = &self.table.storage().near;
        assert!(near.used() <= near.limit());
        moved.unwrap()
    }

    /// The share of a column's bytes that is near.
    fn near(&self, column: usize) -> f64 {
        let placements = self.database.placements();
        let of_column = &placements[column];
        of_column.near_bytes as f64 / of_column.stored_bytes as f64
    }
}

fn plain(column: usize) -> ColumnSpec {
    ColumnSpec::new(format!("c{column}"), LogicalType::BigInt).not_null()
}

/// Of every second column copies are in an encoding of their own, and so are what is stored.
fn reencoded(column: usize) -> ColumnSpec {
    let encoded = column % 2 == 1;
    ColumnSpec {
        encoding: encoded.then_some(Encoding::Lz4),
        near_encoding: encoded.then_some(Encoding::Static),
        ..plain(column)
    }
}

/// Reads columns as a query would, and checks the values.
fn scan(snapshot: &Snapshot, columns: &[usize]) {
    try_scan(snapshot, columns).unwrap();
}

fn try_scan(snapshot: &Snapshot, columns: &[usize]) -> Result<(), ScanError> {
    let spec = ScanSpec {
        projection: columns.to_vec(),
        filters: Vec::new(),
        batch_rows: 8192,
        execution: Scheduling::Auto,
    };
    let (mut cursor, mut first) = (snapshot.scan(spec).cursor(), 0);
    while let Some(batch) = cursor.next(&[], 0)? {
        for (values, column) in batch.columns().iter().zip(columns) {
            let values = values.as_primitive::<Int64Type>().values();
            assert_eq!(values[7], cell(*column, first + 7));
        }
        first += batch.num_rows();
    }
    assert_eq!(first, SEGMENTS * ROWS);
    Ok(())
}

#[test]
fn the_columns_that_are_read_come_near_and_others_follow_when_these_are() {
    come_and_go(plain);
}

#[test]
fn so_do_copies_in_an_encoding_of_their_own() {
    come_and_go(reencoded);
}

fn come_and_go(spec: fn(usize) -> ColumnSpec) {
    let dir = tempfile::tempdir().unwrap();
    let mut moved = Moved::new(&dir, 26, spec);
    let table = moved.table.clone();
    let _held = table.storage().held_by_test.lock().unwrap();
    let used_bytes = table.storage().near.used();
    for hot in [&[3, 9, 14, 19][..], &[0, 5, 12, 13]] {
        let mut last = 0;
        for _ in 0..90 {
            scan(&moved.table.snapshot(), hot);
            last = moved.round();
        }
        for column in hot {
            assert!(
                moved.near(*column) > 0.99,
                "{hot:?}: {:?}",
                moved.database.placements()
            );
        }
        assert_eq!(last, 0);
    }
    // What came and went is counted: the rest is there. A copy takes whole lines.
    let [came, went] = [
        &moved.rounds.moved.near_bytes,
        &moved.rounds.moved.far_bytes,
    ]
    .map(|count| count.load(Ordering::Relaxed));
    let expected = used_bytes + came - went;
    assert!(came > 0 && went > 0, "{came} {went}");
    assert!(
        expected.abs_diff(table.storage().near.used()) < expected / 100,
        "{used_bytes} + {came} - {went} is not {}",
        table.storage().near.used()
    );
}

#[test]
fn where_all_columns_are_read_alike_nothing_goes_on_moving() {
    read_alike(plain);
}

#[test]
fn nor_do_copies_in_an_encoding_of_their_own() {
    read_alike(reencoded);
}

fn read_alike(spec: fn(usize) -> ColumnSpec) {
    let dir = tempfile::tempdir().unwrap();
    let mut moved = Moved::new(&dir, 25, spec);
    let table = moved.table.clone();
    let _held = table.storage().held_by_test.lock().unwrap();
    let all: Vec<usize> = (0..COLUMNS).collect();
    let (mut early, mut late) = (0, 0);
    for second in 0..120 {
        // A few columns at a time, as queries do; one is always ahead.
        scan(&moved.table.snapshot(), &all[second % 5 * 4..][..4]);
        let count = moved.round();
        if second < 60 {
            early += count
        } else {
            late += count
        }
    }
    assert!(early <= 6 && late == 0, "{early} and {late} moves");
}

#[test]
fn rows_that_are_looked_up_bring_their_columns_near_and_what_went_rests() {
    let dir = tempfile::tempdir().unwrap();
    let mut moved = Moved::new(&dir, 11, plain);
    let table = moved.table.clone();
    let _held = table.storage().held_by_test.lock().unwrap();
    // The number of rounds until columns are near whose rows are looked up.
    let mut rounds_until_near = |columns: [usize; 2]| {
        let projection = moved.table.projection(&columns);
        let is_near = |moved: &Moved| columns.iter().all(|column| moved.near(*column) > 0.99);
        for round in 1..40usize {
            let snapshot = moved.table.snapshot();
            let ids = (0..60_000).map(|at| (at * 7919 + round * 31) % (SEGMENTS * ROWS));
            let rows: Vec<RowId> = ids
                .map(|row| RowId::new(snapshot.segments()[row / ROWS].id(), (row % ROWS) as u32))
                .collect();
            let mut lookups = Lookups::new(Execution::Interleaved);
            snapshot
                .reconstruct(&rows, &projection, &mut lookups)
                .unwrap();
            moved.round();
            if is_near(&moved) {
                return round;
            }
        }
        panic!("{:?}", moved.database.placements());
    };
    let first = rounds_until_near([17, 18]);
    let second = rounds_until_near([3, 4]);
    let back = rounds_until_near([17, 18]);
    let all = (first, second, back);
    assert!(
        first <= 3 && second <= 10 && (14..=20).contains(&back),
        "{all:?}"
    );
}

#[test]
fn preferences_come_first_and_a_snapshot_that_reads_a_copy_keeps_its_room() {
    let dir = tempfile::tempdir().unwrap();
    let preference = |column| ColumnSpec {
        near: match column {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        },
        ..plain(column)
    };
    let mut moved = Moved::new(&dir, 11, preference);
    let table = moved.table.clone();
    let _held = table.storage().held_by_test.lock().unwrap();
    // The first copies occupy room that later segments' columns request.
    assert!(moved.near(1) < 1.0);
    assert_eq!(moved.round(), SEGMENTS - 1);
    assert_eq!((moved.near(0), moved.near(1)), (0.0, 1.0));
    let old = moved.table.snapshot();
    let used = moved.table.storage().near.used();
    for _ in 0..60 {
        scan(&moved.table.snapshot(), &[0, 7]);
        moved.round();
        assert!(moved.table.storage().near.used() <= used);
    }
    assert_eq!((moved.near(0), moved.near(1)), (0.0, 1.0));
    // The old snapshot held all the room.
    assert!(moved.near(7) < 1.0, "{:?}", moved.database.placements());
    scan(&old, &[1, 2]);
    drop(old);
    for _ in 0..9 {
        scan(&moved.table.snapshot(), &[0, 7]);
        moved.round();
    }
    assert_eq!(moved.near(7), 1.0, "{:?}", moved.database.placements());
}

#[test]
fn a_pause_is_no_copying_and_may_end_a_round() {
    const PAUSE: Duration = Duration::from_millis(30);
    let dir = tempfile::tempdir().unwrap();
    let mut moved = Moved::new(&dir, 26, plain);
    let table = moved.table.clone();
    let _held = table.storage().held_by_test.lock().unwrap();
    let second = Duration::from_secs(1);
    // Until the columns that are read would become near.
    let mut told = Vec::new();
    while told.is_empty() {
        scan(&moved.table.snapshot(), &[3, 9, 14, 19]);
        let count = moved.rounds.round(&COSTS, second, |copied| {
            told.push(copied);
            false
        });
        assert_eq!(count.unwrap(), 0);
    }
    assert_eq!(told.len(), 1, "nothing is copied after it");
    told.clear();
    while told.len() < 8 {
        scan(&moved.table.snapshot(), &[3, 9, 14, 19]);
        let round = moved.rounds.round(&COSTS, second, |copied| {
            told.push(copied);
            std::thread::sleep(PAUSE);
            true
        });
        assert_eq!(round.unwrap() > 0, !told.is_empty());
    }
    // Some may have waited for a processor as long.
    let least = told[1..].iter().min();
    assert!(least.is_some_and(|copied| *copied < PAUSE), "{told:?}");
}

/// What was read near says nothing of what is stored.
#[test]
fn what_is_stored_is_verified_when_its_near_copy_is_gone() {
    const COLUMN: usize = 3;
    for spec in [plain, reencoded] {
        let dir = tempfile::tempdir().unwrap();
        let mut moved = Moved::new(&dir, 26, spec);
        let table = moved.table.clone();
        let _held = table.storage().held_by_test.lock().unwrap();
        for hot in [[COLUMN, 9, 14, 19], [0, 5, 12, 13]] {
            for _ in 0..90 {
                scan(&table.snapshot(), &hot);
                moved.round();
            }
        }
        let path = dir.path().join("db").join("far.pool");
        let pool = std::fs::read(&path).unwrap();
        let file = File::options().write(true).open(&path).unwrap();
        let current = table.current();
        let mut gone = current
            .segments
            .iter()
            .filter(|it| it.near(COLUMN).is_none());
        let segment = gone.next().expect("others have taken its room");
        let place = &segment.entry().chunks[COLUMN];
        let extent = segment.extents()[place.extent as usize].as_ref().unwrap();
        let stored = &extent.copies()[0][place.offset as usize..];
        let middle = place.len_bytes as usize / 2;
        let found = pool
            .windows(64)
            .position(|bytes| bytes == &stored[middle..middle + 64]);
        let at = found.expect("it lies in the pool");
        file.write_all_at(&[pool[at] ^ 1], at as u64).unwrap();
        let error = try_scan(&table.snapshot(), &[COLUMN]).unwrap_err();
        assert!(error.to_string().contains("c3"), "{error}");
    }
}
