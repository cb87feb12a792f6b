//! While far memory is emulated, tables answer as always; lookups, scans and writes that reach the far pool
//! take their time, and near copies do not.

mod support;

use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use support::{all_rows, options, rows, spec};
use tierra_engine::{Database, DatabaseOptions, RowId, Table};
use tierra_interleave::{Execution, Lookups};
use tierra_memory::emulation;

const MS: Duration = Duration::from_millis(1);

fn timed<T>(setting: &str, work: impl FnOnce() -> T) -> (T, Duration) {
    emulation::set(emulation::parse(setting).unwrap()).unwrap();
    let start = Instant::now();
    let done = work();
    let took = start.elapsed();
    emulation::set(None).unwrap();
    (done, took)
}

fn reconstructed(table: &Arc<Table>, row: RowId, execution: Execution) -> RecordBatch {
    let columns: Vec<usize> = (0..10).collect();
    let snapshot = table.snapshot();
    let lookups = &mut Lookups::new(execution);
    snapshot
        .reconstruct(&[row], &table.projection(&columns), lookups)
        .unwrap()
}

// One test, as the setting is the process's.
#[test]
fn far_is_slow_near_is_not_and_answers_agree() {
    let dir = tempfile::tempdir().unwrap();
    for (near_memory_bytes, is_far) in [(0, true), (1 << 30, false)] {
        let options = DatabaseOptions {
            near_memory_bytes: Some(near_memory_bytes),
            ..options()
        };
        let path = dir.path().join(near_memory_bytes.to_string());
        let database = Database::create(&path, &options).unwrap();
        let table = database.create_table(spec("t", vec![0])).unwrap();
        let mut loader = table.loader();
        loader.push(rows(0..100_000)).unwrap();
        loader.finish().unwrap();
        database.wait_for_near_copies().unwrap();
        let keys: [ArrayRef; 1] = [Arc::new(Int64Array::from(vec![77]))];
        let found = table
            .snapshot()
            .rows_by_key(&keys, &mut Lookups::default())
            .unwrap();
        let row = found[0].unwrap();
        let reconstructed = |execution| reconstructed(&table, row, execution);
        let expected = reconstructed(Execution::Plain);
        let everything = all_rows(&table);

        // Ten columns, a far line each at least: one after the other, or together.
        let (row, took) = timed("latency=40ms", || reconstructed(Execution::Plain));
        assert_eq!(row, expected);
        assert_eq!(took >= 400 * MS, is_far, "plain: {took:?}");
        let (row, took) = timed("latency=40ms", || reconstructed(Execution::Interleaved));
        assert_eq!(row, expected);
        assert!(took < 400 * MS, "interleaved: {took:?}");
        assert_eq!(took >= 40 * MS, is_far, "interleaved: {took:?}");

        // More than a megabyte at 2 MB/s.
        let (all, took) = timed("sequential=2MB/s,random=2MB/s", || all_rows(&table));
        assert_eq!(all, everything);
        assert_eq!(took >= 500 * MS, is_far, "scan: {took:?}");
    }

    let database = Database::create(&dir.path().join("writes"), &options()).unwrap();
    let table = database.create_table(spec("t", vec![0])).unwrap();
    let (_, took) = timed("persist=50ms", || table.append(&[rows(0..1)]).unwrap());
    assert!(took >= 50 * MS, "append: {took:?}");
    assert_eq!(all_rows(&table), rows(0..1));
}
