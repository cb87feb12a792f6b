//! Bugs planted in the code that stores to copies are found by the simulated power cut: what is recorded is that code.
//! Every pool alone has to have all writes that were acknowledged.

use std::path::PathBuf;
use std::sync::Arc;

use super::{Composition, CopyBy, Master, Method, ReplicaSet, SetWrites, Waits};
use crate::pool::copies::planted::{Bug, PLANTED};
use crate::simulation::{Image, Limits, Recorder, Report, StepKind};
use crate::{Extent, Pool, PoolOptions};

const COPIES: usize = 2;
const WRITES: u64 = 3;
const LOG_BYTES: u64 = 512;
/// Of a write: it begins and ends within words of four, in lines of their own.
const FROM: u64 = 61;
const LEN_BYTES: usize = 150;

const STREAMED: Composition = Composition {
    waits: Waits::Once,
    master: Master::Streamed,
    copy: CopyBy::Streams,
    ..Composition::BASIC
};
const STORED: Composition = Composition {
    waits: Waits::Once,
    ..Composition::BASIC
};

fn options(recorder: &Recorder, pool: usize) -> PoolOptions {
    PoolOptions {
        capacity_bytes: Some(128 << 10),
        id: Some(pool as u64),
        recorder: Some(recorder.of_pool(pool)),
        ..PoolOptions::default()
    }
}

/// Which sets the pools' logs form.
#[derive(Clone, Copy, PartialEq)]
enum Sets {
    /// One, of all of them.
    One,
    /// One for each, written together.
    Together,
}

/// Writes the number of each write all over its range, with a bug or none, and looks at what a power cut leaves. With the number of
/// fences of a write.
fn explored(sets: Sets, composition: Composition, bug: Option<Bug>) -> (Report, usize) {
    let dir = tempfile::tempdir().unwrap();
    let recorder = Recorder::by_line();
    let mut copies = Vec::new();
    let mut logs: Vec<Extent> = Vec::new();
    for pool in 0..COPIES {
        let path = dir.path().join(format!("pool{pool}"));
        let pool = Pool::create(&path, &options(&recorder, pool)).unwrap();
        let log = pool.allocate(LOG_BYTES, 0).unwrap().finish_log().unwrap();
        pool.publish(&log).unwrap();
        logs.push(log.extent());
        copies.push((pool, log.extent()));
    }
    recorder.acknowledge(1);
    let of_set = match sets {
        Sets::One => COPIES,
        Sets::Together => 1,
    };
    let opened = copies.chunks(of_set).map(ReplicaSet::open);
    let mut opened = opened.collect::<Result<Vec<_>, _>>().unwrap();
    let method = Method::Always(composition);
    let fences = || recorder.trace().steps(StepKind::Fence).len();
    let before = fences();
    PLANTED.set(bug);
    for number in 1..=WRITES {
        let bytes = [number as u8; LEN_BYTES];
        let writes = [(FROM, &bytes[..])];
        match &mut opened[..] {
            [set] => set.write(&method, FROM, &bytes).unwrap(),
            opened => {
                let opened = opened.iter_mut();
                let all = opened.map(|set| SetWrites {
                    set,
                    writes: &writes,
                });
                ReplicaSet::write_together(&method, &mut all.collect::<Vec<_>>()).unwrap();
            }
        }
        recorder.acknowledge(1 + number);
    }
    PLANTED.set(None);
    let fences = (fences() - before) / WRITES as usize;
    let images: Vec<PathBuf> = (0..COPIES)
        .map(|pool| dir.path().join(format!("image{pool}")))
        .collect();
    let limits = Limits {
        images_per_cut: 100,
        violations: 1,
        ..Limits::default()
    };
    let check = |image: &Image<'_>| check(image, &images, &logs);
    let trace = recorder.trace();
    (
        trace.explore_pools(&images, &limits, check).unwrap(),
        fences,
    )
}

fn check(image: &Image<'_>, paths: &[PathBuf], logs: &[Extent]) -> Result<(), String> {
    let done = image.acknowledged.saturating_sub(1) as u8;
    for (pool, path) in paths.iter().enumerate() {
        if image.acknowledged == 0 {
            return Ok(());
        }
        let opened: Arc<Pool> =
            Pool::open(path, &options(&image.recorder, pool)).map_err(|e| e.to_string())?;
        let bytes = &opened.bytes(logs[pool])[FROM as usize..][..LEN_BYTES];
        if let Some(at) = bytes
            .iter()
            .position(|byte| ![done, done + 1].contains(byte))
        {
            return Err(format!("pool {pool} has {} at {at}", bytes[at]));
        }
    }
    Ok(())
}

#[test]
fn what_is_forgotten_in_storing_to_copies_is_found() {
    for (sets, composition, expected) in [
        (Sets::One, STREAMED, 1),
        (Sets::One, STORED, 1),
        (Sets::One, Composition::BASIC, COPIES),
        (Sets::Together, STREAMED, 1),
        (Sets::Together, STORED, 1),
        (Sets::Together, Composition::BASIC, COPIES),
    ] {
        let (report, fences) = explored(sets, composition, None);
        assert!(report.violations.is_empty(), "{:?}", report.violations);
        assert!(report.images > 20, "{report:?}");
        assert_eq!(fences, expected, "{composition}");
    }
    for (composition, bug) in [
        (STREAMED, Bug::HeadNotFlushed),
        (STREAMED, Bug::TailNotFlushed),
        (STREAMED, Bug::NoFence),
        (STORED, Bug::LastLineNotFlushed),
        (STORED, Bug::NoFence),
    ] {
        for sets in [Sets::One, Sets::Together] {
            let (report, _) = explored(sets, composition, Some(bug));
            assert!(!report.violations.is_empty(), "{bug:?} in {composition:?}");
        }
    }
}

/// What a set of recorded pools is written by differs from what ships in who is below it, and in nothing else.
#[test]
fn recorded_pools_are_asked_and_others_flushed_by_the_processor() {
    let dir = tempfile::TempDir::new_in("/dev/shm").unwrap();
    let is_by_processor = |name: &str, recorder| {
        let options = PoolOptions {
            recorder,
            ..options(&Recorder::by_line(), 0)
        };
        let pool = Pool::create(&dir.path().join(name), &options).unwrap();
        let log = pool.allocate(64, 0).unwrap().finish_log().unwrap();
        let set = ReplicaSet::open(&[(pool, log.extent())]).unwrap();
        set.written.by_processor().is_some()
    };
    assert!(!is_by_processor("recorded", Some(Recorder::by_line())));
    assert!(is_by_processor("shipped", None));
}
