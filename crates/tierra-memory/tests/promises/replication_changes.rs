//! The promise of transactions over all copies of a replica set, and of copies that come and go while it is
//! written to: after a power cut at any moment every copy that is named has, alone, what was acknowledged.

use std::sync::Arc;

use crate::simulated::{self, RECORDERS, Recorded, assert_kept, finish, named, names};
use tierra_memory::replication::{
    Composition, CopyBy, Master, Member, Method, ReplicaSet, ReplicatedUndo, ReplicationError,
    Waits,
};
use tierra_memory::simulation::{Image, Limits, Recorder, StepKind};
use tierra_memory::{Extent, Pool};

const LOG_BYTES: u64 = 600;
const COPIES: usize = 3;
const TRANSACTIONS: u64 = 4;

const ONE_FENCE: Composition = Composition {
    waits: Waits::Once,
    ..Composition::BASIC
};
const STREAMED: Composition = Composition {
    copy: CopyBy::Streams,
    master: Master::Streamed,
    ..ONE_FENCE
};

fn limits(images_per_cut: usize) -> Limits {
    Limits {
        images_per_cut,
        ..Limits::default()
    }
}

/// Where transaction `number` writes, and what: places of which some overlap.
fn places(number: u64) -> Vec<(u64, Vec<u8>)> {
    let place = |index: u64| {
        let len = [4, 70, 8][(number + index) as usize % 3];
        let at = (number * 131 + index * 37) % (LOG_BYTES - len);
        (at, vec![(number * 3 + index) as u8; len as usize])
    };
    (0..1 + number % 3).map(place).collect()
}

/// What a copy holds after each transaction.
fn states() -> Vec<Vec<u8>> {
    let mut states = vec![vec![0; LOG_BYTES as usize]];
    for number in 1..=TRANSACTIONS {
        let mut next = states[number as usize - 1].clone();
        for (at, bytes) in places(number) {
            next[at as usize..][..bytes.len()].copy_from_slice(&bytes);
        }
        states.push(next);
    }
    states
}

fn members(pool: &Arc<Pool>, logs: &[Extent]) -> Vec<Member> {
    logs.iter().map(|log| (Arc::clone(pool), *log)).collect()
}

fn open(pool: &Arc<Pool>, logs: &[Extent]) -> Result<ReplicaSet, ReplicationError> {
    ReplicaSet::open(&members(pool, logs))
}

fn log(pool: &Arc<Pool>, bytes: u64) -> Extent {
    pool.allocate(bytes, 0)
        .unwrap()
        .finish_log()
        .unwrap()
        .extent()
}

/// Step 1 publishes the copies, data first; step `n` is transaction `n - 1`.
fn run(composition: Composition) -> impl FnOnce(&Arc<Pool>, &Recorder) {
    move |pool, recorder| {
        let mut logs: Vec<Extent> = (0..COPIES).map(|_| log(pool, LOG_BYTES)).collect();
        logs.extend((0..COPIES).map(|_| log(pool, 1_000)));
        pool.publish(&finish(pool, &names(&logs))).unwrap();
        recorder.acknowledge(1);
        let mut set = open(pool, &logs[..COPIES]).unwrap();
        let undo = open(pool, &logs[COPIES..]).unwrap();
        let mut undo = ReplicatedUndo::open(undo, &mut set).unwrap();
        let method = Method::Always(composition);
        for number in 1..=TRANSACTIONS {
            // One that is given up writes nothing.
            undo.begin(&mut set).write(0, b"never").unwrap();
            let mut transaction = undo.begin(&mut set);
            for (at, bytes) in places(number) {
                transaction.write(at, &bytes).unwrap();
            }
            transaction.commit(&method).unwrap();
            recorder.acknowledge(number + 1);
        }
    }
}

/// Every copy of the data with some copy of the undo log, and then all together: a whole number of
/// transactions, those acknowledged or one more.
fn check(image: &Image<'_>, states: &[Vec<u8>], shift: usize) -> Result<(), String> {
    let text = |error: ReplicationError| error.to_string();
    let pool = Pool::open(image.path, &simulated::options(&image.recorder));
    let pool = pool.map_err(|error| error.to_string())?;
    let Some(root) = pool.root() else {
        return simulated::within_one_step(0, image.acknowledged);
    };
    let logs = named(pool.bytes(root));
    pool.retain(&logs).map_err(|error| error.to_string())?;
    let done = image.acknowledged.saturating_sub(1) as usize;
    let right = &states[done..states.len().min(done + 2)];
    let (data, undo) = logs.split_at(COPIES);
    for copy in 0..COPIES {
        let mut alone = open(&pool, &data[copy..=copy]).map_err(text)?;
        let log = open(&pool, &[undo[(copy + shift) % COPIES]]).map_err(text)?;
        ReplicatedUndo::open(log, &mut alone).map_err(text)?;
        if !right.iter().any(|state| alone.bytes(0) == state) {
            return Err(format!("copy {copy} alone has a part of a transaction"));
        }
    }
    let mut set = open(&pool, data).map_err(text)?;
    ReplicatedUndo::open(open(&pool, undo).map_err(text)?, &mut set).map_err(text)?;
    match (0..COPIES).find(|&copy| !right.iter().any(|state| set.bytes(copy) == state)) {
        Some(copy) => Err(format!("copy {copy} has a part of a transaction")),
        None => Ok(()),
    }
}

#[test]
fn a_transaction_is_in_every_copy_or_in_none() {
    let states = states();
    let mut compositions = vec![Composition::BASIC, ONE_FENCE, STREAMED];
    compositions.extend(
        Composition::all()
            .into_iter()
            .filter(|one| one.to_string() == "SF+SCA+PF"),
    );
    for recorder in RECORDERS {
        for &composition in &compositions {
            let recorded = Recorded::new(&recorder(), run(composition));
            for shift in [0, 1] {
                let limits = limits(8);
                let report = recorded.explore(&limits, |image| check(image, &states, shift));
                assert_kept(&report, &limits);
            }
        }
    }
}

#[test]
fn a_fence_of_a_transaction_left_out_is_found() {
    let states = states();
    let recorded = Recorded::new(&Recorder::by_line(), run(ONE_FENCE));
    let trace = &recorded.trace;
    let fences = trace.steps(StepKind::Fence);
    // Three of each transaction: entries, places, count.
    let of_transactions = &fences[fences.len() - 3 * TRANSACTIONS as usize..];
    for (index, &fence) in of_transactions.iter().enumerate() {
        // One place in one word is new or old, never a part: the count's fence is enough for it.
        let number = 1 + index as u64 / 3;
        if matches!(&places(number)[..], [(at, bytes)] if at % 8 + bytes.len() as u64 <= 8)
            && index % 3 != 2
        {
            continue;
        }
        let limits = Limits {
            violations: 1,
            ..limits(200)
        };
        let report = recorded.explore_trace(&trace.without(fence), &limits, |image| {
            check(image, &states, 0)
        });
        assert!(!report.violations.is_empty(), "fence {fence}");
    }
}

#[test]
fn an_undo_log_of_another_set_and_one_too_short_are_refused() {
    let dir = simulated::folder();
    let pool = Pool::create(
        &dir.path().join("p"),
        &tierra_memory::PoolOptions::default(),
    )
    .unwrap();
    let mut set = open(&pool, &[log(&pool, 100), log(&pool, 100)]).unwrap();
    let short = open(&pool, &[log(&pool, 63)]).unwrap();
    assert!(matches!(
        ReplicatedUndo::open(short, &mut set),
        Err(ReplicationError::Undo(_))
    ));
    let extents = [log(&pool, 300), log(&pool, 300)];
    let mut undo = ReplicatedUndo::open(open(&pool, &extents).unwrap(), &mut set).unwrap();
    let mut transaction = undo.begin(&mut set);
    assert!(matches!(
        transaction.write(97, b"four"),
        Err(ReplicationError::Outside { .. })
    ));
    transaction.write(0, &[7; 64]).unwrap();
    assert!(matches!(
        transaction.write(0, &[8; 64]),
        Err(ReplicationError::UndoLogFull {
            needed_bytes: 320,
            len_bytes: 300
        })
    ));
    transaction.commit(&Method::Always(ONE_FENCE)).unwrap();
    assert_eq!(set.bytes(1)[..64], [7; 64]);
    undo.begin(&mut set)
        .commit(&Method::Always(ONE_FENCE))
        .unwrap();
    drop(undo);
    // A transaction that was cut short on a longer set.
    let mut other = open(&pool, &[log(&pool, 200)]).unwrap();
    let mut undo = ReplicatedUndo::open(open(&pool, &extents).unwrap(), &mut other).unwrap();
    let mut transaction = undo.begin(&mut other);
    transaction.write(8, b"x").unwrap();
    transaction.commit(&Method::Always(ONE_FENCE)).unwrap();
    drop(undo);
    // Its count taken back, so that the entry is that of a transaction under way.
    let mut log = open(&pool, &extents).unwrap();
    let count = u64::from_le_bytes(log.bytes(0)[..8].try_into().unwrap()) - 1;
    log.write(&Method::Always(ONE_FENCE), 0, &count.to_le_bytes())
        .unwrap();
    assert!(matches!(
        ReplicatedUndo::open(log, &mut set),
        Err(ReplicationError::Undo(_))
    ));
    let log = open(&pool, &extents).unwrap();
    let undo = ReplicatedUndo::open(log, &mut other).unwrap();
    assert_eq!((undo.rolled_back(), other.bytes(0)[8]), (1, 0));
}

/// A life of a set: two copies, a third added while it is written to, then the master dropped. Each write and
/// each publication is a step; how many writes were made after each.
struct Life {
    writes: Vec<u64>,
}

const WRITES: u64 = 12;

fn write_place(number: u64) -> (u64, Vec<u8>) {
    let len = [8, 90, 4][number as usize % 3];
    let at = number * 89 % (LOG_BYTES - len);
    (
        at,
        (0..len)
            .map(|byte| (number * 41 + byte + 1) as u8)
            .collect(),
    )
}

fn written() -> Vec<Vec<u8>> {
    let mut states = vec![vec![0; LOG_BYTES as usize]];
    for number in 1..=WRITES {
        let mut next = states[number as usize - 1].clone();
        let (at, bytes) = write_place(number);
        next[at as usize..][..bytes.len()].copy_from_slice(&bytes);
        states.push(next);
    }
    states
}

impl Life {
    /// `drops_early`: the master is dropped before its name is gone.
    fn run(&mut self, pool: &Arc<Pool>, recorder: &Recorder, drops_early: bool) {
        let logs: Vec<Extent> = (0..3).map(|_| log(pool, LOG_BYTES)).collect();
        // What a copy held before it is one.
        pool.write(logs[2], 0, &[0xEE; LOG_BYTES as usize]).unwrap();
        let mut number = 0;
        self.writes = vec![0];
        let publish = |life: &mut Life, set: &[Extent], number| {
            pool.publish(&finish(pool, &names(set))).unwrap();
            life.writes.push(number);
            recorder.acknowledge(life.writes.len() as u64 - 1);
        };
        publish(self, &logs[..2], 0);
        let mut set = open(pool, &logs[..2]).unwrap();
        let write = |life: &mut Life, set: &mut ReplicaSet, number: &mut u64| {
            *number += 1;
            let (at, bytes) = write_place(*number);
            set.write(&Method::Always(ONE_FENCE), at, &bytes).unwrap();
            life.writes.push(*number);
            recorder.acknowledge(life.writes.len() as u64 - 1);
        };
        write(self, &mut set, &mut number);
        set.add(pool, logs[2]).unwrap();
        assert!(matches!(
            set.add(pool, logs[2]),
            Err(ReplicationError::Joining)
        ));
        assert!(matches!(set.drop_copy(0), Err(ReplicationError::Joining)));
        while !set.catch_up(200).unwrap() {
            assert_eq!((set.copies(), set.members().count()), (2, 2));
            write(self, &mut set, &mut number);
        }
        assert_eq!(
            set.members().map(|member| member.1).collect::<Vec<_>>(),
            logs
        );
        publish(self, &logs, number);
        write(self, &mut set, &mut number);
        if drops_early {
            set.drop_copy(0).unwrap();
            write(self, &mut set, &mut number);
        }
        publish(self, &logs[1..], number);
        if !drops_early {
            write(self, &mut set, &mut number);
            assert_eq!(set.drop_copy(0).unwrap().1, logs[0]);
        }
        while number < WRITES {
            write(self, &mut set, &mut number);
        }
    }

    /// Each named copy alone: as acknowledged, but where the next write goes.
    fn check(&self, image: &Image<'_>, states: &[Vec<u8>]) -> Result<(), String> {
        let pool = Pool::open(image.path, &simulated::options(&image.recorder));
        let pool = pool.map_err(|error| error.to_string())?;
        let Some(root) = pool.root() else {
            return simulated::within_one_step(0, image.acknowledged);
        };
        let logs = named(pool.bytes(root));
        pool.retain(&logs).map_err(|error| error.to_string())?;
        let done = self.writes[image.acknowledged as usize] as usize;
        let (now, next) = (&states[done], &states[(done + 1).min(states.len() - 1)]);
        for (copy, log) in logs.iter().enumerate() {
            let bytes = pool.bytes(*log);
            let wrong = (0..bytes.len()).find(|&at| bytes[at] != now[at] && bytes[at] != next[at]);
            if let Some(at) = wrong {
                return Err(format!("copy {copy} of {} is wrong at {at}", logs.len()));
            }
        }
        open(&pool, &logs)
            .map(drop)
            .map_err(|error| error.to_string())
    }
}

#[test]
fn copies_come_and_go_while_the_set_is_written_to() {
    let states = written();
    for recorder in RECORDERS {
        let mut life = Life { writes: Vec::new() };
        let recorded = Recorded::new(&recorder(), |pool, recorder| {
            life.run(pool, recorder, false);
        });
        let limits = limits(20);
        let report = recorded.explore(&limits, |image| life.check(image, &states));
        assert_kept(&report, &limits);
    }
}

#[test]
fn a_copy_dropped_while_it_is_named_is_found() {
    let states = written();
    let mut life = Life { writes: Vec::new() };
    let recorded = Recorded::new(&Recorder::by_line(), |pool, recorder| {
        life.run(pool, recorder, true);
    });
    let limits = Limits {
        violations: 1,
        ..limits(20)
    };
    let report = recorded.explore(&limits, |image| life.check(image, &states));
    assert!(!report.violations.is_empty());
}

#[test]
fn a_replica_that_is_given_up_is_no_longer_written() {
    let dir = simulated::folder();
    let pool = Pool::create(
        &dir.path().join("p"),
        &tierra_memory::PoolOptions::default(),
    )
    .unwrap();
    let logs = [log(&pool, 100), log(&pool, 100), log(&pool, 99)];
    let mut set = open(&pool, &logs[..1]).unwrap();
    assert!(matches!(
        set.drop_copy(0),
        Err(ReplicationError::Copies { .. })
    ));
    assert!(matches!(
        set.add(&pool, logs[0]),
        Err(ReplicationError::Twice { .. })
    ));
    assert!(matches!(
        set.add(&pool, logs[2]),
        Err(ReplicationError::Length { .. })
    ));
    set.add(&pool, logs[1]).unwrap();
    let method = Method::Always(ONE_FENCE);
    set.write(&method, 0, b"both").unwrap();
    assert_eq!(pool.bytes(logs[1])[..4], *b"both");
    set.cancel_add();
    set.write(&method, 0, b"one.").unwrap();
    assert_eq!(pool.bytes(logs[1])[..4], *b"both");
    assert!(set.catch_up(1).unwrap());
    assert_eq!(set.copies(), 1);
}
