//! A counter of uses in seven bits.
//!
//! The number is a logarithm: heat `h` stands for about `8 * (2^(h/8) - 1)` uses, so that eight steps are twice
//! as many, and 127 of them half a million. A use raises it with the probability that keeps that true on average
//! (Morris 1978, "Counting large numbers of events in small registers"); aging halves what it stands for.

/// The number of heats.
pub const HEATS: usize = 128;

const STEPS_PER_OCTAVE: f64 = 8.0;
/// 2^(1/8).
const STEP: f64 = 1.090_507_732_665_257_7;

/// How hot something is. Higher is hotter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Heat(u8);

/// The uses that each heat stands for.
const USES: [f64; HEATS] = {
    let mut uses = [0.0; HEATS];
    let mut heat = 1;
    while heat < HEATS {
        uses[heat] = (uses[heat - 1] + STEPS_PER_OCTAVE) * STEP - STEPS_PER_OCTAVE;
        heat += 1;
    }
    uses
};

/// The chance, of 2^32, that one use raises each heat.
const CHANCE: [u32; HEATS] = {
    let mut chance = [0; HEATS];
    let mut heat = 0;
    while heat < HEATS - 1 {
        let distance = USES[heat + 1] - USES[heat];
        chance[heat] = if distance <= 1.0 {
            u32::MAX
        } else {
            (4_294_967_295.0 / distance) as u32
        };
        heat += 1;
    }
    chance
};

/// The heat that stands for half as many uses as each.
const HALF: [u8; HEATS] = {
    let mut half = [0; HEATS];
    let mut heat = 1;
    while heat < HEATS {
        let mut lower = half[heat - 1];
        while USES[lower as usize + 1] <= USES[heat] / 2.0 {
            lower += 1;
        }
        half[heat] = lower;
        heat += 1;
    }
    half
};

/// The heat that stands for twice as many uses as each, or the hottest.
const TWICE: [u8; HEATS] = {
    let mut twice = [0; HEATS];
    let mut heat = 1;
    while heat < HEATS {
        let mut higher = twice[heat - 1];
        while (higher as usize) < HEATS - 1 && USES[higher as usize] < USES[heat] * 2.0 {
            higher += 1;
        }
        twice[heat] = higher;
        heat += 1;
    }
    twice
};

impl Heat {
    /// Not used for long.
    pub const COLD: Heat = Heat(0);

    /// The most uses that can be represented.
    pub const HOTTEST: Heat = Heat(HEATS as u8 - 1);

    /// The heat that [`bits`](Self::bits) returned; higher bits are ignored.
    #[inline(always)]
    pub const fn from_bits(bits: u8) -> Heat {
        Heat(bits & (HEATS as u8 - 1))
    }

    /// Seven bits.
    #[inline(always)]
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// After one more use. `random` is any number, evenly distributed.
    #[inline(always)]
    #[must_use]
    pub fn used(self, random: u32) -> Heat {
        Heat(self.0 + u8::from(random < CHANCE[usize::from(self.0)]))
    }

    /// The heat of half as many uses.
    #[inline(always)]
    #[must_use]
    pub fn aged(self) -> Heat {
        Heat(HALF[usize::from(self.0)])
    }

    /// The heat before it was [`aged`](Self::aged), or a little more.
    #[inline(always)]
    #[must_use]
    pub fn before_aging(self) -> Heat {
        Heat(TWICE[usize::from(self.0)])
    }

    /// The uses it stands for.
    pub fn uses(self) -> f64 {
        USES[usize::from(self.0)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn it_counts_what_it_stands_for() {
        let mut random = Random::new(7);
        for uses in [1.0, 10.0, 100.0, 10_000.0f64] {
            let mean: f64 = (0..200)
                .map(|_| {
                    let step = |heat: Heat, _| heat.used(random.next() as u32);
                    (0..uses as u32).fold(Heat::COLD, step).uses()
                })
                .sum::<f64>()
                / 200.0;
            assert!((mean / uses - 1.0).abs() < 0.4, "{mean} for {uses}");
        }
    }

    #[test]
    fn growing_old_halves_and_ends_cold() {
        let hot = (0..1_000_000).fold(Heat::COLD, |heat, _| heat.used(0));
        assert_eq!(hot.bits(), 127);
        assert_eq!(hot.used(0), hot);
        let mut heat = hot;
        for _ in 0..25 {
            let older = heat.aged();
            assert!(older.uses() <= heat.uses() / 2.0);
            assert!(heat.bits() < 9 || older.uses() > heat.uses() * 0.45);
            heat = older;
        }
        assert_eq!(heat, Heat::COLD);
        for bits in 0..HEATS as u8 {
            let heat = Heat::from_bits(bits);
            assert!(heat.before_aging() == Heat::HOTTEST || heat.before_aging().aged() == heat);
            assert!(heat.aged().before_aging() <= heat);
        }
    }
}
