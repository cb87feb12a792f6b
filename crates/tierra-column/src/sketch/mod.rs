//! How many distinct values there are, about: HyperLogLog.
//!
//! Every value is hashed to 32 bits. The upper 10 bits choose a register, which keeps the most that one more than the
//! zeros before the first one of the other 22 bits ever came to. Sketches of parts of a column are joined register by
//! register, whatever values the parts share. With 1,024 registers of a byte an estimate is off by 3 % (one standard
//! deviation). It is made of the registers by Ertl's formula ("New cardinality estimation algorithms for HyperLogLog
//! sketches", 2017), which needs no table of corrections and no other method where values are few.
//!
//! Registers are stored in chunks, so that [`fill`]'s hashes are a part of the format.

mod fill;

use std::f64::consts::LN_2;

use crate::bits::Kernels;

pub(crate) use fill::SketchBuilder;

/// Registers, and bytes of a stored sketch.
pub(crate) const SKETCH_BYTES: usize = 1 << INDEX_BITS;
/// Bits of a hash that choose a register.
const INDEX_BITS: u32 = 10;
/// Bits of a hash whose zeros are counted.
const RANK_BITS: u32 = 32 - INDEX_BITS;
/// What a register holds at most.
const RANK_MAX: u8 = RANK_BITS as u8 + 1;

/// What is kept of a set of values to know about how many they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DistinctSketch(Box<[u8; SKETCH_BYTES]>);

impl DistinctSketch {
    /// The sketch of no values.
    pub fn new() -> DistinctSketch {
        DistinctSketch(Box::new([0; SKETCH_BYTES]))
    }

    /// The sketch of one value.
    pub(crate) fn of_ordinal(ordinal: u64) -> DistinctSketch {
        let mut builder = SketchBuilder::new(Kernels::best());
        builder.add_ordinals(&[ordinal]);
        builder.finish()
    }

    /// The sketch of these registers, if they are possible.
    pub(crate) fn of_stored(registers: &[u8]) -> Option<DistinctSketch> {
        let registers: &[u8; SKETCH_BYTES] = registers.try_into().ok()?;
        are_possible(registers).then(|| DistinctSketch(Box::new(*registers)))
    }

    /// The registers, as they are stored.
    pub(crate) fn stored(&self) -> &[u8; SKETCH_BYTES] {
        &self.0
    }

    /// Adds the values of another sketch.
    pub fn merge(&mut self, other: &DistinctSketch) {
        for (register, other) in self.0.iter_mut().zip(other.0.iter()) {
            *register = (*register).max(*other);
        }
    }

    /// About how many distinct values were added.
    pub fn estimate(&self) -> u64 {
        let mut counts = [0_u32; RANK_MAX as usize + 1];
        for register in self.0.iter() {
            counts[usize::from(*register)] += 1;
        }
        let registers = SKETCH_BYTES as f64;
        let share = |rank: u8| f64::from(counts[usize::from(rank)]) / registers;
        let mut sum = registers * tau(1.0 - share(RANK_MAX));
        for rank in (1..RANK_MAX).rev() {
            sum = 0.5 * (sum + f64::from(counts[usize::from(rank)]));
        }
        sum += registers * sigma(share(0));
        let hashes = registers * registers / (2.0 * LN_2 * sum);
        // Different values may have one hash of the 2^32: so many values have so many hashes.
        let all = 2_f64.powi(32);
        let values = match hashes < all {
            true => -all * (-hashes / all).ln_1p(),
            false => f64::INFINITY,
        };
        // Saturates.
        values.round() as u64
    }
}

impl Default for DistinctSketch {
    fn default() -> Self {
        DistinctSketch::new()
    }
}

/// Whether registers hold what hashes can come to.
pub(crate) fn are_possible(registers: &[u8]) -> bool {
    registers
        .iter()
        .fold(0, |most, register| most.max(*register))
        <= RANK_MAX
}

/// The part of registers that are still zero.
fn sigma(share: f64) -> f64 {
    if share >= 1.0 {
        return f64::INFINITY;
    }
    let (mut x, mut y, mut sum) = (share, 1.0, share);
    loop {
        x *= x;
        let before = sum;
        sum += x * y;
        y += y;
        if sum <= before {
            return sum;
        }
    }
}

/// The part of registers that can grow no more.
fn tau(share: f64) -> f64 {
    if share <= 0.0 || share >= 1.0 {
        return 0.0;
    }
    let (mut x, mut y, mut sum) = (share, 1.0, 1.0 - share);
    loop {
        x = x.sqrt();
        let before = sum;
        y *= 0.5;
        sum -= (1.0 - x).powi(2) * y;
        if sum >= before {
            return sum / 3.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bits::{BLOCK_LEN, Level};

    fn sketch(ordinals: &[u64]) -> DistinctSketch {
        let mut builder = SketchBuilder::new(Kernels::best());
        ordinals
            .chunks(BLOCK_LEN)
            .for_each(|block| _ = builder.add_ordinals(block));
        builder.finish()
    }

    /// Off by at most four standard deviations, or by a few.
    fn assert_near(estimate: u64, distinct: usize, what: &str) {
        let off = (estimate as f64 - distinct as f64).abs();
        let most = (0.13 * distinct as f64).max(3.0);
        assert!(off <= most, "{what}: {estimate} instead of {distinct}");
    }

    /// Columns as they are: consecutive, with gaps, as doubles, as dates written as integers, timestamps.
    #[test]
    fn estimates_are_near_whatever_the_values_look_like() {
        type ValueOf = fn(u64) -> u64;
        let kinds: [(&str, ValueOf); 8] = [
            ("consecutive", |i| (1 << 31) + i),
            ("every 32nd", |i| (1 << 63) + 32 * i),
            ("every 2^20th", |i| i << 20),
            ("every 2^40th", |i| i << 40),
            ("doubles", |i| (i as f64).to_bits() | 1 << 63),
            ("cents", |i| (i as f64 * 0.01).to_bits() | 1 << 63),
            ("seconds", |i| {
                (1 << 63) + 1_700_000_000_000_000 + i * 1_000_000
            }),
            ("scattered", |i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15)),
        ];
        for (what, value) in kinds {
            for distinct in [0, 1, 2, 7, 50, 500, 2_406, 30_000, 200_000, 1_000_000] {
                // Each value comes twice, the second time far from the first.
                let values: Vec<u64> = (0..2 * distinct)
                    .map(|i| value((i % distinct.max(1)) as u64))
                    .collect();
                assert_near(sketch(&values).estimate(), distinct, what);
            }
        }
    }

    #[test]
    fn the_sketch_of_parts_is_that_of_the_whole() {
        let values: Vec<u64> = (0..50_000).map(|i| i * i).collect();
        let (few, many) = values.split_at(700);
        let mut merged = sketch(few);
        merged.merge(&sketch(many));
        merged.merge(&sketch(few));
        merged.merge(&DistinctSketch::new());
        assert_eq!(merged, sketch(&values));
    }

    #[test]
    fn all_levels_fill_the_same_registers() {
        let values: Vec<u64> = (0..9_999)
            .map(|i: u64| i.wrapping_mul(i) << (i % 40))
            .collect();
        for level in Level::available() {
            let mut builder = SketchBuilder::new(Kernels::at(level).unwrap());
            values
                .chunks(BLOCK_LEN)
                .for_each(|block| _ = builder.add_ordinals(block));
            assert_eq!(builder.finish(), sketch(&values), "{level}");
        }
    }

    #[test]
    fn full_registers_and_impossible_ones_make_no_nonsense() {
        let full = DistinctSketch::of_stored(&[RANK_MAX; SKETCH_BYTES]).unwrap();
        assert_eq!(full.estimate(), u64::MAX);
        assert!(DistinctSketch::of_stored(&[RANK_MAX + 1; SKETCH_BYTES]).is_none());
        assert!(DistinctSketch::of_stored(&[0; SKETCH_BYTES - 1]).is_none());
        let mut one = [0; SKETCH_BYTES];
        one[5] = RANK_MAX;
        assert_eq!(DistinctSketch::of_stored(&one).unwrap().estimate(), 1);
    }
}
