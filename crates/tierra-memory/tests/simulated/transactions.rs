//! Transactions over two logs. Step 1 publishes them, step `n` is transaction `n - 1`.

use tierra_memory::UndoLog;

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

pub(crate) fn check(states: &[[Vec<u8>; 2]]) -> impl FnMut(&Image<'_>) -> Result<(), String> + '_ {
    |image| within_one_step(recover(image, states)?, image.acknowledged)
}
