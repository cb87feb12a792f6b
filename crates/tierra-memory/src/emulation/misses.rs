//! The misses that one core has in flight, and when each arrives.
//!
//! ```text
//!   ring:  │ done │ done │ done │ … │ done │      as many as the core has line-fill buffers
//!             ▲ next: the oldest
//!   issue:  start = max(now, oldest, bandwidth)    done = start + latency
//! ```
//!
//! Invariant: completion times grow from one miss to the next, and no more than `misses` of them lie in the
//! future of a start. Everything is computed from the times given in, so that tests need no clock.

use super::FarMemory;
use super::channel::{ChannelSlice, Route};
use super::costs::{SLICE_LINES, TickCosts};
use super::lines::Lines;
use crate::LINE_BYTES;

/// One core's misses of one far memory.
#[derive(Debug)]
pub(super) struct Misses {
    done: [u64; FarMemory::MAX_MISSES],
    next: usize,
    slice: ChannelSlice,
    link_slice: ChannelSlice,
    shared_slice: ChannelSlice,
    /// The internal line of the last miss.
    internal: u64,
}

impl Misses {
    pub(super) const fn new() -> Misses {
        Misses {
            done: [0; FarMemory::MAX_MISSES],
            next: 0,
            slice: ChannelSlice::new(),
            link_slice: ChannelSlice::new(),
            shared_slice: ChannelSlice::new(),
            internal: u64::MAX - 1,
        }
    }

    /// Lines that follow each other, asked for at `now`, each of which arrives `latency` after it is on its way; returns when
    /// the last of them does.
    #[inline]
    pub(super) fn issue(
        &mut self,
        costs: &TickCosts,
        route: Route,
        lines: Lines,
        now: u64,
        latency: u64,
    ) -> u64 {
        let internal = lines.first >> costs.internal_shift;
        let follows = internal.wrapping_sub(self.internal) <= 1;
        self.internal = lines.last() >> costs.internal_shift;
        let mut ticks = if follows {
            costs.sequential_line
        } else {
            costs.random_line
        };
        let mut start = now;
        let is_limited = costs.random_line != 0;
        if is_limited {
            let all = ticks + (lines.count - 1) * costs.sequential_line;
            let slice = costs.slice_ticks.max(all);
            let ready = now.max(self.done[self.next % self.done.len()]);
            start = self.slice.begin(&route.device.reads, ready, all, slice);
        }
        let mut done = start;
        // Local, so that it stays in a register while the ring is written.
        let mut next = self.next;
        for _ in 0..lines.count {
            // No more than the ring's slots are used, which the remainder tells the compiler.
            let slot = next % self.done.len();
            start = start.max(self.done[slot]);
            let passes = if costs.passes_others {
                self.pass_others(costs, route, start)
            } else {
                start
            };
            done = passes + latency;
            self.done[slot] = done;
            start += ticks;
            ticks = costs.sequential_line;
            next += 1;
            if next == costs.misses {
                next = 0;
            }
        }
        self.next = next;
        if is_limited {
            self.slice.end(start);
        }
        done
    }

    /// When a line goes through the link and the shared channels that is ready at `ready`.
    #[cold]
    fn pass_others(&mut self, costs: &TickCosts, route: Route, ready: u64) -> u64 {
        let mut start = ready;
        for (slice, channel, rate) in [
            (&mut self.link_slice, &route.link.reads, costs.link),
            (&mut self.shared_slice, route.shared, costs.channels),
        ] {
            let ticks = rate.ticks(LINE_BYTES as u64);
            if ticks != 0 {
                start = slice.begin(channel, start, ticks, ticks * SLICE_LINES);
                slice.end(start + ticks);
            }
        }
        start
    }

    /// When the miss arrives that was issued `overlap - 1` before the last one: what a plain load waits
    /// for.
    #[inline]
    pub(super) fn held_up_until(&self, costs: &TickCosts) -> u64 {
        let back = self.next + costs.misses - costs.overlap;
        self.done[if back >= costs.misses {
            back - costs.misses
        } else {
            back
        }]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::emulation::channel::Route;

    fn one(misses: &mut Misses, costs: &TickCosts, route: Route, line: u64, now: u64) -> u64 {
        let lines = Lines {
            first: line,
            count: 1,
        };
        misses.issue(costs, route, lines, now, costs.latency)
    }

    /// Lines that never follow each other.
    fn scattered() -> impl Iterator<Item = u64> {
        (0..).map(|line| line * 1000)
    }

    #[test]
    fn a_dependent_chase_takes_the_latency_each() {
        let (costs, channel, mut misses) = (
            TickCosts::in_ns("latency=300"),
            Route::alone(),
            Misses::new(),
        );
        let mut now = 5000;
        for line in scattered().take(100) {
            let done = one(&mut misses, &costs, channel, line, now);
            assert_eq!(done, now + 300);
            now = done;
        }
    }

    #[test]
    fn independent_loads_share_the_latency_among_the_misses_in_flight() {
        for in_flight in [1u64, 2, 10, 64] {
            let costs = TickCosts::in_ns(&format!("latency=300,misses={in_flight}"));
            let (channel, mut misses) = (Route::alone(), Misses::new());
            let last = scattered()
                .take(1000)
                .map(|line| one(&mut misses, &costs, channel, line, 0))
                .last();
            assert_eq!(last, Some(1000u64.div_ceil(in_flight) * 300));
        }
    }

    #[test]
    fn bandwidth_is_the_least_time_between_lines() {
        // 64 lines in flight would give 4.7 ns a line; 10 GB/s allow 6.4.
        let costs = TickCosts::in_ns("latency=300,misses=64,random=10GB/s,sequential=10GB/s");
        let (channel, mut misses) = (Route::alone(), Misses::new());
        let last = scattered()
            .take(10_000)
            .map(|line| one(&mut misses, &costs, channel, line, 0))
            .last()
            .unwrap();
        let per_line = last as f64 / 10_000.0;
        assert!((6.35..6.5).contains(&per_line), "{per_line}");
    }

    #[test]
    fn two_cores_share_the_bandwidth() {
        let costs = TickCosts::in_ns("latency=300,misses=64,random=1GB/s,sequential=1GB/s");
        let channel = Route::alone();
        let mut cores = [Misses::new(), Misses::new()];
        let mut last = 0;
        for line in scattered().take(1000) {
            for core in &mut cores {
                last = one(core, &costs, channel, line, 0);
            }
        }
        let per_line = last as f64 / 2000.0;
        assert!((63.5..64.6).contains(&per_line), "{per_line}");
    }

    #[test]
    fn neighbours_within_an_internal_line_cost_sequential_bandwidth() {
        let costs = TickCosts::in_ns("misses=64,line=256,random=1GB/s,sequential=4GB/s");
        let (channel, mut misses) = (Route::alone(), Misses::new());
        // Four lines of one internal line: 64 + 3 * 16 ticks; far apart: 64 each.
        let last = (0..1000)
            .flat_map(|internal| (0..4).map(move |line| internal * 4000 + line))
            .map(|line| one(&mut misses, &costs, channel, line, 0))
            .last()
            .unwrap();
        assert!((110_000..115_000).contains(&last), "{last}");
    }

    #[test]
    fn plain_loads_are_bounded_above_and_below() {
        // A loop of plain loads with no work between them, each waiting as its bound says.
        let chase = |overlap: usize| {
            let costs = TickCosts::in_ns(&format!("latency=300,misses=10,overlap={overlap}"));
            let (channel, mut misses) = (Route::alone(), Misses::new());
            let mut now = 10_000u64;
            for line in scattered().take(1000) {
                one(&mut misses, &costs, channel, line, now);
                now = now.max(misses.held_up_until(&costs));
            }
            (now - 10_000) as f64 / 1000.0
        };
        assert_eq!(chase(1), 300.0);
        assert!((149.0..151.0).contains(&chase(2)));
        assert!((29.0..31.0).contains(&chase(10)));
    }

    #[test]
    fn a_load_that_waited_its_latency_elsewhere_waits_no_more() {
        let (costs, channel, mut misses) = (
            TickCosts::in_ns("latency=300"),
            Route::alone(),
            Misses::new(),
        );
        let done = one(&mut misses, &costs, channel, 0, 1000);
        let (later, work) = (1000 + 250, 1000 + 400);
        assert_eq!(done - later, 50);
        assert!(done < work);
        // A slot that has long been free does not hold anything up.
        assert_eq!(one(&mut misses, &costs, channel, 5000, 9000), 9300);
    }
}
