//! What belongs near: the hottest, as far as the near budget goes.
//!
//! Whoever holds the objects goes around them all the time ("a round"), a few for every use there was. Each
//! object met grows older and is counted in a [`Histogram`] of bytes by heat; a round's histogram says which heat
//! still fits the budget, the *border*, for the next one. In between, what is used and hotter than the border
//! is worth bringing near, at the moment it is read (its lines are in the cache then, so half of the move is
//! paid), and what is met colder than the border goes far as room is needed.
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
pub struct Histogram {
    bytes: [u64; HEATS],
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram { bytes: [0; HEATS] }
    }
}

impl Histogram {
    /// Counts an object.
    #[inline]
    pub fn add(&mut self, heat: Heat, bytes: u64) {
        self.bytes[usize::from(heat.bits())] += bytes;
    }

    /// Bytes counted.
    pub fn total(&self) -> u64 {
        self.bytes.iter().sum()
    }

    /// The lowest heat of which everything, and everything hotter, is at most the share `part / whole` of
    /// all bytes. A share, because only a sample may have been counted.
    pub fn border(&self, part: u64, whole: u64) -> Heat {
        let total = u128::from(self.total());
        let fits = |bytes: u64| u128::from(bytes) * u128::from(whole) <= total * u128::from(part);
        let mut above = 0;
        for heat in (0..HEATS).rev() {
            above += self.bytes[heat];
            if !fits(above) {
                return Heat::from_bits(heat as u8).hotter();
            }
        }
        Heat::COLD
    }
}

/// Times the uses of the border that something has to have before it is brought near.
const WORTH: f64 = 2.0;

/// A round's border, and the histogram of the round that is on its way.
#[derive(Clone, Debug)]
pub struct Border {
    counted: Histogram,
    heat: Heat,
    /// The coldest that is worth bringing near.
    attracted: Heat,
}

impl Default for Border {
    /// Nothing is known: whatever is used twice is worth bringing near, as long as there is room.
    fn default() -> Self {
        Border {
            counted: Histogram::default(),
            heat: Heat::COLD,
            attracted: Heat::from_bits(2),
        }
    }
}

impl Border {
    /// An object has been met, of as many bytes.
    #[inline]
    pub fn meet(&mut self, heat: Heat, bytes: u64) {
        self.counted.add(heat, bytes);
    }

    /// A round is over; `near_bytes` of all `bytes` may be near.
    pub fn end_round(&mut self, near_bytes: u64, bytes: u64) {
        self.heat = if near_bytes >= bytes {
            Heat::COLD
        } else {
            self.counted.border(near_bytes, bytes)
        };
        self.counted = Histogram::default();
        let worth = |heat: &Heat| heat.uses() >= WORTH * self.heat.uses() + WORTH;
        let heats = (0..HEATS as u8).map(Heat::from_bits);
        self.attracted = heats.into_iter().find(worth).unwrap_or(Heat::HOTTEST);
    }

    /// The coldest that still belongs near.
    #[inline(always)]
    pub fn heat(&self) -> Heat {
        self.heat
    }

    /// Whether something far that has just been used is worth bringing near. A little hotter than the border
    /// is not enough: what it would displace is nearly as hot, and where all are used as often, luck would
    /// keep them moving.
    #[inline(always)]
    pub fn attracts(&self, heat: Heat) -> bool {
        heat >= self.attracted
    }

    /// Whether something near should go far when room is needed.
    #[inline(always)]
    pub fn repels(&self, heat: Heat) -> bool {
        heat < self.heat
    }
}

/// How many bytes may move: a share of what requests read and write.
#[derive(Clone, Debug)]
pub struct Pace {
    share_percent: u64,
    granted_bytes: i64,
}

/// What may be saved up: enough to begin at once when requests come after a pause.
const SAVED_BYTES_MAX: i64 = 4 << 20;

impl Pace {
    /// At most `share_percent` bytes moved for a hundred that requests touch.
    pub fn new(share_percent: u64) -> Pace {
        Pace {
            share_percent,
            granted_bytes: SAVED_BYTES_MAX,
        }
    }

    /// Requests have touched as many bytes.
    #[inline(always)]
    pub fn earn(&mut self, bytes: u64) {
        let granted = (bytes * self.share_percent / 100) as i64;
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
    fn the_border_fits_the_budget() {
        let mut histogram = Histogram::default();
        for bits in 0..100 {
            histogram.add(heat(bits), 10);
        }
        assert_eq!(histogram.border(1000, 1000), Heat::COLD);
        assert_eq!(histogram.border(250, 1000), heat(75));
        assert_eq!(histogram.border(255, 1000), heat(75));
        assert_eq!(histogram.border(0, 1000), heat(100));
        // A sample of a tenth says the same.
        assert_eq!(histogram.border(2500, 10_000), heat(75));
    }

    #[test]
    fn what_is_as_hot_as_the_border_stays_where_it_is() {
        let mut border = Border::default();
        assert!(!border.attracts(Heat::COLD) && !border.repels(Heat::COLD));
        for bits in [0, 0, 0, 5, 9] {
            border.meet(heat(bits), 100);
        }
        border.end_round(200, 500);
        assert_eq!(
            border.heat(),
            heat(1),
            "two of five fit, and all that are cold do not"
        );
        assert!(border.attracts(heat(9)) && !border.attracts(heat(1)) && border.repels(heat(0)));
        border.meet(heat(5), 100);
        border.end_round(600, 500);
        assert_eq!(border.heat(), Heat::COLD);
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
