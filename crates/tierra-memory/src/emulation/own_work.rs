//! What the emulation itself costs a thread that asks for a line and waits for it: waits end by as much earlier, so that both together
//! take what was asked.
//!
//! Invariant: measured before anything is emulated, on a core of its own and lines that are never read.

use std::sync::OnceLock;

use super::cache;
use super::clock;
use super::core::Core;
use super::costs::TickCosts;
use super::description::FarMemory;
use super::local::Local;
use super::numbers::{DEFAULT, MAX_DEVICES};
use crate::LINE_BYTES;
use crate::topology::SocketId;

/// Lines of one round, each asked for when the one before it has arrived.
const LINES: usize = 64;
/// Rounds, of which the fastest was not interrupted.
const ROUNDS: usize = 32;
/// Longer than the work.
const LATENCY_NS: f64 = 200.0;
const CACHE_BYTES: usize = 1 << 20;

/// Ticks of a line. The first call takes the time of the clock's calibration and a millisecond more.
pub(super) fn ticks() -> u64 {
    static TICKS: OnceLock<u64> = OnceLock::new();
    *TICKS.get_or_init(|| (0..ROUNDS).map(round).min().unwrap_or(0))
}

fn round(number: usize) -> u64 {
    let clock = clock::calibration();
    let far = FarMemory {
        latency_ns: LATENCY_NS,
        ..FarMemory::UNLIMITED
    };
    let mut costs = [TickCosts::NONE; MAX_DEVICES];
    costs[DEFAULT] = TickCosts::new(&far, SocketId(0), &clock);
    let sets = cache::sets_of(CACHE_BYTES);
    let mut core = Core::new();
    core.restart(&costs, true, sets);
    let local = Local::of(core);
    let started = clock::now();
    for line in 0..LINES {
        // Apart from each other, as those of a chase are.
        let arrives = local.load((number * LINES + line) * 97 * LINE_BYTES, LINE_BYTES);
        local.wait_until(arrives);
    }
    let took = clock::now().saturating_sub(started);
    cache::clear(&cache::SETS[..sets]);
    let asked = (LATENCY_NS * clock.ticks_per_ns) as u64;
    (took / LINES as u64).saturating_sub(asked)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn asking_and_waiting_take_some_time_and_not_much() {
        let ns = ticks() as f64 / clock::calibration().ticks_per_ns;
        assert!(ns < LATENCY_NS, "{ns}");
    }
}
