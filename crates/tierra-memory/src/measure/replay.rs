//! The replay: the least time that given lookups could take on this memory.
//!
//! [`record`] notes the lines that lookups ask for, in the order in which they ask; [`LoadTrace::replay`] asks for the
//! same lines again, independent of each other and of everything else. The lookups themselves cannot be
//! faster: what they take above it is computing, and waiting that was not hidden.
//!
//! A replay prefetches and never reads. That needs no promise that what was recorded is still there, and it takes
//! the same time: a prefetch occupies a miss in flight as a load does, and waits for one.

use std::hint::black_box;
use std::time::{Duration, Instant};

use tierra_interleave::{Execution, Mode};

use crate::LINE_BYTES;
use crate::{emulation, in_mode};

/// The lines that lookups asked for, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoadTrace {
    /// Addresses of lines.
    lines: Vec<usize>,
}

/// Runs `work` and records the lines that lookups of this thread ask for through their contexts meanwhile, if
/// they are dispatched by [`in_mode!`](crate::in_mode). Whatever `work` starts on other threads is not
/// recorded.
///
/// What has just been looked up is cached: to replay lines that miss, run other lookups in between, more of
/// them than the caches hold.
///
/// ```
/// use tierra_interleave::{Cx, Execution, GroupSize, for_each};
/// use tierra_memory::{in_mode, measure::record};
///
/// let places = vec![7u64; 1000];
/// let (sum, trace) = record(|| {
///     let mut sum = 0;
///     in_mode!(Execution::Interleaved, M => for_each(
///         GroupSize::DEFAULT,
///         places.iter().step_by(8),
///         |cx: Cx<M>, place| cx.load(place),
///         |_, value| sum += *value,
///     ));
///     sum
/// });
/// assert_eq!(sum, 7 * 125);
/// assert_eq!(trace.lines(), 125);
/// let least = trace.replay(10);
/// # let _ = least;
/// ```
pub fn record<T>(work: impl FnOnce() -> T) -> (T, LoadTrace) {
    /// Ends the recording even if `work` panics.
    struct Recorder;
    impl Drop for Recorder {
        fn drop(&mut self) {
            emulation::end_recording();
            emulation::release();
        }
    }
    emulation::hold_on();
    emulation::start_recording();
    let recorder = Recorder;
    let done = work();
    let lines = emulation::end_recording();
    drop(recorder);
    (done, LoadTrace { lines })
}

impl LoadTrace {
    /// Lines asked for; one that was asked for twice counts twice.
    pub fn lines(&self) -> usize {
        self.lines.len()
    }

    /// Lines asked for, each counted once.
    pub fn distinct_lines(&self) -> usize {
        let mut lines = self.lines.clone();
        lines.sort_unstable();
        lines.dedup();
        lines.len()
    }

    /// Appends what was recorded later.
    pub fn append(&mut self, later: LoadTrace) {
        self.lines.extend(later.lines);
    }

    /// Asks for all lines again, in order, at most `in_flight` ahead of the line waited for where memory is
    /// emulated (natively the processor decides), and returns how long it took.
    pub fn replay(&self, in_flight: usize) -> Duration {
        in_mode!(Execution::Interleaved, M => replay::<M>(&self.lines, in_flight))
    }
}

fn replay<M: Mode>(lines: &[usize], in_flight: usize) -> Duration {
    let mode = M::default();
    let mut under_way = vec![None; in_flight.clamp(1, 1024)];
    let start = Instant::now();
    let mut slot = 0;
    for &line in lines {
        let ticket = mode.issue(std::ptr::without_provenance(line), LINE_BYTES);
        // Nothing to wait for natively: a ticket has no content there.
        if size_of::<M::Ticket>() > 0 {
            if let Some(earlier) = under_way[slot].replace(ticket) {
                mode.arrive(earlier);
            }
            slot = if slot + 1 == under_way.len() {
                0
            } else {
                slot + 1
            };
        }
    }
    for ticket in under_way.into_iter().flatten() {
        mode.arrive(ticket);
    }
    black_box(lines);
    start.elapsed()
}

#[cfg(test)]
mod tests {
    use tierra_interleave::{Cx, GroupSize, for_each};

    use super::*;

    fn look_up(places: &[[u64; 16]], execution: Execution) -> u64 {
        let mut sum = 0;
        in_mode!(execution, M => for_each(
            GroupSize::DEFAULT,
            places,
            |cx: Cx<M>, place| cx.load(place),
            |_, value| sum += value[15],
        ));
        sum
    }

    #[test]
    fn what_lookups_ask_for_is_recorded_in_order_and_nothing_else() {
        let mut places = vec![[1u64; 16]; 100];
        places[99][15] = 5;
        assert_eq!(look_up(&places, Execution::Plain), 104);
        for execution in Execution::ALL {
            let (sum, trace) = record(|| look_up(&places, execution));
            assert_eq!(sum, 104);
            // 128 bytes are two lines, or three where they straddle.
            let first = places.as_ptr().addr() / LINE_BYTES * LINE_BYTES;
            assert!(trace.lines.is_sorted());
            assert_eq!(trace.lines[0], first);
            assert!(
                trace.lines() == 200 || trace.lines() == 300,
                "{}",
                trace.lines()
            );
            assert!((200..=201).contains(&trace.distinct_lines()));
            assert!(trace.replay(10) < Duration::from_secs(1));
        }
        let (_, nothing) = record(|| ());
        assert_eq!(nothing, LoadTrace::default());
        assert!(nothing.replay(0) < Duration::from_secs(1));
    }

    #[test]
    fn recordings_end_when_the_work_panics() {
        let caught = std::panic::catch_unwind(|| record(|| panic!("planned")));
        assert!(caught.is_err());
        let places = [[1u64; 16]; 2];
        let (_, trace) = record(|| ());
        look_up(&places, Execution::Interleaved);
        assert_eq!(trace.lines(), 0);
        assert_eq!(emulation::end_recording(), []);
    }
}
