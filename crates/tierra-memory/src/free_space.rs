//! Which runs of bytes are free, of a pool or of near memory. Volatile: a pool's are found again from its live extents when it is opened.
//!
//! Invariant: free runs are disjoint, never adjacent (they coalesce), never empty, and end at or
//! before `end`; a run handed out is in no free run until it is given back. Best fit, the lowest
//! offset first among equals, so that large runs stay whole.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// The free runs below `end`, found by offset and by length.
#[derive(Debug, Default)]
pub(crate) struct FreeSpace {
    by_offset: BTreeMap<u64, u64>,
    by_length: BTreeSet<(u64, u64)>,
    end: u64,
}

impl FreeSpace {
    /// No free run; space grows from `end`.
    pub(crate) fn none(end: u64) -> FreeSpace {
        FreeSpace {
            end,
            ..FreeSpace::default()
        }
    }

    /// All of `[start, end)` but the `live` runs `(offset, length)`, which must be sorted, disjoint
    /// and inside.
    pub(crate) fn around(
        start: u64,
        end: u64,
        live: impl Iterator<Item = (u64, u64)>,
    ) -> FreeSpace {
        let mut space = FreeSpace::none(end);
        let mut at = start;
        for (offset, length) in live {
            space.insert(at, offset - at);
            at = offset + length;
        }
        space.insert(at, end - at);
        space
    }

    /// Takes a run of exactly `length` bytes, or nothing where no free run is long enough.
    pub(crate) fn take(&mut self, length: u64) -> Option<u64> {
        debug_assert!(length > 0);
        let &(found, offset) = self.by_length.range((length, 0)..).next()?;
        self.remove(offset, found);
        self.insert(offset + length, found - length);
        Some(offset)
    }

    /// Takes everything free in `within`: runs `(offset, length)`.
    pub(crate) fn take_within(&mut self, within: Range<u64>) -> Vec<(u64, u64)> {
        if within.is_empty() {
            return Vec::new();
        }
        let runs = self.by_offset.range(..within.end).rev();
        let hit = runs.take_while(|(offset, length)| *offset + *length > within.start);
        let hit: Vec<(u64, u64)> = hit.map(|(offset, length)| (*offset, *length)).collect();
        let take = |(offset, length): (u64, u64)| {
            let (from, to) = (offset.max(within.start), (offset + length).min(within.end));
            self.remove(offset, length);
            self.insert(offset, from - offset);
            self.insert(to, offset + length - to);
            (from, to - from)
        };
        hit.into_iter().map(take).collect()
    }

    /// The first free run that ends behind `at`.
    pub(crate) fn next_from(&self, at: u64) -> Option<(u64, u64)> {
        let before = self.by_offset.range(..at).next_back();
        let around = before.filter(|(offset, length)| *offset + *length > at);
        let next = around.or_else(|| self.by_offset.range(at..).next());
        next.map(|(offset, length)| (*offset, *length))
    }

    /// Bytes of each free run as far as it lies in `within`.
    pub(crate) fn lengths_within(&self, within: Range<u64>) -> impl Iterator<Item = u64> + '_ {
        let Range { start, end } = within;
        let runs = self.by_offset.range(..end).rev();
        let hit = runs.take_while(move |(offset, length)| *offset + *length > start);
        hit.map(move |(offset, length)| (offset + length).min(end) - (*offset).max(start))
    }

    /// Gives a run back; it joins its free neighbours.
    pub(crate) fn give(&mut self, offset: u64, length: u64) {
        debug_assert!(offset + length <= self.end);
        let (mut from, mut to) = (offset, offset + length);
        if let Some((&before, &bytes)) = self.by_offset.range(..offset).next_back()
            && before + bytes >= offset
        {
            debug_assert_eq!(before + bytes, offset, "given back twice");
            self.remove(before, bytes);
            from = before;
        }
        if let Some(&bytes) = self.by_offset.get(&to) {
            self.remove(to, bytes);
            to += bytes;
        }
        self.insert(from, to - from);
    }

    /// Moves the end up; what lies between is free.
    pub(crate) fn extend(&mut self, end: u64) {
        let grown = end - self.end;
        let from = self.end;
        self.end = end;
        self.give(from, grown);
    }

    /// Bytes of the free run that touches the end.
    pub(crate) fn tail_bytes(&self) -> u64 {
        match self.by_offset.last_key_value() {
            Some((&offset, &bytes)) if offset + bytes == self.end => bytes,
            _ => 0,
        }
    }

    /// Bytes of the longest free run.
    pub(crate) fn longest_bytes(&self) -> u64 {
        self.by_length.last().map_or(0, |&(length, _)| length)
    }

    /// Bytes in all free runs.
    #[cfg(test)]
    pub(crate) fn free_bytes(&self) -> u64 {
        self.by_offset.values().sum()
    }

    fn insert(&mut self, offset: u64, length: u64) {
        if length > 0 {
            self.by_offset.insert(offset, length);
            self.by_length.insert((length, offset));
        }
    }

    fn remove(&mut self, offset: u64, length: u64) {
        self.by_offset.remove(&offset);
        self.by_length.remove(&(length, offset));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const START: u64 = 4;

    /// Every byte of the space, free or not.
    struct Oracle {
        free: Vec<bool>,
    }

    impl Oracle {
        fn runs(&self) -> BTreeMap<u64, u64> {
            let mut runs = BTreeMap::new();
            let mut from = None;
            for (at, &free) in self.free.iter().chain([&false]).enumerate() {
                match (free, from) {
                    (true, None) => from = Some(at),
                    (false, Some(start)) => {
                        runs.insert(start as u64, (at - start) as u64);
                        from = None;
                    }
                    _ => {}
                }
            }
            runs
        }

        fn set(&mut self, offset: u64, length: u64, free: bool) {
            for at in offset..offset + length {
                assert_ne!(
                    self.free[at as usize], free,
                    "byte {at} handed out or back twice"
                );
                self.free[at as usize] = free;
            }
        }
    }

    #[derive(Clone, Debug)]
    enum SpaceOp {
        Take(u64),
        TakeWithin(u64, u64),
        Give(usize),
        GiveTail(usize, u64),
        Extend(u64),
    }

    fn step() -> impl Strategy<Value = SpaceOp> {
        prop_oneof![
            4 => (1..12u64).prop_map(SpaceOp::Take),
            1 => (0..40u64, 0..16u64).prop_map(|(from, bytes)| SpaceOp::TakeWithin(from, bytes)),
            3 => any::<usize>().prop_map(SpaceOp::Give),
            1 => (any::<usize>(), 1..8u64).prop_map(|(which, by)| SpaceOp::GiveTail(which, by)),
            1 => (1..16u64).prop_map(SpaceOp::Extend),
        ]
    }

    proptest! {
        #[test]
        fn free_runs_are_the_maximal_free_runs(steps in prop::collection::vec(step(), 1..200)) {
            let mut space = FreeSpace::around(START, 20, std::iter::empty());
            let mut oracle = Oracle { free: (0..20).map(|at| at >= START).collect() };
            let mut taken: Vec<(u64, u64)> = Vec::new();
            for step in steps {
                match step {
                    SpaceOp::Take(length) => match space.take(length) {
                        Some(offset) => {
                            oracle.set(offset, length, false);
                            taken.push((offset, length));
                        }
                        None => prop_assert!(oracle.runs().values().all(|&run| run < length)),
                    },
                    SpaceOp::TakeWithin(from, bytes) => {
                        let to = (from + bytes).min(oracle.free.len() as u64);
                        for (offset, length) in space.take_within(from..to.max(from)) {
                            prop_assert!(from <= offset && offset + length <= to);
                            oracle.set(offset, length, false);
                            taken.push((offset, length));
                        }
                        let range = from as usize..(to.max(from) as usize).min(oracle.free.len());
                        prop_assert!(oracle.free.get(range).is_none_or(|rest| !rest.contains(&true)));
                    }
                    SpaceOp::Give(which) if !taken.is_empty() => {
                        let (offset, length) = taken.swap_remove(which % taken.len());
                        oracle.set(offset, length, true);
                        space.give(offset, length);
                    }
                    SpaceOp::GiveTail(which, by) if !taken.is_empty() => {
                        let which = which % taken.len();
                        let (offset, length) = taken[which];
                        if by < length {
                            taken[which].1 -= by;
                            oracle.set(offset + length - by, by, true);
                            space.give(offset + length - by, by);
                        }
                    }
                    SpaceOp::Give(_) | SpaceOp::GiveTail(..) => {}
                    SpaceOp::Extend(by) => {
                        let end = oracle.free.len() as u64 + by;
                        oracle.free.resize(end as usize, true);
                        space.extend(end);
                    }
                }
                prop_assert_eq!(&space.by_offset, &oracle.runs());
                let tail = oracle.free.iter().rev().take_while(|&&free| free).count() as u64;
                prop_assert_eq!(space.tail_bytes(), tail);
                prop_assert_eq!(
                    space.longest_bytes(),
                    oracle.runs().into_values().max().unwrap_or(0)
                );
            }
            // What a reopen would rebuild from the live runs is what was kept up all along.
            taken.sort_unstable();
            let end = oracle.free.len() as u64;
            let rebuilt = FreeSpace::around(START, end, taken.iter().copied());
            prop_assert_eq!(&rebuilt.by_offset, &space.by_offset);
            prop_assert_eq!(&rebuilt.by_length, &space.by_length);
        }
    }

    #[test]
    fn the_best_fit_is_taken_and_the_lowest_among_equals() {
        let live = [(10, 1), (15, 1), (20, 1)];
        let mut space = FreeSpace::around(0, 40, live.into_iter());
        assert_eq!(space.take(4), Some(11));
        assert_eq!(space.take(4), Some(16));
        assert_eq!(space.take(11), Some(21));
        assert_eq!(space.take(11), None);
        assert_eq!(space.free_bytes(), 10 + 8);
    }
}
