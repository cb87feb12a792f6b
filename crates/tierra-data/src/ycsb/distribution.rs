//! Which record a request is for.
//!
//! The Zipf distribution after Gray et al., "Quickly generating billion-record synthetic databases" (SIGMOD
//! 1994), as YCSB uses it: rank `r` of `n` is drawn with a probability proportional to `1 / (r + 1)^0.99`.

use super::Random;

/// The exponent that YCSB calls its zipfian constant.
pub const THETA: f64 = 0.99;

/// Items among which YCSB draws before it scatters what it drew over the records.
const SCRAMBLED_ITEMS: u64 = 10_000_000_000;
/// The sum of `1 / r^0.99` for r up to [`SCRAMBLED_ITEMS`], as YCSB states it.
const SCRAMBLED_ZETA: f64 = 26.469_028_201_783_02;

/// How requests are spread over records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distribution {
    /// Every record as often.
    Uniform,
    /// Some record most often, others ever less: ranks are dealt to the records that there are at the
    /// beginning, so that what is hot is not what is old.
    Zipfian,
    /// The latest record most often, those before it ever less.
    Latest,
    /// As YCSB's workloads ask for by "zipfian": ranks of 10^10 items, scattered by a hash, so that a third
    /// of all requests are spread nearly evenly.
    Scrambled,
}

impl Distribution {
    /// The name in results.
    pub const fn name(self) -> &'static str {
        match self {
            Distribution::Uniform => "uniform",
            Distribution::Zipfian => "zipfian",
            Distribution::Latest => "latest",
            Distribution::Scrambled => "scrambled",
        }
    }
}

/// Draws ranks of a Zipf distribution; ranks can become more.
#[derive(Clone, Debug)]
pub struct Zipf {
    items: u64,
    zeta: f64,
    eta: f64,
}

impl Zipf {
    /// Over as many ranks, at least one.
    pub fn new(items: u64) -> Zipf {
        let mut zipf = Zipf {
            items: 0,
            zeta: 0.0,
            eta: 0.0,
        };
        zipf.grow(items);
        zipf
    }

    fn scrambled() -> Zipf {
        Zipf {
            items: SCRAMBLED_ITEMS,
            zeta: SCRAMBLED_ZETA,
            eta: eta(SCRAMBLED_ITEMS, SCRAMBLED_ZETA),
        }
    }

    /// Adds ranks.
    pub fn grow(&mut self, items: u64) {
        if items > self.items {
            self.zeta += (self.items..items)
                .map(|rank| ((rank + 1) as f64).powf(-THETA))
                .sum::<f64>();
            self.items = items;
            self.eta = eta(items, self.zeta);
        }
    }

    /// A rank.
    pub fn draw(&self, random: &mut Random) -> u64 {
        let chance = random.fraction();
        let scaled = chance * self.zeta;
        if scaled < 1.0 {
            return 0;
        }
        if scaled < 1.0 + 0.5f64.powf(THETA) {
            return 1.min(self.items - 1);
        }
        let rank =
            self.items as f64 * (self.eta * chance - self.eta + 1.0).powf(1.0 / (1.0 - THETA));
        (rank as u64).min(self.items - 1)
    }

    /// The share of draws that are for the first `ranks` ranks.
    pub fn share(&self, ranks: u64) -> f64 {
        Zipf::new(ranks.clamp(1, self.items)).zeta / self.zeta
    }
}

fn eta(items: u64, zeta: f64) -> f64 {
    let zeta_of_two = 1.0 + 0.5f64.powf(THETA);
    if items < 3 {
        return 0.0;
    }
    (1.0 - (2.0 / items as f64).powf(1.0 - THETA)) / (1.0 - zeta_of_two / zeta)
}

/// YCSB's hash of a number: 64-bit FNV-1a over its bytes, the sign taken off.
pub fn fnv(number: u64) -> u64 {
    let hash = number
        .to_le_bytes()
        .iter()
        .fold(0xCBF2_9CE4_8422_2325u64, |hash, &byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3)
        });
    hash.cast_signed().unsigned_abs()
}

/// The greatest common divisor.
fn divisor(one: u64, other: u64) -> u64 {
    if other == 0 {
        one
    } else {
        divisor(other, one % other)
    }
}

/// Draws records.
#[derive(Clone, Debug)]
pub(super) struct Chooser {
    distribution: Distribution,
    zipf: Zipf,
    /// How far apart records of neighbouring ranks are.
    step: u64,
}

impl Chooser {
    pub(super) fn new(distribution: Distribution, records: u64) -> Chooser {
        let zipf = match distribution {
            Distribution::Uniform => Zipf::new(1),
            Distribution::Zipfian | Distribution::Latest => Zipf::new(records),
            Distribution::Scrambled => Zipf::scrambled(),
        };
        let golden = (records as f64 * 0.618_033_988_749_894_9) as u64;
        let coprime = |&step: &u64| divisor(step, records) == 1;
        let step = (golden.max(1)..)
            .find(coprime)
            .expect("one more than a multiple is coprime");
        Chooser {
            distribution,
            zipf,
            step,
        }
    }

    /// A record below `records`, which never become fewer.
    pub(super) fn draw(&mut self, records: u64, random: &mut Random) -> u64 {
        match self.distribution {
            Distribution::Uniform => random.below(records),
            // A step that shares no divisor with the number of records reaches each of them once.
            Distribution::Zipfian => {
                (u128::from(self.zipf.draw(random)) * u128::from(self.step)
                    % u128::from(self.zipf.items)) as u64
            }
            Distribution::Latest => {
                self.zipf.grow(records);
                records - 1 - self.zipf.draw(random)
            }
            Distribution::Scrambled => fnv(self.zipf.draw(random)) % records,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_drawn_as_often_as_they_should() {
        let zipf = Zipf::new(1000);
        let mut random = Random::new(1);
        let mut drawn = [0u32; 1000];
        const DRAWS: usize = 1_000_000;
        for _ in 0..DRAWS {
            drawn[zipf.draw(&mut random) as usize] += 1;
        }
        let sum =
            |ranks: u64| f64::from(drawn[..ranks as usize].iter().sum::<u32>()) / DRAWS as f64;
        for ranks in [1, 2, 10, 100, 500, 1000] {
            let share = zipf.share(ranks);
            assert!(
                (sum(ranks) - share).abs() < 0.02,
                "{ranks}: {} for {share}",
                sum(ranks)
            );
        }
    }

    #[test]
    fn ranks_that_come_later_change_nothing() {
        let mut grown = Zipf::new(10);
        grown.grow(1000);
        let made = Zipf::new(1000);
        assert!((grown.zeta - made.zeta).abs() < 1e-9 && grown.eta == made.eta);
    }

    #[test]
    fn the_constant_is_the_sum() {
        // The first ten million terms and the integral of the rest.
        let first = Zipf::new(10_000_000).zeta;
        let integral = |to: f64| to.powf(1.0 - THETA) / (1.0 - THETA);
        let sum = first + integral(SCRAMBLED_ITEMS as f64) - integral(1e7);
        assert!((sum - SCRAMBLED_ZETA).abs() < 1e-3, "{sum}");
    }

    #[test]
    fn hashes_are_those_of_ycsb() {
        // Java's arithmetic, followed by hand for zero: eight rounds over zero bytes.
        let zero = (0..8).fold(0xCBF2_9CE4_8422_2325u64, |hash, _| {
            hash.wrapping_mul(0x0100_0000_01B3)
        });
        assert_eq!(fnv(0), zero.cast_signed().unsigned_abs());
        assert_ne!(fnv(1), fnv(2));
    }

    #[test]
    fn every_distribution_stays_within_the_records() {
        let mut random = Random::new(2);
        for distribution in [
            Distribution::Uniform,
            Distribution::Zipfian,
            Distribution::Latest,
            Distribution::Scrambled,
        ] {
            for records in [1, 2, 3, 1000] {
                let mut chooser = Chooser::new(distribution, records);
                assert!(
                    (0..1000).all(|_| chooser.draw(records, &mut random) < records),
                    "{distribution:?}"
                );
            }
        }
    }

    #[test]
    fn the_latest_are_drawn_most() {
        let mut chooser = Chooser::new(Distribution::Latest, 1000);
        let mut random = Random::new(3);
        let late = (0..10_000)
            .filter(|_| chooser.draw(2000, &mut random) >= 1900)
            .count();
        assert!(late > 6000, "{late}");
    }
}
