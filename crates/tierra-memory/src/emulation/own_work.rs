//! What the emulation itself costs a thread that asks for a line, or stores one, and waits for it: waits end by as much earlier, so
//! that both together take what was asked.
//!
//! Invariant: measured before anything is emulated, on a core of its own and lines that are never read.

use std::sync::OnceLock;

use super::cache;
use super::clock;
use super::core::{Core, Stored};
use super::costs::TickCosts;
use super::description::FarMemory;
use super::local::Local;
use super::numbers::{DEFAULT, MAX_DEVICES};
use crate::LINE_BYTES;
use crate::topology::SocketId;

/// Lines of one round, each asked for when the one before it has arrived.
const LINES: usize = 64;
/// Rounds, of which the median counts: some are interrupted.
const ROUNDS: usize = 33;
/// Longer than the work.
const LATENCY_NS: f64 = 200.0;

/// Ticks that a thread is busy with the emulation, for each line that it waits for.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OwnWork {
    pub(super) load: u64,
    pub(super) store: u64,
}

/// That with a modelled cache, whose sets are themselves seldom in the processor's nearest, or without one. The first call takes
/// the time of the clock's calibration and a few milliseconds more.
pub(super) fn ticks(with_cache: bool) -> OwnWork {
    static TICKS: OnceLock<[OwnWork; 2]> = OnceLock::new();
    TICKS.get_or_init(|| {
        let cached = measure(cache::sets_of(FarMemory::OPTANE.cache_bytes));
        [measure(0), cached]
    })[usize::from(with_cache)]
}

fn measure(sets: usize) -> OwnWork {
    let work = OwnWork {
        load: median(sets, |local, address| local.load(address, LINE_BYTES)),
        store: median(sets, |local, address| {
            local.store(address, LINE_BYTES, Stored::Cached)
        }),
    };
    cache::clear(&cache::SETS[..sets]);
    work
}

/// Ticks that a line takes longer than its latency, in the median round.
fn median(sets: usize, ask: impl Fn(&Local, usize) -> u64) -> u64 {
    // It lacks the lines, and lies in a cache of the processor, as while it is in use.
    cache::clear(&cache::SETS[..sets]);
    let mut ticks: Vec<u64> = (0..ROUNDS)
        .map(|number| round(sets, number, &ask))
        .collect();
    ticks.sort_unstable();
    ticks[ROUNDS / 2]
}

fn round(sets: usize, number: usize, ask: impl Fn(&Local, usize) -> u64) -> u64 {
    let local = far_from_all(sets);
    let started = clock::now();
    for line in 0..LINES {
        // Apart from each other, as those of a chase are.
        local.wait_until(ask(&local, (number * LINES + line) * 97 * LINE_BYTES));
    }
    let took = clock::now().saturating_sub(started);
    (took / LINES as u64).saturating_sub(asked_ticks())
}

fn asked_ticks() -> u64 {
    (LATENCY_NS * clock::calibration().ticks_per_ns) as u64
}

/// A core for which every line is [`LATENCY_NS`] away. It is apart, because another thread may begin to record meanwhile, and a core
/// that looked for new costs would ask for the ticks that are being measured.
fn far_from_all(sets: usize) -> Local {
    let far = FarMemory {
        latency_ns: LATENCY_NS,
        ..FarMemory::UNLIMITED
    };
    let mut costs = [TickCosts::NONE; MAX_DEVICES];
    costs[DEFAULT] = TickCosts::new(&far, SocketId(0), &clock::calibration());
    let mut core = Core::new();
    core.restart(&costs, true, sets);
    Local::apart(core)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::emulation::switch;

    #[test]
    fn asking_and_waiting_take_some_time_and_not_much() {
        for with_cache in [false, true] {
            let OwnWork { load, store } = ticks(with_cache);
            for ticks in [load, store] {
                let ns = ticks as f64 / clock::calibration().ticks_per_ns;
                assert!(0.0 < ns && ns < LATENCY_NS, "{ns}");
            }
        }
    }

    /// The first measuring waited for itself when another thread began to record meanwhile.
    #[test]
    fn a_core_apart_keeps_its_costs_while_others_record() {
        let local = far_from_all(0);
        switch::hold_on();
        let started = clock::now();
        let arrives = local.load(0, LINE_BYTES);
        switch::release();
        assert!(arrives >= started + asked_ticks(), "{arrives}, {started}");
    }
}
