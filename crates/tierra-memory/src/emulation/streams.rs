//! Reads in order: which block continues one read before, so that it need not wait for the latency.
//!
//! Invariant: as many streams as Intel's second-level prefetcher follows are remembered per thread; one more
//! displaces the oldest.

/// Streams that one core follows at a time.
const STREAMS: usize = 32;

/// The ends of what one thread has read in order.
#[derive(Debug)]
pub(super) struct Streams {
    ends: [usize; STREAMS],
    oldest: usize,
}

impl Streams {
    pub(super) const fn new() -> Streams {
        Streams {
            ends: [0; STREAMS],
            oldest: 0,
        }
    }

    /// Notes that `[start, end)` is read; whether it continues a stream: it begins where a block ended, or
    /// within the 4 KiB behind it, to which the prefetcher has gone on by itself.
    pub(super) fn continues(&mut self, start: usize, end: usize) -> bool {
        const AHEAD_BYTES: usize = 4096;
        let follows = |last: &usize| start.wrapping_sub(*last) <= AHEAD_BYTES;
        match self.ends.iter().position(follows) {
            Some(stream) => {
                self.ends[stream] = end;
                true
            }
            None => {
                self.ends[self.oldest] = end;
                self.oldest = (self.oldest + 1) % STREAMS;
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_in_order_continue_and_jumps_do_not() {
        let mut streams = Streams::new();
        let base = 1 << 30;
        assert!(!streams.continues(base, base + 2000));
        assert!(streams.continues(base + 2000, base + 4000));
        assert!(streams.continues(base + 4000 + 64, base + 6000));
        assert!(!streams.continues(base + 100_000, base + 102_000));
        assert!(!streams.continues(base, base + 2000), "backwards");
    }

    #[test]
    fn as_many_columns_as_streams_are_followed_at_once() {
        let mut streams = Streams::new();
        let block = |column: usize, at: usize| {
            let start = ((column + 1) << 30) + at * 2048;
            (start, start + 2048)
        };
        for at in 0..4 {
            for column in 0..STREAMS {
                let (start, end) = block(column, at);
                assert_eq!(streams.continues(start, end), at > 0);
            }
        }
        let (start, end) = block(STREAMS, 0);
        assert!(!streams.continues(start, end));
        let (start, end) = block(0, 4);
        assert!(!streams.continues(start, end), "displaced");
    }
}
