//! Random numbers that can be read at any position.
//!
//! A [`Draw`] is SplitMix64 (Steele, Lea, Flood 2014) read by position instead of in sequence: its
//! state after n steps is `seed + n * GAMMA`, so number n costs one multiplication and the
//! finaliser. Every random column owns one, told apart by name, and reads it at its row's number.

/// The golden ratio in 64 bits, odd: the step between SplitMix64's states.
const GAMMA: u64 = 0x9E37_79B9_7F4A_7C15;

/// One stream of random numbers.
#[derive(Clone, Copy)]
pub(crate) struct Draw {
    seed: u64,
}

impl Draw {
    /// The stream called `name`, for example `"lineorder.quantity"`.
    pub(crate) const fn named(name: &str) -> Self {
        let bytes = name.as_bytes();
        let mut seed = bytes.len() as u64;
        let mut i = 0;
        while i < bytes.len() {
            seed = mix(seed.wrapping_add(GAMMA) ^ bytes[i] as u64);
            i += 1;
        }
        Self { seed }
    }

    /// 64 random bits at `position`.
    pub(crate) const fn bits(self, position: u64) -> u64 {
        mix(self
            .seed
            .wrapping_add(position.wrapping_add(1).wrapping_mul(GAMMA)))
    }

    /// A number below `bound`, which is not 0; biased by less than `bound / 2^64`.
    pub(crate) const fn below(self, position: u64, bound: u64) -> u64 {
        ((self.bits(position) as u128 * bound as u128) >> 64) as u64
    }

    /// A number between `low` and `high`, both inclusive.
    pub(crate) const fn between(self, position: u64, low: i32, high: i32) -> i32 {
        debug_assert!(low <= high);
        low + self.below(position, (high - low) as u64 + 1) as i32
    }

    /// One of `words`.
    pub(crate) const fn pick<'a>(self, position: u64, words: &[&'a str]) -> &'a str {
        words[self.below(position, words.len() as u64) as usize]
    }

    /// The numbers 0..N in the random order of `block`. Drawing a property from shuffled blocks
    /// instead of at random gives every run of N rows each value once: shares are exact, not only
    /// expected, which keeps small data sets as selective as large ones.
    pub(crate) fn shuffled<const N: usize>(self, block: u64) -> [u16; N] {
        const { assert!(N <= 1 << 16) };
        let mut order = std::array::from_fn(|i| i as u16);
        for i in (1..N).rev() {
            let position = block.wrapping_mul(N as u64).wrapping_add(i as u64);
            order.swap(i, self.below(position, i as u64 + 1) as usize);
        }
        order
    }
}

/// SplitMix64's finaliser: a bijection that spreads every input bit over all output bits.
const fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_splitmix64() {
        // The first numbers of the published generator for seed 1234567.
        let draw = Draw { seed: 1_234_567 };
        let first: Vec<u64> = (0..3).map(|i| draw.bits(i)).collect();
        assert_eq!(
            first,
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423
            ]
        );
    }

    #[test]
    fn bounds_are_reached_and_kept() {
        let draw = Draw::named("test");
        let drawn: Vec<i32> = (0..10_000).map(|i| draw.between(i, -3, 3)).collect();
        assert_eq!(drawn.iter().min(), Some(&-3));
        assert_eq!(drawn.iter().max(), Some(&3));
    }

    #[test]
    fn a_shuffle_is_a_permutation_and_blocks_differ() {
        let draw = Draw::named("test");
        let mut order: [u16; 250] = draw.shuffled(7);
        assert_ne!(order, draw.shuffled(8));
        order.sort_unstable();
        assert!(order.iter().enumerate().all(|(i, &n)| i == n as usize));
    }
}
