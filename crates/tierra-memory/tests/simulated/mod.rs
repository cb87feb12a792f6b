//! What the crash tests share: programs that use a pool and are recorded, and the promise that each of
//! them checks an image against. The lab's experiment `crash` includes this file as well; a seed makes
//! another program of the same kind.
#![allow(dead_code, reason = "each test file uses a part")]

use std::ops::{Range, RangeInclusive};
use std::path::PathBuf;
use std::sync::Arc;

use tempfile::TempDir;
use tierra_memory::simulation::{Image, Limits, Recorder, Report, Trace};
use tierra_memory::{Extent, Finished, Pool, PoolOptions, UndoLog};

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

/// Publications: each round stores two extents and a root that names them, and frees those of the round
/// before. Round `n` is step `n`.
pub(crate) mod rounds {
    use super::*;

    fn payload(round: u64, which: usize) -> Vec<u8> {
        let len = [200 + 37 * round as usize, 9000][which];
        (0..len)
            .map(|at| (at as u64 * 7 + round * 31 + which as u64) as u8)
            .collect()
    }

    pub(crate) fn run(rounds: u64) -> impl FnOnce(&Arc<Pool>, &Recorder) {
        move |pool, recorder| go_on(pool, recorder, Vec::new(), 1..=rounds)
    }

    /// As `run`, but each round frees what the published one names before it publishes.
    pub(crate) fn run_freeing_early(pool: &Arc<Pool>, recorder: &Recorder) {
        let mut before: Vec<Extent> = Vec::new();
        for round in 1..=4 {
            for extent in before.drain(..) {
                pool.free(extent);
            }
            let data = [0, 1].map(|which| finish(pool, &payload(round, which)).extent());
            let mut root = round.to_le_bytes().to_vec();
            root.extend([0; 8]);
            root.extend(names(&data));
            let root = finish(pool, &root);
            pool.publish(&root).unwrap();
            recorder.acknowledge(round);
            before = [vec![root.extent()], data.to_vec()].concat();
        }
    }

    /// `before` are the extents of the round before the first one.
    pub(crate) fn go_on(
        pool: &Arc<Pool>,
        recorder: &Recorder,
        mut before: Vec<Extent>,
        rounds: RangeInclusive<u64>,
    ) {
        for round in rounds {
            let data = [0, 1].map(|which| finish(pool, &payload(round, which)).extent());
            let mut root = round.to_le_bytes().to_vec();
            root.extend([0; 8]);
            root.extend(names(&data));
            // A writer given up leaves nothing.
            let mut given_up = pool.allocate(500, 0).unwrap();
            given_up.fill(round as u8);
            drop(given_up);
            let root = finish(pool, &root);
            pool.publish(&root).unwrap();
            recorder.acknowledge(round);
            let now = [vec![root.extent()], data.to_vec()].concat();
            for extent in std::mem::replace(&mut before, now) {
                pool.free(extent);
            }
        }
    }

    /// The round that a pool holds, all of it there, and its extents.
    pub(crate) fn recover(pool: &Pool) -> Result<(u64, Vec<Extent>), String> {
        let text = |error: tierra_memory::PoolError| error.to_string();
        let Some(root) = pool.root() else {
            pool.retain(&[]).map_err(text)?;
            return Ok((0, Vec::new()));
        };
        pool.verify_extent(root).map_err(text)?;
        let bytes = pool.bytes(root);
        let found = u64::from_le_bytes(bytes[..8].try_into().unwrap());
        let mut extents = named(&bytes[16..]);
        pool.retain(&extents).map_err(text)?;
        for (which, extent) in extents.iter().enumerate() {
            pool.verify_extent(*extent).map_err(text)?;
            if pool.bytes(*extent) != payload(found, which) {
                return Err(format!("round {found} has other bytes"));
            }
        }
        extents.push(root);
        Ok((found, extents))
    }

    /// The round found is the one acknowledged or the next, and whole.
    pub(crate) fn check(image: &Image<'_>) -> Result<(), String> {
        let pool = Pool::open(image.path, &options(&image.recorder));
        let pool = pool.map_err(|error| error.to_string())?;
        within_one_step(recover(&pool)?.0, image.acknowledged)
    }
}

/// A log whose records are one line and a half, each with a checksum. Step 1 publishes the log, step
/// `n` writes record `n - 2`.
pub(crate) mod records {
    use super::*;

    pub(crate) const RECORD_BYTES: u64 = 96;
    const LOG_RECORDS: u64 = 60;

    pub(crate) fn record(number: u64) -> Vec<u8> {
        record_of(0, number)
    }

    fn record_of(seed: u64, number: u64) -> Vec<u8> {
        let mut bytes: Vec<u8> = (0..RECORD_BYTES - 4)
            .map(|at| (at * 13 + number * 101 + seed * (at % 7 + 1)) as u8)
            .collect();
        let crc = crc32c::crc32c(&bytes);
        bytes.extend(crc.to_le_bytes());
        bytes
    }

    pub(crate) fn run(records: u64) -> impl FnOnce(&Arc<Pool>, &Recorder) {
        run_of(0, records)
    }

    pub(crate) fn run_of(seed: u64, records: u64) -> impl FnOnce(&Arc<Pool>, &Recorder) {
        move |pool, recorder| {
            let log = pool.allocate(LOG_RECORDS * RECORD_BYTES, 0).unwrap();
            let log = log.finish_log().unwrap().extent();
            pool.publish(&finish(pool, &names(&[log]))).unwrap();
            recorder.acknowledge(1);
            append_of(seed, pool, recorder, log, 0..records);
        }
    }

    pub(crate) fn append(pool: &Arc<Pool>, recorder: &Recorder, log: Extent, numbers: Range<u64>) {
        append_of(0, pool, recorder, log, numbers);
    }

    fn append_of(
        seed: u64,
        pool: &Arc<Pool>,
        recorder: &Recorder,
        log: Extent,
        numbers: Range<u64>,
    ) {
        for number in numbers {
            pool.write(log, number * RECORD_BYTES, &record_of(seed, number))
                .unwrap();
            recorder.acknowledge(number + 2);
        }
    }

    pub(crate) fn count(bytes: &[u8]) -> u64 {
        count_of(0, bytes)
    }

    fn count_of(seed: u64, bytes: &[u8]) -> u64 {
        let whole = bytes
            .chunks_exact(RECORD_BYTES as usize)
            .zip(0..)
            .take_while(|(bytes, number)| *bytes == record_of(seed, *number));
        whole.count() as u64
    }

    /// Records from the first on, as many as were acknowledged or one more, none behind a gap.
    pub(crate) fn check(image: &Image<'_>) -> Result<(), String> {
        check_of(0, image)
    }

    pub(crate) fn check_of(seed: u64, image: &Image<'_>) -> Result<(), String> {
        let (pool, extents) = open(image)?;
        let Some(&log) = extents.first() else {
            return within_one_step(0, image.acknowledged);
        };
        let bytes = pool.bytes(log);
        let found = count_of(seed, bytes);
        let behind = &bytes[(found * RECORD_BYTES) as usize..];
        let behind = behind.chunks_exact(RECORD_BYTES as usize).zip(found..);
        if let Some((_, number)) = behind.into_iter().find(|(b, n)| *b == record_of(seed, *n)) {
            return Err(format!("record {number} behind a gap at {found}"));
        }
        within_one_step(found + 1, image.acknowledged)
    }
}

/// Transactions over two logs. Step 1 publishes them, step `n` is transaction `n - 1`.
pub(crate) mod transactions {
    use super::*;

    const LOG_BYTES: u64 = 1500;

    /// Where a transaction writes, and what: one to four places, some of which overlap.
    fn places(number: u64) -> Vec<(usize, u64, Vec<u8>)> {
        let mut seed = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let mut below = |end: u64| {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            seed % end
        };
        (0..1 + below(4))
            .map(|place| {
                let len = [4, 8, 60, 200][below(4) as usize];
                let at = below(LOG_BYTES - len);
                (
                    below(2) as usize,
                    at,
                    vec![(number * 4 + place) as u8; len as usize],
                )
            })
            .collect()
    }

    /// What both logs hold after each transaction, the first entry being what they hold at first.
    pub(crate) fn states(transactions: u64) -> Vec<[Vec<u8>; 2]> {
        states_of(0, transactions)
    }

    pub(crate) fn states_of(seed: u64, transactions: u64) -> Vec<[Vec<u8>; 2]> {
        let mut states = vec![[0, 1].map(|_| vec![0; LOG_BYTES as usize])];
        for number in 1..=transactions {
            let mut next = states[number as usize - 1].clone();
            for (log, at, bytes) in places(seed + number) {
                next[log][at as usize..][..bytes.len()].copy_from_slice(&bytes);
            }
            states.push(next);
        }
        states
    }

    pub(crate) fn run(transactions: u64) -> impl FnOnce(&Arc<Pool>, &Recorder) {
        run_of(0, transactions)
    }

    pub(crate) fn run_of(seed: u64, transactions: u64) -> impl FnOnce(&Arc<Pool>, &Recorder) {
        move |pool, recorder| {
            let log = |bytes| pool.allocate(bytes, 0).unwrap().finish_log().unwrap();
            let logs = [LOG_BYTES, LOG_BYTES, 2048].map(|bytes| log(bytes).extent());
            pool.publish(&finish(pool, &names(&logs))).unwrap();
            recorder.acknowledge(1);
            let mut undo = UndoLog::open(pool, logs[2]).unwrap();
            for number in 1..=transactions {
                // One that is given up writes nothing.
                let mut given_up = undo.begin();
                given_up.write(logs[0], 0, b"never").unwrap();
                drop(given_up);
                commit(&mut undo, &logs, seed + number);
                recorder.acknowledge(number + 1);
            }
        }
    }

    fn commit(undo: &mut UndoLog, logs: &[Extent], number: u64) {
        let mut transaction = undo.begin();
        for (log, at, bytes) in places(number) {
            transaction.write(logs[log], at, &bytes).unwrap();
        }
        transaction.commit().unwrap();
    }

    /// The next process takes back what was not committed, sees the rest, and commits two more.
    pub(crate) fn go_on(pool: &Arc<Pool>, recorder: &Recorder, states: &[[Vec<u8>; 2]]) {
        let Some(root) = pool.root() else { return };
        let logs = named(pool.bytes(root));
        pool.retain(&logs).unwrap();
        let mut undo = UndoLog::open(pool, logs[2]).unwrap();
        let found = find(pool, &logs, states, 0).expect("all of each transaction or nothing");
        recorder.acknowledge(found + 1);
        for number in found + 1..=found + 2 {
            commit(&mut undo, &logs, number);
            recorder.acknowledge(number + 1);
        }
    }

    /// The number of the state that both logs are in, `near` first.
    fn find(pool: &Pool, logs: &[Extent], states: &[[Vec<u8>; 2]], near: usize) -> Option<u64> {
        let is_now = |number: &usize| {
            let state = &states[*number];
            pool.bytes(logs[0]) == state[0] && pool.bytes(logs[1]) == state[1]
        };
        let mut nearest = near..states.len().min(near + 2);
        let found = nearest.find(is_now);
        found
            .or_else(|| (0..states.len()).find(is_now))
            .map(|number| number as u64)
    }

    /// Opens what was published and takes back what was not committed; which step the logs are at.
    fn recover(image: &Image<'_>, states: &[[Vec<u8>; 2]]) -> Result<u64, String> {
        let (pool, logs) = open(image)?;
        if logs.is_empty() {
            return Ok(0);
        }
        UndoLog::open(&pool, logs[2]).map_err(|error| error.to_string())?;
        let near = image.acknowledged.saturating_sub(1) as usize;
        find(&pool, &logs, states, near)
            .map(|number| number + 1)
            .ok_or_else(|| "a part of a transaction is there".to_owned())
    }

    pub(crate) fn check(
        states: &[[Vec<u8>; 2]],
    ) -> impl FnMut(&Image<'_>) -> Result<(), String> + '_ {
        |image| within_one_step(recover(image, states)?, image.acknowledged)
    }
}

/// A log in several copies, each in a pool of its own. Step 1 publishes all of them, step `n` is write
/// `n - 1`.
pub(crate) mod replicas {
    use super::*;
    use tierra_memory::replication::{Method, ReplicaSet};

    pub(crate) const LOG_BYTES: u64 = 700;

    /// Where write `number` goes, and what it writes: 4 bytes, a record, more than a line, at odd places.
    pub(crate) fn place(number: u64) -> (u64, Vec<u8>) {
        let len = [4, 8, 61, 130, 64, 1][number as usize % 6];
        let at = number * 89 % (LOG_BYTES - len);
        (
            at,
            (0..len)
                .map(|byte| (number * 41 + byte + 1) as u8)
                .collect(),
        )
    }

    /// What a copy holds after each write.
    pub(crate) fn states(seed: u64, writes: u64) -> Vec<Vec<u8>> {
        let mut states = vec![vec![0; LOG_BYTES as usize]];
        for number in 1..=writes {
            let mut next = states[number as usize - 1].clone();
            let (at, bytes) = place(seed + number);
            next[at as usize..][..bytes.len()].copy_from_slice(&bytes);
            states.push(next);
        }
        states
    }

    /// The program, recorded: one recording of as many pools as there are copies.
    pub(crate) fn recorded(
        recorder: &Recorder,
        copies: usize,
        method: &Method,
        seed: u64,
        writes: u64,
    ) -> Recorded {
        let dir = folder();
        let pools: Vec<Arc<Pool>> = (0..copies)
            .map(|pool| {
                let path = dir.path().join(format!("pool{pool}"));
                Pool::create(&path, &options(&recorder.of_pool(pool))).unwrap()
            })
            .collect();
        let mut places = Vec::new();
        for pool in &pools {
            let log = pool.allocate(LOG_BYTES, 0).unwrap().finish_log().unwrap();
            pool.publish(&finish(pool, &names(&[log.extent()])))
                .unwrap();
            places.push((Arc::clone(pool), log.extent()));
        }
        recorder.acknowledge(1);
        let mut set = ReplicaSet::open(&places).unwrap();
        for number in 1..=writes {
            let (at, bytes) = place(seed + number);
            set.write(method, at, &bytes).unwrap();
            recorder.acknowledge(number + 1);
        }
        for (number, pool) in pools.iter().enumerate() {
            assert!(recorder.of_pool(number).unseen(pool).is_empty());
        }
        let trace = recorder.trace();
        Recorded { dir, trace }
    }

    /// Where the image of a pool lies beside that of the first.
    fn path_of(path: &std::path::Path, pool: usize) -> PathBuf {
        path.with_extension(pool.to_string())
    }

    /// Cuts the power of all pools.
    pub(crate) fn explore(
        recorded: &Recorded,
        trace: &Trace,
        copies: usize,
        limits: &Limits,
        check: impl FnMut(&Image<'_>) -> Result<(), String>,
    ) -> Report {
        let paths = (0..copies).map(|pool| path_of(&recorded.image_path(), pool));
        let paths: Vec<PathBuf> = paths.collect();
        trace.explore_pools(&paths, limits, check).unwrap()
    }

    /// Each copy alone: as acknowledged, but where the next write goes. Then all are equal.
    pub(crate) fn check(
        image: &Image<'_>,
        copies: usize,
        states: &[Vec<u8>],
    ) -> Result<(), String> {
        let text = |error: tierra_memory::PoolError| error.to_string();
        let mut logs = Vec::new();
        for number in 0..copies {
            let options = options(&image.recorder.of_pool(number));
            let path = path_of(image.path, number);
            if !path.exists() {
                return within_one_step(0, image.acknowledged);
            }
            let pool = Pool::open(&path, &options).map_err(text)?;
            let Some(root) = pool.root() else {
                return within_one_step(0, image.acknowledged);
            };
            pool.verify_extent(root).map_err(text)?;
            let log = named(pool.bytes(root))[0];
            pool.retain(&[log]).map_err(text)?;
            logs.push((pool, log));
        }
        let done = image.acknowledged.saturating_sub(1) as usize;
        let next = (done + 1).min(states.len() - 1);
        for (copy, (pool, log)) in logs.iter().enumerate() {
            is_between(pool.bytes(*log), &states[done], &states[next])
                .map_err(|at| format!("copy {copy} alone is wrong at {at}"))?;
        }
        let set = ReplicaSet::open(&logs).map_err(|error| error.to_string())?;
        match (1..set.copies()).find(|&copy| set.bytes(copy) != set.bytes(0)) {
            Some(copy) => Err(format!("copy {copy} is not what the master is")),
            None => Ok(()),
        }
    }

    /// Whether each byte is as now or as after the next write; else the first that is neither.
    pub(crate) fn is_between(bytes: &[u8], now: &[u8], next: &[u8]) -> Result<(), usize> {
        let wrong = (0..bytes.len()).find(|&at| bytes[at] != now[at] && bytes[at] != next[at]);
        wrong.map_or(Ok(()), Err)
    }
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
