//! Far memory in ticks of the clock: what the model computes with.
//!
//! Invariant: derived from a checked [`FarMemory`] and the socket of a thread alone, and copied into every thread that
//! meets it, so that no lookup reads what another thread may be changing.

use super::FarMemory;
use super::clock::Calibration;
use crate::LINE_BYTES;
use crate::topology::SocketId;

/// Lines whose bandwidth a thread takes at a time: few enough that threads alternate within a
/// microsecond or ten, enough that the shared counter is touched rarely.
pub(super) const SLICE_LINES: u64 = 8;
/// Lines on their way back to memory that no thread waits for: a memory controller's queue.
const WRITE_QUEUE_LINES: u64 = 64;
/// How far a core runs ahead of a fence: what its reorder window of about 224 instructions holds.
const AHEAD_NS: f64 = 100.0;

/// The time that a byte takes: ticks in units of 2^-32.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rate(u64);

impl Rate {
    const UNLIMITED: Rate = Rate(0);

    fn new(gb_per_s: f64, ticks_per_ns: f64) -> Rate {
        // 1 GB/s is a byte a nanosecond; an unlimited one takes no time.
        Rate((ticks_per_ns / gb_per_s * (1u64 << 32) as f64).round() as u64)
    }

    /// Ticks of `bytes`.
    #[inline]
    pub(super) fn ticks(self, bytes: u64) -> u64 {
        ((u128::from(self.0) * u128::from(bytes)) >> 32) as u64
    }

    pub(super) fn is_unlimited(self) -> bool {
        self.0 == 0
    }
}

/// The time that transfers take in one direction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rates {
    pub(super) sequential: Rate,
    pub(super) random: Rate,
}

/// Everything that the model asks of one far memory, as one thread feels it.
#[derive(Clone, Copy, Debug)]
pub(super) struct TickCosts {
    pub(super) latency: u64,
    pub(super) misses: usize,
    pub(super) overlap: usize,
    pub(super) reads: Rates,
    pub(super) writes: Rates,
    /// Of the link, unlimited where the memory belongs to the thread's socket.
    pub(super) link: Rate,
    /// Of the memory channels that are shared with near memory.
    pub(super) channels: Rate,
    pub(super) persist: u64,
    /// How far the core runs ahead of a fence.
    pub(super) ahead: u64,
    /// Ticks of what may be on its way back to memory while no thread waits.
    pub(super) write_queue: u64,
    /// A line's number shifted right by this is its internal line's.
    pub(super) internal_shift: u32,
    /// The socket whose link and channels it uses.
    pub(super) socket: usize,
    /// Neither latency nor bandwidth: loads need not be looked at.
    pub(super) free_loads: bool,
    /// Whether lines pass a link or shared channels, too.
    pub(super) passes_others: bool,
    /// Ticks of a random line, of a line in order, and of a slice of random lines.
    pub(super) random_line: u64,
    pub(super) sequential_line: u64,
    pub(super) slice_ticks: u64,
}

impl TickCosts {
    /// Of a description, on a clock whose ticks are nanoseconds and which is read at once, for a thread of socket 0.
    #[cfg(test)]
    pub(super) fn in_ns(far: &str) -> TickCosts {
        let clock = Calibration {
            ticks_per_ns: 1.0,
            reading: 0,
        };
        TickCosts::new(&far.parse().expect("a setting"), SocketId(0), &clock)
    }

    /// Of no far memory at all.
    pub(super) const NONE: TickCosts = TickCosts {
        latency: 0,
        misses: 1,
        overlap: 1,
        reads: Rates {
            sequential: Rate::UNLIMITED,
            random: Rate::UNLIMITED,
        },
        writes: Rates {
            sequential: Rate::UNLIMITED,
            random: Rate::UNLIMITED,
        },
        link: Rate::UNLIMITED,
        channels: Rate::UNLIMITED,
        persist: 0,
        ahead: 0,
        write_queue: 0,
        internal_shift: 0,
        socket: 0,
        free_loads: true,
        passes_others: false,
        random_line: 0,
        sequential_line: 0,
        slice_ticks: 0,
    };

    /// Of a checked description, for a thread of a socket. What a wait will be late by is taken off beforehand.
    pub(super) fn new(far: &FarMemory, from: SocketId, clock: &Calibration) -> TickCosts {
        let ticks =
            |ns: f64| ((ns * clock.ticks_per_ns).round() as u64).saturating_sub(clock.lateness());
        let share = far.share();
        let rate = |gb_per_s: f64| Rate::new(gb_per_s * share, clock.ticks_per_ns);
        let reads = Rates {
            sequential: rate(far.sequential_read_gb_per_s),
            random: rate(far.random_read_gb_per_s),
        };
        let writes = Rates {
            sequential: rate(far.sequential_write_gb_per_s),
            random: rate(far.random_write_gb_per_s),
        };
        let link = if from == far.socket {
            Rate::UNLIMITED
        } else {
            rate(far.link_gb_per_s)
        };
        let channels = rate(far.channels_gb_per_s);
        let latency_ns = far.latency_from(from);
        let passes_others = !(link.is_unlimited() && channels.is_unlimited());
        let line = LINE_BYTES as u64;
        TickCosts {
            latency: ticks(latency_ns),
            misses: far.misses_in_flight,
            overlap: far.plain_overlap,
            reads,
            writes,
            link,
            channels,
            persist: ticks(far.persist_ns),
            ahead: ticks(AHEAD_NS),
            write_queue: writes.sequential.ticks(WRITE_QUEUE_LINES * line),
            internal_shift: (far.internal_line_bytes / LINE_BYTES).trailing_zeros(),
            socket: usize::from(far.socket.0),
            free_loads: latency_ns == 0.0
                && reads.random.is_unlimited()
                && reads.sequential.is_unlimited()
                && !passes_others,
            passes_others,
            random_line: reads.random.ticks(line),
            sequential_line: reads.sequential.ticks(line),
            slice_ticks: reads.random.ticks(SLICE_LINES * line),
        }
    }

    /// Of near memory beside a far one with which it shares its channels, for a thread of a socket.
    pub(super) fn near(far: &FarMemory, from: SocketId, clock: &Calibration) -> TickCosts {
        let channels = Rate::new(far.channels_gb_per_s * far.share(), clock.ticks_per_ns);
        TickCosts {
            channels,
            passes_others: !channels.is_unlimited(),
            socket: usize::from(from.0),
            ..TickCosts::NONE
        }
    }
}
