//! Words of one line, in order, in all copies: data and the word that publishes it under one fence.
//!
//! Stores to one line reach memory in their order, so what a structure keeps in a line needs no fence between
//! an entry and the word that says it is there. That makes a small change of a structure as cheap as
//! an overwritten word, in any number of copies.
//!
//! Invariant: after a crash every copy alone has a beginning of the words: all of them if the write
//! returned.

use super::template::Steps;
use super::{Composition, Method, ReplicaSet, ReplicationError, Waits};
use crate::LINE_BYTES;
use crate::pool::{PersistLayer, Persisted, PoolError, Replica, WrittenRange};

impl ReplicaSet {
    /// Fetches the line at `at` in all copies, to be written soon: misses overlap with each other and
    /// with what is done in between. An offset outside the copies is not fetched.
    #[inline]
    pub fn prefetch_line(&self, at: u64) {
        if at < self.len_bytes {
            self.copies.iter().for_each(|copy| copy.prefetch(at));
        }
    }

    /// Stores words of the line at `at` in all copies, durably on return. Each comes with its offset in
    /// the line in bytes. A crash leaves in each copy the first of them, in the order given, or all. Lines
    /// are stored through the cache, whatever the method says of the copying: streaming stores keep no
    /// order.
    ///
    /// # Errors
    /// As [`ReplicaSet::write`].
    ///
    /// # Panics
    /// If `at` is not a multiple of 64, or an offset is not one of the 8 below 64.
    pub fn write_line(
        &mut self,
        method: &Method,
        at: u64,
        words: &[(usize, u64)],
    ) -> Result<(), ReplicationError> {
        const LEN_BYTES: u64 = LINE_BYTES as u64;
        assert!(at.is_multiple_of(LEN_BYTES), "where a line begins");
        self.refuse_outside(at, LEN_BYTES)?;
        self.refuse_if_poisoned()?;
        let composition = self.choose(method, at, 8 * words.len() as u64, false);
        let _all_durable = match self.written.by_processor() {
            Some(copies) => store(composition, copies, at, words)?,
            None => store(composition, self.written.by_pool(), at, words)?,
        };
        let written = WrittenRange::NOTHING.and(at, 8 * words.len());
        Ok(self.written.wrote(written)?)
    }
}

fn store<B: PersistLayer>(
    composition: Composition,
    copies: &[Replica<B>],
    at: u64,
    words: &[(usize, u64)],
) -> Result<Persisted, PoolError> {
    if composition.prefetch {
        copies[1..].iter().for_each(|copy| copy.prefetch(at));
    }
    match composition.waits {
        Waits::Each => store_line::<B, true>(copies, at, words),
        Waits::Once => store_line::<B, false>(copies, at, words),
    }
}

fn store_line<B: PersistLayer, const EACH: bool>(
    copies: &[Replica<B>],
    at: u64,
    words: &[(usize, u64)],
) -> Result<Persisted, PoolError> {
    let mut steps = Steps::<B, EACH>::default();
    for copy in copies {
        steps.wait(copy, copy.flush(copy.store_line(at, words))?)?;
    }
    steps.end()
}
