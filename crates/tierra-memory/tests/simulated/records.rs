//! A log whose records are one line and a half, each with a checksum. Step 1 publishes the log, step
//! `n` writes record `n - 2`.

use std::ops::Range;

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

fn append_of(seed: u64, pool: &Arc<Pool>, recorder: &Recorder, log: Extent, numbers: Range<u64>) {
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
