//! The promise of space that is given back: the file system has it, what is live stays as it is, what is written there later is
//! whole, and a power cut at any moment takes nothing that was published.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use crate::simulated::{self, RECORDERS, Recorded, assert_kept, finish, within_one_step};
use tempfile::TempDir;
use tierra_memory::simulation::{Image, Limits, Recorder};
use tierra_memory::{Pool, PoolOptions};

const TABLE_BYTES: usize = 8 << 20;

fn blocks(path: &Path) -> u64 {
    fs::metadata(path).unwrap().blocks() * 512
}

/// On a disk and in memory.
fn folders() -> Vec<TempDir> {
    let shm = TempDir::new_in("/dev/shm").ok();
    shm.into_iter().chain(tempfile::tempdir()).collect()
}

#[test]
fn the_file_shrinks_and_what_is_reused_is_right() {
    for dir in folders() {
        let path = dir.path().join("p");
        let pool = Pool::create(&path, &PoolOptions::default()).unwrap();
        let kept = finish(&pool, &[1; 10_000]);
        let dropped: Vec<_> = (2..6)
            .map(|byte| finish(&pool, &vec![byte; TABLE_BYTES]).extent())
            .collect();
        pool.publish(&kept).unwrap();
        let full = blocks(&path);
        assert!(full >= 4 * TABLE_BYTES as u64);
        dropped.into_iter().for_each(|extent| pool.free(extent));
        let given = pool.give_back().unwrap();
        if given == 0 {
            continue;
        }
        assert!(given >= 4 * TABLE_BYTES as u64);
        let left = blocks(&path);
        assert!(left + 4 * TABLE_BYTES as u64 <= full, "{left} of {full}");
        assert_eq!(pool.give_back().unwrap(), 0);
        assert_eq!(pool.verify_extent(kept.extent()).unwrap(), 7);
        drop(pool);
        // Opened again it asks for what it uses, and for nothing else.
        let pool = Pool::open(&path, &PoolOptions::default()).unwrap();
        pool.retain(&[]).unwrap();
        let again = finish(&pool, &vec![9; TABLE_BYTES]).extent();
        assert!(blocks(&path) < left + 2 * TABLE_BYTES as u64);
        assert!(pool.bytes(again).iter().all(|byte| *byte == 9));
        pool.verify_extent(kept.extent()).unwrap();
        // Before it is told what is live, nothing is given away.
        drop(pool);
        let pool = Pool::open(&path, &PoolOptions::default()).unwrap();
        assert_eq!(pool.give_back().unwrap(), 0);
    }
}

fn payload(step: u64) -> Vec<u8> {
    (0..70_000u64).map(|at| (at * 7 + step) as u8).collect()
}

/// Step `n` publishes another root in the space of the one before the last, which was given back meanwhile.
fn run(pool: &Arc<Pool>, recorder: &Recorder) {
    let mut before = None;
    for step in 1..=5 {
        let root = finish(pool, &payload(step));
        pool.publish(&root).unwrap();
        if let Some(before) = before.replace(root.extent()) {
            pool.free(before);
            let _given = pool.give_back().unwrap();
        }
        recorder.acknowledge(step);
    }
}

fn check(image: &Image<'_>) -> Result<(), String> {
    let pool = Pool::open(image.path, &options(&image.recorder)).map_err(|e| e.to_string())?;
    let Some(root) = pool.root() else {
        return within_one_step(0, image.acknowledged);
    };
    pool.verify_extent(root).map_err(|e| e.to_string())?;
    let steps = [image.acknowledged, image.acknowledged + 1];
    let found = steps
        .into_iter()
        .find(|step| pool.bytes(root) == payload(*step));
    match found {
        Some(_) => Ok(()),
        None => Err("another root".to_owned()),
    }
}

fn options(recorder: &Recorder) -> PoolOptions {
    PoolOptions {
        capacity_bytes: Some(256 << 10),
        ..simulated::options(recorder)
    }
}

#[test]
fn a_power_cut_takes_nothing_that_was_published() {
    for recorder in RECORDERS {
        let (dir, recorder) = (simulated::folder(), recorder());
        let pool = Pool::create(&dir.path().join("pool"), &options(&recorder)).unwrap();
        run(&pool, &recorder);
        assert_eq!(recorder.unseen(&pool), []);
        let trace = recorder.trace();
        let recorded = Recorded { dir, trace };
        let limits = Limits {
            images_per_cut: 50,
            ..Limits::default()
        };
        let report = recorded.explore(&limits, check);
        assert_kept(&report, &limits);
        assert!(report.images > 50, "{report:?}");
    }
}
