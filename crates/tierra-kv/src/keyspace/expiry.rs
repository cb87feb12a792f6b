//! Which keys expire when, in order, so that those due are found without looking at others.
//!
//! A heap of times and hashes. An entry is stale once its key has another time or is gone: whoever finds one
//! due looks at the record. Stale entries are dropped when there are more of them than of others.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

#[derive(Debug, Default)]
pub(super) struct ExpiryQueue {
    due: BinaryHeap<Reverse<(u64, u64)>>,
}

impl ExpiryQueue {
    pub(super) fn push(&mut self, at_ms: u64, hash: u64) {
        self.due.push(Reverse((at_ms, hash)));
    }

    /// The hash of a key that may be due.
    pub(super) fn pop_due(&mut self, now_ms: u64) -> Option<u64> {
        let &Reverse((at_ms, _)) = self.due.peek()?;
        (at_ms <= now_ms).then(|| self.due.pop().expect("just seen").0.1)
    }

    pub(super) fn len(&self) -> usize {
        self.due.len()
    }

    /// Keeps those entries that are not stale.
    pub(super) fn retain(&mut self, mut is_current: impl FnMut(u64, u64) -> bool) {
        self.due
            .retain(|&Reverse((at_ms, hash))| is_current(at_ms, hash));
    }

    pub(super) fn bytes(&self) -> usize {
        self.due.capacity() * size_of::<Reverse<(u64, u64)>>()
    }
}
