//! The heats at which objects are promoted to near memory and demoted to far memory.
//!
//! The owner of the objects iterates over them continuously ("a round"), a few objects per use, and reports the heat of those
//! near. The *demotion threshold* is the heat up to which the coldest quarter of near memory lies. An object that is used
//! and hot enough is promoted when it is read (its lines are in the cache then, so half of the move is paid). An object no hotter
//! than the demotion threshold is demoted when room is needed.
//!
//! The *promotion threshold* is the promotion factor times the uses of the demotion threshold. The factor is adapted by trials of
//! some rounds. A move costs about as much as a few uses of far memory, and saves one for every later use. The factor falls if
//! the share of uses that find their object near has grown by what the trial's moves cost, and by more than the confidence
//! margin; otherwise it rises. If all objects are used equally often, chance alone makes some hotter than others: moves bring
//! nothing, the factor rises, and moves end except for trials at intervals that double each time. A trial's move budget is what
//! it takes to tell the effect of moves from chance; it doubles after each trial that has paid. The factor also rises while more
//! objects are to be promoted than there is room for: then only the hottest should be.
//!
//! Counts of a hot set are kept as long as it has lasted, up to a limit: they are halved often while it is new, and seldom
//! when it is old. After some rounds the hot set is *settled*: a sample of one use in eight is enough. A near share that drops, or
//! grows unexpectedly, means another hot set: everything but the demotion threshold is reset.
//!
//! This is the dynamic placement that Antão et al. propose (`docs/papers.md`). WarpX-PM's four spaces correspond to
//! the following for records: *metadata* is the table and everything that is always near; *temporary* is
//! new objects, which are created near; *migration* is the room kept free for them and for what becomes hot;
//! *free* is the rest of the budget, filled with the hottest.

use super::heat::{HEATS, Heat};
use super::migrations::Migrations;

/// Bytes of objects by heat.
#[derive(Clone, Debug)]
struct Histogram {
    bytes: [u64; HEATS],
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram { bytes: [0; HEATS] }
    }
}

impl Histogram {
    /// The highest heat up to which at most `1 / part` of all bytes lie, or else the lowest heat in the histogram.
    fn coldest(&self, part: u64) -> Heat {
        let total: u64 = self.bytes.iter().sum();
        let mut below = 0;
        let mut coldest = None;
        for (heat, &bytes) in self.bytes.iter().enumerate() {
            below += bytes;
            if bytes > 0 && (coldest.is_none() || below <= total / part) {
                coldest = Some(Heat::from_bits(heat as u8));
            }
        }
        coldest.unwrap_or(Heat::COLD)
    }
}

/// The part of near memory that may be exchanged in a round.
const COLDEST_PART: u64 = 4;
/// Near objects observed between two updates of the demotion threshold: the error of a quarter of as many is one or two per cent.
const SAMPLE_OBJECTS: u32 = 1024;
/// The cost of a move, in uses of far memory: one object is copied near, and another one far for it.
const MOVE_USES: f64 = 4.0;
/// Rounds for which a move is assumed to stay useful, at least and at most: a hot set older than the minimum is assumed to last
/// as long again. The maximum bounds what a trial may move.
const MIN_USEFUL_ROUNDS: u32 = 8;
const MAX_USEFUL_ROUNDS: u32 = 16;
/// The confidence margin, in standard deviations of a share: two of a difference of two shares.
const CONFIDENCE_DEVIATIONS: f64 = 3.0;
/// Rounds after which a trial's moves must have paid...
const TRIAL_ROUNDS: u32 = 8;
/// ...unless they cost less than this part of all uses.
const QUIET_PART: f64 = 1.0 / 128.0;
/// The factor by which the promotion factor rises and falls.
const FACTOR_STEP: f64 = 1.5;
const MAX_PROMOTION_FACTOR: f64 = 64.0;
/// Rounds between two trials, at most.
const MAX_TRIAL_INTERVAL: u32 = 64;
/// A share that differs from the best by as much means another hot set.
const CHANGED_SHARE: f64 = 0.02;
/// Rounds for which the share of a new hot set grows without further cause.
const GROWING_ROUNDS: u32 = 8;
/// Rounds after which counts are halved: the longer, the better are rarely used objects told apart. Of a million records
/// under YCSB's zipfian distribution, the quarter counted hottest gets 86 % of the uses with two uses for each record, 88 %
/// with eight, 89 % with sixteen (the true one: 90 %).
const ROUNDS_TO_AGE: u32 = 16;
/// Rounds after which a hot set is settled.
const SETTLED_ROUNDS: u32 = 16;
/// One use of as many is sampled when the hot set is settled...
const SAMPLING_WHEN_SETTLED: u32 = 8;
/// ...and when there is nothing to gain.
const SAMPLING_WHEN_NEARLY_ALL: u32 = 64;
/// With a share like this there is nothing to gain.
const NEARLY_ALL: f64 = 63.0 / 64.0;
/// A promotion threshold above the bits of any heat.
const PROMOTE_NONE: u8 = HEATS as u8;
/// The cost of a trial's move budget, in confidence margins: enough for its effect to be significant.
const TRIAL_MARGINS: f64 = 2.0;
/// The largest move budget if trials keep paying, in budgets of the first trial.
const MAX_BUDGET_FACTOR: u64 = 1 << 20;

/// The demotion and the promotion threshold, and the state by which they adapt.
#[derive(Clone, Debug)]
pub(super) struct Thresholds {
    histogram: Histogram,
    /// Objects in the histogram.
    sampled: u32,
    is_threshold_fresh: bool,
    demotion_threshold: Heat,
    /// The bits of the least heat that is promoted; [`PROMOTE_NONE`] while the move budget is spent.
    promotion_threshold: u8,
    promotion_factor: f64,
    trial: Trial,
    /// Objects that may still be promoted in this trial.
    move_budget: u64,
    /// The factor of the next trial's move budget over what it takes to evaluate it: trials that pay become larger.
    budget_factor: u64,
    /// Rounds that a trial without moves lasts.
    trial_interval: u32,
    /// The largest near share of the present hot set.
    best_share: f64,
    /// Rounds since the hot set has changed.
    hot_set_age: u32,
    /// One use of as many is sampled.
    sampling_interval: u32,
}

/// Rounds in which the promotion factor is constant.
#[derive(Clone, Copy, Debug, Default)]
struct Trial {
    rounds: u32,
    /// Objects promoted.
    moved: u64,
    /// The near share when it began.
    share: f64,
}

impl Default for Thresholds {
    /// Nothing is known: every object that is used twice is promoted.
    fn default() -> Self {
        let mut thresholds = Thresholds {
            histogram: Histogram::default(),
            sampled: 0,
            is_threshold_fresh: false,
            demotion_threshold: Heat::COLD,
            promotion_threshold: 0,
            promotion_factor: 1.0,
            trial: Trial::default(),
            move_budget: u64::MAX,
            budget_factor: 1,
            trial_interval: 1,
            best_share: 0.0,
            hot_set_age: 0,
            sampling_interval: 1,
        };
        thresholds.update_promotion_threshold();
        thresholds
    }
}

impl Thresholds {
    /// Observes a near object of as many bytes. A sample of them suffices. While heats are being halved, `heat` is the
    /// one before halving: [`before_aging`](Heat::before_aging) if it is halved already.
    #[inline]
    pub(super) fn observe(&mut self, heat: Heat, bytes: u64) {
        self.histogram.bytes[usize::from(heat.bits())] += bytes;
        self.sampled += 1;
        if self.sampled == SAMPLE_OBJECTS {
            self.update_demotion_threshold();
            self.is_threshold_fresh = true;
        }
    }

    /// Sets the demotion threshold from the objects observed.
    #[cold]
    fn update_demotion_threshold(&mut self) {
        self.demotion_threshold = self.histogram.coldest(COLDEST_PART);
        self.reset_histogram();
    }

    fn reset_histogram(&mut self) {
        self.histogram = Histogram::default();
        self.sampled = 0;
        self.update_promotion_threshold();
    }

    fn update_promotion_threshold(&mut self) {
        let least = self.promotion_factor * (self.demotion_threshold.uses() + 1.0);
        let mut heats = (0..HEATS as u8).map(Heat::from_bits);
        let promotion_threshold = heats.find(|heat| heat.uses() >= least);
        self.promotion_threshold = promotion_threshold.unwrap_or(Heat::HOTTEST).bits();
        if self.move_budget == 0 {
            self.promotion_threshold = PROMOTE_NONE;
        }
    }

    /// An object was promoted.
    #[inline]
    pub(super) fn note_move(&mut self) {
        self.move_budget = self.move_budget.saturating_sub(1);
        if self.move_budget == 0 {
            self.promotion_threshold = PROMOTE_NONE;
        }
    }

    /// A round is over, in which `done` has happened. `aged` says whether all heats were halved in it, because
    /// [`rounds_to_age`](Self::rounds_to_age) had passed.
    pub(super) fn end_round(&mut self, done: &Migrations, aged: bool) {
        // Few objects: those observed are all there are.
        if !std::mem::take(&mut self.is_threshold_fresh) && self.sampled > 0 {
            self.update_demotion_threshold();
        }
        if aged {
            // Only now: a lower threshold would have promoted all objects whose heat was still to be halved.
            self.demotion_threshold = self.demotion_threshold.aged();
            self.reset_histogram();
        }
        if done.uses_near + done.uses_far > 0 {
            self.evaluate_round(done);
        }
        self.update_promotion_threshold();
    }

    /// Updates the state of the hot set and of the trial after a round.
    fn evaluate_round(&mut self, done: &Migrations) {
        let uses = (done.uses_near + done.uses_far) as f64;
        let share = done.uses_near as f64 / uses;
        let margin = CONFIDENCE_DEVIATIONS * (share * (1.0 - share) / uses).sqrt();
        let changed = CHANGED_SHARE.max(2.0 * margin);
        let has_grown = self.hot_set_age >= GROWING_ROUNDS && share > self.best_share + changed;
        let trial = Trial {
            share,
            ..Trial::default()
        };
        if has_grown || share < self.best_share - changed {
            *self = Thresholds {
                histogram: std::mem::take(&mut self.histogram),
                sampled: self.sampled,
                demotion_threshold: self.demotion_threshold,
                best_share: share,
                trial,
                ..Thresholds::default()
            };
            return;
        }
        self.hot_set_age += 1;
        self.best_share = self.best_share.max(share);
        self.trial.rounds += 1;
        self.trial.moved += done.to_near;
        let is_much = done.refused > done.to_near && done.refused as f64 > uses * QUIET_PART;
        let is_over = if is_much {
            // More is to be promoted than there is room for: only the hottest should be.
            self.promotion_factor = (self.promotion_factor * FACTOR_STEP).min(MAX_PROMOTION_FACTOR);
            true
        } else {
            self.evaluate_trial(share, margin, uses)
        };
        // The moves of a new hot set are not limited yet.
        let most_moves = if self.hot_set_age < GROWING_ROUNDS {
            u64::MAX
        } else {
            let enough = TRIAL_MARGINS * margin * self.useful_uses(uses) / MOVE_USES;
            (enough as u64 + 1).saturating_mul(self.budget_factor)
        };
        if is_over {
            self.trial = trial;
            self.move_budget = most_moves;
        }
        self.move_budget = self.move_budget.min(most_moves);
        self.sampling_interval = if share > NEARLY_ALL {
            SAMPLING_WHEN_NEARLY_ALL
        } else if self.hot_set_age >= SETTLED_ROUNDS {
            SAMPLING_WHEN_SETTLED
        } else {
            1
        };
    }

    /// The uses for which a move is assumed to stay useful.
    fn useful_uses(&self, uses: f64) -> f64 {
        f64::from(self.hot_set_age.clamp(MIN_USEFUL_ROUNDS, MAX_USEFUL_ROUNDS)) * uses
    }

    /// Whether the trial is decided; the promotion factor has changed then.
    fn evaluate_trial(&mut self, share: f64, margin: f64, uses: f64) -> bool {
        let useful_uses = self.useful_uses(uses);
        let gained = (share - self.trial.share) * useful_uses;
        let margin = margin * useful_uses;
        let cost = MOVE_USES * self.trial.moved as f64;
        let is_spent = self.move_budget == 0;
        let is_long = self.trial.rounds >= TRIAL_ROUNDS;
        let quiet_uses = f64::from(self.trial.rounds) * uses * QUIET_PART;
        let is_quiet = !is_spent && cost <= quiet_uses;
        // A trial that has spent its budget learns nothing more by lasting longer.
        let pays =
            (cost > margin && gained - margin >= cost) || (is_spent && is_long && gained >= cost);
        if pays || (is_quiet && self.trial.rounds >= self.trial_interval) {
            self.promotion_factor = (self.promotion_factor / FACTOR_STEP).max(1.0);
            if pays {
                self.trial_interval = 1;
                self.budget_factor = (self.budget_factor * 2).min(MAX_BUDGET_FACTOR);
            }
            true
        } else if gained + margin < cost || (!is_quiet && is_long) {
            self.promotion_factor = (self.promotion_factor * FACTOR_STEP).min(MAX_PROMOTION_FACTOR);
            self.trial_interval = (self.trial_interval * 2).min(MAX_TRIAL_INTERVAL);
            self.budget_factor = 1;
            true
        } else {
            false
        }
    }

    /// The number of rounds after which counts are halved.
    #[inline]
    pub(super) fn rounds_to_age(&self) -> u32 {
        (self.hot_set_age / 2).clamp(1, ROUNDS_TO_AGE * self.sampling_interval)
    }

    /// One use of as many is to be sampled: sampling costs time, and brings little once the hot set is settled.
    #[inline]
    pub(super) fn sampling_interval(&self) -> u32 {
        self.sampling_interval
    }

    /// The heat up to which the coldest quarter of near memory lies.
    #[inline(always)]
    pub(super) fn demotion_threshold(&self) -> Heat {
        self.demotion_threshold
    }

    /// Whether a far object that has just been used should be promoted.
    #[inline(always)]
    pub(super) fn should_promote(&self, heat: Heat) -> bool {
        heat.bits() >= self.promotion_threshold
    }

    /// Whether a near object should be demoted when room is needed.
    #[inline(always)]
    pub(super) fn should_demote(&self, heat: Heat) -> bool {
        heat <= self.demotion_threshold
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heat(bits: u8) -> Heat {
        Heat::from_bits(bits)
    }

    #[test]
    fn the_demotion_threshold_is_that_of_the_coldest_quarter() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.coldest(4), Heat::COLD);
        for bits in 20..120 {
            histogram.bytes[bits] = 10;
        }
        assert_eq!(histogram.coldest(4), heat(44));
        // One heat may have more than that.
        histogram.bytes[20] = 10_000;
        assert_eq!(histogram.coldest(4), heat(20));
    }

    /// A round of a million uses, after objects of one heat were observed.
    fn round(thresholds: &mut Thresholds, uses_near: u64, to_near: u64) {
        for _ in 0..SAMPLE_OBJECTS {
            thresholds.observe(heat(8), 100);
        }
        let done = Migrations {
            uses_near,
            uses_far: 1_000_000 - uses_near,
            to_near,
            ..Migrations::default()
        };
        thresholds.end_round(&done, false);
    }

    #[test]
    fn moves_that_bring_nothing_end_until_the_hot_set_changes() {
        let mut thresholds = Thresholds::default();
        assert!(thresholds.should_promote(heat(2)) && thresholds.should_demote(heat(0)));
        for _ in 0..20 {
            round(&mut thresholds, 250_000, 10_000);
        }
        assert!(thresholds.should_demote(heat(8)) && !thresholds.should_demote(heat(9)));
        assert!(!thresholds.should_promote(heat(40)), "the factor has risen");
        assert_eq!(thresholds.sampling_interval(), SAMPLING_WHEN_SETTLED);
        round(&mut thresholds, 100_000, 0);
        assert!(thresholds.should_promote(heat(10)) && !thresholds.should_promote(heat(8)));
        assert_eq!(
            (thresholds.sampling_interval(), thresholds.rounds_to_age()),
            (1, 1)
        );
    }

    #[test]
    fn chance_pays_for_nothing() {
        let mut thresholds = Thresholds::default();
        // The share goes up and down by two standard deviations, and a few things are moved.
        for margin in [0, 800].into_iter().cycle().take(60) {
            round(&mut thresholds, 249_600 + margin, 2_000);
        }
        assert!(thresholds.promotion_factor > 4.0, "{thresholds:?}");
    }

    #[test]
    fn moves_that_pay_go_on() {
        let mut thresholds = Thresholds::default();
        for at in 0..30 {
            round(&mut thresholds, 250_000 + 10_000 * at, 10_000);
        }
        assert_eq!(thresholds.promotion_factor, 1.0);
        assert!(thresholds.should_promote(heat(9)));
    }

    #[test]
    fn a_trial_moves_no_more_than_it_takes_to_evaluate_it() {
        let mut thresholds = Thresholds::default();
        // How many moves there may be, of what is as hot as can be.
        let allowed = |thresholds: &mut Thresholds| {
            let may = |thresholds: &Thresholds| thresholds.should_promote(Heat::HOTTEST);
            (0..1_000_000)
                .take_while(|_| {
                    may(thresholds) && {
                        thresholds.note_move();
                        true
                    }
                })
                .count()
        };
        assert_eq!(allowed(&mut thresholds), 1_000_000, "all is new");
        (0..GROWING_ROUNDS).for_each(|_| round(&mut thresholds, 250_000, 10_000));
        // Three standard deviations of a share of a quarter, over the uses that moves are useful for, twice.
        let enough = 2.0 * CONFIDENCE_DEVIATIONS * (0.25f64 * 0.75 * 1e6).sqrt() * 8.0 / MOVE_USES;
        let first = allowed(&mut thresholds);
        assert!(
            (first as f64 / enough - 1.0).abs() < 0.3,
            "{first} of {enough}"
        );
        assert!(!thresholds.should_promote(Heat::HOTTEST));
        // They pay: more may come.
        round(&mut thresholds, 260_000, first as u64);
        let second = allowed(&mut thresholds);
        assert!(second > first * 3 / 2, "{second} after {first}");
    }

    #[test]
    fn where_more_is_wanted_than_there_is_room_for_only_the_hottest_come() {
        let mut thresholds = Thresholds::default();
        for _ in 0..10 {
            (0..SAMPLE_OBJECTS).for_each(|_| thresholds.observe(heat(8), 100));
            let done = Migrations {
                uses_near: 100_000,
                uses_far: 900_000,
                refused: 800_000,
                to_near: 100,
                ..Migrations::default()
            };
            thresholds.end_round(&done, false);
        }
        assert!(
            !thresholds.should_promote(heat(24)) && thresholds.promotion_factor > 8.0,
            "{thresholds:?}"
        );
    }

    #[test]
    fn trials_become_rare() {
        let mut thresholds = Thresholds::default();
        let mut low = 0;
        for _ in 0..200 {
            // Something is moved only while the factor is low.
            let moved = if thresholds.promotion_factor < 2.0 {
                10_000
            } else {
                0
            };
            low += u32::from(moved > 0);
            round(&mut thresholds, 250_000, moved);
        }
        assert!((3..20).contains(&low), "{low}");
    }

    #[test]
    fn the_demotion_threshold_ages_with_the_heats() {
        let mut thresholds = Thresholds::default();
        for _ in 0..SAMPLE_OBJECTS {
            thresholds.observe(heat(16), 100);
        }
        assert_eq!(thresholds.demotion_threshold(), heat(16));
        thresholds.observe(heat(100), 100);
        thresholds.end_round(&Migrations::default(), true);
        assert_eq!(thresholds.demotion_threshold(), heat(16).aged());
        // Of few objects those met in a round are all.
        thresholds.observe(heat(40), 100);
        thresholds.end_round(&Migrations::default(), false);
        assert_eq!(thresholds.demotion_threshold(), heat(40));
    }
}
