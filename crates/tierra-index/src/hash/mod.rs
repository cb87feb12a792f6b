//! A hash table from 64-bit keys to rows, for probes that can be interleaved and growth that never
//! stops the world.
//!
//! ```text
//!  hash:  │ top bits ───────────────┐      ...      ┌─ low bits │
//!                                   ▼               ▼
//!  directory: │ 0 │ 0 │ 1 │ 2 │ ─▶ segment 1: │ bucket │ bucket │ ... │   bucket: one line,
//!                                  segment 2: │ bucket │ bucket │ ... │   four entries
//! ```
//!
//! The first segment doubles until it fills 2 MiB, one large page; from then on a segment that is
//! full splits in two, and the directory doubles when a segment is split finer than it tells apart
//! (extendible hashing). So an insert moves at most the entries of one segment, under 105,000, and
//! the directory, 4 bytes for each 2 MiB, stays in the nearest caches: a probe waits for buckets only.
//!
//! Invariants:
//! - Slot `p` of the directory (`2^depth` slots) names the segment of every hash whose top `depth`
//!   bits are `p`. A segment of depth `d` is named by `2^(depth - d)` consecutive slots.
//! - Entries are never removed.

mod bucket;
mod segment;
mod spread;

use tierra_interleave::{Cx, GroupSize, Interleaved, Load, Mode, for_each};

use bucket::{Bucket, NO_ROW};
use segment::{SPLIT_BUCKETS, Segment};
pub(crate) use spread::hash_of;

/// A multimap from 64-bit keys to rows. See the [crate] for an example.
///
/// Made for keys with one or a few rows: `n` rows of one key cost a probe `n / 4` lines. Keys that
/// are not 64-bit integers are represented by a 64-bit hash of theirs; the rows found are then
/// [candidates](Self::candidates) for the caller to verify.
pub struct HashIndex {
    /// Segment numbers by the top bits of a hash.
    directory: Vec<u32>,
    depth: u32,
    segments: Vec<Segment>,
    len: usize,
}

impl HashIndex {
    /// An empty index of one line.
    pub fn new() -> Self {
        Self::with_capacity(0)
    }

    /// An empty index with room for about `entries` entries. Building is several times faster when the
    /// number is known, because a growing index moves its entries at each split.
    pub fn with_capacity(entries: usize) -> Self {
        let mut buckets = 1;
        while buckets < SPLIT_BUCKETS && Segment::capacity(buckets) < entries {
            buckets *= 2;
        }
        // Hashes spread unevenly: a little more room spares most segments a split.
        let wanted = entries
            .saturating_add(entries / 16)
            .div_ceil(Segment::capacity(SPLIT_BUCKETS));
        let segments = if buckets < SPLIT_BUCKETS {
            1
        } else {
            wanted.max(1).next_power_of_two()
        };
        let depth = segments.ilog2();
        HashIndex {
            directory: (0..segments as u32).collect(),
            depth,
            segments: (0..segments)
                .map(|_| Segment::new(buckets, depth))
                .collect(),
            len: 0,
        }
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The memory that the index takes.
    pub fn bytes(&self) -> usize {
        let buckets: usize = self.segments.iter().map(Segment::buckets).sum();
        size_of::<Self>()
            + buckets * size_of::<Bucket>()
            + self.segments.capacity() * size_of::<Segment>()
            + self.directory.capacity() * size_of::<u32>()
    }

    /// Every entry, `(key, row)`, in no particular order: for merging indexes.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> {
        self.segments.iter().flat_map(Segment::entries)
    }

    /// Adds `row` to the rows of `key`. An entry that is there already is there twice.
    ///
    /// # Panics
    ///
    /// If `row` is `u64::MAX`, which is no row.
    pub fn insert(&mut self, key: u64, row: u64) {
        assert_ne!(row, NO_ROW, "the greatest u64 is no row");
        let hash = hash_of(key);
        let mut number = self.segment_number(hash);
        while self.segments[number].is_at_capacity() {
            self.grow(number);
            number = self.segment_number(hash);
        }
        self.segments[number].insert(hash, key, row);
        self.len += 1;
    }

    /// Adds many entries, faster than one at a time: the buckets they go to are fetched together.
    ///
    /// # Panics
    ///
    /// As [`insert`](Self::insert).
    pub fn insert_all(&mut self, entries: &[(u64, u64)]) {
        // Few enough buckets to be still in the nearest cache when they are written.
        const FETCHED: usize = 128;
        for entries in entries.chunks(FETCHED) {
            for_each(
                GroupSize::DEFAULT,
                entries,
                |cx: Cx<Interleaved>, &(key, _)| {
                    let hash = hash_of(key);
                    let segment = self.segment(hash);
                    cx.load(segment.bucket(segment.home(hash)))
                },
                |_, _| {},
            );
            for &(key, row) in entries {
                self.insert(key, row);
            }
        }
    }

    /// A row of `key`: the only one, if keys are unique.
    pub async fn get<M: Mode>(&self, cx: Cx<M>, key: u64) -> Option<u64> {
        let hash = hash_of(key);
        let segment = self.segment(hash);
        let mut number = segment.home(hash);
        loop {
            let bucket = cx.load(segment.bucket(number)).await;
            if let Some((row, _)) = bucket.find(key, 0) {
                return Some(row);
            }
            if !bucket.is_full() {
                return None;
            }
            number = segment.after(number);
        }
    }

    /// Every row of `key`, one after the other, in no particular order.
    pub fn candidates(&self, key: u64) -> Candidates<'_> {
        let hash = hash_of(key);
        let segment = self.segment(hash);
        Candidates {
            segment,
            key,
            bucket: segment.home(hash),
            slot: BucketCursor::Unread,
        }
    }

    #[inline(always)]
    fn segment_number(&self, hash: u64) -> usize {
        // With depth 0 the shift would be by 64: two shifts make it 0.
        self.directory[(hash >> 1 >> (u64::BITS - 1 - self.depth)) as usize] as usize
    }

    #[inline(always)]
    fn segment(&self, hash: u64) -> &Segment {
        &self.segments[self.segment_number(hash)]
    }

    /// Makes room in a segment. Moves the entries of that segment only.
    #[cold]
    fn grow(&mut self, number: usize) {
        if self.segments[number].buckets() < SPLIT_BUCKETS {
            return self.segments[number].double();
        }
        let Some(ones) = self.segments[number].split() else {
            return self.segments[number].double();
        };
        let new = self.segments.len() as u32;
        if ones.depth > self.depth {
            self.directory = self
                .directory
                .iter()
                .flat_map(|&segment| [segment; 2])
                .collect();
            self.depth += 1;
        }
        // The slots of a segment are consecutive; the upper half of them is the new one's.
        let named = self
            .directory
            .iter()
            .position(|&segment| segment as usize == number);
        let first = named.expect("the directory names every segment");
        let slots = 1 << (self.depth - ones.depth);
        self.directory[first + slots..first + 2 * slots].fill(new);
        self.segments.push(ones);
    }
}

impl Default for HashIndex {
    fn default() -> Self {
        Self::new()
    }
}

/// The rows of one key, on the way through its buckets. Made by [`HashIndex::candidates`].
pub struct Candidates<'a> {
    segment: &'a Segment,
    key: u64,
    bucket: usize,
    slot: BucketCursor,
}

/// How far a bucket has been searched.
#[derive(Clone, Copy)]
enum BucketCursor {
    /// The bucket may still be far.
    Unread,
    /// The bucket is near and has been searched up to here.
    Next(usize),
    /// The bucket was the last one.
    End,
}

impl<'a> Candidates<'a> {
    /// The next row, `None` after the last. Gives way only where it comes to another bucket.
    pub async fn next<M: Mode>(&mut self, cx: Cx<M>) -> Option<u64> {
        loop {
            let (bucket, from) = match self.slot {
                BucketCursor::Unread => (self.load(cx).await, 0),
                BucketCursor::Next(slot) => (self.segment.bucket(self.bucket), slot),
                BucketCursor::End => return None,
            };
            if let Some((row, after)) = bucket.find(self.key, from) {
                self.slot = BucketCursor::Next(after);
                return Some(row);
            }
            if bucket.is_full() {
                self.bucket = self.segment.after(self.bucket);
                self.slot = BucketCursor::Unread;
            } else {
                self.slot = BucketCursor::End;
            }
        }
    }

    fn load<M: Mode>(&self, cx: Cx<M>) -> Load<'a, Bucket, M> {
        cx.load(self.segment.bucket(self.bucket))
    }
}

#[cfg(test)]
mod tests {
    use tierra_interleave::run_plain;

    use super::*;

    #[test]
    fn segments_double_then_split_and_the_directory_follows() {
        let mut index = HashIndex::new();
        let one_segment = Segment::capacity(SPLIT_BUCKETS) as u64;
        for key in 0..one_segment {
            index.insert(key, key);
        }
        assert_eq!((index.segments.len(), index.depth), (1, 0));
        index.insert(one_segment, one_segment);
        assert_eq!((index.segments.len(), index.depth), (2, 1));
        for key in one_segment + 1..5 * one_segment {
            index.insert(key, key);
        }
        assert_eq!(index.depth, 3);
        assert!(
            index
                .segments
                .iter()
                .all(|segment| segment.buckets() == SPLIT_BUCKETS)
        );
        for (position, &number) in index.directory.iter().enumerate() {
            let shared = index.depth - index.segments[number as usize].depth;
            let first = position >> shared << shared;
            assert_eq!(
                index.directory[first], number,
                "a segment's places are consecutive"
            );
        }
        for key in 0..5 * one_segment {
            assert_eq!(run_plain(|cx| index.get(cx, key)), Some(key));
        }
        assert_eq!(run_plain(|cx| index.get(cx, 5 * one_segment)), None);
    }

    #[test]
    fn many_rows_of_one_key_make_no_segments() {
        let mut index = HashIndex::new();
        let rows = 12_000;
        // As if a segment were already at its full size when the duplicates come.
        index.segments[0] = Segment::new(SPLIT_BUCKETS, 0);
        for row in 0..rows {
            index.insert(7, row);
        }
        assert!(index.segments[0].split().is_none());
        index.grow(0);
        assert_eq!((index.segments.len(), index.depth), (1, 0));
        assert_eq!(index.segments[0].buckets(), 2 * SPLIT_BUCKETS);
        let mut candidates = index.candidates(7);
        for row in 0..rows {
            assert_eq!(run_plain(|cx| candidates.next(cx)), Some(row));
        }
        assert_eq!(run_plain(|cx| candidates.next(cx)), None);
        assert_eq!(
            run_plain(|cx| candidates.next(cx)),
            None,
            "and stays at the end"
        );
    }

    #[test]
    fn capacity_is_kept_and_grows_by_nothing_when_right() {
        for entries in [0, 1, 3, 4, 100, 104_857, 104_858, 1_000_000] {
            let mut index = HashIndex::with_capacity(entries);
            let bytes = index.bytes();
            let pairs: Vec<_> = (0..entries as u64).map(|key| (key << 20, key)).collect();
            index.insert_all(&pairs);
            assert_eq!(index.len(), entries);
            assert_eq!(
                index.iter().map(|(_, row)| row).max(),
                (entries as u64).checked_sub(1)
            );
            assert_eq!(index.bytes(), bytes, "{entries} entries");
        }
    }

    #[test]
    fn patterns_of_keys_stay_near_their_homes() {
        let n = 200_000u64;
        type Pattern = fn(u64) -> u64;
        let patterns: [(&str, Pattern); 5] = [
            ("dense", |i| i),
            ("stride 2^32", |i| i << 32),
            ("stride 2^40 + i", |i| (i << 40) | i),
            ("top bits", |i| i.reverse_bits()),
            ("multiples of 1000", |i| i * 1000),
        ];
        for (name, key) in patterns {
            let mut index = HashIndex::with_capacity(n as usize);
            (0..n).for_each(|i| index.insert(key(i), i));
            let mut lines = 0;
            for i in 0..n {
                let hash = hash_of(key(i));
                let segment = index.segment(hash);
                let mut bucket = segment.home(hash);
                lines += 1;
                while segment.bucket(bucket).find(key(i), 0).is_none() {
                    bucket = segment.after(bucket);
                    lines += 1;
                }
            }
            let per_probe = lines as f64 / n as f64;
            assert!(per_probe < 1.2, "{name}: {per_probe} lines per probe");
        }
    }
}
