//! A gate before a group: plain or interleaved, whichever is cheaper here and now.
//!
//! Whether lookups miss depends on how large a structure is, what else ran, and which keys are asked
//! for, so a [`Gate`] measures: it runs lookups in batches, keeps the cost of a lookup in each mode,
//! uses the cheaper mode, and probes the other one with few lookups from time to time. Probing may
//! cost a fixed share of the time that the gate has seen. A mode eleven times as slow is therefore
//! probed rarely, and one nearly as good often.
//!
//! The policy has no clock and no memory access: [`Gate::choose`] says what to run next and
//! [`Gate::report`] is told how long it took. If the modes are within a few per cent of each other,
//! the gate keeps the one it uses. The group size is searched for on the way, unless it is given
//! (`size_search.rs`).
//!
//! Invariant: a gate's state is a few independent numbers, each plausible alone, so threads that race
//! on them lose a measurement at worst. It decides which mode runs, never what a lookup answers.

use core::fmt;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

use crate::group_size::{GroupSize, MAX_LANES};
use crate::mode::Execution;
use crate::size_search::SizeSearch;

/// Lookups between two readings of the clock: enough that filling and draining the lanes once per batch
/// is a hundredth of its time, few enough to notice soon that data has become near or far.
const BATCH: usize = 2048;
/// Plain lookups of a probe: each may cost ten times what it would interleaved.
const PROBE_PLAIN: usize = 32;
/// Interleaved lookups of a probe, in group sizes: most of them must find the lanes full.
const PROBE_GROUPS: usize = 4;
/// One in this many ticks may be spent on probing.
const PROBE_SHARE: u64 = 50;
/// The other mode must be cheaper by one part in this many to be used instead.
const HYSTERESIS: u32 = 32;
/// If a cost has moved by one part in this many, the other mode's cost may have moved too.
const DRIFT: u32 = 4;
/// A probe is expected to lose at most this many times what its lookups cost in the mode used. Without
/// this bound, one sample taken during a disk read could keep a mode from being probed ever again.
const MAX_LOSS: u64 = 128;
/// A cost that has been confirmed to have risen still rises by this factor at most at a time: enough to
/// change modes, and soon tried again if both measurements were interrupted.
const MAX_RISE: u32 = 4;
/// The previous cost weighs as much as a sample of this many lookups.
const PRIOR_WEIGHT: u64 = 192;
/// Costs are kept in fractions of a tick.
const TICK_FRACTIONS: u64 = 16;
/// The cost of a mode that has not been measured.
const UNKNOWN: u32 = 0;

/// Chooses between plain and interleaved for one kind of lookup in one structure.
///
/// Keep one beside each structure, or one per call site: a measurement of one size of data says nothing
/// about another. Threads may share it.
///
/// [`Lookups`](crate::Lookups) does what follows. The parts are public for callers that run groups by other means.
///
/// ```
/// use tierra_interleave::{Execution, Gate, GroupSize};
///
/// let gate = Gate::new(GroupSize::DEFAULT);
/// for _ in 0..100 {
///     let choice = gate.choose();
///     // A structure in the cache: plain lookups take 40 ticks, interleaved ones 100.
///     let ticks_each = [40, 100][usize::from(choice.execution == Execution::Interleaved)];
///     gate.report(choice, choice.lookups, ticks_each * choice.lookups as u64);
/// }
/// assert_eq!(gate.execution(), Execution::Plain);
/// ```
pub struct Gate {
    /// Whether interleaved is in use.
    interleaved: AtomicBool,
    /// What a lookup costs in each mode, in `TICK_FRACTIONS` of a tick; `UNKNOWN` until measured.
    costs: [AtomicU32; 2],
    /// A measurement far from what was known, until another one confirms it; otherwise `UNKNOWN`.
    outliers: [AtomicU32; 2],
    /// What the mode in use cost when the other was last measured.
    cost_at_probe: AtomicU32,
    /// Ticks that probing may spend, accumulated.
    probe_budget_ticks: AtomicU32,
    /// Ticks that probing has spent beyond its budget. The budget grows again once they are paid back.
    probe_debt_ticks: AtomicU32,
    sizes: SizeSearch,
}

/// What to run next. Made by [`Gate::choose`], given back to [`Gate::report`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The mode to run in.
    pub execution: Execution,
    /// How many lookups take turns, if they are interleaved.
    pub size: GroupSize,
    /// How many lookups at most, at least 1.
    pub lookups: usize,
}

impl Gate {
    /// A gate that has measured nothing, for groups of `size`. The first lookups measure both modes.
    pub const fn new(size: GroupSize) -> Self {
        Self::with(SizeSearch::fixed(size))
    }

    /// A gate that has measured nothing and finds out the size of its groups as well, from a few tens
    /// of thousands of lookups; [`GroupSize::DEFAULT`] until then.
    pub const fn finding_size() -> Self {
        Self::with(SizeSearch::new_search())
    }

    const fn with(sizes: SizeSearch) -> Self {
        Gate {
            interleaved: AtomicBool::new(true),
            costs: [AtomicU32::new(UNKNOWN), AtomicU32::new(UNKNOWN)],
            outliers: [AtomicU32::new(UNKNOWN), AtomicU32::new(UNKNOWN)],
            cost_at_probe: AtomicU32::new(UNKNOWN),
            probe_budget_ticks: AtomicU32::new(0),
            probe_debt_ticks: AtomicU32::new(0),
            sizes,
        }
    }

    /// How many lookups take turns when they are interleaved, as far as is known.
    #[inline]
    pub fn size(&self) -> GroupSize {
        self.sizes.best()
    }

    /// Discards all measurements, for instance when memory has become slower. The gate starts again with
    /// mode `first` and with groups of `size`; without `size` it searches for one.
    pub fn restart(&self, size: Option<GroupSize>, first: Execution) {
        self.sizes.restart(size);
        for number in self.costs.iter().chain(&self.outliers) {
            number.store(UNKNOWN, Relaxed);
        }
        self.cost_at_probe.store(UNKNOWN, Relaxed);
        self.probe_budget_ticks.store(0, Relaxed);
        self.probe_debt_ticks.store(0, Relaxed);
        self.interleaved
            .store(first == Execution::Interleaved, Relaxed);
    }

    /// The mode in use: the cheaper one, as far as is known.
    pub fn execution(&self) -> Execution {
        if self.interleaved.load(Relaxed) {
            Execution::Interleaved
        } else {
            Execution::Plain
        }
    }

    /// Ticks per lookup in a mode as last measured; `None` before.
    pub fn ticks_per_lookup(&self, execution: Execution) -> Option<f64> {
        match self.costs[mode_index(execution)].load(Relaxed) {
            UNKNOWN => None,
            cost => Some(f64::from(cost) / TICK_FRACTIONS as f64),
        }
    }

    /// Says which mode to run next, and for how many lookups.
    pub fn choose(&self) -> Choice {
        let using = self.execution();
        let (cost, other_cost) = self.costs_of(using);
        let has_outlier = |execution| self.outliers[mode_index(execution)].load(Relaxed) != UNKNOWN;
        if cost == UNKNOWN || has_outlier(using) {
            return self.probe(using);
        }
        let probe = self.probe(other(using));
        let budget = u64::from(self.probe_budget_ticks.load(Relaxed));
        let due = other_cost == UNKNOWN || has_outlier(other(using)) || {
            let loss = expected_loss(cost, other_cost, probe.lookups);
            let drifted = self.cost_at_probe.load(Relaxed).abs_diff(cost) > cost / DRIFT;
            budget >= loss || drifted && budget >= loss / 4
        };
        if due {
            return probe;
        }
        let size = match using {
            Execution::Plain => self.sizes.best(),
            Execution::Interleaved => self.sizes.next(),
        };
        Choice {
            execution: using,
            size,
            lookups: BATCH,
        }
    }

    /// Reports the cost of a choice: `lookups` of them, which may be fewer than it said, took `ticks` of
    /// any clock that runs evenly. A report of no lookups is ignored.
    pub fn report(&self, choice: Choice, lookups: usize, ticks: u64) {
        if lookups == 0 {
            return;
        }
        let sample =
            (ticks.saturating_mul(TICK_FRACTIONS) / lookups as u64).clamp(1, u32::MAX.into());
        let sample = sample as u32;
        if choice.execution == Execution::Interleaved && lookups >= BATCH {
            self.sizes.record(choice.size, sample);
        }
        // What another size costs says little about the one in use.
        if choice.execution == Execution::Plain || choice.size == self.size() {
            self.update_cost(choice.execution, sample, lookups as u64);
        }

        let using = self.execution();
        let (cost, other_cost) = self.costs_of(using);
        if choice.execution == using {
            // As much as the dearest probe may be expected to lose; more would be spent in a burst.
            let most = expected_loss(cost, u32::MAX, PROBE_GROUPS * MAX_LANES);
            self.add_budget(ticks / PROBE_SHARE, most);
        } else {
            let in_use = (lookups as u64).saturating_mul(cost.into()) / TICK_FRACTIONS;
            let most = expected_loss(cost, other_cost, lookups);
            self.charge(ticks.saturating_sub(in_use).max(in_use / 8), most);
            self.cost_at_probe.store(cost, Relaxed);
        }
        if cost != UNKNOWN && other_cost != UNKNOWN && other_cost < cost - cost / HYSTERESIS {
            self.interleaved.store(using == Execution::Plain, Relaxed);
            self.cost_at_probe.store(other_cost, Relaxed);
        }
    }

    /// Takes a measurement into account. An outlier may be an interruption of the thread, so it counts
    /// only if a second sample, taken at once, agrees.
    fn update_cost(&self, execution: Execution, sample: u32, lookups: u64) {
        let (cost, outlier) = (
            &self.costs[mode_index(execution)],
            &self.outliers[mode_index(execution)],
        );
        let (known, earlier_outlier) = (cost.load(Relaxed), outlier.load(Relaxed));
        let updated = if known == UNKNOWN {
            sample
        } else if (known / 2..=known.saturating_mul(2)).contains(&sample) {
            blend(known, sample, lookups)
        } else if earlier_outlier == UNKNOWN {
            outlier.store(sample, Relaxed);
            return;
        } else if sample > known {
            sample
                .min(earlier_outlier)
                .clamp(known, known.saturating_mul(MAX_RISE))
        } else {
            sample.max(earlier_outlier).min(known)
        };
        outlier.store(UNKNOWN, Relaxed);
        cost.store(updated, Relaxed);
    }

    fn probe(&self, execution: Execution) -> Choice {
        let lookups = match execution {
            Execution::Plain => PROBE_PLAIN,
            Execution::Interleaved => PROBE_GROUPS * self.size().get(),
        };
        Choice {
            execution,
            size: self.size(),
            lookups,
        }
    }

    /// What a lookup costs in `execution` and in the other mode.
    fn costs_of(&self, execution: Execution) -> (u32, u32) {
        let cost = |execution| self.costs[mode_index(execution)].load(Relaxed);
        (cost(execution), cost(other(execution)))
    }

    /// Adds to the budget for probes, up to `most`. A debt is paid back first.
    fn add_budget(&self, ticks: u64, most: u64) {
        let debt = u64::from(self.probe_debt_ticks.load(Relaxed));
        if debt > 0 {
            let rest = debt.saturating_sub(ticks);
            self.probe_debt_ticks.store(rest as u32, Relaxed);
            return;
        }
        let saved = u64::from(self.probe_budget_ticks.load(Relaxed)) + ticks;
        let saved = saved.min(most).min(u32::MAX.into());
        self.probe_budget_ticks.store(saved as u32, Relaxed);
    }

    /// Charges the loss of a probe to the budget. What exceeds the budget becomes debt, at most `most`, the expected
    /// loss: an interruption of the thread is not a cost of the mode.
    fn charge(&self, ticks: u64, most: u64) {
        let budget = u64::from(self.probe_budget_ticks.load(Relaxed));
        let debt = u64::from(self.probe_debt_ticks.load(Relaxed)) + ticks.saturating_sub(budget);
        let debt = debt.min(most).min(u32::MAX.into());
        self.probe_debt_ticks.store(debt as u32, Relaxed);
        self.probe_budget_ticks
            .store(budget.saturating_sub(ticks) as u32, Relaxed);
    }
}

/// Ticks that a probe of `lookups` is expected to lose against the mode in use. Never zero, because each
/// change of modes fills and drains the lanes.
fn expected_loss(cost: u32, other_cost: u32, lookups: usize) -> u64 {
    let cost = u64::from(cost);
    let lost_each = u64::from(other_cost)
        .saturating_sub(cost)
        .clamp(cost / 8, MAX_LOSS * cost);
    lost_each.saturating_mul(lookups as u64) / TICK_FRACTIONS
}

/// What is known after `lookups` of them cost `sample` each.
fn blend(known: u32, sample: u32, lookups: u64) -> u32 {
    let weight = lookups.min(PRIOR_WEIGHT);
    let blended =
        (u64::from(known) * PRIOR_WEIGHT + u64::from(sample) * weight) / (PRIOR_WEIGHT + weight);
    blended as u32
}

fn mode_index(execution: Execution) -> usize {
    match execution {
        Execution::Plain => 0,
        Execution::Interleaved => 1,
    }
}

fn other(execution: Execution) -> Execution {
    match execution {
        Execution::Plain => Execution::Interleaved,
        Execution::Interleaved => Execution::Plain,
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ticks = |execution| self.ticks_per_lookup(execution);
        f.debug_struct("Gate")
            .field("execution", &self.execution())
            .field("plain_ticks", &ticks(Execution::Plain))
            .field("interleaved_ticks", &ticks(Execution::Interleaved))
            .field("size", &self.size())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Runs `lookups` in calls of `call`, each at the ticks that `ticks_each` gives for the lookups
    /// done so far, and returns the ticks spent and those that the better mode would have taken.
    fn run(
        gate: &Gate,
        lookups: usize,
        call: usize,
        mut ticks_each: impl FnMut(usize) -> [u64; 2],
    ) -> (u64, u64) {
        let (mut spent, mut best, mut done) = (0, 0, 0);
        while done < lookups {
            let mut left = call;
            while left > 0 {
                let choice = gate.choose();
                let now = choice.lookups.min(left);
                let costs = ticks_each(done);
                let ticks = costs[mode_index(choice.execution)] * now as u64;
                gate.report(choice, now, ticks);
                spent += ticks;
                best += costs[0].min(costs[1]) * now as u64;
                (left, done) = (left - now, done + now);
            }
        }
        (spent, best)
    }

    const WARM_UP: usize = 20_000;

    proptest! {
        #[test]
        fn never_a_tenth_above_the_better_mode(
            plain in 20u64..10_000,
            interleaved in 20u64..10_000,
            call in 64usize..20_000,
        ) {
            let gate = Gate::new(GroupSize::DEFAULT);
            run(&gate, WARM_UP, call, |_| [plain, interleaved]);
            let (spent, best) = run(&gate, 1_000_000, call, |_| [plain, interleaved]);
            prop_assert!(spent <= best + best / 10, "{spent} ticks instead of {best}: {gate:?}");
        }

        #[test]
        fn noise_does_not_mislead(
            plain in 100u64..5_000,
            interleaved in 100u64..5_000,
            seed in 1u64..u64::MAX,
        ) {
            let gate = Gate::new(GroupSize::DEFAULT);
            let mut random = seed;
            let mut noisy = |_| {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                // A tenth either way, and one batch in 64 is interrupted for long.
                let interrupted = if random % 64 == 0 { 20 } else { 1 };
                let noise = |ticks: u64, bits: u64| ticks * (90 + bits % 21) / 100 * interrupted;
                [noise(plain, random >> 8), noise(interleaved, random >> 16)]
            };
            run(&gate, WARM_UP, 4096, &mut noisy);
            // Judged by what the modes cost on average.
            let (mut lookups, mut dear) = (0u64, 0u64);
            while lookups < 1_000_000 {
                let choice = gate.choose();
                let ticks = noisy(0)[mode_index(choice.execution)] * choice.lookups as u64;
                gate.report(choice, choice.lookups, ticks);
                lookups += choice.lookups as u64;
                dear += [plain, interleaved][mode_index(choice.execution)] * choice.lookups as u64;
            }
            let best = plain.min(interleaved) * lookups;
            prop_assert!(dear <= best + best / 7, "{dear} ticks instead of {best}");
        }
    }

    #[test]
    fn it_notices_when_data_becomes_far_and_near_again() {
        const PHASE: usize = 500_000;
        let (near, far) = ([60, 140], [2000, 250]);
        let gate = Gate::new(GroupSize::DEFAULT);
        let phases = |done: usize| {
            if (done / PHASE).is_multiple_of(2) {
                near
            } else {
                far
            }
        };
        let (spent, best) = run(&gate, 6 * PHASE, 10_000, phases);
        assert!(spent <= best + best / 10, "{spent} ticks instead of {best}");
        assert_eq!(gate.execution(), Execution::Interleaved);
    }

    #[test]
    fn it_notices_when_only_the_other_mode_changes() {
        let gate = Gate::new(GroupSize::DEFAULT);
        run(&gate, WARM_UP, 1000, |_| [300, 200]);
        assert_eq!(gate.execution(), Execution::Interleaved);
        run(&gate, 200_000, 1000, |_| [100, 200]);
        assert_eq!(gate.execution(), Execution::Plain);
    }

    #[test]
    fn early_probes_are_paid_back() {
        // What a lookup costs in the mode used changes all the time, and may have changed in the other, too.
        let gate = Gate::new(GroupSize::DEFAULT);
        let unsteady = |done: usize| [3000, [30, 70][done / 3000 % 2]];
        run(&gate, WARM_UP, 1000, unsteady);
        let (spent, best) = run(&gate, 3_000_000, 1000, unsteady);
        let most = best + best / 40;
        assert!(spent <= most, "{spent} ticks instead of {best}");
    }

    #[test]
    fn a_few_lookups_at_a_time_are_enough() {
        let gate = Gate::new(GroupSize::DEFAULT);
        run(&gate, 2_000, 3, |_| [400, 100]);
        assert_eq!(gate.execution(), Execution::Interleaved);
        let gate = Gate::new(GroupSize::DEFAULT);
        run(&gate, 2_000, 1, |_| [100, 400]);
        assert_eq!(gate.execution(), Execution::Plain);
    }

    #[test]
    fn nonsense_is_survived() {
        let gate = Gate::new(GroupSize::DEFAULT);
        for (lookups, ticks) in [
            (0, 5),
            (1, 0),
            (1, u64::MAX),
            (usize::MAX, u64::MAX),
            (7, 7),
        ] {
            for _ in 0..100 {
                let choice = gate.choose();
                assert!(choice.lookups > 0);
                gate.report(choice, lookups, ticks);
            }
        }
        run(&gate, 1_000_000, 1000, |_| [100, 300]);
        assert_eq!(gate.execution(), Execution::Plain);
    }

    #[test]
    fn a_gate_that_starts_anew_remembers_nothing() {
        let gate = Gate::new(GroupSize::DEFAULT);
        run(&gate, WARM_UP, 1000, |_| [200, 300]);
        assert_eq!(gate.execution(), Execution::Plain);
        gate.restart(GroupSize::new(16), Execution::Interleaved);
        assert_eq!(gate.size().get(), 16);
        for execution in Execution::ALL {
            assert_eq!(gate.ticks_per_lookup(execution), None);
        }
        let first = gate.choose();
        let expected = (Execution::Interleaved, 16, PROBE_GROUPS * 16);
        assert_eq!((first.execution, first.size.get(), first.lookups), expected);
        run(&gate, WARM_UP, 1000, |_| [200, 100]);
        assert_eq!(gate.execution(), Execution::Interleaved);
        gate.restart(None, Execution::Plain);
        assert_eq!(gate.choose().execution, Execution::Plain);
        assert_eq!(gate.size(), GroupSize::DEFAULT);
    }

    /// Lookups that cost less the more of them take turns, up to `most`.
    fn run_by_size(gate: &Gate, lookups: usize, call: usize, most: usize) {
        let mut done = 0;
        while done < lookups {
            let choice = gate.choose();
            let now = choice.lookups.min(call);
            let each = match choice.execution {
                Execution::Plain => 1000,
                Execution::Interleaved => 6400 / choice.size.get().min(most) as u64,
            };
            gate.report(choice, now, each * now as u64);
            done += now;
        }
    }

    #[test]
    fn the_size_is_found_unless_it_is_given() {
        for (most, found) in [(64, 64), (49, 48), (30, 32), (10, 24)] {
            let gate = Gate::finding_size();
            run_by_size(&gate, 50_000, 10_000, most);
            assert_eq!(gate.size().get(), found, "{most} take turns at most");
            assert_eq!(gate.execution(), Execution::Interleaved);
        }
        let gate = Gate::new(GroupSize::DEFAULT);
        run_by_size(&gate, 50_000, 10_000, 64);
        assert_eq!(gate.size(), GroupSize::DEFAULT);
    }

    #[test]
    fn a_few_lookups_at_a_time_say_nothing_about_the_size() {
        let gate = Gate::finding_size();
        run_by_size(&gate, 100_000, BATCH - 1, 64);
        assert_eq!(gate.size(), GroupSize::DEFAULT);
        assert_eq!(gate.choose().size, GroupSize::DEFAULT);
    }
}
