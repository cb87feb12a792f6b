//! The promise of a pool's counters: each byte that is written is counted once, for why it was written, and so
//! are checks and lost pages.

use std::sync::Arc;

use crate::simulated::{finish, folder};
use tierra_memory::faults::Injector;
use tierra_memory::replication::{Composition, Method, ReplicaSet};
use tierra_memory::{Counters, Pool, PoolOptions, UndoLog, Written};

fn written(bytes: u64, lines: u64) -> Written {
    Written { bytes, lines }
}

#[test]
fn each_byte_is_counted_for_why_it_was_written() {
    let dir = folder();
    let path = dir.path().join("p");
    let pool = Pool::create(&path, &PoolOptions::default()).unwrap();
    assert_eq!(pool.counters(), Counters::default());
    let extent = finish(&pool, &[1; 100]);
    let log = pool
        .allocate(1000, 0)
        .unwrap()
        .finish_log()
        .unwrap()
        .extent();
    let mut expected = Counters {
        extents: written(64 + 100 + 64 + 1000, 3 + 17),
        ..Counters::default()
    };
    assert_eq!(pool.counters(), expected);
    pool.publish(&extent).unwrap();
    // Nine words to one line, twice: its commit word is cleared first.
    expected.superblock = written(2 * 72, 2);
    pool.write(log, 60, &[2; 8]).unwrap();
    pool.write(log, 0, b"").unwrap();
    expected.logs = written(8, 2);
    pool.restore(extent.extent(), 99, &[1]).unwrap();
    pool.restore_header(log, &pool.label(log).unwrap()).unwrap();
    expected.repair = written(65, 2);
    pool.verify_extent(extent.extent()).unwrap();
    pool.verify_extent(log).unwrap();
    expected.checked_bytes = 100;
    assert_eq!(pool.counters(), expected);
    Injector::new(1)
        .flip_bits(&pool, extent.extent().offset..extent.extent().offset + 1, 1)
        .unwrap();
    assert!(pool.verify_extent(extent.extent()).is_err());
    pool.count_check(7, true);
    expected.checked_bytes = 207;
    expected.failed_checks = 1;
    assert_eq!(pool.counters(), expected);
    drop(pool);
    let pool = Pool::open(&path, &PoolOptions::default()).unwrap();
    // Both slots, and their twins.
    expected = Counters {
        believed_lines: 4,
        ..Counters::default()
    };
    assert_eq!(pool.counters(), expected);
    pool.persist_log(log, 130).unwrap();
    expected.believed_lines += 3;
    assert_eq!(pool.counters(), expected);
}

#[test]
fn transactions_and_every_way_to_a_replica_are_counted() {
    let dir = folder();
    let pool = Pool::create(&dir.path().join("p"), &PoolOptions::default()).unwrap();
    let log = || {
        pool.allocate(4096, 0)
            .unwrap()
            .finish_log()
            .unwrap()
            .extent()
    };
    let (accounts, undo) = (log(), log());
    let mut undo = UndoLog::open(&pool, undo).unwrap();
    let before = pool.counters().logs;
    let mut transaction = undo.begin();
    transaction.write(accounts, 0, &[1; 10]).unwrap();
    transaction.commit().unwrap();
    // An entry of two lines, the place, the count.
    let after = pool.counters().logs;
    assert_eq!(
        (after.bytes - before.bytes, after.lines - before.lines),
        (128 + 10 + 8, 4)
    );
    let copies = [0; 3].map(|_| (Arc::clone(&pool), log()));
    for composition in Composition::all() {
        let mut set = ReplicaSet::open(&copies).unwrap();
        for len in [1, 8, 70, 1000] {
            let before = pool.counters().logs;
            set.write(&Method::Always(composition), 3, &vec![5; len])
                .unwrap();
            let after = pool.counters().logs;
            assert_eq!(
                after.bytes - before.bytes,
                3 * len as u64,
                "{composition} {len}"
            );
            let lines = (3 + len as u64).div_ceil(64);
            // The ends of a streamed copy go another way, so their lines may count twice.
            let counted = after.lines - before.lines;
            assert!(
                (3 * lines..=3 * lines + 6).contains(&counted),
                "{composition} {len}: {counted}"
            );
        }
    }
}

#[test]
fn lost_pages_are_counted_once() {
    let dir = folder();
    let pool = Pool::create(&dir.path().join("p"), &PoolOptions::default()).unwrap();
    let extent = finish(&pool, &[1; 20_000]).extent();
    for lost in 1..=3 {
        let page = extent.offset + 4096 * lost;
        Injector::new(0).lose_page(&pool, page..page + 1).unwrap();
        for _ in 0..2 {
            assert!(pool.verify_extent(extent).is_err());
        }
        assert_eq!(pool.take_faults().len(), 1);
        assert_eq!(pool.counters().lost_pages, lost);
    }
}
