//! What is worth moving near, and what has to go for it.
//!
//! Whoever holds the objects goes around them all the time ("a round"), a few for every use there was, and says
//! how hot those near are. That gives the *floor*: the heat below which the coldest quarter of near
//! memory lies. What is used and hot enough is brought near, at the moment it is read (its lines
//! are in the cache then, so half of the move is paid), and what is no hotter than the floor goes far as
//! room is needed.
//!
//! Hot enough is what has *worth* times the uses of the floor. Worth is found out, by trials of some rounds: moving costs
//! about as much as a few uses of far memory, and saves one for every use that comes after it. If the share of uses that find
//! their object near has grown by what the trial's moves cost, and by more than luck explains, worth falls, if it has not, worth
//! rises. Where everything is used as often, luck alone makes some hotter than others: moves bring nothing, worth rises,
//! and they end but for trials twice as far from each other each time. A trial may move no more than it takes to tell what moves
//! bring from luck, twice as much after each that has paid. Worth rises as well while more is wanted near than there is room for:
//! then only the hottest should come.
//!
//! A hot set is given as long a memory as it has lasted, up to a limit: what was counted is halved often while it is new, and seldom
//! when it is old. After some rounds things are *settled*: one use in eight will do to know them. A share that drops, or grows
//! where it should not, means another hot set: everything begins anew but for where things lie.
//!
//! This is the dynamic placement that Antão et al. propose (`docs/papers.md`), with WarpX-PM's four spaces as
//! they turn out for records: *metadata* is the table and whatever is near without counting; *temporary* is
//! new objects, which are born near; *migration* is the room kept free for them and for what becomes hot;
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
    /// The highest heat up to which there is at most `1 / part` of all bytes, or the lowest that there is.
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
const EXCHANGED_PART: u64 = 4;
/// Objects near after which the floor is found anew: a quarter of as many is known to one or two in a hundred.
const SAMPLE: u32 = 1024;
/// What a move costs, in uses of far memory: something is copied near, and something else far for it.
const MOVE_USES: f64 = 4.0;
/// Rounds that what was moved is taken to stay useful, at least and at most: a hot set that has lasted longer than the least is taken
/// to last as long again. The most bounds what a trial may move.
const USEFUL_ROUNDS: u32 = 8;
const USEFUL_ROUNDS_MAX: u32 = 16;
/// Standard deviations of a share that are put down to luck: two of a difference of two shares.
const LUCK: f64 = 3.0;
/// Rounds after which moves have to have shown that they pay...
const TRIAL_ROUNDS: u32 = 8;
/// ...unless they cost less than this part of all uses.
const QUIET_PART: f64 = 1.0 / 128.0;
/// By how much worth rises and falls.
const STEP: f64 = 1.5;
const WORTH_MAX: f64 = 64.0;
/// Rounds between two trials, at most.
const PATIENCE_MAX: u32 = 64;
/// A share that differs as much from the best means another hot set.
const CHANGED: f64 = 0.02;
/// Rounds for which the share of a new hot set grows by itself.
const GROWING_ROUNDS: u32 = 8;
/// Rounds after which what was counted is halved: the longer, the better what is used seldom can be told apart. Of a million records
/// used as YCSB's zipfian has it the quarter counted hottest gets 86 % of the uses if there were two for each record, 88 %
/// if eight, 89 % if sixteen (the true one: 90 %).
const ROUNDS_TO_AGE: u32 = 16;
/// Rounds after which things are settled.
const SETTLED_ROUNDS: u32 = 16;
/// One use of as many is noted when things are settled...
const NOTED_WHEN_SETTLED: u32 = 8;
/// ...and when there is nothing to gain.
const NOTED_WHEN_NEARLY_ALL: u32 = 64;
/// With a share like this there is nothing to gain.
const NEARLY_ALL: f64 = 63.0 / 64.0;
/// More than any heat's bits.
const NOTHING: u8 = HEATS as u8;
/// What a trial's moves may cost, in what is put down to luck: enough to be told from it.
const TRIAL_LUCK: f64 = 2.0;
/// What the moves of a trial may cost at most if trials keep paying, in what the first may cost.
const LARGESSE_MAX: u64 = 1 << 20;

/// What rounds have found: how cold has to go, how hot may come.
#[derive(Clone, Debug)]
pub(super) struct Border {
    counted: Histogram,
    /// Objects in it.
    sampled: u32,
    is_floor_new: bool,
    floor: Heat,
    /// The least heat that is worth moving; [`NOTHING`] while nothing may.
    attracted: u8,
    worth: f64,
    trial: Trial,
    /// Objects that may still be brought near in this trial.
    moves_left: u64,
    /// By how much more than it takes to judge it the next one may cost: trials that pay become larger.
    largesse: u64,
    /// Rounds that a trial without moves takes.
    patience: u32,
    /// The largest share of the present hot set.
    best: f64,
    /// Rounds since the hot set has changed.
    age: u32,
    /// One use of as many is noted.
    noted: u32,
}

/// Rounds in which worth stays what it is.
#[derive(Clone, Copy, Debug, Default)]
struct Trial {
    rounds: u32,
    /// Objects brought near.
    moved: u64,
    /// The share when it began.
    share: f64,
}

impl Default for Border {
    /// Nothing is known: whatever is used twice is worth bringing near.
    fn default() -> Self {
        let mut border = Border {
            counted: Histogram::default(),
            sampled: 0,
            is_floor_new: false,
            floor: Heat::COLD,
            attracted: 0,
            worth: 1.0,
            trial: Trial::default(),
            moves_left: u64::MAX,
            largesse: 1,
            patience: 1,
            best: 0.0,
            age: 0,
            noted: 1,
        };
        border.set_attracted();
        border
    }
}

impl Border {
    /// An object that is near has been met, of as many bytes. A sample will do. While heats are being halved it is the
    /// heat before that: [`younger`](Heat::younger) where it is halved already.
    #[inline]
    pub(super) fn meet(&mut self, heat: Heat, bytes: u64) {
        self.counted.bytes[usize::from(heat.bits())] += bytes;
        self.sampled += 1;
        if self.sampled == SAMPLE {
            self.find_floor();
            self.is_floor_new = true;
        }
    }

    /// The floor, from those met.
    #[cold]
    fn find_floor(&mut self) {
        self.floor = self.counted.coldest(EXCHANGED_PART);
        self.forget_met();
    }

    fn forget_met(&mut self) {
        self.counted = Histogram::default();
        self.sampled = 0;
        self.set_attracted();
    }

    fn set_attracted(&mut self) {
        let least = self.worth * (self.floor.uses() + 1.0);
        let mut heats = (0..HEATS as u8).map(Heat::from_bits);
        let attracted = heats.find(|heat| heat.uses() >= least);
        self.attracted = attracted.unwrap_or(Heat::HOTTEST).bits();
        if self.moves_left == 0 {
            self.attracted = NOTHING;
        }
    }

    /// An object was brought near.
    #[inline]
    pub(super) fn note_move(&mut self) {
        self.moves_left = self.moves_left.saturating_sub(1);
        if self.moves_left == 0 {
            self.attracted = NOTHING;
        }
    }

    /// A round is over, in which this has been done. Whether all heats were halved in it,
    /// [`rounds_to_age`](Self::rounds_to_age) being over.
    pub(super) fn end_round(&mut self, done: &Migrations, aged: bool) {
        // Few objects: those met are all there are.
        if !std::mem::take(&mut self.is_floor_new) && self.sampled > 0 {
            self.find_floor();
        }
        if aged {
            // Only now: a lower floor would have attracted all that had still to be halved.
            self.floor = self.floor.aged();
            self.forget_met();
        }
        if done.uses_near + done.uses_far > 0 {
            self.learn(done);
        }
        self.set_attracted();
    }

    /// What a round tells of the hot set, and of moves.
    fn learn(&mut self, done: &Migrations) {
        let uses = (done.uses_near + done.uses_far) as f64;
        let share = done.uses_near as f64 / uses;
        let luck = LUCK * (share * (1.0 - share) / uses).sqrt();
        let changed = CHANGED.max(2.0 * luck);
        let has_grown = self.age >= GROWING_ROUNDS && share > self.best + changed;
        let trial = Trial {
            share,
            ..Trial::default()
        };
        if has_grown || share < self.best - changed {
            *self = Border {
                counted: std::mem::take(&mut self.counted),
                sampled: self.sampled,
                floor: self.floor,
                best: share,
                trial,
                ..Border::default()
            };
            return;
        }
        self.age += 1;
        self.best = self.best.max(share);
        self.trial.rounds += 1;
        self.trial.moved += done.to_near;
        let is_much = done.refused > done.to_near && done.refused as f64 > uses * QUIET_PART;
        let is_over = if is_much {
            // Where more is wanted than can come, only the hottest should be.
            self.worth = (self.worth * STEP).min(WORTH_MAX);
            true
        } else {
            self.judge(share, luck, uses)
        };
        // What a new hot set needs is not judged yet.
        let most_moves = if self.age < GROWING_ROUNDS {
            u64::MAX
        } else {
            let enough = TRIAL_LUCK * luck * self.useful_uses(uses) / MOVE_USES;
            (enough as u64 + 1).saturating_mul(self.largesse)
        };
        if is_over {
            self.trial = trial;
            self.moves_left = most_moves;
        }
        self.moves_left = self.moves_left.min(most_moves);
        self.noted = if share > NEARLY_ALL {
            NOTED_WHEN_NEARLY_ALL
        } else if self.age >= SETTLED_ROUNDS {
            NOTED_WHEN_SETTLED
        } else {
            1
        };
    }

    /// The uses for which what was moved is taken to stay useful.
    fn useful_uses(&self, uses: f64) -> f64 {
        f64::from(self.age.clamp(USEFUL_ROUNDS, USEFUL_ROUNDS_MAX)) * uses
    }

    /// Whether the trial has shown what moves bring: then worth is another.
    fn judge(&mut self, share: f64, luck: f64, uses: f64) -> bool {
        let useful_uses = self.useful_uses(uses);
        let gained = (share - self.trial.share) * useful_uses;
        let luck = luck * useful_uses;
        let cost = MOVE_USES * self.trial.moved as f64;
        let is_spent = self.moves_left == 0;
        let is_long = self.trial.rounds >= TRIAL_ROUNDS;
        let quiet_uses = f64::from(self.trial.rounds) * uses * QUIET_PART;
        let is_quiet = !is_spent && cost <= quiet_uses;
        // What has spent its moves will not know better by waiting on.
        let pays =
            (cost > luck && gained - luck >= cost) || (is_spent && is_long && gained >= cost);
        if pays || (is_quiet && self.trial.rounds >= self.patience) {
            self.worth = (self.worth / STEP).max(1.0);
            if pays {
                self.patience = 1;
                self.largesse = (self.largesse * 2).min(LARGESSE_MAX);
            }
            true
        } else if gained + luck < cost || (!is_quiet && is_long) {
            self.worth = (self.worth * STEP).min(WORTH_MAX);
            self.patience = (self.patience * 2).min(PATIENCE_MAX);
            self.largesse = 1;
            true
        } else {
            false
        }
    }

    /// After how many rounds what was counted is to be halved.
    #[inline]
    pub(super) fn rounds_to_age(&self) -> u32 {
        (self.age / 2).clamp(1, ROUNDS_TO_AGE * self.noted)
    }

    /// One use of as many is to be noted: that costs time, and when things are settled little can be gained by it.
    #[inline]
    pub(super) fn noted(&self) -> u32 {
        self.noted
    }

    /// The heat of the coldest quarter of near memory.
    #[inline(always)]
    pub(super) fn floor(&self) -> Heat {
        self.floor
    }

    /// Whether something far that has just been used is worth bringing near.
    #[inline(always)]
    pub(super) fn attracts(&self, heat: Heat) -> bool {
        heat.bits() >= self.attracted
    }

    /// Whether something near should go far when room is needed.
    #[inline(always)]
    pub(super) fn repels(&self, heat: Heat) -> bool {
        heat <= self.floor
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heat(bits: u8) -> Heat {
        Heat::from_bits(bits)
    }

    #[test]
    fn the_floor_is_that_of_the_coldest_quarter() {
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

    /// A round of a million uses, at a border that has met objects of one heat.
    fn round(border: &mut Border, uses_near: u64, to_near: u64) {
        for _ in 0..SAMPLE {
            border.meet(heat(8), 100);
        }
        let done = Migrations {
            uses_near,
            uses_far: 1_000_000 - uses_near,
            to_near,
            ..Migrations::default()
        };
        border.end_round(&done, false);
    }

    #[test]
    fn moves_that_bring_nothing_end_until_the_hot_set_changes() {
        let mut border = Border::default();
        assert!(border.attracts(heat(2)) && border.repels(heat(0)));
        for _ in 0..20 {
            round(&mut border, 250_000, 10_000);
        }
        assert!(border.repels(heat(8)) && !border.repels(heat(9)));
        assert!(!border.attracts(heat(40)), "worth has risen");
        assert_eq!(border.noted(), NOTED_WHEN_SETTLED);
        round(&mut border, 100_000, 0);
        assert!(border.attracts(heat(10)) && !border.attracts(heat(8)));
        assert_eq!((border.noted(), border.rounds_to_age()), (1, 1));
    }

    #[test]
    fn luck_pays_for_nothing() {
        let mut border = Border::default();
        // The share goes up and down by two standard deviations, and a few things are moved.
        for luck in [0, 800].into_iter().cycle().take(60) {
            round(&mut border, 249_600 + luck, 2_000);
        }
        assert!(border.worth > 4.0, "{border:?}");
    }

    #[test]
    fn moves_that_pay_go_on() {
        let mut border = Border::default();
        for at in 0..30 {
            round(&mut border, 250_000 + 10_000 * at, 10_000);
        }
        assert_eq!(border.worth, 1.0);
        assert!(border.attracts(heat(9)));
    }

    #[test]
    fn a_trial_moves_no_more_than_it_takes_to_judge_it() {
        let mut border = Border::default();
        // How many moves there may be, of what is as hot as can be.
        let allowed = |border: &mut Border| {
            let may = |border: &Border| border.attracts(Heat::HOTTEST);
            (0..1_000_000)
                .take_while(|_| {
                    may(border) && {
                        border.note_move();
                        true
                    }
                })
                .count()
        };
        assert_eq!(allowed(&mut border), 1_000_000, "all is new");
        (0..GROWING_ROUNDS).for_each(|_| round(&mut border, 250_000, 10_000));
        // Three standard deviations of a share of a quarter, over the uses that moves are useful for, twice.
        let enough = 2.0 * LUCK * (0.25f64 * 0.75 * 1e6).sqrt() * 8.0 / MOVE_USES;
        let first = allowed(&mut border);
        assert!(
            (first as f64 / enough - 1.0).abs() < 0.3,
            "{first} of {enough}"
        );
        assert!(!border.attracts(Heat::HOTTEST));
        // They pay: more may come.
        round(&mut border, 260_000, first as u64);
        let second = allowed(&mut border);
        assert!(second > first * 3 / 2, "{second} after {first}");
    }

    #[test]
    fn where_more_is_wanted_than_there_is_room_for_only_the_hottest_come() {
        let mut border = Border::default();
        for _ in 0..10 {
            (0..SAMPLE).for_each(|_| border.meet(heat(8), 100));
            let done = Migrations {
                uses_near: 100_000,
                uses_far: 900_000,
                refused: 800_000,
                to_near: 100,
                ..Migrations::default()
            };
            border.end_round(&done, false);
        }
        assert!(
            !border.attracts(heat(24)) && border.worth > 8.0,
            "{border:?}"
        );
    }

    #[test]
    fn trials_become_rare() {
        let mut border = Border::default();
        let mut low = 0;
        for _ in 0..200 {
            // Something is moved only while worth is low.
            let moved = if border.worth < 2.0 { 10_000 } else { 0 };
            low += u32::from(moved > 0);
            round(&mut border, 250_000, moved);
        }
        assert!((3..20).contains(&low), "{low}");
    }

    #[test]
    fn a_floor_grows_old_with_the_heats() {
        let mut border = Border::default();
        for _ in 0..SAMPLE {
            border.meet(heat(16), 100);
        }
        assert_eq!(border.floor(), heat(16));
        border.meet(heat(100), 100);
        border.end_round(&Migrations::default(), true);
        assert_eq!(border.floor(), heat(16).aged());
        // Of few objects those met in a round are all.
        border.meet(heat(40), 100);
        border.end_round(&Migrations::default(), false);
        assert_eq!(border.floor(), heat(40));
    }
}
