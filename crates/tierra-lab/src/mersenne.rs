//! `std::mt19937` and `std::uniform_int_distribution`: the numbers of the papers' C++ programs.

const WORDS: usize = 624;
const SHIFT: usize = 397;

/// The Mersenne Twister of Matsumoto and Nishimura, 32 bits.
#[derive(Clone, Debug)]
pub struct Mt19937 {
    state: [u32; WORDS],
    next: usize,
}

impl Mt19937 {
    /// The generator that `std::mt19937(seed)` is.
    pub fn new(seed: u32) -> Mt19937 {
        let mut state = [seed; WORDS];
        for at in 1..WORDS {
            let last = state[at - 1];
            state[at] = 1_812_433_253_u32
                .wrapping_mul(last ^ (last >> 30))
                .wrapping_add(at as u32);
        }
        Mt19937 { state, next: WORDS }
    }

    /// The next 32 bits.
    pub fn bits(&mut self) -> u32 {
        if self.next == WORDS {
            for at in 0..WORDS {
                let joined =
                    (self.state[at] & 0x8000_0000) | (self.state[(at + 1) % WORDS] & 0x7fff_ffff);
                let twist = if joined % 2 == 1 { 0x9908_b0df } else { 0 };
                self.state[at] = self.state[(at + SHIFT) % WORDS] ^ (joined >> 1) ^ twist;
            }
            self.next = 0;
        }
        let mut bits = self.state[self.next];
        self.next += 1;
        bits ^= bits >> 11;
        bits ^= (bits << 7) & 0x9d2c_5680;
        bits ^= (bits << 15) & 0xefc6_0000;
        bits ^ (bits >> 18)
    }

    /// A number below `bound`, which is positive, as `uniform_int_distribution(0, bound - 1)` of
    /// libstdc++ 11 and later draws it.
    pub fn below(&mut self, bound: u32) -> u32 {
        let mut product = u64::from(self.bits()) * u64::from(bound);
        if (product as u32) < bound {
            let biased = bound.wrapping_neg() % bound;
            while (product as u32) < biased {
                product = u64::from(self.bits()) * u64::from(bound);
            }
        }
        (product >> 32) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_that_the_standard_names() {
        let mut random = Mt19937::new(5489);
        assert_eq!(
            (0..10_000).map(|_| random.bits()).last(),
            Some(4_123_659_995)
        );
    }

    #[test]
    fn as_gcc_draws_with_seed_0() {
        let mut random = Mt19937::new(0);
        let drawn: Vec<u32> = (0..5).map(|_| random.below(262_400)).collect();
        assert_eq!(drawn, [144_008, 155_562, 187_665, 221_535, 158_165]);
        let mut random = Mt19937::new(0);
        assert!((0..1000).all(|_| random.below(3) < 3 && random.below(u32::MAX) < u32::MAX));
    }
}
