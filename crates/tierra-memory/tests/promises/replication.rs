//! The promise of a replica set: whatever method writes, every copy alone has what was acknowledged after
//! a power cut at any moment, and opening makes all copies equal.

use std::sync::Arc;

use crate::simulated::{
    self,
    replicas::{self, LOG_BYTES, is_between, place},
};
use crate::simulated::{RECORDERS, Recorded, assert_kept, finish, named, names};
use tierra_memory::replication::{
    Composition, CopyBy, MAX_REPLICAS, Master, Method, ReplicaSet, ReplicationError, Scatter, Waits,
};
use tierra_memory::simulation::{Image, Limits, Recorder, StepKind};
use tierra_memory::{Extent, Pool, PoolOptions};

const WRITES: u64 = 6;

fn states() -> Vec<Vec<u8>> {
    replicas::states(0, WRITES)
}

/// Step 1 publishes the copies, which lie in one pool; step `n` is write `n - 1`.
fn run(copies: usize, method: Method) -> impl FnOnce(&Arc<Pool>, &Recorder) {
    move |pool, recorder| {
        let log = |_| pool.allocate(LOG_BYTES, 0).unwrap().finish_log().unwrap();
        let logs: Vec<Extent> = (0..copies).map(|copy| log(copy).extent()).collect();
        pool.publish(&finish(pool, &names(&logs))).unwrap();
        recorder.acknowledge(1);
        let mut set = open_set(pool, &logs);
        for number in 1..=WRITES {
            let (at, bytes) = place(number);
            set.write(&method, at, &bytes).unwrap();
            recorder.acknowledge(number + 1);
        }
    }
}

fn open_set(pool: &Arc<Pool>, logs: &[Extent]) -> ReplicaSet {
    let copies: Vec<_> = logs.iter().map(|log| (Arc::clone(pool), *log)).collect();
    ReplicaSet::open(&copies).unwrap()
}

/// Each copy alone: as acknowledged, but where the next write goes. Then all are equal.
fn check(image: &Image<'_>, states: &[Vec<u8>]) -> Result<(), String> {
    let pool = Pool::open(image.path, &simulated::options(&image.recorder));
    let pool = pool.map_err(|error| error.to_string())?;
    let Some(root) = pool.root() else {
        return simulated::within_one_step(0, image.acknowledged);
    };
    let logs = named(pool.bytes(root));
    pool.retain(&logs).map_err(|error| error.to_string())?;
    let done = image.acknowledged.saturating_sub(1) as usize;
    let (now, next) = (&states[done], &states[(done + 1).min(states.len() - 1)]);
    for (copy, log) in logs.iter().enumerate() {
        is_between(pool.bytes(*log), now, next)
            .map_err(|at| format!("copy {copy} alone is wrong at {at}"))?;
    }
    let set = open_set(&pool, &logs);
    match (1..set.copies()).find(|&copy| set.bytes(copy) != set.bytes(0)) {
        Some(copy) => Err(format!("copy {copy} is not what the master is")),
        None => Ok(()),
    }
}

/// Lines of three words, of which the last publishes the others: step `n` is line `n - 1`.
fn run_lines(copies: usize, method: Method) -> impl FnOnce(&Arc<Pool>, &Recorder) {
    move |pool, recorder| {
        let log = |_| pool.allocate(LOG_BYTES, 0).unwrap().finish_log().unwrap();
        let logs: Vec<Extent> = (0..copies).map(|copy| log(copy).extent()).collect();
        pool.publish(&finish(pool, &names(&logs))).unwrap();
        recorder.acknowledge(1);
        let mut set = open_set(pool, &logs);
        for number in 1..=WRITES {
            let at = number % 4 * 64;
            set.prefetch_line(at);
            let words = [(8, number), (56, number), (0, number)];
            set.write_line(&method, at, &words).unwrap();
            recorder.acknowledge(number + 1);
        }
    }
}

/// Each copy alone: what a line's last word publishes is there.
fn check_lines(image: &Image<'_>) -> Result<(), String> {
    let (pool, logs) = simulated::open(image)?;
    let done = image.acknowledged.saturating_sub(1);
    for (copy, log) in logs.iter().enumerate() {
        let bytes = pool.bytes(*log);
        for (index, line) in bytes.chunks_exact(64).take(4).enumerate() {
            let word = |at: usize| u64::from_le_bytes(line[at..at + 8].try_into().unwrap());
            // The last write to this line that was acknowledged; the next may be there, or its beginning.
            let mut lasts = (1..=done).filter(|number| *number as usize % 4 == index);
            let last = lasts.next_back().unwrap_or(0);
            let next = if (done + 1) as usize % 4 == index {
                done + 1
            } else {
                last
            };
            let found = [word(0), word(56), word(8)];
            let is_correct = found.is_sorted() && found.iter().all(|w| *w == last || *w == next);
            if !is_correct {
                return Err(format!(
                    "copy {copy}, line {index}: {found:?}, not {last} or {next}"
                ));
            }
        }
    }
    Ok(())
}

fn limits(images_per_cut: usize) -> Limits {
    Limits {
        images_per_cut,
        ..Limits::default()
    }
}

#[test]
fn every_composition_keeps_every_copy() {
    let states = states();
    for recorder in RECORDERS {
        for composition in Composition::all() {
            for copies in [1, 3] {
                let recorded = Recorded::new(&recorder(), run(copies, Method::Always(composition)));
                let limits = limits(12);
                let report = recorded.explore(&limits, |image| check(image, &states));
                assert_kept(&report, &limits);
            }
        }
    }
}

#[test]
fn words_of_a_line_are_there_in_their_order_in_every_copy() {
    for recorder in RECORDERS {
        for composition in Composition::all() {
            let program = run_lines(3, Method::Always(composition));
            let recorded = Recorded::new(&recorder(), program);
            let limits = limits(30);
            assert_kept(&recorded.explore(&limits, check_lines), &limits);
        }
    }
    // The one fence, and the flush of any copy, is needed.
    let method = Method::Always(Composition {
        waits: Waits::Once,
        ..Composition::BASIC
    });
    let recorded = Recorded::new(&Recorder::by_line(), run_lines(3, method));
    let trace = &recorded.trace;
    let (flushes, fences) = (trace.steps(StepKind::Flush), trace.steps(StepKind::Fence));
    let of_writes = &fences[fences.len() - WRITES as usize..];
    let before = fences[fences.len() - WRITES as usize - 1];
    let left_out = flushes.into_iter().filter(|&flush| flush > before);
    for step in left_out.chain(of_writes.iter().copied()) {
        let limits = Limits {
            violations: 1,
            ..limits(50)
        };
        let report = recorded.explore_trace(&trace.without(step), &limits, check_lines);
        assert!(!report.violations.is_empty(), "step {step}");
    }
}

/// One trace of all pools: stores to one are ordered with those to another by fences alone.
#[test]
fn copies_in_pools_of_their_own_are_kept() {
    const COPIES: usize = 3;
    let states = states();
    for recorder in RECORDERS {
        for composition in Composition::all() {
            let method = Method::Always(composition);
            let recorded = replicas::recorded(&recorder(), COPIES, &method, 0, WRITES);
            let limits = limits(12);
            let check = |image: &Image<'_>| replicas::check(image, COPIES, &states);
            let report = replicas::explore(&recorded, &recorded.trace, COPIES, &limits, check);
            assert_kept(&report, &limits);
            assert!(report.images > 50, "{report:?}");
        }
    }
}

/// A copy in another pool is as much in need of its flush as one in the same.
#[test]
fn a_flush_or_a_fence_left_out_is_found_across_pools() {
    const COPIES: usize = 2;
    let states = states();
    let method = Method::Always(Composition {
        waits: Waits::Once,
        ..Composition::BASIC
    });
    let recorded = replicas::recorded(&Recorder::by_line(), COPIES, &method, 0, WRITES);
    let trace = &recorded.trace;
    let found = |step| {
        let limits = Limits {
            violations: 1,
            ..limits(4)
        };
        let forgetful = trace.without(step);
        let check = |image: &Image<'_>| replicas::check(image, COPIES, &states);
        let report = replicas::explore(&recorded, &forgetful, COPIES, &limits, check);
        !report.violations.is_empty()
    };
    let (flushes, fences) = (trace.steps(StepKind::Flush), trace.steps(StepKind::Fence));
    let last_write = fences[fences.len() - 2];
    let of_write: Vec<usize> = flushes
        .into_iter()
        .filter(|&flush| flush > last_write)
        .collect();
    assert_eq!(of_write.len(), COPIES);
    assert!(of_write.iter().all(|&flush| found(flush)));
    assert!(found(fences[fences.len() - 1]));
}

#[test]
fn a_method_by_length_keeps_every_copy() {
    let states = states();
    let method = Method::Threshold {
        up_to_bytes: 8,
        short: Composition {
            waits: Waits::Once,
            ..Composition::BASIC
        },
        long: Composition {
            waits: Waits::Once,
            copy: CopyBy::Streams,
            ..Composition::BASIC
        },
    };
    let recorded = Recorded::new(&Recorder::by_line(), run(3, method));
    let limits = limits(100);
    assert_kept(
        &recorded.explore(&limits, |image| check(image, &states)),
        &limits,
    );
}

/// A process is killed in a write, the next one opens the set and shows what it has, part of a write
/// perhaps, and the power is cut: every copy has what was shown.
#[test]
fn what_was_shown_after_a_kill_is_in_every_copy() {
    /// Steps of the second process are numbered from here on.
    const NEXT: u64 = 100;
    let states = states();
    let method = Method::Always(Composition {
        waits: Waits::Once,
        ..Composition::BASIC
    });
    for recorder in RECORDERS {
        let recorded = Recorded::new(&recorder(), run(3, method));
        for events in recorded.kills().step_by(2) {
            let mut shown = Vec::new();
            let killed = recorded.killed_and_continued(&recorder, events, |pool, recorder| {
                let Some(root) = pool.root() else { return };
                let logs = named(pool.bytes(root));
                pool.retain(&logs).unwrap();
                let mut set = open_set(pool, &logs);
                shown.push(set.bytes(0).to_vec());
                recorder.acknowledge(NEXT + 1);
                set.write(&method, 300, &[0xEE; 90]).unwrap();
                shown.push(set.bytes(0).to_vec());
                recorder.acknowledge(NEXT + 2);
            });
            let limits = limits(10);
            let report = killed.explore(&limits, |image| match image.acknowledged {
                0..NEXT => check(image, &states),
                step => check(
                    &Image {
                        path: image.path,
                        acknowledged: step - NEXT,
                        recorder: image.recorder.clone(),
                    },
                    &shown,
                ),
            });
            assert_kept(&report, &limits);
        }
    }
}

/// As a program that forgot it: found for every composition, the streaming ones among them.
#[test]
fn any_flush_and_the_one_fence_left_out_are_found() {
    let states = states();
    // A prefetch stores and flushes nothing.
    for composition in Composition::all().into_iter().filter(|c| !c.prefetch) {
        let recorded = Recorded::new(&Recorder::by_line(), run(3, Method::Always(composition)));
        let trace = &recorded.trace;
        let found = |step| {
            let limits = Limits {
                violations: 1,
                ..limits(4)
            };
            let forgetful = trace.without(step);
            let report = recorded.explore_trace(&forgetful, &limits, |image| check(image, &states));
            !report.violations.is_empty()
        };
        let (flushes, fences) = (trace.steps(StepKind::Flush), trace.steps(StepKind::Fence));
        let per_write = match composition {
            Composition {
                waits: Waits::Once,
                copy: CopyBy::Stores | CopyBy::Streams | CopyBy::Scatter(_),
                ..
            } => 1,
            _ => 3,
        };
        let first = fences[fences.len() - per_write * WRITES as usize - 1];
        // Those of the writes, not of making and opening the set.
        for &flush in flushes.iter().filter(|&&flush| flush > first) {
            assert!(found(flush), "{composition}: flush {flush}");
        }
        for number in 1..=WRITES as usize {
            let fence = fences[fences.len() - per_write * (WRITES as usize - number) - 1];
            assert!(found(fence), "{composition}: fence {fence}");
        }
    }
}

#[test]
fn one_fence_is_one_fence_and_nothing_is_flushed_twice() {
    for composition in Composition::all() {
        let fences = |copies| {
            let recorded = Recorded::new(
                &Recorder::by_line(),
                run(copies, Method::Always(composition)),
            );
            let useless = recorded.trace.useless();
            assert_eq!(
                useless
                    .fences_by_step
                    .keys()
                    .filter(|&&step| step > 1)
                    .count(),
                0
            );
            useless.fences.1
        };
        // Making and publishing take one each for a log, and opening two.
        let expected = match (composition.waits, composition.copy) {
            // Each worker waits for what it flushed.
            (_, CopyBy::Threads(_)) | (Waits::Each, _) => 3 * WRITES,
            (Waits::Once, _) => 0,
        };
        assert_eq!(fences(4) - fences(1), expected + 3 * 2, "{composition}");
    }
}

/// Copies in pools of different kinds: each is made durable by its own means.
#[test]
fn copies_may_lie_in_any_pools() {
    let (near, disk) = (simulated::folder(), tempfile::tempdir().unwrap());
    let mut pools = Vec::new();
    for dir in [&near, &disk, &near] {
        let path = dir.path().join(format!("pool {}", pools.len()));
        let pool = Pool::create(&path, &PoolOptions::default()).unwrap();
        let log = pool.allocate(10_000, 0).unwrap().finish_log().unwrap();
        pool.publish(&log).unwrap();
        pools.push((pool, log.extent()));
    }
    for composition in Composition::all() {
        let mut set = ReplicaSet::open(&pools).unwrap();
        for (at, len) in [(0, 4), (77, 8), (3, 0), (9_999, 1), (64, 1_000), (1, 9_999)] {
            let bytes: Vec<u8> = (0..len).map(|byte| (byte + at) as u8).collect();
            set.write(&Method::Always(composition), at as u64, &bytes)
                .unwrap();
            for copy in 0..3 {
                assert_eq!(set.bytes(copy)[at..at + len], bytes, "{composition}");
                assert_eq!(set.bytes(copy), set.bytes(0), "{composition}");
            }
        }
    }
    pools[1].0.write(pools[1].1, 5_000, b"differs").unwrap();
    let set = ReplicaSet::open(&pools).unwrap();
    assert_eq!(set.repaired_bytes(), 4096);
    assert_eq!(set.bytes(1), set.bytes(0));
}

#[test]
fn what_is_no_replica_set_is_refused() {
    let dir = simulated::folder();
    let pool = Pool::create(&dir.path().join("p"), &PoolOptions::default()).unwrap();
    let log = |bytes| {
        let log = pool.allocate(bytes, 0).unwrap().finish_log().unwrap();
        (Arc::clone(&pool), log.extent())
    };
    let (a, b, short) = (log(100), log(100), log(99));
    let sealed = (Arc::clone(&pool), finish(&pool, &[0; 100]).extent());
    let open = |copies: &[(Arc<Pool>, Extent)]| ReplicaSet::open(copies).unwrap_err().to_string();
    assert!(open(&[]).contains("0 copies"));
    let many: Vec<_> = (0..MAX_REPLICAS + 2).map(|_| log(100)).collect();
    assert!(open(&many).contains("10 copies"));
    assert!(ReplicaSet::open(&many[1..]).is_ok());
    assert!(open(&[a.clone(), short]).contains("copy 1 has 99 bytes, the master 100"));
    assert!(open(&[a.clone(), b.clone(), a.clone()]).contains("copies 0 and 2"));
    assert!(open(&[a.clone(), sealed]).contains("no log"));
    let mut set = ReplicaSet::open(&[a, b]).unwrap();
    let method = Method::Always(Composition::BASIC);
    for (at, bytes) in [(100, &b"x"[..]), (99, b"xy"), (u64::MAX, b"x")] {
        let error = set.write(&method, at, bytes).unwrap_err();
        assert!(matches!(error, ReplicationError::Outside { .. }), "{error}");
    }
    set.write_line(&method, 0, &[(56, 1)]).unwrap();
    let error = set.write_line(&method, 64, &[(0, 1)]).unwrap_err();
    assert!(matches!(error, ReplicationError::Outside { .. }), "{error}");
    set.write(&method, 99, b"x").unwrap();
    set.write(&method, 100, b"").unwrap();
    assert_eq!(Scatter::detect().is_some(), Composition::all().len() == 38);
    assert_eq!(Composition::BASIC.master, Master::Pre);
}
