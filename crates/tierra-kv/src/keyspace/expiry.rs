//! Which keys expire when, in order, so that those due are found without looking at others.
//!
//! A heap of times and hashes. Every key that expires has an entry for its time or an earlier one: a key whose time is
//! put off needs no other, and whoever meets its entry sees from the record that it is to come back later. So a key
//! that is used again and again, and lives longer each time, costs one entry and no work.
//!
//! Entries of keys that are gone, or expire earlier by now, are of no use. Where they are most of the queue, a few
//! entries are looked at with every change: nobody waits for a sweep. For the same reason the heap grows page by page.
//!
//! Invariant: no entry is less than its parent, at half its place.

/// Entries of a page.
const PAGE: usize = 1024;

/// When a key may be due, and the key's hash.
pub(super) type Due = (u64, u64);

#[derive(Debug, Default)]
pub(super) struct ExpiryQueue {
    pages: Vec<Box<[Due; PAGE]>>,
    len: usize,
    /// Entries from here on have been looked at since the sweep began.
    swept: usize,
}

impl ExpiryQueue {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn bytes(&self) -> usize {
        self.pages.len() * size_of::<[Due; PAGE]>()
            + self.pages.capacity() * size_of::<Box<[Due; PAGE]>>()
    }

    pub(super) fn push(&mut self, due: Due) {
        if self.len == self.pages.len() * PAGE {
            self.pages.push(Box::new([(0, 0); PAGE]));
        }
        self.len += 1;
        self.rise(self.len - 1, due);
    }

    /// Takes the first entry, and others that say the same, if its time has come.
    pub(super) fn pop_due(&mut self, now_ms: u64) -> Option<Due> {
        let first = self.first().filter(|first| first.0 <= now_ms)?;
        while self.first() == Some(first) {
            self.remove(0);
        }
        Some(first)
    }

    /// Looks at a few entries, and removes those that are not wanted any more. Later calls look at others.
    pub(super) fn sweep(&mut self, looks: usize, mut is_wanted: impl FnMut(Due) -> bool) {
        for _ in 0..looks {
            if self.swept == 0 || self.swept > self.len {
                self.swept = self.len;
            }
            let Some(at) = self.swept.checked_sub(1) else {
                return;
            };
            self.swept = at;
            if !is_wanted(self.get(at)) {
                self.remove(at);
            }
        }
    }

    pub(super) fn first(&self) -> Option<Due> {
        (self.len > 0).then(|| self.get(0))
    }

    /// The entry at a place.
    #[inline(always)]
    pub(super) fn get(&self, at: usize) -> Due {
        self.pages[at / PAGE][at % PAGE]
    }

    #[inline(always)]
    fn set(&mut self, at: usize, due: Due) {
        self.pages[at / PAGE][at % PAGE] = due;
    }

    /// Removes the entry at a place.
    pub(super) fn remove(&mut self, at: usize) {
        self.len -= 1;
        let last = self.get(self.len);
        if at < self.len {
            if at > 0 && last < self.get((at - 1) / 2) {
                self.rise(at, last);
            } else {
                self.sink(at, last);
            }
        }
        // One page is kept, so that a change at its edge costs none.
        self.pages.truncate(self.len / PAGE + 1);
        if self.pages.len() < self.pages.capacity() / 4 {
            self.pages.shrink_to(2 * self.pages.len());
        }
    }

    /// Puts an entry where there is room for one, or further up.
    fn rise(&mut self, mut at: usize, due: Due) {
        while at > 0 {
            let parent = (at - 1) / 2;
            if self.get(parent) <= due {
                break;
            }
            self.set(at, self.get(parent));
            at = parent;
        }
        self.set(at, due);
    }

    /// Puts an entry where there is room for one, or further down.
    fn sink(&mut self, mut at: usize, due: Due) {
        loop {
            let mut child = 2 * at + 1;
            if child >= self.len {
                break;
            }
            if child + 1 < self.len && self.get(child + 1) < self.get(child) {
                child += 1;
            }
            if due <= self.get(child) {
                break;
            }
            self.set(at, self.get(child));
            at = child;
        }
        self.set(at, due);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Step {
        Push(u64, u64),
        Pop(u64),
        Sweep(usize, u64),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            6 => (0u64..100, 0u64..50).prop_map(|(at, hash)| Step::Push(at, hash)),
            1 => (0u64..100).prop_map(Step::Pop),
            1 => (0usize..200, 1u64..5).prop_map(|(looks, part)| Step::Sweep(looks, part)),
        ];
        prop::collection::vec(step, 1..600)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]
        #[test]
        fn it_is_a_sorted_list(steps in steps(), many in prop::bool::weighted(0.1)) {
            let (mut queue, mut oracle) = (ExpiryQueue::default(), Vec::new());
            // Some begin with more entries than a page has.
            for at in 0..if many { 3000u64 } else { 0 } {
                queue.push((at * 7919 % 1000, at));
                oracle.push((at * 7919 % 1000, at));
            }
            for step in steps {
                match step {
                    Step::Push(at_ms, hash) => {
                        queue.push((at_ms, hash));
                        oracle.push((at_ms, hash));
                    }
                    Step::Pop(now_ms) => {
                        let first = oracle.iter().min().copied().filter(|first| first.0 <= now_ms);
                        prop_assert_eq!(queue.pop_due(now_ms), first);
                        oracle.retain(|&due| Some(due) != first);
                    }
                    Step::Sweep(looks, part) => {
                        let mut left = looks;
                        queue.sweep(looks, |due| {
                            left -= 1;
                            let is_wanted = due.1 % part != 0;
                            if !is_wanted {
                                let at = oracle.iter().position(|&other| other == due);
                                oracle.swap_remove(at.expect("an entry of the queue"));
                            }
                            is_wanted
                        });
                    }
                }
                prop_assert_eq!(queue.len(), oracle.len());
            }
            oracle.sort_unstable();
            oracle.dedup();
            for due in oracle {
                prop_assert_eq!(queue.pop_due(u64::MAX), Some(due));
            }
            prop_assert_eq!((queue.pop_due(u64::MAX), queue.len()), (None, 0));
            prop_assert!(queue.bytes() < 2 * size_of::<[Due; PAGE]>());
        }
    }
}
