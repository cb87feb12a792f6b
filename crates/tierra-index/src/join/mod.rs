//! The build side of a join: from 64-bit keys to the rows that have them, made once and then probed.
//!
//! ```text
//!  hash of a key ──▶ bucket, one line of five keys
//!                    part 0: │ bucket │ ... │ bucket │   each part, 512 KiB, is filled by one thread
//!                    part 1: │ bucket │ ... │ bucket │
//!  key of several rows ──▶ runs of its part: │ count │ row │ row │ ... │
//! ```
//!
//! All keys are there before the first probe, which is what makes the table different from
//! [`HashIndex`](crate::HashIndex): it is as large as it has to be from the beginning, and filled by as many
//! threads as are given; and the rows of a key are contiguous, so that a probe waits for one line, or two
//! where there are several.
//!
//! Invariants:
//! - A key's bucket is its home, or follows it within the same part behind buckets that have all
//!   overflowed, at most [`MAX_PROBE_BUCKETS`] of them. The last bucket of a part is followed by its first.
//! - The rows of a key are in ascending order.
//! - A key is in at most one slot.

mod bucket;
mod build;

use std::hint::select_unpredictable;
use std::ops::ControlFlow::{Break, Continue};

use tierra_interleave::{Chain, Cx, Mode};

use crate::hash::hash_of;
use crate::node_array::NodeArray;
use bucket::Bucket;

/// Keys of a bucket on average: then one probe in twelve needs a second line.
const TARGET_KEYS: usize = 3;
/// log2 of the buckets of a part, where there are several parts.
const PART_BITS: u32 = 13;
/// Of a table that is one part, however many buckets it has.
const ONE_PART_BITS: u32 = 31;
/// Buckets that a probe looks at, at most.
const MAX_PROBE_BUCKETS: usize = 64;

/// A multimap from 64-bit keys to rows, made once.
///
/// Keys that are no 64-bit integers are represented by a 64-bit hash of theirs; the rows found are then
/// candidates for the caller to verify.
///
/// ```
/// use tierra_index::{JoinRows, JoinTable};
/// use tierra_interleave::{Cx, GroupSize, Interleaved, map_into};
///
/// let table = JoinTable::build(&[30, 10, 20, 10], |_| true, 1);
/// let mut found = [Default::default(); 3];
/// map_into(GroupSize::DEFAULT, [10, 20, 40], |cx: Cx<Interleaved>, key| table.find(cx, key), &mut found);
/// assert_eq!(found.map(|found| table.rows(found)), [JoinRows::Many(&[1, 3]), JoinRows::One(2), JoinRows::None]);
/// ```
pub struct JoinTable {
    buckets: NodeArray<Bucket>,
    /// Of each part.
    runs: Vec<Box<[u32]>>,
    part_bits: u32,
    seed: u64,
    keys: usize,
    rows: usize,
}

/// What a probe has found, to be given to [`JoinTable::rows`]. Nothing by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JoinMatch(u64);

// From bit 0: 32 of the position, then whether there is one, whether it is a run, and the part.
const FOUND: u32 = 32;
const RUN: u32 = 33;
const PART: u32 = 34;

impl JoinMatch {
    /// Whether any row has the key.
    #[inline(always)]
    pub fn is_some(self) -> bool {
        self.0 != 0
    }

    /// The row, of a table whose keys [are unique](JoinTable::is_unique); any if there is none.
    #[inline(always)]
    pub fn only_row(self) -> u32 {
        self.position()
    }

    #[inline(always)]
    fn is_run(self) -> bool {
        self.0 >> RUN & 1 != 0
    }

    #[inline(always)]
    fn position(self) -> u32 {
        self.0 as u32
    }
}

/// The rows of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JoinRows<'a> {
    /// No row has it.
    None,
    /// One row.
    One(u32),
    /// Several rows, in ascending order.
    Many(&'a [u32]),
}

impl JoinTable {
    /// Rows that a table can have.
    pub const MAX_ROWS: usize = 1 << 31;

    /// The number of different keys.
    pub fn keys(&self) -> usize {
        self.keys
    }

    /// The number of rows that have a key.
    pub fn rows_with_key(&self) -> usize {
        self.rows
    }

    /// Whether no two rows have the same key.
    pub fn is_unique(&self) -> bool {
        self.keys == self.rows
    }

    /// The memory that the table takes.
    pub fn bytes(&self) -> usize {
        let runs: usize = self.runs.iter().map(|runs| size_of_val(&**runs)).sum();
        size_of::<Self>() + size_of_val(&*self.buckets) + size_of_val(&*self.runs) + runs
    }

    /// Looks `key` up. Gives way at its bucket, and at the first of its rows where there are several.
    #[inline(always)]
    pub fn find<M: Mode>(&self, cx: Cx<M>, key: u64) -> impl Future<Output = JoinMatch> {
        let mut number = self.home(key);
        let search = cx.walk(&self.buckets[number], move |bucket: &Bucket| {
            let slot = bucket.find(key);
            if !slot.found & bucket.is_overflowed() {
                number = self.after(number);
                return Continue(&self.buckets[number]);
            }
            let part = (number >> self.part_bits) as u64;
            let position = u64::from(slot.position) | u64::from(slot.is_run) << RUN;
            let word = position | 1 << FOUND | part << PART;
            Break(JoinMatch(select_unpredictable(slot.found, word, 0)))
        });
        search.then(move |found| cx.load(self.head(found)).map(move |_| found))
    }

    /// The rows that a probe has found.
    ///
    /// # Panics
    ///
    /// If `found` is of another table, perhaps.
    #[inline(always)]
    pub fn rows(&self, found: JoinMatch) -> JoinRows<'_> {
        if found.is_run() {
            let runs = self.runs_of(found);
            let start = found.position() as usize;
            let count = runs[start] as usize;
            return JoinRows::Many(&runs[start + 1..start + 1 + count]);
        }
        match found.is_some() {
            true => JoinRows::One(found.position()),
            false => JoinRows::None,
        }
    }

    /// The beginning of a run. Empty if there is none, and then not waited for.
    #[inline(always)]
    fn head(&self, found: JoinMatch) -> &[u32] {
        if !found.is_run() {
            return &[];
        }
        let start = found.position() as usize;
        &self.runs_of(found)[start..=start]
    }

    #[inline(always)]
    fn runs_of(&self, found: JoinMatch) -> &[u32] {
        &self.runs[(found.0 >> PART) as usize]
    }

    #[inline(always)]
    fn home(&self, key: u64) -> usize {
        home(key, self.seed, self.buckets.len())
    }

    /// The bucket after `number` in its part.
    #[inline(always)]
    fn after(&self, number: usize) -> usize {
        let first = number >> self.part_bits << self.part_bits;
        let end = self.buckets.len().min(first + (1 << self.part_bits));
        if number + 1 == end { first } else { number + 1 }
    }
}

/// The home of `key` among `buckets`: the hash as a fraction of their number.
#[inline(always)]
fn home(key: u64, seed: u64, buckets: usize) -> usize {
    ((u128::from(hash_of(key ^ seed)) * buckets as u128) >> u64::BITS) as usize
}
