//! Looks up normalized keys in a run. The near tree finds the leaf of each, all keys together, level by level. Then the lines in
//! which they should be are fetched together, and those of keys that were not found, until all are settled: one line of far
//! memory each, or two.
//!
//! The place of a normalized key in a leaf is estimated from its distance to the first normalized keys of the leaf and of the
//! next one: normalized keys are ordinals, which are often dense, or hashes, which are uniform. A wrong guess yields the bounds
//! of the next one; after a few guesses, the leaf is halved.
//!
//! Loops in rounds are used instead of lookups that yield: the first line settles most keys, and a group's state of each lookup
//! cost twice as much as reading the line (`examples/key_index.rs`).

use tierra_index::SearchTree;
use tierra_interleave::{GroupReport, Mode};

use super::layout::{Directory, LEAF_BYTES, Leaf};

/// Guesses before a leaf is halved.
const GUESSES_MOST: usize = 4;
/// Normalized keys whose lines are fetched together.
const TOGETHER: usize = 128;
/// Fewer normalized keys than this hide little latency.
const FEW: usize = 4;

/// A directory, and the tree over it.
pub(super) struct Leaves {
    pub(super) directory: Directory,
    tree: SearchTree<u64>,
}

/// A normalized key that is looked up.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sought {
    pub(super) normalized_key: u64,
    /// Its index among the requested ones.
    pub(super) place: u32,
    /// The leaf of its first entry, if there is one; that entry may also be the first of the next leaf.
    pub(super) leaf: u32,
}

impl Sought {
    /// Fewer than 2^32 are looked up together.
    #[inline]
    pub(super) fn of(normalized_key: u64, place: usize) -> Self {
        Self {
            normalized_key,
            place: place as u32,
            leaf: 0,
        }
    }
}

impl Leaves {
    pub(super) fn new(directory: Directory) -> Self {
        let tree = SearchTree::new(&directory.firsts);
        Self { directory, tree }
    }

    /// Bytes of near memory.
    pub(super) fn near_bytes(&self) -> usize {
        let Directory { firsts, leaves, .. } = &self.directory;
        self.tree.len_bytes() + size_of_val(&**firsts) + size_of_val(&**leaves)
    }

    /// Whether a normalized key may have an entry.
    #[inline]
    pub(super) fn may_have(&self, normalized_key: u64) -> bool {
        self.directory.firsts[0] <= normalized_key && normalized_key <= self.directory.last
    }

    /// Finds the leaf of each normalized key.
    pub(super) fn seek<M: Mode>(&self, sought: &mut [Sought]) -> GroupReport {
        const SOUGHT_TOGETHER: usize = 256;
        let searcher = self.tree.over(&self.directory.firsts);
        let (mut normalized_keys, mut ranks) = ([0; SOUGHT_TOGETHER], [0; SOUGHT_TOGETHER]);
        let mut report = GroupReport::default();
        for sought in sought.chunks_mut(SOUGHT_TOGETHER) {
            let (normalized_keys, ranks) = (
                &mut normalized_keys[..sought.len()],
                &mut ranks[..sought.len()],
            );
            for (normalized_key, sought) in normalized_keys.iter_mut().zip(&*sought) {
                *normalized_key = sought.normalized_key;
            }
            report += searcher.lower_bounds::<M>(normalized_keys, ranks);
            for (sought, rank) in sought.iter_mut().zip(ranks) {
                // Entries with the normalized key may end the previous leaf.
                sought.leaf = rank.saturating_sub(1) as u32;
            }
        }
        report
    }

    /// Finds the first row of each normalized key, and passes it to `found` with the key's place. `leaves` are the leaves' bytes.
    pub(super) fn first_rows<M: Mode>(
        &self,
        leaves: &[u8],
        sought: &[Sought],
        mut found: impl FnMut(usize, Option<u64>),
    ) -> GroupReport {
        let mode = M::default();
        let mut report = GroupReport {
            lookups: sought.len() as u64,
            suspensions: 0,
        };
        let one_by_one = !M::INTERLEAVED || sought.len() < FEW;
        if one_by_one {
            for sought in sought {
                let mut narrowing = Narrowing::new(self, leaves, *sought);
                let row = loop {
                    let place = narrowing.guess();
                    mode.arrive(narrowing.fetch(mode, place));
                    if let Some(row) = narrowing.look(self, leaves, *sought, place) {
                        break row;
                    }
                };
                found(sought.place as usize, row);
            }
            return report;
        }
        let mut lanes = Vec::with_capacity(sought.len().min(TOGETHER));
        for sought in sought.chunks(TOGETHER) {
            lanes.clear();
            for sought in sought {
                let narrowing = Narrowing::new(self, leaves, *sought);
                let place = narrowing.guess();
                let ticket = narrowing.fetch(mode, place);
                lanes.push((*sought, narrowing, place, ticket));
            }
            while !lanes.is_empty() {
                report.suspensions += lanes.len() as u64;
                lanes.retain_mut(|(sought, narrowing, place, ticket)| {
                    mode.arrive(*ticket);
                    if let Some(row) = narrowing.look(self, leaves, *sought, *place) {
                        found(sought.place as usize, row);
                        return false;
                    }
                    *place = narrowing.guess();
                    *ticket = narrowing.fetch(mode, *place);
                    true
                });
            }
        }
        report
    }

    /// All rows of a normalized key, from the leaf of its first entry.
    pub(super) fn all_rows<'a>(
        &'a self,
        leaves: &'a [u8],
        sought: Sought,
    ) -> impl Iterator<Item = u64> + 'a {
        let number = sought.leaf as usize;
        let numbers = (number..self.directory.len()).take_while(move |other| {
            *other == number || self.directory.firsts[*other] == sought.normalized_key
        });
        numbers.flat_map(move |number| {
            let (first, leaf, bytes) = self.leaf(leaves, number);
            let places = 0..usize::from(leaf.entries);
            let entries = places.map(move |place| leaf.entry(bytes, place));
            entries
                .filter(move |(distance, _)| first.wrapping_add(*distance) == sought.normalized_key)
                .map(|(_, row)| row)
        })
    }

    /// The first normalized key of a leaf, the leaf, and its bytes.
    #[inline]
    pub(super) fn leaf<'a>(&self, leaves: &'a [u8], number: usize) -> (u64, Leaf, &'a [u8]) {
        let bytes = &leaves[number * LEAF_BYTES..][..LEAF_BYTES];
        let Directory {
            firsts,
            leaves: known,
            ..
        } = &self.directory;
        (firsts[number], known[number], bytes)
    }
}

/// The known bounds of a normalized key's place in a leaf.
#[derive(Clone, Copy)]
struct Narrowing<'a> {
    leaf: Leaf,
    bytes: &'a [u8],
    /// The distance of the normalized key from the leaf's first.
    wanted: u64,
    /// The first place with the normalized key or a greater one is at least this.
    low: u32,
    /// And at most this.
    high: u32,
    /// The greatest distance below `low`, as far as known.
    low_distance: u64,
    /// The least distance at `high` or above.
    high_distance: u64,
    guesses: u8,
}

impl<'a> Narrowing<'a> {
    #[inline]
    fn new(leaves: &Leaves, bytes: &'a [u8], sought: Sought) -> Self {
        let number = sought.leaf as usize;
        let (first, leaf, bytes) = leaves.leaf(bytes, number);
        debug_assert!(first <= sought.normalized_key, "the run may have it");
        let directory = &leaves.directory;
        let next = directory.firsts.get(number + 1).unwrap_or(&directory.last);
        Self {
            leaf,
            bytes,
            wanted: sought.normalized_key.wrapping_sub(first),
            low: 0,
            high: u32::from(leaf.entries),
            low_distance: 0,
            high_distance: next.saturating_sub(first),
            guesses: 0,
        }
    }

    /// The place to read next; there is one.
    #[inline]
    fn guess(&self) -> usize {
        let count = self.high - self.low;
        let place = match usize::from(self.guesses) < GUESSES_MOST {
            true => {
                // Multiplied first: dense normalized keys are then found at once.
                let part = self.wanted.saturating_sub(self.low_distance) as f64 * f64::from(count);
                let part = part / (self.high_distance - self.low_distance).max(1) as f64;
                (part as u32).min(count - 1)
            }
            false => count / 2,
        };
        (self.low + place) as usize
    }

    /// Fetches the line or two lines of the entry at a place.
    #[inline]
    fn fetch<M: Mode>(&self, mode: M, place: usize) -> M::Ticket {
        let entry = &self.bytes[self.leaf.bytes_of(place)];
        // Entries of no bits have no address.
        mode.issue(entry.as_ptr(), entry.len().max(1))
    }

    /// Reads the line of a place: a row of the normalized key, or that there is none; `None` if another line must be read.
    #[inline]
    fn look(
        &mut self,
        leaves: &Leaves,
        all: &'a [u8],
        sought: Sought,
        place: usize,
    ) -> Option<Option<u64>> {
        let Self {
            leaf,
            bytes,
            wanted,
            ..
        } = *self;
        self.guesses = self.guesses.saturating_add(1);
        let (distance, row) = leaf.entry(bytes, place);
        if distance == wanted {
            return Some(Some(row));
        }
        // The rest of this line is near now.
        let line = leaf.line_of(place);
        if distance < wanted {
            let end = line.end.min(self.high as usize);
            let last = leaf.distance(bytes, end - 1);
            if last >= wanted {
                return Some(leaf.row_between(bytes, place + 1..end, wanted));
            }
            self.low = end as u32;
            self.low_distance = last.min(self.high_distance);
        } else {
            let start = line.start.max(self.low as usize);
            let first = leaf.distance(bytes, start);
            if first <= wanted || start == self.low as usize {
                return Some(leaf.row_between(bytes, start..place, wanted));
            }
            self.high = start as u32;
            self.high_distance = first.max(self.low_distance);
        }
        if self.low < self.high {
            return None;
        }
        // Greater than all keys of the leaf, or between two of them.
        let behind = sought.leaf as usize + 1;
        let is_behind = self.low == u32::from(leaf.entries)
            && leaves.directory.firsts.get(behind) == Some(&sought.normalized_key);
        if !is_behind {
            return Some(None);
        }
        let (_, leaf, bytes) = leaves.leaf(all, behind);
        *self = Self {
            leaf,
            bytes,
            wanted: 0,
            low: 0,
            high: 1,
            low_distance: 0,
            high_distance: 0,
            guesses: 0,
        };
        None
    }
}
