//! The promise of a repair: a damaged range of an extent, or its header, gets the right bytes back, durably,
//! and nothing else changes; a power cut in the middle leaves damage that is found again.

use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use crate::simulated::{self, RECORDERS, Recorded, assert_kept, finish, folder, named, names};
use tierra_memory::faults::Injector;
use tierra_memory::simulation::{Image, Limits, Recorder, StepKind};
use tierra_memory::{Extent, Pool, PoolError, PoolOptions};

fn payload(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 7 + at / 251) as u8).collect()
}

fn corrupt(path: &Path, at: u64, bytes: &[u8]) {
    let file = std::fs::File::options().write(true).open(path).unwrap();
    file.write_all_at(bytes, at).unwrap();
}

#[test]
fn a_damaged_extent_is_restored_from_its_copy() {
    let (memory, disk) = (folder(), tempfile::tempdir().unwrap());
    for dir in [memory.path(), disk.path()] {
        let good = payload(20_000);
        let mut copies = Vec::new();
        for name in ["a", "b"] {
            let pool = Pool::create(&dir.join(name), &PoolOptions::default()).unwrap();
            // At another place in each.
            let _before = (name == "b").then(|| finish(&pool, b"before"));
            let extent = finish(&pool, &good).extent();
            pool.publish(&finish(&pool, &names(&[extent]))).unwrap();
            copies.push((pool, extent));
        }
        let ((a, in_a), (b, in_b)) = (&copies[0], &copies[1]);
        for (at, len) in [(0, 1), (63, 130), (4032, 4096), (0, 20_000), (19_999, 1)] {
            corrupt(a.path(), in_a.offset + at, &vec![0xEE; len as usize]);
            assert!(a.verify_extent(*in_a).is_err());
            let right = &b.bytes(*in_b)[at as usize..][..len as usize];
            for _again in 0..2 {
                a.restore(*in_a, at, right).unwrap();
                a.verify_extent(*in_a).unwrap();
            }
        }
        corrupt(a.path(), in_a.offset - 30, b"?");
        assert!(a.check_extent(*in_a).is_err() && a.label(*in_a).is_err());
        a.restore_header(*in_a, &b.label(*in_b).unwrap()).unwrap();
        a.verify_extent(*in_a).unwrap();
        // What was restored is in the file, and opening finds it.
        let path = a.path().to_owned();
        let (root, extent) = (a.root().unwrap(), *in_a);
        drop(copies);
        let opened = Pool::open(&path, &PoolOptions::default()).unwrap();
        assert_eq!(opened.root(), Some(root));
        opened.verify_extent(extent).unwrap();
        // Before what is live was told.
        opened.restore(extent, 5, &good[5..6]).unwrap();
        opened.retain(&[extent]).unwrap();
        opened.verify_extent(extent).unwrap();
    }
}

/// A device that refuses writes keeps no reader from right bytes, and nothing is said to be durable.
#[test]
fn what_cannot_be_restored_is_right_in_memory() {
    let dir = folder();
    let path = dir.path().join("p");
    let pool = Pool::create(&path, &PoolOptions::default()).unwrap();
    let good = payload(20_000);
    let extent = finish(&pool, &good).extent();
    pool.publish(&finish(&pool, &names(&[extent]))).unwrap();
    corrupt(&path, extent.offset + 4000, &[0xEE; 300]);
    let mut injector = Injector::new(1);
    injector.refuse_writes(&pool);
    let right = &good[4000..4300];
    let refused = pool.restore(extent, 4000, right).unwrap_err();
    assert!(matches!(refused, PoolError::Poisoned { .. }), "{refused}");
    assert!(pool.verify_extent(extent).is_err());
    let outside = pool.restore_in_memory(extent, 19_999, &[0; 2]);
    assert!(matches!(outside, Err(PoolError::BadExtent { .. })));
    pool.restore_in_memory(extent, 4000, right).unwrap();
    pool.verify_extent(extent).unwrap();
    // A page that is lost stays so: it has to be written anew.
    let page = extent.offset + 8192..extent.offset + 8193;
    let lost = injector.lose_page(&pool, page).unwrap().offsets[0].clone();
    assert!(pool.verify_extent(extent).is_err());
    let from = lost.start.max(extent.offset);
    let at = from - extent.offset;
    let to = lost.end.min(extent.offset + 20_000) - extent.offset;
    let right = &good[at as usize..to as usize];
    pool.restore_in_memory(extent, at, right).unwrap();
    pool.verify_extent(extent).unwrap();
    assert_eq!(pool.take_faults().len(), 1);
    assert!(pool.restore(extent, at, right).is_err());
}

#[test]
fn a_log_is_restored_as_a_log() {
    let dir = folder();
    let pool = Pool::create(&dir.path().join("p"), &PoolOptions::default()).unwrap();
    let log = || {
        pool.allocate(500, 9)
            .unwrap()
            .finish_log()
            .unwrap()
            .extent()
    };
    let (log, copy) = (log(), log());
    pool.write(log, 100, b"record").unwrap();
    corrupt(pool.path(), log.offset - 64, &[0; 64]);
    assert!(pool.write(log, 0, b"x").is_err());
    pool.restore_header(log, &pool.label(copy).unwrap())
        .unwrap();
    pool.restore(log, 106, b"!").unwrap();
    assert_eq!(&pool.bytes(log)[100..107], b"record!");
    pool.write(log, 0, b"x").unwrap();
    assert_eq!(pool.check_extent(log).unwrap(), 9);
}

#[test]
fn what_is_not_live_is_not_restored() {
    let dir = folder();
    let pool = Pool::create(&dir.path().join("p"), &PoolOptions::default()).unwrap();
    let extent = finish(&pool, &payload(5000)).extent();
    let label = pool.label(extent).unwrap();
    let freed = finish(&pool, &payload(300)).extent();
    pool.free(freed);
    let elsewhere = |offset, len_bytes| Extent { offset, len_bytes };
    let shorter = elsewhere(extent.offset, 100);
    let inside = elsewhere(extent.offset + 4096, 100);
    let outside = elsewhere(1 << 40, 100);
    for wrong in [freed, shorter, inside, outside, elsewhere(64, 10)] {
        let restored = pool.restore(wrong, 0, b"x");
        assert!(
            matches!(restored, Err(PoolError::BadExtent { .. })),
            "{wrong:?}"
        );
        assert!(pool.restore_header(wrong, &label).is_err(), "{wrong:?}");
    }
    for (at, len) in [(5000, 1), (4999, 2), (u64::MAX, 1), (0, 5001)] {
        let error = pool.restore(extent, at, &vec![1; len]).unwrap_err();
        assert!(error.to_string().contains("outside"), "{error}");
    }
    pool.restore(extent, 5000, b"").unwrap();
    pool.verify_extent(extent).unwrap();
}

const PAYLOAD_BYTES: usize = 700;
const DAMAGED: std::ops::Range<usize> = 90..333;

/// Step 1 publishes an extent; 2 damages it and 3 restores it; 4 damages its header and 5 restores that. A
/// wrong restoration stands for the damage, so that the recorder sees it.
fn run(pool: &Arc<Pool>, recorder: &Recorder) {
    let good = payload(PAYLOAD_BYTES);
    let extent = finish(pool, &good).extent();
    pool.publish(&finish(pool, &names(&[extent]))).unwrap();
    recorder.acknowledge(1);
    let wrong: Vec<u8> = good[DAMAGED].iter().map(|byte| !byte).collect();
    pool.restore(extent, DAMAGED.start as u64, &wrong).unwrap();
    recorder.acknowledge(2);
    pool.restore(extent, DAMAGED.start as u64, &good[DAMAGED])
        .unwrap();
    recorder.acknowledge(3);
    let label = pool.label(extent).unwrap();
    let other = tierra_memory::ExtentLabel {
        owner: 77,
        payload_crc: Some(1),
    };
    pool.restore_header(extent, &other).unwrap();
    recorder.acknowledge(4);
    pool.restore_header(extent, &label).unwrap();
    recorder.acknowledge(5);
}

fn check(image: &Image<'_>) -> Result<(), String> {
    let text = |error: PoolError| error.to_string();
    let pool = Pool::open(image.path, &simulated::options(&image.recorder)).map_err(text)?;
    let Some(root) = pool.root() else {
        return simulated::within_one_step(0, image.acknowledged);
    };
    let extent = named(pool.bytes(root))[0];
    let (found, good) = (pool.bytes(extent), payload(PAYLOAD_BYTES));
    let outside = |bytes: &[u8]| [&bytes[..DAMAGED.start], &bytes[DAMAGED.end..]].concat();
    if outside(found) != outside(&good) {
        return Err("a byte that was not damaged has changed".to_owned());
    }
    let is_valid = found == good && pool.verify_extent(extent).is_ok();
    match image.acknowledged {
        3 | 5 | 1 if !is_valid && pool.verify_extent(extent).is_ok() => {
            Err("damage that is not found again".to_owned())
        }
        // The next step may have begun, and damages.
        5 if !is_valid => Err("what was restored is damaged".to_owned()),
        3 if found != good => Err("what was restored is damaged".to_owned()),
        _ => Ok(()),
    }
}

#[test]
fn a_power_cut_in_a_repair_leaves_damage_that_is_found_again() {
    for recorder in RECORDERS {
        let recorded = Recorded::new(&recorder(), run);
        let limits = Limits::default();
        let report = recorded.explore(&limits, check);
        assert_kept(&report, &limits);
        assert!(report.images > 200, "{report:?}");
        // A repair that does not wait for its bytes is found.
        let steps = match recorded.trace.steps(StepKind::Flush) {
            flushes if flushes.is_empty() => recorded.trace.steps(StepKind::Fence),
            flushes => flushes,
        };
        let [_, restored, _, header] = steps[steps.len() - 4..] else {
            unreachable!("four repairs, the wrong ones included");
        };
        for step in [restored, header] {
            let forgetful = recorded.trace.without(step);
            let report = recorded.explore_trace(&forgetful, &limits, check);
            assert!(!report.violations.is_empty(), "step {step}");
        }
    }
}
