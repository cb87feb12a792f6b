//! Which group size is best here: tried out on the lookups that have to be run anyway.
//!
//! Long stretches run with each size in turn, a few times round. A stretch that was interrupted looks slow
//! and never fast, so each size is judged by its fastest; of sizes about as good the smallest stays, for
//! it leaves more of the nearest cache to others.
//!
//! Invariant: a search that has ended stays with its size. Threads that race lose a try at worst.

use core::sync::atomic::{AtomicU8, AtomicU32, Ordering::Relaxed};

use crate::group_size::GroupSize;

/// What is tried. Until a round is through, the first is as good as known.
const TRIED: [GroupSize; 4] = [GroupSize::DEFAULT, lanes(64), lanes(32), lanes(24)];
/// How often.
const ROUNDS: usize = 3;
/// Sizes within one in this many of the best are as good.
const AS_GOOD: u32 = 40;

const fn lanes(lanes: usize) -> GroupSize {
    GroupSize::new(lanes).expect("within bounds")
}

/// A search for the best group size, or its end.
pub(crate) struct SizeSearch {
    /// The best known.
    size: AtomicU8,
    /// Tries so far; as many as there are to be, or more, when the search has ended.
    tries: AtomicU8,
    /// The least cost of each size.
    least: [AtomicU32; TRIED.len()],
}

impl SizeSearch {
    const ENDED: u8 = (TRIED.len() * ROUNDS) as u8;

    /// No search: the size is known.
    pub(crate) const fn ended(size: GroupSize) -> Self {
        SizeSearch {
            size: AtomicU8::new(size.get() as u8),
            tries: AtomicU8::new(Self::ENDED),
            least: [const { AtomicU32::new(u32::MAX) }; TRIED.len()],
        }
    }

    /// A search that has tried nothing.
    pub(crate) const fn begun() -> Self {
        SizeSearch {
            tries: AtomicU8::new(0),
            ..Self::ended(TRIED[0])
        }
    }

    /// Makes it as [`ended`](Self::ended) or [`begun`](Self::begun) makes one.
    pub(crate) fn restart(&self, size: Option<GroupSize>) {
        self.tries.store(Self::ENDED, Relaxed);
        for least in &self.least {
            least.store(u32::MAX, Relaxed);
        }
        self.size
            .store(size.unwrap_or(TRIED[0]).get() as u8, Relaxed);
        if size.is_none() {
            self.tries.store(0, Relaxed);
        }
    }

    /// The best size known.
    #[inline]
    pub(crate) fn best(&self) -> GroupSize {
        GroupSize::new(usize::from(self.size.load(Relaxed))).unwrap_or_default()
    }

    /// The size for a long stretch: the one to be tried next, or the best.
    pub(crate) fn next(&self) -> GroupSize {
        match self.tries.load(Relaxed) {
            tries if tries < Self::ENDED => TRIED[usize::from(tries) % TRIED.len()],
            _ => self.best(),
        }
    }

    /// Tells what a lookup of a long stretch cost with `size`.
    pub(crate) fn learn(&self, size: GroupSize, cost: u32) {
        let tries = self.tries.load(Relaxed);
        let tried = TRIED.iter().position(|tried| *tried == size);
        let (true, Some(tried)) = (tries < Self::ENDED, tried) else {
            return;
        };
        self.least[tried].fetch_min(cost, Relaxed);
        if tries + 1 == Self::ENDED {
            let costs = self.least.each_ref().map(|least| least.load(Relaxed));
            let least = costs.iter().copied().min().unwrap_or(u32::MAX);
            let good = |cost: &u32| *cost <= least.saturating_add(least / AS_GOOD);
            let sizes = TRIED.iter().zip(&costs);
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
        let search = SizeSearch::begun();
        for tries in 0..usize::from(SizeSearch::ENDED) {
            assert_eq!(search.best(), GroupSize::DEFAULT, "not before the end");
            let size = search.next();
            search.learn(size, cost(size.get(), tries));
        }
        assert_eq!(search.next(), search.best());
        search.learn(search.best(), 1);
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
        for interrupted in 0..usize::from(SizeSearch::ENDED) {
            let cost = |size: usize, tries: usize| {
                let factor = if tries == interrupted { 20 } else { 1 };
                factor * (1000 + 10 * size.abs_diff(48)) as u32
            };
            assert_eq!(found(cost).get(), 48, "{interrupted}");
        }
    }

    #[test]
    fn a_known_size_is_not_searched_and_can_be_forgotten() {
        let search = SizeSearch::ended(lanes(7));
        assert_eq!((search.best().get(), search.next().get()), (7, 7));
        search.learn(lanes(64), 1);
        assert_eq!(search.best().get(), 7);
        search.restart(None);
        assert_eq!(search.best(), GroupSize::DEFAULT);
        search.learn(search.next(), 1);
        assert_eq!(search.next().get(), 64, "the second one");
        search.restart(Some(lanes(9)));
        assert_eq!((search.best().get(), search.next().get()), (9, 9));
    }
}
