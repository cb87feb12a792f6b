//! Bandwidth: what can carry bytes only so fast, and a thread's share of it.
//!
//! A line from far memory passes up to three of them: the memory itself, in one direction; the link between
//! sockets, if it comes from another; and the memory channels, if these are shared with near memory.
//!
//! Invariant: a channel's time is handed out once, without overlap, so that all threads together never
//! move more than the bandwidth allows.

use std::sync::atomic::{AtomicU64, Ordering};

use super::numbers::{MAX_DEVICES, MAX_SOCKETS};

/// Both directions of one way.
#[derive(Debug)]
pub(super) struct Ways {
    pub(super) reads: Channel,
    pub(super) writes: Channel,
}

impl Ways {
    const fn new() -> Ways {
        Ways {
            reads: Channel::new(),
            writes: Channel::new(),
        }
    }
}

/// Each far memory's own bandwidth, by its number.
static DEVICES: [Ways; MAX_DEVICES] = [const { Ways::new() }; MAX_DEVICES];
/// The link to each socket from all others.
static LINKS: [Ways; MAX_SOCKETS] = [const { Ways::new() }; MAX_SOCKETS];
/// The memory channels of each socket, which reads and writes share.
static SHARED: [Channel; MAX_SOCKETS] = [const { Channel::new() }; MAX_SOCKETS];

/// What bytes of one far memory pass.
#[derive(Clone, Copy, Debug)]
pub(super) struct Route {
    pub(super) device: &'static Ways,
    pub(super) link: &'static Ways,
    pub(super) shared: &'static Channel,
}

impl Route {
    pub(super) const fn of(device: usize, socket: usize) -> Route {
        Route {
            device: &DEVICES[device],
            link: &LINKS[socket],
            shared: &SHARED[socket],
        }
    }
}

impl Route {
    /// A route that no other core uses.
    #[cfg(test)]
    pub(super) fn alone() -> Route {
        Route {
            device: Box::leak(Box::new(Ways::new())),
            link: Box::leak(Box::new(Ways::new())),
            shared: Box::leak(Box::new(Channel::new())),
        }
    }
}

/// Forgets what bandwidth was taken at other costs.
pub(super) fn clear() {
    for ways in DEVICES.iter().chain(&LINKS) {
        ways.reads.clear();
        ways.writes.clear();
    }
    SHARED.iter().for_each(Channel::clear);
}

/// The time up to which something that carries bytes is taken.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(super) struct Channel {
    taken_until: AtomicU64,
}

impl Channel {
    pub(super) const fn new() -> Channel {
        Channel {
            taken_until: AtomicU64::new(0),
        }
    }

    /// Takes `ticks` of the channel's time, not before `from`; returns when they begin.
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

    /// Passes bytes that take `ticks`, ready at `from`; returns when they are through. What takes no time is not limited.
    pub(super) fn pass(&self, from: u64, ticks: u64) -> u64 {
        if ticks == 0 {
            return from;
        }
        self.take(from, ticks) + ticks
    }

    /// Forgets what was taken.
    fn clear(&self) {
        self.taken_until.store(0, Ordering::Relaxed);
    }
}

/// Channel time that one thread has taken for several lines at once, so that the shared counter is not
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

    /// When a transfer of `ticks` that is ready at `ready` may begin. Takes a new slice of at least as much, `slice`, from the channel
    /// when the old one is used up.
    #[inline]
    pub(super) fn begin(&mut self, channel: &Channel, ready: u64, ticks: u64, slice: u64) -> u64 {
        if self.left < ticks {
            self.next = channel.take(ready, slice);
            self.left = slice;
        }
        self.left -= ticks;
        ready.max(self.next)
    }

    /// The transfer is over at `time`.
    #[inline]
    pub(super) fn end(&mut self, time: u64) {
        self.next = time;
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
        assert_eq!(channel.pass(0, 0), 0, "unlimited");
        assert_eq!(channel.pass(0, 5), 525);
    }

    #[test]
    fn a_stretch_spaces_lines_and_keeps_the_rate() {
        let channel = Channel::new();
        let (mut one, mut other) = (ChannelSlice::new(), ChannelSlice::new());
        // Two threads, always ready: 16 lines of 10 ticks are 160 ticks of the device.
        let transfer = |slice: &mut ChannelSlice| {
            let start = slice.begin(&channel, 0, 10, 40);
            slice.end(start + 10);
            start
        };
        let mut starts: Vec<u64> = (0..8)
            .flat_map(|_| [transfer(&mut one), transfer(&mut other)])
            .collect();
        starts.sort_unstable();
        assert_eq!(starts, (0..16).map(|line| line * 10).collect::<Vec<_>>());
    }

    #[test]
    fn a_slow_thread_is_not_held_up() {
        let channel = Channel::new();
        let mut slice = ChannelSlice::new();
        for now in [1000, 2000, 3000] {
            assert_eq!(slice.begin(&channel, now, 10, 40), now);
            slice.end(now + 10);
        }
    }
}
