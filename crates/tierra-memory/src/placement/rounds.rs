//! The schedule of placement work: which uses are sampled, when objects are visited, in which rounds heats are halved.
//!
//! Uses are the clock: without uses no work is due, and work is in proportion to them. The owner of the objects has a clock hand
//! that goes around all of them, and calls [`Rounds`] as follows:
//!
//! - *For a use* it reports where the object was ([`count_use`](Rounds::count_use)). If the use is sampled
//!   ([`samples_use`](Rounds::samples_use)) it raises the heat ([`raised`](Rounds::raised)), and if the object is far and hot enough
//!   ([`should_promote`](Rounds::should_promote)) it promotes it.
//! - *For every [`STEP_USES`](Rounds::STEP_USES) uses* a step is due ([`is_due`](Rounds::is_due)): the hand visits about as many
//!   objects, reports those near ([`observe`](Rounds::observe)), and halves heats if this round does ([`ages`](Rounds::ages)). It may
//!   skip others then ([`steps_to_skip`](Rounds::steps_to_skip)). So a round takes about as many uses as there are objects.
//! - *After a full round of the hand* it calls [`end`](Rounds::end), which evaluates the round.
//! - *If room is lacking* it searches with another hand for cold objects ([`should_demote`](Rounds::should_demote)), by heats from before
//!   halving, if they are halved already ([`has_aged`](Rounds::has_aged)).
//!
//! Sampling a use costs time, and so does halving, which visits every object. Both are done seldom if they bring little:
//! when the hot set is settled (`thresholds.rs`), and while heats are not used because all objects used are near.
//! Eviction by heat needs all uses sampled, and heats halved sooner.
//!
//! Invariant: a round halves heats from its beginning to its end or not at all, unless evictions begin or end in it; and no use counts
//! for two steps.

use super::heat::Heat;
use super::migrations::Migrations;
use super::thresholds::Thresholds;
use crate::Speed;

/// Uses that are carried over: 256 steps'.
const MAX_PENDING_USES: i64 = 256 * Rounds::STEP_USES as i64;
/// If a round only observes heats, the objects of as many steps are skipped after one step, on average...
const SKIPPED_STEPS: u64 = 63;
/// ...if there are at least as many steps, so that a round still observes thousands of objects, or while heats are not used.
const MANY_STEPS: u64 = 1 << 12;
/// Rounds between two in which heats are halved, at least, while heats are not used: halving visits every object.
const MIN_AGING_ROUNDS_UNUSED: u32 = 8;

/// The rounds of a clock hand through all objects, and the thresholds they have found.
#[derive(Clone, Debug)]
pub struct Rounds {
    thresholds: Thresholds,
    random: u64,
    /// Uses that no object has been visited for; negative while more objects were skipped than there were uses for.
    pending_uses: i64,
    /// Rounds since heats were last halved.
    rounds_since_aging: u32,
    /// Rounds after which heats are halved at the latest, if objects are evicted by heat. Heat is kept for evictions then, under
    /// any placement policy.
    eviction_aging_rounds: Option<u32>,
    /// Heats are not used: in the previous round all uses found their object near, there was room when it ended, and nothing is
    /// evicted by heat.
    is_heat_unused: bool,
    /// One use of as many is sampled, and the uses to skip until the next one.
    sampling_interval: u32,
    skipped_uses: u32,
    done: Migrations,
    /// The value of `done` when the round began.
    done_before_round: Migrations,
}

impl Default for Rounds {
    /// Nothing is known.
    fn default() -> Self {
        Rounds {
            thresholds: Thresholds::default(),
            random: 0x2545_F491_4F6C_DD1D,
            pending_uses: 0,
            rounds_since_aging: 0,
            eviction_aging_rounds: None,
            is_heat_unused: false,
            sampling_interval: 1,
            skipped_uses: 0,
            done: Migrations::default(),
            done_before_round: Migrations::default(),
        }
    }
}

/// Events of objects.
impl Rounds {
    /// An object in this tier was used.
    #[inline(always)]
    pub fn count_use(&mut self, speed: Speed) {
        self.pending_uses += 1;
        match speed {
            Speed::Near => self.done.uses_near += 1,
            Speed::Far => self.done.uses_far += 1,
        }
    }

    /// Whether the use that has been counted is sampled: one of [`sampling_interval`](Self::sampling_interval), at random.
    #[inline(always)]
    pub fn samples_use(&mut self) -> bool {
        if self.skipped_uses > 0 {
            self.skipped_uses -= 1;
            return false;
        }
        if self.sampling_interval > 1 {
            // Uniformly distributed, so that sampling is independent of any period of the uses.
            self.skipped_uses = self.random() % (2 * self.sampling_interval - 1);
        }
        true
    }

    /// How many uses a sampled one stands for.
    #[inline(always)]
    pub fn sampling_interval(&self) -> u32 {
        self.sampling_interval
    }

    /// The heat after as many more uses.
    #[inline(always)]
    #[must_use]
    pub fn raised(&mut self, heat: Heat, uses: u32) -> Heat {
        (0..uses).fold(heat, |heat, _| heat.used(self.random()))
    }

    /// The heat of a new object: it stays where it was created for a round.
    #[inline]
    pub fn initial_heat(&self) -> Heat {
        let bits = self.thresholds.demotion_threshold().bits() + 1;
        Heat::from_bits(bits.min(Heat::HOTTEST.bits()))
    }

    /// An object was moved, from a tier to another one or within it.
    #[inline]
    pub fn note_move(&mut self, from: Speed, to: Speed, bytes: u64) {
        self.done.bytes += bytes;
        match (from == to, to) {
            (true, _) => self.done.compacted += 1,
            (_, Speed::Near) => {
                self.thresholds.note_move();
                self.done.to_near += 1;
            }
            (_, Speed::Far) => self.done.to_far += 1,
        }
    }

    /// An object was not promoted for lack of room or because enough had moved.
    #[inline]
    pub fn note_refusal(&mut self) {
        self.done.refused += 1;
    }

    /// An object was evicted: others replace it, so counts age as by a use.
    #[inline]
    pub fn note_eviction(&mut self) {
        self.pending_uses += 1;
    }

    /// What has happened since the start.
    #[inline(always)]
    pub fn done(&self) -> Migrations {
        self.done
    }

    /// What has happened in this round.
    pub fn done_in_round(&self) -> Migrations {
        self.done.since(self.done_before_round)
    }
}

/// The thresholds.
impl Rounds {
    /// Observes a near object of as many bytes. A sample of them suffices. If the heat is halved already, pass the one before:
    /// [`before_aging`](Heat::before_aging).
    #[inline]
    pub fn observe(&mut self, heat: Heat, bytes: u64) {
        self.thresholds.observe(heat, bytes);
    }

    /// Whether a far object that has just been used should be promoted.
    #[inline(always)]
    pub fn should_promote(&self, heat: Heat) -> bool {
        self.thresholds.should_promote(heat)
    }

    /// Whether a near object should be demoted when room is needed.
    #[inline(always)]
    pub fn should_demote(&self, heat: Heat) -> bool {
        self.thresholds.should_demote(heat)
    }
}

/// The clock.
impl Rounds {
    /// Uses for which a step is due. It visits about as many objects.
    pub const STEP_USES: u32 = 64;

    /// Whether a step is due.
    #[inline(always)]
    pub fn is_due(&self) -> bool {
        self.pending_uses >= i64::from(Self::STEP_USES)
    }

    /// A step that was due was made; the objects of `steps` steps were visited or skipped.
    #[inline]
    pub fn take_steps(&mut self, steps: u64) {
        // Steps that there was no time for are not made up for later.
        let pending_uses = self.pending_uses.min(MAX_PENDING_USES);
        self.pending_uses = pending_uses - steps as i64 * i64::from(Self::STEP_USES);
    }

    /// Drops the uses so far, because heat is not used.
    #[inline]
    pub fn discard_uses(&mut self) {
        self.pending_uses = 0;
    }

    /// How many steps to skip after a step, in a table of `steps` steps of which `left` follow.
    #[inline]
    pub fn steps_to_skip(&mut self, steps: u64, left: u64) -> u64 {
        let sees_enough = steps >= MANY_STEPS || self.is_heat_unused;
        if !sees_enough || self.ages() {
            return 0;
        }
        // Not the same ones in every round, and none beyond the end.
        (u64::from(self.random()) % (2 * SKIPPED_STEPS + 1)).min(left)
    }

    /// Whether heats are halved in this round.
    #[inline]
    pub fn ages(&self) -> bool {
        let mut rounds = self.thresholds.rounds_to_age();
        if self.is_heat_unused {
            rounds = rounds.max(MIN_AGING_ROUNDS_UNUSED);
        }
        self.rounds_since_aging + 1
            >= self
                .eviction_aging_rounds
                .map_or(rounds, |most| rounds.min(most))
    }

    /// Whether heats at `place` have been halved in this round, which has come as far as `hand`.
    #[inline]
    pub fn has_aged<P: PartialOrd>(&self, place: P, hand: P) -> bool {
        self.ages() && place < hand
    }

    /// Ends a round. `has_room` says whether near memory has the free room that is to be kept.
    pub fn end(&mut self, has_room: bool) {
        let aged = self.ages();
        let done = self.done_in_round();
        self.thresholds.end_round(&done, aged);
        let is_evicting = self.eviction_aging_rounds.is_some();
        self.sampling_interval = if is_evicting {
            1
        } else {
            self.thresholds.sampling_interval()
        };
        self.is_heat_unused = done.uses_far == 0 && has_room && !is_evicting;
        self.rounds_since_aging = if aged { 0 } else { self.rounds_since_aging + 1 };
        self.done_before_round = self.done;
    }

    /// Keeps heat for evictions as well, and halves it after as many rounds at the latest; `None` for placement alone.
    pub fn set_eviction_aging(&mut self, eviction_aging_rounds: Option<u32>) {
        if eviction_aging_rounds != self.eviction_aging_rounds {
            self.eviction_aging_rounds = eviction_aging_rounds;
            (self.sampling_interval, self.skipped_uses) = (1, 0);
            self.is_heat_unused = false;
        }
    }

    /// Whether heat is kept for evictions.
    #[inline(always)]
    pub fn is_evicting_by_heat(&self) -> bool {
        self.eviction_aging_rounds.is_some()
    }

    /// Resets everything but the counters, because the policy has changed and earlier observations are void. The owner begins
    /// a new round.
    pub fn restart(&mut self) {
        *self = Rounds {
            random: self.random,
            eviction_aging_rounds: self.eviction_aging_rounds,
            done: self.done,
            done_before_round: self.done,
            ..Rounds::default()
        };
    }

    #[inline(always)]
    fn random(&mut self) -> u32 {
        // Xorshift: cheap, and good enough for a coin.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 32) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A round of as many uses, at whose end there is room.
    fn round(rounds: &mut Rounds, near: u32, far: u32) {
        (0..near).for_each(|_| rounds.count_use(Speed::Near));
        (0..far).for_each(|_| rounds.count_use(Speed::Far));
        rounds.end(true);
    }

    /// In which of the next rounds heats are halved.
    fn aging(rounds: &mut Rounds, count: usize, near: u32, far: u32) -> Vec<usize> {
        let mut aging = Vec::new();
        for at in 0..count {
            aging.extend(rounds.ages().then_some(at));
            round(rounds, near, far);
        }
        aging
    }

    fn settled() -> Rounds {
        let mut rounds = Rounds::default();
        (0..20).for_each(|_| round(&mut rounds, 5000, 5000));
        assert!(rounds.sampling_interval() > 1);
        rounds
    }

    #[test]
    fn steps_are_as_many_as_uses_call_for() {
        let mut rounds = Rounds::default();
        let mut steps_after = |uses: u32, steps: u64| {
            (0..uses).for_each(|_| rounds.count_use(Speed::Far));
            let mut due = 0;
            while rounds.is_due() {
                rounds.take_steps(steps);
                due += 1;
            }
            due
        };
        assert_eq!(steps_after(63, 1), 0);
        assert_eq!(steps_after(1, 1), 1);
        assert_eq!(steps_after(128, 1), 2);
        // What is passed over is paid for by later uses.
        assert_eq!(steps_after(64, 3), 1);
        assert_eq!(steps_after(191, 1), 0);
        assert_eq!(steps_after(1, 1), 1);
        assert_eq!(steps_after(1_000_000, 1), 256);
        rounds.note_eviction();
        (0..63).for_each(|_| rounds.count_use(Speed::Near));
        assert!(rounds.is_due());
        rounds.discard_uses();
        assert!(!rounds.is_due());
    }

    #[test]
    fn uses_that_are_noted_stand_for_all() {
        let mut rounds = settled();
        let sampling_interval = (0..1_000_000).filter(|_| rounds.samples_use()).count();
        let all = sampling_interval as f64 * f64::from(rounds.sampling_interval());
        assert!((all / 1e6 - 1.0).abs() < 0.02, "{sampling_interval}");
    }

    #[test]
    fn who_evicts_by_heat_has_all_uses_noted_and_heats_halved_soon() {
        let mut rounds = settled();
        assert!(rounds.samples_use());
        rounds.set_eviction_aging(Some(1));
        assert!((0..1000).all(|_| rounds.samples_use()), "at once");
        assert_eq!(aging(&mut rounds, 5, 5000, 5000), [0, 1, 2, 3, 4]);
        assert!((0..1000).all(|_| rounds.samples_use()), "and later");
        rounds.set_eviction_aging(Some(3));
        assert_eq!(aging(&mut rounds, 9, 5000, 5000), [2, 5, 8]);
        // Also while all is near, and so another hot set has been settled for long.
        (0..20).for_each(|_| round(&mut rounds, 5000, 0));
        assert_eq!(aging(&mut rounds, 9, 5000, 0).len(), 3);
        assert_eq!(rounds.sampling_interval(), 1);
        rounds.restart();
        assert!(rounds.is_evicting_by_heat(), "it has another reason");
        rounds.set_eviction_aging(None);
        assert!(!rounds.is_evicting_by_heat());
    }

    #[test]
    fn while_all_is_near_heats_are_seldom_halved_and_most_is_passed_over() {
        const LEFT: u64 = 1000;
        let passed = |rounds: &mut Rounds| -> u64 {
            let passed = (0..1000).map(|_| rounds.steps_to_skip(LEFT, LEFT));
            passed.sum()
        };
        let mut rounds = Rounds::default();
        assert_eq!(passed(&mut rounds), 0, "heats are halved");
        round(&mut rounds, 1000, 0);
        assert_eq!(aging(&mut rounds, 20, 1000, 0), [7, 15]);
        let all = passed(&mut rounds);
        assert!((61_000..65_000).contains(&all), "{all}");
        assert_eq!(rounds.steps_to_skip(LEFT, 0), 0, "nothing is left");
        rounds.set_eviction_aging(Some(100));
        assert_eq!(passed(&mut rounds), 0, "heats are compared");
        // But of many objects a part shows how hot all are.
        assert!((0..100).any(|_| rounds.steps_to_skip(MANY_STEPS, LEFT) > 0));
        // Without room, or with far objects, they are as well.
        for (far, has_room) in [(0, false), (1, true)] {
            let mut rounds = Rounds::default();
            (0..1000).for_each(|_| rounds.count_use(Speed::Near));
            (0..far).for_each(|_| rounds.count_use(Speed::Far));
            rounds.end(has_room);
            assert!(rounds.ages());
        }
    }

    #[test]
    fn heats_behind_the_hand_are_halved_already() {
        let mut rounds = Rounds::default();
        assert!(rounds.ages() && rounds.has_aged(1, 2));
        assert!(!rounds.has_aged(2, 2) && !rounds.has_aged(3, 2));
        (0..2).for_each(|_| round(&mut rounds, 10, 0));
        assert!(!rounds.ages() && !rounds.has_aged(1, 2));
    }

    #[test]
    fn what_was_done_outlives_another_beginning() {
        let mut rounds = settled();
        rounds.note_move(Speed::Far, Speed::Near, 10);
        rounds.note_move(Speed::Near, Speed::Far, 20);
        rounds.note_move(Speed::Far, Speed::Far, 30);
        rounds.note_refusal();
        let done = Migrations {
            to_near: 1,
            to_far: 1,
            bytes: 60,
            compacted: 1,
            refused: 1,
            ..Migrations::default()
        };
        assert_eq!(rounds.done_in_round(), done);
        rounds.restart();
        assert_eq!(rounds.done_in_round(), Migrations::default());
        let uses = 20 * 5000;
        let done = Migrations {
            uses_near: uses,
            uses_far: uses,
            ..done
        };
        assert_eq!((rounds.done(), rounds.sampling_interval()), (done, 1));
    }
}
