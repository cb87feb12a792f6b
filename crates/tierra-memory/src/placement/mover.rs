//! What is worth moving near, and what has to go for it.
//!
//! Whoever holds the objects goes around them all the time ("a round"), a few for every use there was, and says
//! how hot those near are. A round's histogram gives the *floor*: the heat below which the coldest quarter of near
//! memory lies. In the next round what is used and hot enough is brought near, at the moment it is read (its lines
//! are in the cache then, so half of the move is paid), and what is met no hotter than the floor goes far as
//! room is needed.
//!
//! Hot enough is what has *worth* times the uses of the floor. Worth is found out: moving costs about as much as a few
//! uses of far memory, and saves one for every use that comes after it. If a round's moves have made the share of
//! uses that find their object near grow as much as they cost, worth falls, else it rises; if the share
//! drops, the hot set has moved, and worth starts anew. Where everything is used as often, luck alone makes some
//! hotter than others: moves bring nothing, worth rises, and they end.
//!
//! This is the dynamic placement that Antão et al. propose (`docs/papers.md`), with WarpX-PM's four spaces as
//! they turn out for records: *metadata* is the table and whatever is near without counting; *temporary* is
//! new objects, which are born near; *migration* is the room kept free for them and for what becomes hot;
//! *free* is the rest of the budget, filled with the hottest.
//!
//! Moves cost bandwidth that requests want: a [`Pace`] grants them in proportion to what requests themselves
//! read and write, so that a system under load moves no more than a bounded share, and an idle one
//! nothing.

use super::heat::{HEATS, Heat};

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

/// What happened in a round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Round {
    /// Uses of objects.
    pub uses: u64,
    /// Those that found their object near.
    pub near_uses: u64,
    /// Objects brought near.
    pub moved: u64,
}

/// The part of near memory that may be exchanged in a round.
const EXCHANGED_PART: u64 = 4;
/// What a move costs, in uses of far memory: something is copied near, and something else far for it.
const MOVE_USES: f64 = 4.0;
/// Rounds that what was moved is taken to stay useful.
const USEFUL_ROUNDS: f64 = 8.0;
/// A share that has dropped as much means another hot set.
const DROPPED: f64 = 0.02;
const WORTH_MAX: f64 = 64.0;
/// Rounds after which what was counted is halved: the longer, the better what is used seldom can be told apart. Of a million records
/// used as YCSB's zipfian has it the quarter counted hottest gets 86 % of the uses if there were two for each record, 88 %
/// if eight, 89 % if sixteen (the true one: 90 %).
const ROUNDS_TO_AGE: u32 = 16;
/// And while the hot set moves: what was hot has to cool down.
const MOVING_ROUNDS_TO_AGE: u32 = 2;
/// Rounds that a hot set is taken to be moving after the share has dropped.
const MOVING_ROUNDS: u32 = 8;

/// What a round has found: how cold has to go, how hot may come.
#[derive(Clone, Debug)]
pub struct Border {
    counted: Histogram,
    floor: Heat,
    attracted: Heat,
    worth: f64,
    share: f64,
    /// Rounds for which the hot set still counts as moving.
    moving: u32,
}

impl Default for Border {
    /// Nothing is known: whatever is used twice is worth bringing near.
    fn default() -> Self {
        let mut border = Border {
            counted: Histogram::default(),
            floor: Heat::COLD,
            attracted: Heat::COLD,
            worth: 1.0,
            share: 0.0,
            moving: 0,
        };
        border.end_round(Round::default());
        border
    }
}

impl Border {
    /// An object that is near has been met, of as many bytes. A sample will do.
    #[inline]
    pub fn meet(&mut self, heat: Heat, bytes: u64) {
        self.counted.bytes[usize::from(heat.bits())] += bytes;
    }

    /// A round is over.
    pub fn end_round(&mut self, round: Round) {
        if round.uses > 0 {
            let share = round.near_uses as f64 / round.uses as f64;
            let gained = (share - self.share) * round.uses as f64 * USEFUL_ROUNDS;
            self.moving = self.moving.saturating_sub(1);
            self.worth = if share < self.share - DROPPED {
                self.moving = MOVING_ROUNDS;
                1.0
            } else if gained >= MOVE_USES * round.moved as f64 {
                (self.worth / 1.5).max(1.0)
            } else {
                (self.worth * 1.5).min(WORTH_MAX)
            };
            self.share = share;
        }
        self.floor = self.counted.coldest(EXCHANGED_PART);
        self.counted = Histogram::default();
        let least = self.worth * (self.floor.uses() + 1.0);
        let mut heats = (0..HEATS as u8).map(Heat::from_bits);
        let attracted = heats.find(|heat| heat.uses() >= least);
        self.attracted = attracted.unwrap_or(Heat::HOTTEST);
    }

    /// After how many rounds what was counted is to be halved.
    #[inline]
    pub fn rounds_to_age(&self) -> u32 {
        if self.moving > 0 {
            MOVING_ROUNDS_TO_AGE
        } else {
            ROUNDS_TO_AGE
        }
    }

    /// The heat of the coldest quarter of near memory.
    #[inline(always)]
    pub fn floor(&self) -> Heat {
        self.floor
    }

    /// Whether something far that has just been used is worth bringing near.
    #[inline(always)]
    pub fn attracts(&self, heat: Heat) -> bool {
        heat >= self.attracted
    }

    /// Whether something near should go far when room is needed.
    #[inline(always)]
    pub fn repels(&self, heat: Heat) -> bool {
        heat <= self.floor
    }
}

/// How many bytes may move: a share of what requests read and write.
#[derive(Clone, Debug)]
pub struct Pace {
    /// Of 1,024 bytes.
    share: u64,
    granted_bytes: i64,
}

/// What may be saved up: enough to begin at once when requests come after a pause.
const SAVED_BYTES_MAX: i64 = 4 << 20;

impl Pace {
    /// At most `share_percent` bytes moved for a hundred that requests touch.
    pub fn new(share_percent: u64) -> Pace {
        Pace {
            share: share_percent * 1024 / 100,
            granted_bytes: SAVED_BYTES_MAX,
        }
    }

    /// Requests have touched as many bytes.
    #[inline(always)]
    pub fn earn(&mut self, bytes: u64) {
        let granted = (bytes * self.share / 1024) as i64;
        self.granted_bytes = (self.granted_bytes + granted).min(SAVED_BYTES_MAX);
    }

    /// Whether something may move now.
    #[inline(always)]
    pub fn allows(&self) -> bool {
        self.granted_bytes > 0
    }

    /// As many bytes have moved.
    #[inline(always)]
    pub fn spend(&mut self, bytes: u64) {
        self.granted_bytes -= bytes as i64;
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

    #[test]
    fn moves_that_bring_nothing_end() {
        let mut border = Border::default();
        assert!(border.attracts(heat(2)) && border.repels(heat(0)));
        for _ in 0..20 {
            border.meet(heat(8), 100);
            border.end_round(Round {
                uses: 1000,
                near_uses: 250,
                moved: 100,
            });
        }
        assert!(border.repels(heat(8)) && !border.repels(heat(9)));
        assert!(!border.attracts(heat(40)), "worth has risen");
        // Moves that bring something, and a share that drops, change that.
        border.meet(heat(8), 100);
        border.end_round(Round {
            uses: 1000,
            near_uses: 100,
            moved: 0,
        });
        assert!(border.attracts(heat(20)) && !border.attracts(heat(8)));
    }

    #[test]
    fn moves_stay_within_their_share() {
        let mut pace = Pace::new(20);
        let mut moved = 0;
        for _ in 0..100_000 {
            pace.earn(1000);
            if pace.allows() {
                pace.spend(1000);
                moved += 1000;
            }
        }
        assert!((20_000_000..25_000_000).contains(&moved), "{moved}");
    }
}
