//! Free pages of one tier, as runs that are as long as they can be.
//!
//! Invariant: runs neither overlap nor touch; `by_length` and `by_start` name the same ones.

use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Default)]
pub(super) struct FreeRuns {
    by_start: BTreeMap<u32, u32>,
    by_length: BTreeSet<(u32, u32)>,
}

impl FreeRuns {
    /// Takes `pages` pages out of the shortest run that has as many; the first of those on equal terms, so
    /// that what is used gathers at the low end.
    pub(super) fn take(&mut self, pages: u32) -> Option<u32> {
        let &(length, start) = self.by_length.range((pages, 0)..).next()?;
        self.remove(start, length);
        if length > pages {
            self.insert(start + pages, length - pages);
        }
        Some(start)
    }

    /// Gives pages back; returns the run that they are part of now: first page and length.
    pub(super) fn give(&mut self, mut start: u32, mut pages: u32) -> (u32, u32) {
        if let Some((&before, &length)) = self.by_start.range(..start).next_back()
            && before + length == start
        {
            self.remove(before, length);
            (start, pages) = (before, pages + length);
        }
        if let Some((&after, &length)) = self.by_start.range(start..).next()
            && start + pages == after
        {
            self.remove(after, length);
            pages += length;
        }
        self.insert(start, pages);
        (start, pages)
    }

    /// The runs that begin at a page or behind it, in order: first page and length.
    pub(super) fn from(&self, page: u32) -> impl Iterator<Item = (u32, u32)> {
        self.by_start
            .range(page..)
            .map(|(&start, &length)| (start, length))
    }

    /// Pages free.
    #[cfg(test)]
    pub(super) fn pages(&self) -> u32 {
        self.by_start.values().sum()
    }

    fn insert(&mut self, start: u32, length: u32) {
        self.by_start.insert(start, length);
        self.by_length.insert((length, start));
    }

    fn remove(&mut self, start: u32, length: u32) {
        self.by_start.remove(&start);
        self.by_length.remove(&(length, start));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_become_one() {
        let mut runs = FreeRuns::default();
        assert_eq!(runs.take(1), None);
        assert_eq!(runs.give(0, 10), (0, 10));
        assert_eq!((runs.take(3), runs.take(4)), (Some(0), Some(3)));
        assert_eq!(runs.take(4), None);
        assert_eq!(runs.give(0, 3), (0, 3));
        assert_eq!(runs.give(3, 4), (0, 10));
        assert_eq!(runs.pages(), 10);
    }

    #[test]
    fn the_shortest_that_fits_is_taken() {
        let mut runs = FreeRuns::default();
        runs.give(0, 10);
        runs.give(20, 4);
        assert_eq!(runs.take(4), Some(20));
        assert_eq!(runs.take(4), Some(0));
    }
}
