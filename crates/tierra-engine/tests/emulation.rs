//! While far memory is emulated, tables answer as always; lookups, scans and writes that reach the far pool
//! take their time, and near copies do not.
//!
//! Waits keep the processor busy: what does not wait is known by the processor's time, in which nothing else that the machine does is.

mod support;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use support::{all_rows, options, rows, spec};
use tierra_engine::{Database, DatabaseOptions, ReadPattern, Replicas, RowId, Table};
use tierra_interleave::{Execution, Lookups};
use tierra_memory::emulation::{self, FarDevice};
use tierra_memory::measure::CpuTime;

const MS: Duration = Duration::from_millis(1);

/// What something took.
#[derive(Debug)]
struct Took {
    time: Duration,
    /// On a processor, by this process.
    busy: Duration,
}

impl Took {
    /// Waits of this time were taken, or were not.
    #[track_caller]
    fn assert_waited(&self, waits: Duration, is_far: bool, what: &str) {
        match is_far {
            true => assert!(self.time >= waits, "{what}: {self:?}"),
            false => assert!(self.busy < waits, "{what}: {self:?}"),
        }
    }
}

fn timed<T>(setting: &str, work: impl FnOnce() -> T) -> (T, Took) {
    emulation::set(emulation::parse(setting).unwrap()).unwrap();
    let (start, before) = (Instant::now(), CpuTime::now());
    let done = work();
    let CpuTime { user_ns, system_ns } = CpuTime::now().since(before);
    let took = Took {
        busy: Duration::from_nanos(user_ns + system_ns),
        time: start.elapsed(),
    };
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
        took.assert_waited(400 * MS, is_far, "plain");
        let (row, took) = timed("latency=40ms", || reconstructed(Execution::Interleaved));
        assert_eq!(row, expected);
        took.assert_waited(400 * MS, false, "interleaved");
        took.assert_waited(40 * MS, is_far, "interleaved");

        // More than a megabyte at 2 MB/s.
        let (all, took) = timed("sequential=2MB/s,random=2MB/s", || all_rows(&table));
        assert_eq!(all, everything);
        took.assert_waited(500 * MS, is_far, "scan");
    }

    let database = Database::create(&dir.path().join("writes"), &options()).unwrap();
    let table = database.create_table(spec("t", vec![0])).unwrap();
    let (_, took) = timed("persist=50ms", || table.append(&[rows(0..1)]).unwrap());
    took.assert_waited(50 * MS, true, "append");
    assert_eq!(all_rows(&table), rows(0..1));
    the_faster_of_two_devices_is_read(dir.path());
}

/// Of tiers that are taken for far memories of their own, the faster is read, whatever else is emulated.
fn the_faster_of_two_devices_is_read(dir: &Path) {
    let device = |setting: &str| FarDevice::new(setting.parse().unwrap()).unwrap();
    for (far, b, faster) in [("2GB/s", "1GB/s", "far"), ("1GB/s", "2GB/s", "b")] {
        let of_tier = |name: &str, rate: &str| {
            let setting = format!("sequential={rate},random={rate}");
            (name.to_owned(), device(&setting))
        };
        let options = DatabaseOptions {
            near_memory_bytes: Some(0),
            far_devices: vec![of_tier("far", far), of_tier("b", b)],
            ..options()
        };
        let path = dir.join(format!("faster-{faster}"));
        let database = Database::create(&path, &options).unwrap();
        let pool = dir.join(format!("faster-{faster}.pool"));
        database.add_tier("b", &pool).unwrap();
        let replicas = Replicas {
            table: ["far", "b"].map(str::to_owned).into(),
            ..Replicas::default()
        };
        let table = database.create_table_in(spec("t", vec![0]), replicas);
        let table = table.unwrap();
        table.append(&[rows(0..5000)]).unwrap();
        table.seal().unwrap();
        database.wait_for_near_copies().unwrap();
        let read_in = || {
            let sources = table.snapshot().sources(0, ReadPattern::Sequential);
            let tiers: Vec<_> = sources.into_iter().filter_map(|it| it.tier).collect();
            tiers
        };
        assert_eq!(read_in(), ["far"], "nothing is known of them");
        emulation::set(emulation::parse("latency=0").unwrap()).unwrap();
        database.choose_replicas().unwrap();
        assert_eq!(read_in(), [faster]);
        assert_eq!(all_rows(&table), rows(0..5000));
        emulation::set(None).unwrap();
    }
}
