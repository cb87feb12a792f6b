//! The queue of expiries, in the order of their times, so that due keys are found without reading others.
//!
//! An ordered set of times and hashes. Every key that expires has an entry for its time or an earlier one: a key whose
//! expiry is postponed needs no other entry, because the record shows that it is to be filed again. So a key whose expiry
//! is postponed with every use costs one entry and no work.
//!
//! Entries of keys that are gone, or expire at another time by now, are stale. While most of the queue is stale, a few
//! entries are checked with every change, so no operation waits for a full sweep. A stale entry of a live key is filed
//! again at the key's own time, where duplicates become one entry: after a sweep there is one for each key.

use std::collections::BTreeSet;
use std::ops::Bound;

/// Bytes of an entry: where times come in order, six or seven share a node of the set that has room for eleven.
const ENTRY_BYTES: usize = 36;

/// When a key may be due, and the key's hash.
pub(super) type Due = (u64, u64);

#[derive(Debug, Default)]
pub(super) struct ExpiryQueue {
    entries: BTreeSet<Due>,
    /// Entries from here on have been checked since the sweep began.
    swept: Due,
    /// The entry that [`next`](Self::next) returned last.
    last_returned: Due,
}

impl ExpiryQueue {
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Bytes of memory, about.
    pub(super) fn bytes(&self) -> usize {
        self.len() * ENTRY_BYTES
    }

    pub(super) fn push(&mut self, due: Due) {
        self.entries.insert(due);
    }

    /// Takes the first entry if its time has come.
    pub(super) fn pop_due(&mut self, now_ms: u64) -> Option<Due> {
        let first = self.entries.first().filter(|first| first.0 <= now_ms);
        first.is_some().then(|| self.entries.pop_first())?
    }

    /// Checks a few entries, and files each at the time that `when` returns, never an earlier one, or removes it. Later
    /// calls check others.
    pub(super) fn sweep(&mut self, looks: usize, mut when: impl FnMut(Due) -> Option<u64>) {
        for _ in 0..looks {
            // From the last to the first: what is filed again is not looked at twice.
            let next = self.entries.range(..self.swept).next_back();
            let Some(&due) = next.or_else(|| self.entries.last()) else {
                return;
            };
            self.swept = due;
            let at_ms = when(due);
            if at_ms != Some(due.0) {
                self.entries.remove(&due);
                self.entries.extend(at_ms.map(|at_ms| (at_ms, due.1)));
            }
        }
    }

    /// The entry that is due first.
    pub(super) fn first(&self) -> Option<Due> {
        self.entries.first().copied()
    }

    /// The entry after the one returned last time, with `skipped` others between them. Repeated calls return all entries
    /// equally often.
    pub(super) fn next(&mut self, skipped: usize) -> Option<Due> {
        let behind = (Bound::Excluded(self.last_returned), Bound::Unbounded);
        let next = self.entries.range(behind).nth(skipped);
        self.last_returned = *next.or_else(|| self.entries.first())?;
        Some(self.last_returned)
    }

    pub(super) fn remove(&mut self, due: Due) {
        self.entries.remove(&due);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum QueueOp {
        Push(u64, u64),
        Pop(u64),
        Sweep(usize, u64),
    }

    fn steps() -> impl Strategy<Value = Vec<QueueOp>> {
        let step = prop_oneof![
            6 => (0u64..100, 0u64..50).prop_map(|(at, hash)| QueueOp::Push(at, hash)),
            1 => (0u64..100).prop_map(QueueOp::Pop),
            1 => (0usize..200, 1u64..5).prop_map(|(looks, part)| QueueOp::Sweep(looks, part)),
        ];
        prop::collection::vec(step, 1..600)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]
        #[test]
        fn it_is_a_sorted_list(steps in steps()) {
            let (mut queue, mut oracle) = (ExpiryQueue::default(), Vec::new());
            for step in steps {
                match step {
                    QueueOp::Push(at_ms, hash) => {
                        queue.push((at_ms, hash));
                        oracle.push((at_ms, hash));
                    }
                    QueueOp::Pop(now_ms) => {
                        let first = oracle.iter().min().copied().filter(|first| first.0 <= now_ms);
                        prop_assert_eq!(queue.pop_due(now_ms), first);
                        oracle.retain(|&due| Some(due) != first);
                    }
                    QueueOp::Sweep(looks, part) => {
                        queue.sweep(looks, |due| {
                            assert!(oracle.contains(&due), "an entry of the queue");
                            // Filed again twice, it is one.
                            oracle.retain(|&other| other != due);
                            // Some are removed, some are put off, some stay.
                            let at_ms = due.0 + due.1 % 3;
                            let is_wanted = due.1 % part != 0;
                            oracle.extend(is_wanted.then_some((at_ms, due.1)));
                            is_wanted.then_some(at_ms)
                        });
                    }
                }
                oracle.sort_unstable();
                oracle.dedup();
                prop_assert_eq!(queue.len(), oracle.len());
            }
            for due in oracle {
                prop_assert_eq!(queue.pop_due(u64::MAX), Some(due));
            }
            prop_assert_eq!((queue.pop_due(u64::MAX), queue.bytes()), (None, 0));
        }

        #[test]
        fn a_sweep_leaves_one_entry_for_each_key(times in prop::collection::vec(0u64..1000, 1..300)) {
            let mut queue = ExpiryQueue::default();
            times.iter().for_each(|&at_ms| queue.push((at_ms, at_ms % 7)));
            let (before, mut looks) = (queue.len(), 0);
            queue.sweep(before, |(_, hash)| {
                looks += 1;
                (hash > 0).then_some(2000 + hash)
            });
            let keys = times.iter().map(|at_ms| at_ms % 7).filter(|&hash| hash > 0);
            let expected: BTreeSet<Due> = keys.map(|hash| (2000 + hash, hash)).collect();
            prop_assert_eq!((queue.entries, looks), (expected, before));
        }
    }
}
