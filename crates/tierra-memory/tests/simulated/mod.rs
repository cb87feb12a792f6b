//! What the crash tests share: programs that use a pool and are recorded, and the promise that each of
//! them checks an image against. The lab's experiment `crash` includes this file as well; a seed makes
//! another program of the same kind.
#![allow(dead_code, reason = "each test file uses a part")]

pub(crate) mod directory;
pub(crate) mod records;
pub(crate) mod replicas;
pub(crate) mod rounds;
pub(crate) mod transactions;

use std::path::PathBuf;
use std::sync::Arc;

use tempfile::TempDir;
use tierra_memory::simulation::{Image, Limits, Recorder, Report, Trace};
use tierra_memory::{Extent, Finished, Pool, PoolOptions};

/// In memory where possible: each image is written and opened.
pub(crate) fn folder() -> TempDir {
    TempDir::new_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .unwrap()
}

/// Both kinds of durability.
pub(crate) const RECORDERS: [fn() -> Recorder; 2] = [Recorder::by_line, Recorder::by_page];

/// A small pool that a recorder looks at.
pub(crate) fn options(recorder: &Recorder) -> PoolOptions {
    PoolOptions {
        capacity_bytes: Some(160 << 10),
        id: Some(0x7E44A),
        recorder: Some(recorder.clone()),
        ..PoolOptions::default()
    }
}

/// A program that was recorded.
pub(crate) struct Recorded {
    pub(crate) dir: TempDir,
    pub(crate) trace: Trace,
}

impl Recorded {
    /// Runs `program` on a new pool.
    pub(crate) fn new(
        recorder: &Recorder,
        program: impl FnOnce(&Arc<Pool>, &Recorder),
    ) -> Recorded {
        let dir = folder();
        let pool = Pool::create(&dir.path().join("pool"), &options(recorder)).unwrap();
        program(&pool, recorder);
        assert!(
            recorder.unseen(&pool).is_empty(),
            "a store took another way"
        );
        let trace = recorder.trace();
        Recorded { dir, trace }
    }

    pub(crate) fn image_path(&self) -> PathBuf {
        self.dir.path().join("image")
    }

    pub(crate) fn explore(
        &self,
        limits: &Limits,
        check: impl FnMut(&Image<'_>) -> Result<(), String>,
    ) -> Report {
        self.explore_trace(&self.trace, limits, check)
    }

    /// Explores another trace, made of this one.
    pub(crate) fn explore_trace(
        &self,
        trace: &Trace,
        limits: &Limits,
        check: impl FnMut(&Image<'_>) -> Result<(), String>,
    ) -> Report {
        trace.explore(&self.image_path(), limits, check).unwrap()
    }
}

/// Fails with everything needed to see the same again.
pub(crate) fn assert_kept(report: &Report, limits: &Limits) {
    for violation in &report.violations {
        eprintln!("{violation}");
    }
    assert!(report.violations.is_empty(), "{limits:?}");
}

pub(crate) fn finish(pool: &Arc<Pool>, payload: &[u8]) -> Finished {
    let mut writer = pool.allocate(payload.len() as u64, 7).unwrap();
    writer.copy_from_slice(payload);
    writer.finish().unwrap()
}

pub(crate) fn names(extents: &[Extent]) -> Vec<u8> {
    let words = extents.iter().flat_map(|e| [e.offset, e.len_bytes]);
    words.flat_map(u64::to_le_bytes).collect()
}

pub(crate) fn named(bytes: &[u8]) -> Vec<Extent> {
    let word = |at: &[u8]| u64::from_le_bytes(at.try_into().unwrap());
    let pairs = bytes.chunks_exact(16);
    pairs
        .map(|pair| Extent {
            offset: word(&pair[..8]),
            len_bytes: word(&pair[8..]),
        })
        .collect()
}

/// Opens an image; its root's extents, all live and no other, or none if nothing was published.
pub(crate) fn open(image: &Image<'_>) -> Result<(Arc<Pool>, Vec<Extent>), String> {
    let text = |error: tierra_memory::PoolError| error.to_string();
    let pool = Pool::open(image.path, &options(&image.recorder)).map_err(text)?;
    let mut extents = Vec::new();
    if let Some(root) = pool.root() {
        pool.verify_extent(root).map_err(text)?;
        extents = named(pool.bytes(root));
        pool.retain(&extents).map_err(text)?;
        // Nothing leaks: what is in use is what is named.
        let spans = extents.iter().chain([&root]);
        let spans = spans.map(|e| (e.len_bytes + 64).next_multiple_of(4096));
        let (used, expected) = (pool.used_bytes(), spans.sum::<u64>());
        if used != expected {
            return Err(format!("{used} bytes in use, {expected} named"));
        }
    }
    Ok((pool, extents))
}

pub(crate) fn within_one_step(found: u64, acknowledged: u64) -> Result<(), String> {
    match found == acknowledged || found == acknowledged + 1 {
        true => Ok(()),
        false => Err(format!("step {found} is what was found")),
    }
}

impl Recorded {
    /// A program that outgrows its file: step `n` publishes the `n`th extent of a mebibyte.
    pub(crate) fn growing(recorder: &Recorder) -> Recorded {
        let dir = folder();
        let options = PoolOptions {
            capacity_bytes: None,
            ..options(recorder)
        };
        let pool = Pool::create(&dir.path().join("pool"), &options).unwrap();
        let before = pool.len_bytes();
        for step in 1..=4u8 {
            pool.publish(&finish(&pool, &vec![step; 1 << 20])).unwrap();
            recorder.acknowledge(step.into());
        }
        assert!(pool.len_bytes() > before);
        let trace = recorder.trace();
        Recorded { dir, trace }
    }

    /// Moments to kill the program at: after each event but the first few.
    pub(crate) fn kills(&self) -> impl Iterator<Item = usize> {
        1..=self.trace.len()
    }

    /// The program is killed after some events, and `next` goes on with what it left.
    pub(crate) fn killed_and_continued(
        &self,
        recorder: &fn() -> Recorder,
        events: usize,
        next: impl FnOnce(&Arc<Pool>, &Recorder),
    ) -> Recorded {
        let dir = folder();
        let path = dir.path().join("pool");
        std::fs::write(&path, self.trace.killed_after(events)).unwrap();
        let recorder = recorder();
        let pool = Pool::open(&path, &options(&recorder)).unwrap();
        next(&pool, &recorder);
        let trace = self.trace.killed_and_continued(events, &recorder.trace());
        Recorded { dir, trace }
    }
}

/// The extent found is the one acknowledged or the next, and whole.
pub(crate) fn check_grown(image: &Image<'_>) -> Result<(), String> {
    let text = |error: tierra_memory::PoolError| error.to_string();
    let options = PoolOptions {
        capacity_bytes: None,
        ..options(&image.recorder)
    };
    let pool = Pool::open(image.path, &options).map_err(text)?;
    let found = match pool.root() {
        None => 0,
        Some(root) => {
            pool.verify_extent(root).map_err(text)?;
            pool.bytes(root)[0]
        }
    };
    within_one_step(found.into(), image.acknowledged)
}

/// The next process sees some records, makes them durable if it does as it should, and writes more.
pub(crate) fn continue_records(pool: &Arc<Pool>, recorder: &Recorder, persist: bool) {
    let Some(root) = pool.root() else { return };
    let log = named(pool.bytes(root))[0];
    pool.retain(&[log]).unwrap();
    let found = records::count(pool.bytes(log));
    if persist {
        pool.persist_log(log, (found + 1) * records::RECORD_BYTES)
            .unwrap();
    }
    recorder.acknowledge(found + 1);
    records::append(pool, recorder, log, found..found + 2);
}
