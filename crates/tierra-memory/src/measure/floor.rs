//! The floor: what a random line costs when a given number of them is under way.
//!
//! One chase is a cycle through all lines in random order, each naming the next; several chases round the same
//! cycle, taken in turn, are so many loads in flight. No interleaving of lookups can be faster per line than
//! as many bare loads.

use std::hint::black_box;
use std::time::{Duration, Instant};

use tierra_interleave::Mode;

use super::{lay_cycle, word_at};
use crate::LINE_BYTES;

/// Memory laid out as a cycle of lines in random order, to be chased.
///
/// A measurement goes on where the last one ended, so that many short ones, taken in turn with others, do
/// not find their lines cached.
///
/// ```
/// use std::time::Duration;
/// use tierra_interleave::{Execution, Plain};
/// use tierra_memory::{Region, in_mode, measure::Chase};
///
/// let mut region = Region::near(1 << 20)?;
/// let mut chase = Chase::new(&mut region);
/// let (few, time) = (4, Duration::from_millis(1));
/// let by_the_processor = chase.ns_per_line::<Plain>(few, time);
/// // on emulated far memory, while emulation is on and the region counts as far
/// let prefetched = in_mode!(Execution::Interleaved, M => chase.ns_per_line::<M>(few, time));
/// # assert!(by_the_processor > 0.0 && prefetched > 0.0);
/// # Ok::<(), tierra_memory::RegionError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Chase<'a> {
    bytes: &'a [u8],
    /// The line that each chase is at.
    lanes: [u64; Chase::MAX_IN_FLIGHT],
}

impl<'a> Chase<'a> {
    /// Most loads in flight.
    pub const MAX_IN_FLIGHT: usize = 64;

    /// Overwrites memory with a cycle. Less than a line is left as it is and cannot be chased.
    pub fn new(bytes: &'a mut [u8]) -> Chase<'a> {
        lay_cycle(bytes);
        let count = bytes.len() / LINE_BYTES;
        let lanes = std::array::from_fn(|lane| (count * lane / Self::MAX_IN_FLIGHT) as u64);
        Chase { bytes, lanes }
    }

    /// Nanoseconds per line with `in_flight` (1 to [`Chase::MAX_IN_FLIGHT`], the nearest of which is taken)
    /// independent chases in turn, in mode `M`, over about `time`. In a mode that gives way each load is
    /// issued a whole turn before it is used, in any other just before.
    pub fn ns_per_line<M: Mode>(&mut self, in_flight: usize, time: Duration) -> f64 {
        // Few enough that slow memory is timed as finely as fast.
        const LINES: usize = 512;
        if self.bytes.len() < LINE_BYTES {
            return 0.0;
        }
        let in_flight = in_flight.clamp(1, Self::MAX_IN_FLIGHT);
        let lanes = &mut self.lanes[..in_flight];
        let mode = M::default();
        let issue = |line: u64| {
            let place = self.bytes.as_ptr().wrapping_add(line as usize * LINE_BYTES);
            mode.issue(place, size_of::<u64>())
        };
        let mut tickets = [None; Self::MAX_IN_FLIGHT];
        let mut read = 0u64;
        let start = Instant::now();
        loop {
            for _ in 0..LINES.div_ceil(in_flight) {
                for (line, ticket) in lanes.iter_mut().zip(&mut tickets) {
                    if M::INTERLEAVED {
                        if let Some(ticket) = ticket.take() {
                            mode.arrive(ticket);
                        }
                        *line = word_at(self.bytes, *line);
                        *ticket = Some(issue(*line));
                    } else {
                        mode.arrive(issue(*line));
                        *line = word_at(self.bytes, *line);
                    }
                }
                read += in_flight as u64;
            }
            let elapsed = start.elapsed();
            if elapsed >= time {
                black_box(&lanes);
                return elapsed.as_nanos() as f64 / read as f64;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tierra_interleave::{Interleaved, Plain};

    use super::*;

    #[test]
    fn every_number_in_flight_is_measured() {
        let mut bytes = vec![0; 1 << 16];
        let mut chase = Chase::new(&mut bytes);
        for in_flight in [0, 1, 2, 7, 64, 1000] {
            let time = Duration::from_micros(100);
            assert!(chase.ns_per_line::<Plain>(in_flight, time) > 0.0);
            assert!(chase.ns_per_line::<Interleaved>(in_flight, time) > 0.0);
        }
    }

    #[test]
    fn tiny_memory_is_chased_or_refused() {
        let mut none = [0u8; 63];
        assert_eq!(
            Chase::new(&mut none).ns_per_line::<Plain>(4, Duration::ZERO),
            0.0
        );
        let mut one = [0u8; 64];
        assert!(Chase::new(&mut one).ns_per_line::<Plain>(4, Duration::ZERO) > 0.0);
    }
}
