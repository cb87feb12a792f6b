//! Bandwidth: one direction of the device, and a thread's share of it.
//!
//! Invariant: the device's time is handed out once, without overlap, so that all threads together never
//! move more than the bandwidth allows.

use std::sync::atomic::{AtomicU64, Ordering};

/// What is read from the device.
pub(super) static READS: Channel = Channel::new();
/// What is written to it.
pub(super) static WRITES: Channel = Channel::new();

/// Forgets what bandwidth was taken at other costs.
pub(super) fn clear() {
    READS.clear();
    WRITES.clear();
}

/// The time up to which one direction of the device is taken.
#[derive(Debug, Default)]
pub(super) struct Channel {
    taken_until: AtomicU64,
}

impl Channel {
    pub(super) const fn new() -> Channel {
        Channel {
            taken_until: AtomicU64::new(0),
        }
    }

    /// Takes `ticks` of the device's time, not before `from`; returns when they begin.
    pub(super) fn take(&self, from: u64, ticks: u64) -> u64 {
        let mut taken = self.taken_until.load(Ordering::Relaxed);
        loop {
            let start = taken.max(from);
            // Relaxed: the time itself is all that threads share.
            match self.taken_until.compare_exchange_weak(
                taken,
                start + ticks,
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => return start,
                Err(now_taken) => taken = now_taken,
            }
        }
    }

    /// Forgets what was taken.
    fn clear(&self) {
        self.taken_until.store(0, Ordering::Relaxed);
    }
}

/// Device time that one thread has taken for several lines at once, so that the shared counter is not
/// touched for each.
#[derive(Debug, Default)]
pub(super) struct ChannelSlice {
    left: u64,
    next: u64,
}

impl ChannelSlice {
    pub(super) const fn new() -> ChannelSlice {
        ChannelSlice { left: 0, next: 0 }
    }

    /// The start of the transfer of a line that takes `ticks` and is ready at `ready`. Takes a new slice of
    /// `slice` ticks from the channel when the old one is used up.
    pub(super) fn schedule(
        &mut self,
        channel: &Channel,
        ready: u64,
        ticks: u64,
        slice: u64,
    ) -> u64 {
        if self.left < ticks {
            self.next = channel.take(ready, slice);
            self.left = slice;
        }
        let start = ready.max(self.next);
        self.next = start + ticks;
        self.left -= ticks;
        start
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_handed_out_once() {
        let channel = Channel::new();
        assert_eq!(channel.take(100, 10), 100);
        assert_eq!(channel.take(100, 10), 110);
        assert_eq!(channel.take(500, 10), 500);
        assert_eq!(channel.take(0, 10), 510);
    }

    #[test]
    fn a_stretch_spaces_lines_and_keeps_the_rate() {
        let channel = Channel::new();
        let (mut one, mut other) = (ChannelSlice::new(), ChannelSlice::new());
        // Two threads, always ready: 16 lines of 10 ticks are 160 ticks of the device.
        let mut starts: Vec<u64> = (0..8)
            .flat_map(|_| {
                [
                    one.schedule(&channel, 0, 10, 40),
                    other.schedule(&channel, 0, 10, 40),
                ]
            })
            .collect();
        starts.sort_unstable();
        assert_eq!(starts, (0..16).map(|line| line * 10).collect::<Vec<_>>());
    }

    #[test]
    fn a_slow_thread_is_not_held_up() {
        let channel = Channel::new();
        let mut slice = ChannelSlice::new();
        for now in [1000, 2000, 3000] {
            assert_eq!(slice.schedule(&channel, now, 10, 40), now);
        }
    }
}
