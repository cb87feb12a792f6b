//! The best group size, found with the lookups that have to run anyway.
//!
//! Full batches run with each size in turn, for a few rounds. An interruption makes a batch look slow,
//! never fast, so each size is judged by its fastest batch. Among sizes about as good the smallest wins,
//! because it leaves more of the nearest cache to others.
//!
//! Invariant: a search that has ended keeps its size. Threads that race lose a try at worst.

use core::sync::atomic::{AtomicU8, AtomicU32, Ordering::Relaxed};

use crate::group_size::GroupSize;

/// The sizes tried. The first is used until the search has ended.
const CANDIDATES: [GroupSize; 4] = [GroupSize::DEFAULT, lanes(64), lanes(32), lanes(24)];
/// How often each is tried.
const ROUNDS: usize = 3;
/// Sizes whose cost is within one part in this many of the best count as equally good.
const TOLERANCE: u32 = 40;

const fn lanes(lanes: usize) -> GroupSize {
    GroupSize::new(lanes).expect("within bounds")
}

/// A search for the best group size, or its end.
pub(crate) struct SizeSearch {
    /// The best known.
    size: AtomicU8,
    /// Tries so far. The search has ended once there are [`TRIES`](Self::TRIES) or more.
    tries: AtomicU8,
    /// The least cost of each size.
    min_costs: [AtomicU32; CANDIDATES.len()],
}

impl SizeSearch {
    const TRIES: u8 = (CANDIDATES.len() * ROUNDS) as u8;

    /// No search: the size is known.
    pub(crate) const fn fixed(size: GroupSize) -> Self {
        SizeSearch {
            size: AtomicU8::new(size.get() as u8),
            tries: AtomicU8::new(Self::TRIES),
            min_costs: [const { AtomicU32::new(u32::MAX) }; CANDIDATES.len()],
        }
    }

    /// A search that has tried nothing.
    pub(crate) const fn new_search() -> Self {
        SizeSearch {
            tries: AtomicU8::new(0),
            ..Self::fixed(CANDIDATES[0])
        }
    }

    /// Makes it as [`fixed`](Self::fixed) or [`new_search`](Self::new_search) makes one.
    pub(crate) fn restart(&self, size: Option<GroupSize>) {
        self.tries.store(Self::TRIES, Relaxed);
        for min_cost in &self.min_costs {
            min_cost.store(u32::MAX, Relaxed);
        }
        self.size
            .store(size.unwrap_or(CANDIDATES[0]).get() as u8, Relaxed);
        if size.is_none() {
            self.tries.store(0, Relaxed);
        }
    }

    /// The best size known.
    #[inline]
    pub(crate) fn best(&self) -> GroupSize {
        GroupSize::new(usize::from(self.size.load(Relaxed))).unwrap_or_default()
    }

    /// The size for a full batch: the one to be tried next, or the best.
    pub(crate) fn next(&self) -> GroupSize {
        match self.tries.load(Relaxed) {
            tries if tries < Self::TRIES => CANDIDATES[usize::from(tries) % CANDIDATES.len()],
            _ => self.best(),
        }
    }

    /// Records what a lookup of a full batch cost with `size`.
    pub(crate) fn record(&self, size: GroupSize, cost: u32) {
        let tries = self.tries.load(Relaxed);
        let tried = CANDIDATES.iter().position(|tried| *tried == size);
        let (true, Some(tried)) = (tries < Self::TRIES, tried) else {
            return;
        };
        self.min_costs[tried].fetch_min(cost, Relaxed);
        if tries + 1 == Self::TRIES {
            let costs = self
                .min_costs
                .each_ref()
                .map(|min_cost| min_cost.load(Relaxed));
            let min_cost = costs.iter().copied().min().unwrap_or(u32::MAX);
            let good = |cost: &u32| *cost <= min_cost.saturating_add(min_cost / TOLERANCE);
            let sizes = CANDIDATES.iter().zip(&costs);
            let best = sizes
                .filter(|(_, cost)| good(cost))
                .map(|(size, _)| *size)
                .min();
            self.size
                .store(best.unwrap_or_default().get() as u8, Relaxed);
        }
        self.tries.store(tries + 1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is found where a lookup costs `cost` of its size, given the number of tries before.
    fn found(mut cost: impl FnMut(usize, usize) -> u32) -> GroupSize {
        let search = SizeSearch::new_search();
        for tries in 0..usize::from(SizeSearch::TRIES) {
            assert_eq!(search.best(), GroupSize::DEFAULT, "not before the end");
            let size = search.next();
            search.record(size, cost(size.get(), tries));
        }
        assert_eq!(search.next(), search.best());
        search.record(search.best(), 1);
        search.best()
    }

    #[test]
    fn the_smallest_that_is_about_as_good_as_the_best_stays() {
        assert_eq!(found(|_, _| 100).get(), 24);
        assert_eq!(found(|size, _| 10_000 / size as u32).get(), 64);
        assert_eq!(found(|size, _| 1000 + size.abs_diff(32) as u32).get(), 24);
        assert_eq!(
            found(|size, _| 1000 + 10 * size.abs_diff(32) as u32).get(),
            32
        );
        assert_eq!(
            found(|size, _| if size == 48 { 500 } else { 600 }).get(),
            48
        );
    }

    #[test]
    fn an_interruption_does_not_mislead() {
        for interrupted in 0..usize::from(SizeSearch::TRIES) {
            let cost = |size: usize, tries: usize| {
                let factor = if tries == interrupted { 20 } else { 1 };
                factor * (1000 + 10 * size.abs_diff(48)) as u32
            };
            assert_eq!(found(cost).get(), 48, "{interrupted}");
        }
    }

    #[test]
    fn a_known_size_is_not_searched_and_can_be_forgotten() {
        let search = SizeSearch::fixed(lanes(7));
        assert_eq!((search.best().get(), search.next().get()), (7, 7));
        search.record(lanes(64), 1);
        assert_eq!(search.best().get(), 7);
        search.restart(None);
        assert_eq!(search.best(), GroupSize::DEFAULT);
        search.record(search.next(), 1);
        assert_eq!(search.next().get(), 64, "the second one");
        search.restart(Some(lanes(9)));
        assert_eq!((search.best().get(), search.next().get()), (9, 9));
    }
}
