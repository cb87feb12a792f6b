//! Making a join table: every thread fills a range of its parts with the rows that belong there.
//!
//! Each thread looks at all keys, which are read one after the other and cost it next to nothing, and takes
//! those whose home is in its range: rows are copied nowhere, and no two threads write to one line. The
//! buckets that it writes to are fetched together.
//!
//! Invariant: a table is finished, or begun again with another seed. Keys that collide in one place (by
//! malice, not by chance) cost a second attempt, never a slow table.

use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, PoisonError};
use std::thread;

use tierra_interleave::{Cx, GroupSize, Interleaved, for_each};

use super::bucket::{Bucket, SLOTS};
use super::{JoinTable, MAX_PROBE_BUCKETS, ONE_PART_BITS, PART_BITS, TARGET_KEYS, home};
use crate::node_array::NodeArray;

/// Rows that are not worth another thread.
const ROWS_PER_THREAD: usize = 1 << 15;
/// Rows whose buckets are fetched together: few enough for these to be still near when they are written.
const FETCHED: usize = 128;
/// The seed that is tried first, so that tables are the same from run to run.
const FIRST_SEED: u64 = 0;

/// Keys that came to more than [`MAX_PROBE_BUCKETS`] buckets in a row.
struct ProbeTooLong;

impl JoinTable {
    /// A table of the rows `0..keys.len()`, row `i` with `keys[i]`, but without those for which `has_key`
    /// says no. Up to `threads` threads work on it, of which the caller's is one; the table is the same
    /// however many they are.
    ///
    /// # Panics
    ///
    /// If there are more than [`MAX_ROWS`](Self::MAX_ROWS) rows.
    pub fn build<F>(keys: &[u64], has_key: F, threads: usize) -> Self
    where
        F: Fn(usize) -> bool + Sync,
    {
        assert!(
            keys.len() <= Self::MAX_ROWS,
            "rows are numbered with 31 bits"
        );
        let threads = threads.clamp(1, keys.len() / ROWS_PER_THREAD + 1);
        let mut seed = FIRST_SEED;
        loop {
            match Self::try_build(keys, &has_key, threads, seed) {
                Ok(table) => return table,
                Err(ProbeTooLong) => seed = RandomState::new().hash_one(seed),
            }
        }
    }

    /// Bytes that [`build`](Self::build) needs for `rows` rows while it works, if all of them have one key.
    pub fn bytes_to_build(rows: usize) -> usize {
        let (buckets, _) = shape(rows);
        let runs = rows * (size_of::<DuplicateRow>() + size_of::<u32>());
        buckets * size_of::<Bucket>() + runs
    }

    fn try_build<F>(
        keys: &[u64],
        has_key: &F,
        threads: usize,
        seed: u64,
    ) -> Result<Self, ProbeTooLong>
    where
        F: Fn(usize) -> bool + Sync,
    {
        let (len, part_bits) = shape(keys.len());
        let mut buckets = NodeArray::zeroed(len);
        let parts = len.div_ceil(1 << part_bits);
        let step = parts.div_ceil(threads);
        let ranges = buckets.chunks_mut(len.min(step << part_bits)).enumerate();
        let ranges = ranges.map(|(number, buckets)| PartRange {
            first: (number * step) << part_bits,
            part_bits,
            buckets,
        });
        let filled = in_parallel(ranges.collect(), |range| {
            range.fill(keys, has_key, |key| home(key, seed, len))
        });

        let mut runs = Vec::with_capacity(parts);
        let (mut keys, mut rows) = (0, 0);
        for filled in filled {
            let filled = filled?;
            keys += filled.keys;
            rows += filled.rows;
            runs.extend(filled.runs);
        }
        Ok(JoinTable {
            buckets,
            runs,
            part_bits,
            seed,
            keys,
            rows,
        })
    }
}

/// The number of buckets for `rows` rows, and log2 of how many of them are a part.
fn shape(rows: usize) -> (usize, u32) {
    let buckets = rows.div_ceil(TARGET_KEYS).max(1);
    if buckets <= 1 << PART_BITS {
        (buckets, ONE_PART_BITS)
    } else {
        (buckets.next_multiple_of(1 << PART_BITS), PART_BITS)
    }
}

/// Consecutive parts of a table, to be filled by one thread.
struct PartRange<'a> {
    /// The first of their buckets, among those of the table.
    first: usize,
    part_bits: u32,
    buckets: &'a mut [Bucket],
}

/// What consecutive parts have besides their buckets.
struct Filled {
    runs: Vec<Box<[u32]>>,
    keys: usize,
    rows: usize,
}

/// A row on its way into the table: its home among the range's buckets, its key, its number.
type IncomingRow = (usize, u64, u32);

/// A row after the first of its key, behind the key's slot among those of the part.
type DuplicateRow = (u32, u32);

impl PartRange<'_> {
    fn fill(
        mut self,
        keys: &[u64],
        has_key: impl Fn(usize) -> bool,
        home: impl Fn(u64) -> usize,
    ) -> Result<Filled, ProbeTooLong> {
        let mut duplicates: Vec<Vec<DuplicateRow>> = Vec::new();
        duplicates.resize_with(self.buckets.len().div_ceil(1 << self.part_bits), Vec::new);
        let mut distinct = 0;
        let mut incoming: [IncomingRow; FETCHED] = [(0, 0, 0); FETCHED];
        let mut count = 0;
        for (row, key) in keys.iter().enumerate() {
            // Written whether or not it belongs here, which is unpredictable.
            let number = home(*key).wrapping_sub(self.first);
            incoming[count] = (number, *key, row as u32);
            count += usize::from(number < self.buckets.len() && has_key(row));
            if count == FETCHED {
                distinct += self.insert(&incoming, &mut duplicates)?;
                count = 0;
            }
        }
        distinct += self.insert(&incoming[..count], &mut duplicates)?;

        let rows = distinct + duplicates.iter().map(Vec::len).sum::<usize>();
        let parts = self.buckets.chunks_mut(1 << self.part_bits).zip(duplicates);
        let runs = parts
            .map(|(buckets, duplicates)| runs(buckets, &duplicates))
            .collect();
        let keys = distinct;
        Ok(Filled { runs, keys, rows })
    }

    /// Adds rows whose keys are new, and notes the others. The number of new keys.
    fn insert(
        &mut self,
        incoming: &[IncomingRow],
        duplicates: &mut [Vec<DuplicateRow>],
    ) -> Result<usize, ProbeTooLong> {
        for_each(
            GroupSize::DEFAULT,
            incoming,
            |cx: Cx<Interleaved>, (number, ..)| cx.load(&self.buckets[*number]),
            |_, _| {},
        );
        let mut distinct = 0;
        for (number, key, row) in incoming {
            let part = number >> self.part_bits;
            let first = part << self.part_bits;
            let end = self.buckets.len().min(first + (1 << self.part_bits));
            let buckets = &mut self.buckets[first..end];
            match insert(buckets, number - first, *key, *row)? {
                Some(slot) => duplicates[part].push((slot, *row)),
                None => distinct += 1,
            }
        }
        Ok(distinct)
    }
}

/// Adds a key with its first row to a part; the slot that has the key already, if one has.
#[inline(always)]
fn insert(
    buckets: &mut [Bucket],
    home: usize,
    key: u64,
    row: u32,
) -> Result<Option<u32>, ProbeTooLong> {
    let mut number = home;
    for _ in 0..buckets.len().min(MAX_PROBE_BUCKETS) {
        let bucket = &mut buckets[number];
        let (found, slot) = bucket.slot_of(key);
        if found {
            return Ok(Some((number * SLOTS + slot) as u32));
        }
        if bucket.push(key, row) {
            return Ok(None);
        }
        number += 1;
        if number == buckets.len() {
            number = 0;
        }
    }
    Err(ProbeTooLong)
}

/// Gives every slot of a part that has more rows than one its run.
fn runs(buckets: &mut [Bucket], duplicates: &[DuplicateRow]) -> Box<[u32]> {
    if duplicates.is_empty() {
        return Box::default();
    }
    // How many rows each slot has besides its first; then where its next row goes.
    let mut row_positions = vec![0_u32; buckets.len() * SLOTS];
    for (slot, _) in duplicates {
        row_positions[*slot as usize] += 1;
    }
    let slots = row_positions
        .iter()
        .filter(|duplicates| **duplicates > 0)
        .count();
    let mut runs = Vec::with_capacity(duplicates.len() + 2 * slots);
    for (slot, position) in row_positions
        .iter_mut()
        .enumerate()
        .filter(|(_, duplicates)| **duplicates > 0)
    {
        let (bucket, slot) = (&mut buckets[slot / SLOTS], slot % SLOTS);
        let (start, count) = (runs.len(), 1 + *position);
        runs.push(count);
        runs.push(bucket.row(slot));
        runs.resize(start + 1 + count as usize, 0);
        bucket.set_run(slot, start as u32);
        *position = start as u32 + 2;
    }
    for (slot, row) in duplicates {
        let position = &mut row_positions[*slot as usize];
        runs[*position as usize] = *row;
        *position += 1;
    }
    runs.into_boxed_slice()
}

/// Does every piece of `work` on a thread of its own, of which the caller's is one; the results in their
/// order. Where the system gives no more threads, fewer do it.
fn in_parallel<T: Send, R: Send>(work: Vec<T>, piece: impl Fn(T) -> R + Sync) -> Vec<R> {
    let pieces = work.len();
    let work = Mutex::new(work.into_iter().enumerate());
    let results = Mutex::new(Vec::with_capacity(pieces));
    let worker = || {
        loop {
            // A piece that panics ends the whole when its thread is joined.
            let next = work.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some((number, next)) = next else { break };
            let result = piece(next);
            let mut results = results.lock().unwrap_or_else(PoisonError::into_inner);
            results.push((number, result));
        }
    };
    thread::scope(|scope| {
        for _ in 1..pieces {
            if thread::Builder::new().spawn_scoped(scope, worker).is_err() {
                break;
            }
        }
        worker();
    });
    let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.sort_unstable_by_key(|(number, _)| *number);
    results.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use tierra_interleave::run_plain;

    use super::super::JoinRows;
    use super::*;
    use crate::hash::hash_of;

    /// The key with this hash: `hash_of` backwards.
    fn key_with_hash(hash: u64) -> u64 {
        // Newton's iteration doubles the right bits of an inverse, five of which any odd number has.
        let inverse = |odd: u64| {
            (0..5).fold(odd, |x: u64, _| {
                x.wrapping_mul(2_u64.wrapping_sub(odd.wrapping_mul(x)))
            })
        };
        let mut key = hash ^ hash >> 32;
        key = key.wrapping_mul(inverse(0xd6e8_feb8_6659_fd93));
        key = key ^ key >> 29 ^ key >> 58;
        key = key.wrapping_mul(inverse(0x9e37_79b9_7f4a_7c15));
        key ^ key >> 32
    }

    #[test]
    fn keys_that_pile_up_cost_another_seed() {
        // One home for 1,000 keys, among enough others for several parts.
        let piled = (0..1_000).map(|hash| key_with_hash(hash ^ FIRST_SEED));
        let keys: Vec<u64> = piled.chain((0..100_000).map(|i| i << 20 | 1)).collect();
        assert_eq!(hash_of(keys[999]), 999);
        assert!(JoinTable::try_build(&keys, &|_| true, 2, FIRST_SEED).is_err());
        let table = JoinTable::build(&keys, |_| true, 2);
        assert_ne!(table.seed, FIRST_SEED);
        for (row, key) in keys.iter().enumerate() {
            let found = run_plain(|cx| table.find(cx, *key));
            assert_eq!(table.rows(found), JoinRows::One(row as u32));
        }
    }

    #[test]
    fn tables_are_the_same_however_many_threads_make_them() {
        let keys: Vec<u64> = (0..200_000).map(|row| row % 70_000).collect();
        let table = JoinTable::build(&keys, |row| row % 5 != 0, 1);
        for threads in [2, 7] {
            let other = JoinTable::build(&keys, |row| row % 5 != 0, threads);
            assert_eq!(table.runs, other.runs);
            for key in 0..70_001 {
                let find = |table: &JoinTable| run_plain(|cx| table.find(cx, key));
                assert_eq!(find(&table), find(&other), "{key}");
            }
        }
    }
}
