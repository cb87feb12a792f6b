//! Buffers of connections: shared while they are small, freed step by step where they are large.
//!
//! The system takes a tenth of a second to get a GiB back. No client is served meanwhile, so what is large, or many, is
//! freed between turns ([`free_some`](Buffers::free_some)).

use std::collections::VecDeque;

/// Buffers of this size are used again.
pub(crate) const BUFFER_BYTES: usize = 64 * 1024;
/// So many buffers are kept for that.
const KEPT_BUFFERS: usize = 256;
/// As much is freed at a time.
const STEP_BYTES: usize = 4 << 20;

/// Buffers that are not in use.
#[derive(Default)]
pub(crate) struct Buffers {
    /// The one used last, whose lines are in the cache, is used next.
    kept: Vec<Vec<u8>>,
    /// To be freed, each empty.
    leaving: VecDeque<Vec<u8>>,
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
            self.leave(buffer);
        }
    }

    /// Takes a buffer that is one of many, to be freed.
    pub(crate) fn leave(&mut self, mut buffer: Vec<u8>) {
        if buffer.capacity() > 0 {
            buffer.clear();
            self.leaving.push_back(buffer);
        }
    }

    /// Frees some of what is to be freed, in less than a millisecond. Whether there is more.
    pub(crate) fn free_some(&mut self) -> bool {
        if let Some(buffer) = self.leaving.front_mut() {
            let left = buffer.capacity().saturating_sub(self.freed_bytes);
            if left > STEP_BYTES {
                let from = left - STEP_BYTES;
                tierra_memory::discard(&mut buffer.spare_capacity_mut()[from..left]);
                self.freed_bytes += STEP_BYTES;
            } else {
                self.leaving.pop_front();
                self.freed_bytes = 0;
            }
        }
        !self.leaving.is_empty()
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
        buffers.leave(vec![1; 1000]);
        buffers.leave(Vec::new());
        let mut steps = 1;
        while buffers.free_some() {
            steps += 1;
        }
        assert_eq!((steps, buffers.kept.len()), (11, 1));
    }
}
