//! The promise of emulation: far memory is as slow as asked and near memory is not, from wherever it is turned on; and no
//! answer changes.
//!
//! Times are bounded from below by settings so slow that no machine is slower by itself, and from above only
//! by the sum of all waits that must not happen. Waits keep the processor busy, so the upper bounds are those of the process's time on it:
//! what else the machine does is not in that. The setting is the process's, and so is bandwidth: the tests take turns.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tierra_interleave::{Choice, Cx, Execution, GroupSize, Mode, map_into};
use tierra_memory::emulation::{
    self, EmulationError, FarDevice, FarMemory, begin_read, count_as_far,
};
use tierra_memory::measure::{CpuTime, record};
use tierra_memory::{MemoryGate, Pool, PoolOptions, Region, Speed, in_mode, persist, prefetch};

/// The turn of a test, until it is dropped.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Emulates a setting until dropped.
struct Emulation;

fn emulate(setting: &str) -> Emulation {
    emulation::set(emulation::parse(setting).unwrap()).unwrap();
    Emulation
}

impl Drop for Emulation {
    fn drop(&mut self) {
        emulation::set(None).unwrap();
    }
}

/// What something took.
#[derive(Clone, Copy, Debug)]
struct Took {
    time: Duration,
    /// On a processor.
    busy: Duration,
}

fn timed<T>(work: impl FnOnce() -> T) -> (T, Took) {
    let (start, before) = (Instant::now(), CpuTime::now());
    let done = work();
    let CpuTime { user_ns, system_ns } = CpuTime::now().since(before);
    let took = Took {
        busy: Duration::from_nanos(user_ns + system_ns),
        time: start.elapsed(),
    };
    (done, took)
}

/// Follows the bytes of a region from line to line, `steps` times.
async fn pass<M: Mode>(cx: Cx<M>, lines: &[[u8; 64]], start: usize, steps: usize) -> usize {
    let mut at = start;
    for _ in 0..steps {
        at = (at + 1 + usize::from(cx.load(&lines[at]).await[0])) % lines.len();
    }
    at
}

fn walk_all(lines: &[[u8; 64]], execution: Execution, starts: usize) -> (Vec<usize>, Took) {
    let mut ends = vec![0; starts];
    let ((), took) = timed(|| {
        in_mode!(execution, M => map_into(
            GroupSize::DEFAULT,
            0..starts,
            |cx: Cx<M>, start| pass(cx, lines, start * 97, 5),
            &mut ends,
        ));
    });
    (ends, took)
}

fn lines(bytes: &[u8]) -> &[[u8; 64]] {
    bytes.as_chunks().0
}

const TICK: Duration = Duration::from_millis(10);

#[test]
fn far_lookups_wait_near_ones_do_not_and_answers_agree() {
    let _turn = turn();
    let (mut far, mut near) = (
        Region::near(4 << 20).unwrap(),
        Region::near(4 << 20).unwrap(),
    );
    for region in [&mut far, &mut near] {
        (0..region.len()).for_each(|at| region[at] = (at / 64 * 31) as u8);
    }
    let counted = count_as_far(&far[..]);
    let expected = walk_all(lines(&near), Execution::Plain, 8).0;
    {
        // 8 walks of 5 steps at 20 ms: 800 ms one after the other, 100 ms when all 8 overlap.
        let _on = emulate("latency=20ms");
        let (plain, took) = walk_all(lines(&far), Execution::Plain, 8);
        assert_eq!(plain, expected);
        assert!(took.time >= 80 * TICK, "{took:?}");
        let (interleaved, took) = walk_all(lines(&far), Execution::Interleaved, 8);
        assert_eq!(interleaved, expected);
        assert!(took.time >= 10 * TICK && took.busy < 80 * TICK, "{took:?}");
        for execution in Execution::ALL {
            let (ends, took) = walk_all(lines(&near), execution, 8);
            assert_eq!(ends, expected);
            assert!(took.busy < 10 * TICK, "{took:?}");
        }
    }
    {
        let _on = emulate("latency=20ms,overlap=10");
        let (ends, took) = walk_all(lines(&far), Execution::Plain, 8);
        assert_eq!(ends, expected);
        assert!(
            took.time >= 6 * TICK && took.busy < 80 * TICK,
            "the lower bound: {took:?}"
        );
    }
    {
        let _on = emulate("latency=20ms,cache=1MiB");
        // The walks meet: 21 different lines.
        assert!(walk_all(lines(&far), Execution::Plain, 8).1.time >= 42 * TICK);
        let (_, again) = walk_all(lines(&far), Execution::Plain, 8);
        assert!(again.busy < 10 * TICK, "cached by now: {again:?}");
    }
    {
        let _on = emulate("latency=20ms,far=everything");
        assert!(walk_all(lines(&near), Execution::Plain, 8).1.time >= 80 * TICK);
    }
    let _off = emulate("off");
    assert!(walk_all(lines(&far), Execution::Plain, 8).1.busy < 10 * TICK);
    drop(counted);
}

#[test]
fn far_pools_are_far_and_near_pools_are_not() {
    let _turn = turn();
    let dir = tempfile::tempdir().unwrap();
    for (speed, is_slow) in [(Speed::Far, true), (Speed::Near, false)] {
        let path = dir.path().join(speed.to_string());
        let options = PoolOptions {
            speed,
            ..PoolOptions::default()
        };
        let pool = Pool::create(&path, &options).unwrap();
        // Beyond the pool's first length, so that growing is seen as well.
        let mut writer = pool.allocate(8 << 20, 1).unwrap();
        writer.fill(3);
        let extent = writer.finish().unwrap().extent();
        let bytes = pool.bytes(extent);
        let _on = emulate("latency=20ms");
        let end = lines(&bytes[bytes.len() - (1 << 20)..]);
        let (_, walked) = walk_all(end, Execution::Plain, 8);
        let ((), read) = timed(|| drop(begin_read(&bytes[..4096])));
        for (took, waits) in [(walked, 80 * TICK), (read, 2 * TICK)] {
            match is_slow {
                true => assert!(took.time >= waits, "{took:?}"),
                false => assert!(took.busy < waits, "{took:?}"),
            }
        }
    }
}

#[test]
fn a_pool_is_as_slow_as_the_device_that_it_is_taken_for() {
    let _turn = turn();
    let dir = tempfile::tempdir().unwrap();
    for (setting, device, is_slow) in [
        ("latency=0", "latency=20ms", true),
        ("latency=20ms", "latency=0", false),
    ] {
        let device = FarDevice::new(device.parse().unwrap()).unwrap();
        let options = PoolOptions {
            far_device: Some(device),
            ..PoolOptions::default()
        };
        let path = dir.path().join(setting);
        drop(Pool::create(&path, &options).unwrap());
        let pool = Pool::open(&path, &options).unwrap();
        assert!(pool.far_device().is_some());
        let mut writer = pool.allocate(8 << 20, 1).unwrap();
        writer.fill(3);
        let bytes = pool.bytes(writer.finish().unwrap().extent());
        let _on = emulate(setting);
        let ((), took) = timed(|| drop(begin_read(&bytes[4 << 20..(4 << 20) + 4096])));
        match is_slow {
            true => assert!(took.time >= 2 * TICK, "{took:?}"),
            false => assert!(took.busy < 2 * TICK, "{took:?}"),
        }
    }
}

#[test]
fn scans_flushes_and_copies_take_their_bandwidth() {
    let _turn = turn();
    let mut far = Region::near(4 << 20).unwrap();
    let near = vec![1u8; 1 << 20];
    let _counted = count_as_far(&far[..]);
    let timed = |work: &mut dyn FnMut()| timed(work).1;
    // A mebibyte at 5 MB/s: 210 ms.
    let _on = emulate(
        "sequential=5MB/s,random=5MB/s,sequential-write=5MB/s,random-write=5MB/s,persist=30ms",
    );
    let scan = timed(&mut || {
        far[..1 << 20]
            .chunks(4096)
            .for_each(|block| drop(begin_read(block)))
    });
    assert!(scan.time >= 20 * TICK, "{scan:?}");
    let scan = timed(&mut || near.chunks(4096).for_each(|block| drop(begin_read(block))));
    assert!(scan.busy < 20 * TICK, "{scan:?}");
    let copy = timed(&mut || persist::copy_nontemporal(&mut far[1 << 20..2 << 20], &near));
    assert!(copy.time >= 23 * TICK, "{copy:?}");
    assert_eq!(far[1 << 20..2 << 20], near);
    let durable = timed(&mut || persist::persist(&far[..64]));
    assert!(durable.time >= 3 * TICK, "{durable:?}");
    let many = timed(&mut || {
        far.chunks(64).take(5).for_each(persist::flush);
        persist::fence();
    });
    assert!(
        many.time >= 3 * TICK && many.busy < 15 * TICK,
        "one fence: {many:?}"
    );
    let near_copy = timed(&mut || persist::persist(&near[..64]));
    assert!(near_copy.busy < 3 * TICK, "{near_copy:?}");
}

#[test]
fn what_was_prefetched_arrives_meanwhile_and_waits_are_counted() {
    let _turn = turn();
    let far = Region::near(4 << 20).unwrap();
    let _counted = count_as_far(&far[..]);
    // 512 KiB at 5 MB/s: 105 ms.
    let _on = emulate("sequential=5MB/s,random=5MB/s");
    let (first, second) = far[..1 << 20].split_at(512 << 10);
    let before = emulation::stalled_ns();
    let ((), read) = timed(|| drop(begin_read(first)));
    let stalled = Duration::from_nanos(emulation::stalled_ns() - before);
    assert!(read.time >= 10 * TICK, "{read:?}");
    assert!(
        (9 * TICK..=read.time + TICK).contains(&stalled),
        "{stalled:?} {read:?}"
    );
    prefetch(second, usize::MAX);
    std::thread::sleep(12 * TICK);
    let ((), read) = timed(|| drop(begin_read(second)));
    assert!(read.busy < 5 * TICK, "{read:?}");
    // Once: its lines stay in no cache.
    let ((), read) = timed(|| drop(begin_read(second)));
    assert!(read.time >= 10 * TICK, "{read:?}");
}

#[test]
fn threads_share_the_bandwidth() {
    let _turn = turn();
    let far = Region::near(4 << 20).unwrap();
    let _counted = count_as_far(&far[..]);
    // 2 MiB in all at 10 MB/s: 210 ms, however many threads read.
    let _on = emulate("sequential=10MB/s,random=10MB/s");
    let start = Instant::now();
    std::thread::scope(|scope| {
        for part in far[..2 << 20].chunks(512 << 10) {
            scope.spawn(move || part.chunks(4096).for_each(|block| drop(begin_read(block))));
        }
    });
    assert!(start.elapsed() >= 20 * TICK, "{:?}", start.elapsed());
}

#[test]
fn replays_wait_like_lookups_do() {
    let _turn = turn();
    let far = Region::near(4 << 20).unwrap();
    let _counted = count_as_far(&far[..]);
    let _on = emulate("latency=20ms");
    let (_, trace) = record(|| walk_all(lines(&far), Execution::Interleaved, 8));
    assert_eq!(trace.lines(), 40);
    assert!(trace.replay(1) >= 40 * TICK);
    let (overlapped, took) = timed(|| trace.replay(10));
    assert!(
        overlapped >= 8 * TICK && took.busy < 40 * TICK,
        "{overlapped:?}, {took:?}"
    );
}

#[test]
fn settings_are_refused_and_the_old_one_stays() {
    let _turn = turn();
    let _on = emulate("cxl");
    let senseless = FarMemory {
        misses_in_flight: 0,
        ..FarMemory::CXL
    };
    assert!(matches!(
        emulation::set(Some(senseless)),
        Err(EmulationError::Senseless {
            field: "misses",
            ..
        })
    ));
    assert_eq!(emulation::current(), Some(FarMemory::CXL));
    assert!(emulation::is_on());
}

#[test]
fn a_gate_is_another_one_while_far_memory_is_emulated() {
    let _turn = turn();
    let gate = MemoryGate::default();
    let known = || gate.now().ticks_per_lookup(Execution::Plain);
    let learn = |ticks: u64| {
        let choice = Choice {
            execution: Execution::Plain,
            size: GroupSize::DEFAULT,
            lookups: 32,
        };
        gate.now().report(choice, 32, 32 * ticks);
    };
    let set = |setting| emulation::set(emulation::parse(setting).unwrap()).unwrap();
    let _on = emulate("off");
    learn(10);
    for (setting, before) in [
        ("latency=1ns", None),
        ("off", Some(10.0)),
        ("latency=1ns", Some(20.0)),
        ("latency=2ns", None),
        ("off", Some(10.0)),
        ("latency=1ns", None),
    ] {
        set(setting);
        assert_eq!(known(), before, "{setting}");
        if before.is_none() {
            learn(20);
        }
    }
}
