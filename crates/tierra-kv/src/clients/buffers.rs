//! Buffers of connections: shared while they are small, freed step by step where they are large.
//!
//! Giving a GiB back to the system takes a tenth of a second. No client is served meanwhile, so large buffers, and many small
//! ones, are freed between event-loop iterations ([`free_some`](Buffers::free_some)).

use std::collections::VecDeque;

/// Buffers of this size are reused.
pub(crate) const BUFFER_BYTES: usize = 64 * 1024;
/// The most buffers kept for reuse.
const KEPT_BUFFERS: usize = 256;
/// Bytes freed at a time.
const STEP_BYTES: usize = 4 << 20;

/// Buffers that are not in use.
#[derive(Default)]
pub(crate) struct Buffers {
    /// The one used last, whose lines are in the cache, is used next.
    kept: Vec<Vec<u8>>,
    /// To be freed, each empty.
    deferred: VecDeque<Vec<u8>>,
    /// Bytes of the first of those whose memory the system has back.
    freed_bytes: usize,
}

impl Buffers {
    pub(crate) fn take(&mut self) -> Vec<u8> {
        self.kept
            .pop()
            .unwrap_or_else(|| Vec::with_capacity(BUFFER_BYTES))
    }

    pub(crate) fn put(&mut self, mut buffer: Vec<u8>) {
        if buffer.capacity() == BUFFER_BYTES && self.kept.len() < KEPT_BUFFERS {
            buffer.clear();
            self.kept.push(buffer);
        } else if buffer.capacity() > STEP_BYTES {
            self.defer_free(buffer);
        }
    }

    /// Adds a buffer to those to be freed.
    pub(crate) fn defer_free(&mut self, mut buffer: Vec<u8>) {
        if buffer.capacity() > 0 {
            buffer.clear();
            self.deferred.push_back(buffer);
        }
    }

    /// Frees some of the deferred buffers, in less than a millisecond. Returns whether there are more.
    pub(crate) fn free_some(&mut self) -> bool {
        if let Some(buffer) = self.deferred.front_mut() {
            let left = buffer.capacity().saturating_sub(self.freed_bytes);
            if left > STEP_BYTES {
                let from = left - STEP_BYTES;
                tierra_memory::discard(&mut buffer.spare_capacity_mut()[from..left]);
                self.freed_bytes += STEP_BYTES;
            } else {
                self.deferred.pop_front();
                self.freed_bytes = 0;
            }
        }
        !self.deferred.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_large_is_freed_in_steps() {
        let mut buffers = Buffers::default();
        assert!(!buffers.free_some());
        let kept = buffers.take();
        buffers.put(kept);
        buffers.put(vec![1; STEP_BYTES]);
        assert!(!buffers.free_some(), "small ones are kept, or gone");
        buffers.put(vec![1; 10 * STEP_BYTES]);
        buffers.defer_free(vec![1; 1000]);
        buffers.defer_free(Vec::new());
        let mut steps = 1;
        while buffers.free_some() {
            steps += 1;
        }
        assert_eq!((steps, buffers.kept.len()), (11, 1));
    }
}
