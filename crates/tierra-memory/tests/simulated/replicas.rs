//! A log in several copies, each in a pool of its own. Step 1 publishes all of them, step `n` is write
//! `n - 1`.

use std::path::Path;

use tierra_memory::replication::{Method, ReplicaSet};

use super::*;

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
fn path_of(path: &Path, pool: usize) -> PathBuf {
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
pub(crate) fn check(image: &Image<'_>, copies: usize, states: &[Vec<u8>]) -> Result<(), String> {
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
