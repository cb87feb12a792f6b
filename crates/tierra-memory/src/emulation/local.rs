//! One thread's far memory: the core it stands for, and the costs it goes by.
//!
//! Invariant: a thread's state is its own; what threads share (bandwidth, the last-level cache) lies in
//! [`READS`], [`WRITES`] and [`cache::SETS`].

use std::cell::{Cell, RefCell};

use super::channel::{Channel, READS, WRITES};
use super::costs::Costs;
use super::misses::Misses;
use super::streams::Streams;
use super::{cache, clock, far, switch};
use crate::LINE_BYTES;

thread_local! {
    static LOCAL: Local = const { Local::new() };
    static RECORDING: RefCell<Option<Vec<usize>>> = const { RefCell::new(None) };
}

struct Local {
    /// The state whose costs these are.
    state: Cell<u32>,
    /// The clock when it was last read: what was due by then is not waited for.
    now: Cell<u64>,
    recording: Cell<bool>,
    core: RefCell<Core>,
}

/// What one core has under way.
struct Core {
    costs: Costs,
    misses: Misses,
    streams: Streams,
    /// The internal line written last.
    written: u64,
    /// When the flushes since the last fence will be done.
    durable_at: u64,
}

impl Local {
    const fn new() -> Local {
        Local {
            state: Cell::new(0),
            now: Cell::new(0),
            recording: Cell::new(false),
            core: RefCell::new(Core::new(Costs::NONE)),
        }
    }

    /// Reads the clock.
    fn tick(&self) -> u64 {
        let now = clock::now();
        self.now.set(now);
        now
    }

    fn wait_until(&self, time: u64) {
        if time > self.now.get() {
            while self.tick() < time {}
        }
    }

    /// The core, at the costs that are in force.
    #[inline]
    fn with_core<R>(&self, work: impl FnOnce(&mut Core) -> R) -> R {
        let mut core = self.core.borrow_mut();
        if self.state.get() != switch::state() {
            let (costs, state) = switch::costs();
            *core = Core::new(costs);
            self.state.set(state);
        }
        work(&mut core)
    }
}

impl Core {
    const fn new(costs: Costs) -> Core {
        Core {
            costs,
            misses: Misses::new(),
            streams: Streams::new(),
            written: u64::MAX - 1,
            durable_at: 0,
        }
    }

    /// Whether an address is far at these costs.
    fn is_far(&self, address: usize) -> bool {
        self.costs.everywhere || far::is_covered(address)
    }

    /// A load issued; returns when the last of its lines arrives, 0 if all are near.
    fn load(&mut self, address: usize, len_bytes: usize, clock: impl Fn() -> u64) -> u64 {
        if self.costs.free_loads || !self.is_far(address) {
            return 0;
        }
        let (first, last) = lines(address, len_bytes);
        let sets = &cache::SETS[..self.costs.cache_sets];
        let (mut now, mut arrives) = (None, 0);
        cache::touch(sets, first, last, |line| {
            let now = *now.get_or_insert_with(&clock);
            arrives = self.misses.issue(&self.costs, &READS, line, now);
        });
        arrives
    }

    /// A block read in order; returns when it has been transferred.
    fn read(&mut self, address: usize, len_bytes: usize, now: u64, channel: &Channel) -> u64 {
        let ticks = self.costs.reads.sequential(len_bytes as u64);
        let continues = self.streams.continues(address, address + len_bytes);
        let latency = if continues { 0 } else { self.costs.latency };
        channel.take(now, ticks) + ticks + latency
    }

    /// Lines that leave the cache; returns when they are durable.
    fn write(&mut self, address: usize, len_bytes: usize, now: u64, channel: &Channel) -> u64 {
        let (first, last) = lines(address, len_bytes);
        let shift = self.costs.internal_shift;
        let follows = (first >> shift).wrapping_sub(self.written) <= 1;
        self.written = last >> shift;
        let line_bytes = LINE_BYTES as u64;
        let rates = &self.costs.writes;
        let ticks = if follows {
            rates.sequential((last - first + 1) * line_bytes)
        } else {
            rates.random(line_bytes) + rates.sequential((last - first) * line_bytes)
        };
        let done = channel.take(now, ticks) + ticks + self.costs.persist;
        self.durable_at = self.durable_at.max(done);
        done
    }
}

/// The first and the last line that a range touches.
fn lines(address: usize, len_bytes: usize) -> (u64, u64) {
    let last = address + len_bytes.max(1) - 1;
    ((address / LINE_BYTES) as u64, (last / LINE_BYTES) as u64)
}

/// A load issued now that concerns emulation; returns when it arrives, 0 if it already has.
#[inline(never)]
pub(super) fn load(address: usize, len_bytes: usize) -> u64 {
    LOCAL.with(|local| {
        if local.recording.get() {
            record(address, len_bytes);
        }
        local.with_core(|core| core.load(address, len_bytes, || local.tick()))
    })
}

/// The time now, at which the lines of an object are asked for; what the model will need to know when they arrive is
/// fetched.
#[inline(never)]
pub(super) fn ask(address: usize, len_bytes: usize) -> u64 {
    LOCAL.with(|local| {
        if local.recording.get() {
            record(address, len_bytes);
        }
        local.with_core(|core| {
            let (first, last) = lines(address, len_bytes);
            cache::prepare(&cache::SETS[..core.costs.cache_sets], first, last);
        });
        local.tick()
    })
}

/// Waits for lines that were asked for at a time.
#[inline(never)]
pub(super) fn arrive(address: usize, len_bytes: usize, asked: u64) {
    LOCAL.with(|local| {
        let time = local.with_core(|core| core.load(address, len_bytes, || asked));
        local.wait_until(time);
    });
}

/// Waits for a load of a mode that gives way.
#[inline(never)]
pub(super) fn wait_until(time: u64) {
    LOCAL.with(|local| local.wait_until(time));
}

/// Waits for a load just issued in a mode that does not give way, or for an earlier one where several are
/// taken to overlap.
#[inline(never)]
pub(super) fn wait_in_place() {
    LOCAL.with(|local| {
        let time = local.with_core(|core| core.misses.held_up_until(&core.costs));
        local.wait_until(time);
    });
}

/// Begins to read a far block in order; returns when its transfer ends, 0 for near memory.
pub(super) fn read(address: usize, len_bytes: usize) -> u64 {
    transfer(address, len_bytes, |core, now| {
        core.read(address, len_bytes, now, &READS)
    })
}

/// Begins to write far lines; returns when they are durable, 0 for near memory.
pub(super) fn write(address: usize, len_bytes: usize) -> u64 {
    transfer(address, len_bytes, |core, now| {
        core.write(address, len_bytes, now, &WRITES)
    })
}

fn transfer(address: usize, len_bytes: usize, begin: impl FnOnce(&mut Core, u64) -> u64) -> u64 {
    if len_bytes == 0 {
        return 0;
    }
    LOCAL.with(|local| {
        local.with_core(|core| {
            if core.is_far(address) {
                begin(core, local.tick())
            } else {
                0
            }
        })
    })
}

/// Waits until this thread's writes so far are durable.
pub(super) fn wait_durable() {
    LOCAL.with(|local| {
        let durable_at = local.with_core(|core| std::mem::take(&mut core.durable_at));
        local.wait_until(durable_at);
    });
}

#[cold]
fn record(address: usize, len_bytes: usize) {
    let (first, last) = lines(address, len_bytes);
    RECORDING.with_borrow_mut(|recording| {
        if let Some(lines) = recording {
            lines.extend((first..=last).map(|line| line as usize * LINE_BYTES));
        }
    });
}

/// Records the lines that this thread's lookups ask for, in order, until [`end_recording`].
pub(crate) fn start_recording() {
    RECORDING.set(Some(Vec::new()));
    LOCAL.with(|local| local.recording.set(true));
}

/// The addresses of the lines asked for since [`start_recording`].
pub(crate) fn end_recording() -> Vec<usize> {
    LOCAL.with(|local| local.recording.set(false));
    RECORDING.take().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A core on a clock of a gigahertz.
    fn core(far: &str) -> Core {
        Core::new(Costs::in_ns(far))
    }

    #[test]
    fn a_scan_takes_its_bandwidth_and_one_latency() {
        let mut core = core("latency=300,sequential=8GB/s,random=8GB/s");
        let channel = Channel::new();
        let mut now = 1000;
        for block in 0..100 {
            now = core.read((1 << 30) + block * 2048, 2048, now, &channel);
        }
        assert_eq!(now, 1000 + 300 + 100 * 2048 / 8);
    }

    #[test]
    fn scans_of_two_threads_share_the_bandwidth() {
        let (mut one, mut other) = (
            core("sequential=8GB/s,random=8GB/s"),
            core("sequential=8GB/s,random=8GB/s"),
        );
        let channel = Channel::new();
        let (mut now_one, mut now_other) = (1000, 1000);
        for block in 0..100 {
            now_one = one.read((1 << 30) + block * 2048, 2048, now_one, &channel);
            now_other = other.read((1 << 31) + block * 2048, 2048, now_other, &channel);
        }
        assert_eq!(now_one.max(now_other), 1000 + 200 * 2048 / 8);
    }

    #[test]
    fn writes_cost_by_their_order_and_persist_once() {
        let setting = "sequential-write=4GB/s,random-write=1GB/s,line=256,persist=100";
        let (mut core, channel) = (core(setting), Channel::new());
        let line = |at: usize| (1 << 30) + at * 64;
        // A line by itself: 64 ticks, and the persist.
        assert_eq!(core.write(line(0), 4, 1000, &channel), 1164);
        // Its neighbour, in the same internal line: 16.
        assert_eq!(core.write(line(1), 64, 2000, &channel), 2116);
        // Far away, 64 again; the rest of a long run is in order.
        assert_eq!(core.write(line(1000), 64 * 101, 3000, &channel), 4764);
        // Continuing that run.
        assert_eq!(core.write(line(1101), 64 * 100, 9000, &channel), 10_700);
        assert_eq!(core.durable_at, 10_700);
        // Two flushes before one fence overlap but for the bandwidth.
        assert_eq!(core.write(line(5000), 64, 20_000, &channel), 20_164);
        assert_eq!(core.write(line(9000), 64, 20_000, &channel), 20_228);
    }

    #[test]
    fn a_load_of_several_lines_waits_for_the_last() {
        let mut core = core("latency=300,misses=2,far=everything");
        assert_eq!(core.load(60, 4, || 1000), 1300, "one line");
        assert_eq!(core.load(60, 5, || 5000), 5300, "two lines in flight");
        assert_eq!(core.load(0, 192, || 9000), 9600, "the third has to queue");
    }

    #[test]
    fn near_and_free_loads_do_not_read_the_clock() {
        let never = || -> u64 { unreachable!("nothing to wait for") };
        assert_eq!(core("latency=300").load(1 << 20, 64, never), 0);
        assert_eq!(core("far=everything").load(1 << 20, 64, never), 0);
    }
}
