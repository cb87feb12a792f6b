//! When what heats call for is done: which uses are noted, when objects are visited, in which rounds heats are halved.
//!
//! Uses are the clock: where there are none nothing is due, and what is due is in proportion to them. Whoever holds the objects
//! has a hand that goes around all of them, and does what [`Rounds`] says:
//!
//! - *Of a use* it says where the object was ([`count_use`](Rounds::count_use)). If the use is to be noted
//!   ([`notes_use`](Rounds::notes_use)) it raises the heat ([`raised`](Rounds::raised)), and if the object is far and hot enough
//!   ([`attracts`](Rounds::attracts)) it brings it near.
//! - *For every [`STEP_USES`](Rounds::STEP_USES) uses* a step is due ([`is_due`](Rounds::is_due)): the hand visits about as many
//!   objects, shows those near ([`meet`](Rounds::meet)), and halves heats if this round does ([`ages`](Rounds::ages)). It may pass over
//!   others then ([`passes_over`](Rounds::passes_over)). So a round takes about as many uses as there are objects.
//! - *When the hand is around* it says so ([`end`](Rounds::end)), and what has happened is judged.
//! - *Where room is lacking* it searches with another hand for what is cold ([`repels`](Rounds::repels)), by heats from before
//!   they were halved, if they are already ([`has_aged`](Rounds::has_aged)).
//!
//! Noting a use costs time, and so does halving, which meets every object. Both are done seldom where little can be learnt from
//! them: when things are settled (as the border says, `mover.rs`), and while nobody compares heats, because all that is used is near.
//! Those who evict objects by heat want all uses noted, and heats halved sooner.
//!
//! Invariant: a round halves heats from its beginning to its end or not at all, unless evictions begin or end in it; and no use pays for
//! two steps.

use super::heat::Heat;
use super::migrations::Migrations;
use super::mover::Border;
use crate::Speed;

/// Uses that are kept for later: 256 steps'.
const USES_MAX: i64 = 256 * Rounds::STEP_USES as i64;
/// Where there is nothing to be done but to see how hot things are, as many steps' objects are passed over behind one, on average...
const PASSED_STEPS: u64 = 63;
/// ...of at least as many, so that a round still sees thousands of objects, or of any while nobody compares heats.
const LONG_STEPS: u64 = 1 << 12;
/// Rounds between two in which heats are halved, at least, while nobody compares them: halving meets every object.
const ROUNDS_UNCOMPARED: u32 = 8;

/// The rounds of a hand through all objects, and what they have found.
#[derive(Clone, Debug)]
pub struct Rounds {
    border: Border,
    random: u64,
    /// Uses that no object has been visited for; negative while more were passed over than there were uses for.
    uses: i64,
    /// Rounds since what was counted was last halved.
    young_rounds: u32,
    /// Rounds after which that is done at the latest, where objects are evicted by heat: it is noted for them then, wherever
    /// objects go.
    evicting_rounds: Option<u32>,
    /// Nobody compares heats: in the round before all uses found their object near, there was room when it ended, and nothing is
    /// evicted by heat.
    nobody_compares: bool,
    /// One use of as many is noted, and uses that are not until the next one is.
    noted: u32,
    unnoted: u32,
    done: Migrations,
    /// What had been done when the round began.
    at_round: Migrations,
}

impl Default for Rounds {
    /// Nothing is known.
    fn default() -> Self {
        Rounds {
            border: Border::default(),
            random: 0x2545_F491_4F6C_DD1D,
            uses: 0,
            young_rounds: 0,
            evicting_rounds: None,
            nobody_compares: false,
            noted: 1,
            unnoted: 0,
            done: Migrations::default(),
            at_round: Migrations::default(),
        }
    }
}

/// What happens to objects.
impl Rounds {
    /// An object was used, which was in this tier.
    #[inline(always)]
    pub fn count_use(&mut self, speed: Speed) {
        self.uses += 1;
        match speed {
            Speed::Near => self.done.uses_near += 1,
            Speed::Far => self.done.uses_far += 1,
        }
    }

    /// Whether the use that has been counted is to be noted: one of [`noted`](Self::noted), as chance has it.
    #[inline(always)]
    pub fn notes_use(&mut self) -> bool {
        if self.unnoted > 0 {
            self.unnoted -= 1;
            return false;
        }
        if self.noted > 1 {
            // Some as soon as others, so that no rhythm of the uses is met.
            self.unnoted = self.random() % (2 * self.noted - 1);
        }
        true
    }

    /// How many uses one that is noted stands for.
    #[inline(always)]
    pub fn noted(&self) -> u32 {
        self.noted
    }

    /// A heat after as many more uses.
    #[inline(always)]
    #[must_use]
    pub fn raised(&mut self, heat: Heat, uses: u32) -> Heat {
        (0..uses).fold(heat, |heat, _| heat.used(self.random()))
    }

    /// The heat of a new object: it stays where it was born for a round.
    #[inline]
    pub fn birth_heat(&self) -> Heat {
        let bits = self.border.floor().bits() + 1;
        Heat::from_bits(bits.min(Heat::HOTTEST.bits()))
    }

    /// An object was moved, from a tier to another one or within it.
    #[inline]
    pub fn note_move(&mut self, from: Speed, to: Speed, bytes: u64) {
        self.done.bytes += bytes;
        match (from == to, to) {
            (true, _) => self.done.compacted += 1,
            (_, Speed::Near) => {
                self.border.note_move();
                self.done.to_near += 1;
            }
            (_, Speed::Far) => self.done.to_far += 1,
        }
    }

    /// An object was to be brought near, but for want of room or because enough had moved.
    #[inline]
    pub fn note_refusal(&mut self) {
        self.done.refused += 1;
    }

    /// An object was evicted: others took its place, and what was counted grows as old by it as by a use.
    #[inline]
    pub fn note_eviction(&mut self) {
        self.uses += 1;
    }

    /// What has happened since the start.
    #[inline(always)]
    pub fn done(&self) -> Migrations {
        self.done
    }

    /// What has happened in this round.
    pub fn done_in_round(&self) -> Migrations {
        self.done.since(self.at_round)
    }
}

/// What is hot, and what is cold.
impl Rounds {
    /// An object that is near has been met, of as many bytes. A sample will do. If the heat is halved already it is the one before
    /// that: [`younger`](Heat::younger).
    #[inline]
    pub fn meet(&mut self, heat: Heat, bytes: u64) {
        self.border.meet(heat, bytes);
    }

    /// Whether something far that has just been used is worth bringing near.
    #[inline(always)]
    pub fn attracts(&self, heat: Heat) -> bool {
        self.border.attracts(heat)
    }

    /// Whether something near should go far when room is needed.
    #[inline(always)]
    pub fn repels(&self, heat: Heat) -> bool {
        self.border.repels(heat)
    }
}

/// The clock.
impl Rounds {
    /// Uses for which a step is due. It visits about as many objects.
    pub const STEP_USES: u32 = 64;

    /// Whether uses call for a step.
    #[inline(always)]
    pub fn is_due(&self) -> bool {
        self.uses >= i64::from(Self::STEP_USES)
    }

    /// A step was made that was due, and as many steps' objects were visited or passed over.
    #[inline]
    pub fn take_steps(&mut self, steps: u64) {
        // What there was no time for is not made up for when there is.
        let uses = self.uses.min(USES_MAX);
        self.uses = uses - steps as i64 * i64::from(Self::STEP_USES);
    }

    /// Nobody goes by heat: uses so far call for nothing.
    #[inline]
    pub fn forget_uses(&mut self) {
        self.uses = 0;
    }

    /// How many steps' objects to pass over behind a step, in a table of as many steps' of which some are left behind it.
    #[inline]
    pub fn passes_over(&mut self, steps: u64, left: u64) -> u64 {
        let sees_enough = steps >= LONG_STEPS || self.nobody_compares;
        if !sees_enough || self.ages() {
            return 0;
        }
        // Not the same ones in every round, and none behind the end.
        (u64::from(self.random()) % (2 * PASSED_STEPS + 1)).min(left)
    }

    /// Whether heats are halved in this round.
    #[inline]
    pub fn ages(&self) -> bool {
        let mut rounds = self.border.rounds_to_age();
        if self.nobody_compares {
            rounds = rounds.max(ROUNDS_UNCOMPARED);
        }
        self.young_rounds + 1 >= self.evicting_rounds.map_or(rounds, |most| rounds.min(most))
    }

    /// Whether heats at a place have been halved in this round, the round having come as far as `hand`.
    #[inline]
    pub fn has_aged<P: PartialOrd>(&self, place: P, hand: P) -> bool {
        self.ages() && place < hand
    }

    /// A round is over. Whether there is as much room near as is kept free.
    pub fn end(&mut self, has_room: bool) {
        let aged = self.ages();
        let done = self.done_in_round();
        self.border.end_round(&done, aged);
        let is_evicting = self.evicting_rounds.is_some();
        self.noted = if is_evicting { 1 } else { self.border.noted() };
        self.nobody_compares = done.uses_far == 0 && has_room && !is_evicting;
        self.young_rounds = if aged { 0 } else { self.young_rounds + 1 };
        self.at_round = self.done;
    }

    /// Notes heat for evictions as well, and halves it after as many rounds at the latest; `None` for placement alone.
    pub fn count_for_eviction(&mut self, evicting_rounds: Option<u32>) {
        if evicting_rounds != self.evicting_rounds {
            self.evicting_rounds = evicting_rounds;
            (self.noted, self.unnoted) = (1, 0);
            self.nobody_compares = false;
        }
    }

    /// Whether heat is noted for evictions.
    #[inline(always)]
    pub fn is_for_eviction(&self) -> bool {
        self.evicting_rounds.is_some()
    }

    /// Begins anew, but for what has been done, because objects go elsewhere from now on: what was noted says nothing. It is
    /// for the holder to begin a round.
    pub fn restart(&mut self) {
        *self = Rounds {
            random: self.random,
            evicting_rounds: self.evicting_rounds,
            done: self.done,
            at_round: self.done,
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
        assert!(rounds.noted() > 1);
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
        rounds.forget_uses();
        assert!(!rounds.is_due());
    }

    #[test]
    fn uses_that_are_noted_stand_for_all() {
        let mut rounds = settled();
        let noted = (0..1_000_000).filter(|_| rounds.notes_use()).count();
        let all = noted as f64 * f64::from(rounds.noted());
        assert!((all / 1e6 - 1.0).abs() < 0.02, "{noted}");
    }

    #[test]
    fn who_evicts_by_heat_has_all_uses_noted_and_heats_halved_soon() {
        let mut rounds = settled();
        assert!(rounds.notes_use());
        rounds.count_for_eviction(Some(1));
        assert!((0..1000).all(|_| rounds.notes_use()), "at once");
        assert_eq!(aging(&mut rounds, 5, 5000, 5000), [0, 1, 2, 3, 4]);
        assert!((0..1000).all(|_| rounds.notes_use()), "and later");
        rounds.count_for_eviction(Some(3));
        assert_eq!(aging(&mut rounds, 9, 5000, 5000), [2, 5, 8]);
        // Also while all is near, and so another hot set has been settled for long.
        (0..20).for_each(|_| round(&mut rounds, 5000, 0));
        assert_eq!(aging(&mut rounds, 9, 5000, 0).len(), 3);
        assert_eq!(rounds.noted(), 1);
        rounds.restart();
        assert!(rounds.is_for_eviction(), "it has another reason");
        rounds.count_for_eviction(None);
        assert!(!rounds.is_for_eviction());
    }

    #[test]
    fn while_all_is_near_heats_are_seldom_halved_and_most_is_passed_over() {
        const LEFT: u64 = 1000;
        let passed = |rounds: &mut Rounds| -> u64 {
            let passed = (0..1000).map(|_| rounds.passes_over(LEFT, LEFT));
            passed.sum()
        };
        let mut rounds = Rounds::default();
        assert_eq!(passed(&mut rounds), 0, "heats are halved");
        round(&mut rounds, 1000, 0);
        assert_eq!(aging(&mut rounds, 20, 1000, 0), [7, 15]);
        let all = passed(&mut rounds);
        assert!((61_000..65_000).contains(&all), "{all}");
        assert_eq!(rounds.passes_over(LEFT, 0), 0, "nothing is left");
        rounds.count_for_eviction(Some(100));
        assert_eq!(passed(&mut rounds), 0, "heats are compared");
        // But of many objects a part shows how hot all are.
        assert!((0..100).any(|_| rounds.passes_over(LONG_STEPS, LEFT) > 0));
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
        assert_eq!((rounds.done(), rounds.noted()), (done, 1));
    }
}
