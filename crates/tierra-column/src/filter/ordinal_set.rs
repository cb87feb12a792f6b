//! Sets of ordinals: a bitmap where they lie close together, else hashed, behind a sieve.

use super::Bitmap;
use crate::bits::{Kernels, Mask};

/// A bitmap may spend this many bits on each value (a hashed value costs about as much).
const BITMAP_BITS_PER_VALUE: u64 = 128;
/// ... and in total never more than 1 MiB, so that it stays in a core's own cache.
const BITMAP_BITS_MAX: u64 = 1 << 23;

/// Bits of a sieve for each member: one value in 32 to 64 that is none passes.
const SIEVE_BITS_PER_VALUE: usize = 32;
/// Of 64 rows, so many that are looked up one by one at once: sieving all costs about as much.
const ROWS_PROBED: u32 = 6;

/// Distinct ordinals.
#[derive(Debug, Clone, PartialEq)]
pub struct OrdinalSet {
    sorted: Vec<u64>,
    members: Members,
}

#[derive(Debug, Clone, PartialEq)]
enum Members {
    None,
    Bitmap(Bitmap),
    /// Open addressing with linear probes; at most half full. `sorted[0]` marks a free slot and
    /// is compared apart.
    Hash {
        slots: Vec<u64>,
        shift: u32,
        sieve: Sieve,
    },
}

impl OrdinalSet {
    pub(super) fn new(mut sorted: Vec<u64>) -> OrdinalSet {
        sorted.sort_unstable();
        sorted.dedup();
        let members = Members::new(&sorted);
        OrdinalSet { sorted, members }
    }

    /// In ascending order.
    pub(super) fn members(&self) -> &[u64] {
        &self.sorted
    }

    /// The members between two ordinals, both included.
    pub(crate) fn within(&self, low: u64, high: u64) -> &[u64] {
        let from = self.sorted.partition_point(|&value| value < low);
        let to = self.sorted.partition_point(|&value| value <= high);
        // With crossed bounds `to` may lie below `from`.
        self.sorted.get(from..to).unwrap_or(&[])
    }

    /// The members between two ordinals, both included, if they are `most` at most.
    pub(crate) fn few_within(&self, low: u64, high: u64, most: usize) -> Option<&[u64]> {
        let from = self.sorted.partition_point(|&value| value < low);
        let rest = &self.sorted[from..];
        let count = rest
            .iter()
            .take(most + 1)
            .take_while(|value| **value <= high)
            .count();
        (count <= most).then(|| &rest[..count])
    }

    /// Whether no, and whether every, ordinal between two is a member, both included; `low` is at most `high`.
    pub(crate) fn none_or_all(&self, low: u64, high: u64) -> (bool, bool) {
        let from = self.sorted.partition_point(|&value| value < low);
        let rest = &self.sorted[from..];
        let is_none = rest.first().is_none_or(|first| *first > high);
        // Members differ: so many from `low` on end with `high` only if none is missing between.
        let last = usize::try_from(high - low).ok();
        let is_all = last.and_then(|last| rest.get(last)) == Some(&high);
        (is_none, is_all)
    }

    /// The members as a bitmap, where they are kept as one.
    pub(crate) fn bitmap(&self) -> Option<&Bitmap> {
        match &self.members {
            Members::Bitmap(bitmap) => Some(bitmap),
            Members::None | Members::Hash { .. } => None,
        }
    }

    /// Whether `value` is a member.
    #[inline]
    pub fn contains(&self, value: u64) -> bool {
        match (&self.members, self.sorted.first()) {
            (Members::None, _) | (_, None) => false,
            (Members::Bitmap(bitmap), _) => bitmap.contains(value),
            (Members::Hash { slots, shift, .. }, Some(&first)) => {
                if value == first {
                    return true;
                }
                let mut slot = hash(value, *shift);
                loop {
                    // At most half full, so a free slot ends every probe.
                    match slots[slot] {
                        found if found == value => return true,
                        found if found == first => return false,
                        _ => slot = (slot + 1) & (slots.len() - 1),
                    }
                }
            }
        }
    }

    /// Keeps the rows of `mask` whose value, `offset` more than in `values` (modulo 2^64), is a member.
    pub(crate) fn retain_members(
        &self,
        kernels: Kernels,
        values: &[u64],
        offset: u64,
        mask: &mut Mask,
    ) {
        match &self.members {
            Members::None => *mask = Mask::none(),
            Members::Bitmap(bitmap) => match bitmap.codes(u64::MIN, u64::MAX, offset) {
                Some(bits) => kernels.select_in_bits_u64(values, bits, mask),
                None => *mask = Mask::none(),
            },
            Members::Hash { sieve, .. } => {
                kernels.compiled(|| sieve.retain(values, offset, mask));
                self.retain_one_by_one(values, offset, mask);
            }
        }
    }

    fn retain_one_by_one(&self, values: &[u64], offset: u64, mask: &mut Mask) {
        for (word, values) in mask.0.iter_mut().zip(values.chunks(64)) {
            let mut rest = *word;
            while rest != 0 {
                let row = rest.trailing_zeros() as usize;
                rest &= rest - 1;
                let is_member = self.contains(values[row].wrapping_add(offset));
                *word &= !(u64::from(!is_member) << row);
            }
        }
    }

    /// The set as a bitmap of `bits` bits that starts at ordinal `low`, written over `out`.
    pub(crate) fn window(&self, low: u64, bits: usize, out: &mut Vec<u64>) {
        if let Members::Bitmap(bitmap) = &self.members {
            bitmap.window(low, bits, out);
            return;
        }
        out.clear();
        out.resize(bits.div_ceil(64), 0);
        let high = low.saturating_add(bits as u64 - u64::from(bits > 0));
        for value in self.within(low, high) {
            let bit = (value - low) as usize;
            out[bit / 64] |= 1 << (bit % 64);
        }
    }
}

impl Members {
    fn new(sorted: &[u64]) -> Members {
        let (Some(&first), Some(&last)) = (sorted.first(), sorted.last()) else {
            return Members::None;
        };
        let budget =
            BITMAP_BITS_MAX.min((sorted.len() as u64).saturating_mul(BITMAP_BITS_PER_VALUE));
        if last - first < budget
            && let Some(bitmap) = Bitmap::new(sorted)
        {
            return Members::Bitmap(bitmap);
        }
        let slot_count = (sorted.len() * 2).next_power_of_two().max(4);
        let shift = 64 - slot_count.trailing_zeros();
        let mut slots = vec![first; slot_count];
        for &value in &sorted[1..] {
            let mut slot = hash(value, shift);
            while slots[slot] != first {
                slot = (slot + 1) % slot_count;
            }
            slots[slot] = value;
        }
        Members::Hash {
            slots,
            shift,
            sieve: Sieve::new(sorted),
        }
    }
}

/// For each of 64 values at most, the lowest bit of what `bit` says.
#[inline(always)]
fn found(values: &[u64], bit: impl Fn(u64) -> u64) -> u64 {
    let bits = values.iter().enumerate();
    bits.fold(0, |found, (row, value)| found | (bit(*value) & 1) << row)
}

/// A bit for each hash: set where a member has it, so that most non-members are detected by one load.
#[derive(Debug, Clone, PartialEq)]
struct Sieve {
    /// A power of two.
    words: Vec<u64>,
    shift: u32,
}

impl Sieve {
    fn new(members: &[u64]) -> Sieve {
        let bits = (members.len() * SIEVE_BITS_PER_VALUE)
            .next_power_of_two()
            .max(64);
        let mut sieve = Sieve {
            words: vec![0; bits / 64],
            shift: 64 - bits.trailing_zeros(),
        };
        for member in members {
            let bit = hash(*member, sieve.shift);
            sieve.words[bit / 64] |= 1 << (bit % 64);
        }
        sieve
    }

    /// Keeps the rows of `mask` whose value, `offset` more than in `values`, may be a member. Bits are read
    /// without a branch, which would be unpredictable.
    #[inline(always)]
    fn retain(&self, values: &[u64], offset: u64, mask: &mut Mask) {
        for (word, values) in mask.0.iter_mut().zip(values.chunks(64)) {
            if word.count_ones() > ROWS_PROBED {
                *word &= found(values, |value| self.bit(value.wrapping_add(offset)));
            }
        }
    }

    /// The lowest bit is set for every member.
    #[inline(always)]
    fn bit(&self, value: u64) -> u64 {
        let bit = hash(value, self.shift);
        self.words[bit / 64] >> (bit % 64)
    }
}

/// Multiplicative hashing: the high bits of the product are well mixed.
#[inline(always)]
fn hash(value: u64, shift: u32) -> usize {
    (value.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> shift) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bits::Level;
    use proptest::prelude::*;

    fn any_values() -> impl Strategy<Value = Vec<u64>> {
        prop_oneof![
            proptest::collection::vec(any::<u64>(), 0..50),
            proptest::collection::vec(1000_u64..1200, 0..50),
            proptest::collection::vec(prop_oneof![Just(0), Just(u64::MAX), 5_u64..70], 0..9),
        ]
    }

    proptest! {
        #[test]
        fn membership_and_windows_agree_with_the_list(
            values in any_values(), probe: u64, low in 0_u64..1300, bits in 1_usize..300
        ) {
            let set = OrdinalSet::new(values.clone());
            prop_assert_eq!(set.contains(probe), values.contains(&probe));
            for &value in &values {
                prop_assert!(set.contains(value));
                let next = value.wrapping_add(1);
                prop_assert_eq!(set.contains(next), values.contains(&next));
            }
            let high = low + bits as u64 - 1;
            let within: Vec<u64> = (low..=high).filter(|value| values.contains(value)).collect();
            prop_assert_eq!(set.within(low, high), &within);
            let (none, all) = (within.is_empty(), within.len() == bits);
            prop_assert_eq!(set.none_or_all(low, high), (none, all));
            for most in [0, within.len().saturating_sub(1), within.len(), 99] {
                let few = (within.len() <= most).then_some(&within[..]);
                prop_assert_eq!(set.few_within(low, high, most), few);
            }
            let mut window = vec![7];
            set.window(low, bits, &mut window);
            prop_assert_eq!(window.len(), bits.div_ceil(64));
            for bit in 0..bits {
                let found = window[bit / 64] >> (bit % 64) & 1 == 1;
                prop_assert_eq!(found, values.contains(&(low + bit as u64)));
            }
        }
    }

    proptest! {
        #[test]
        fn of_a_block_the_members_are_kept(
            members in any_values(), others in proptest::collection::vec(0_u64..1300, 1..200),
            offset: u64, among in any::<[u64; 4]>(),
        ) {
            let values: Vec<u64> = members.iter().chain(&others).copied().collect();
            let mut mask = Mask::first(values.len());
            // Some words dense, some sparse.
            for (word, among) in mask.0.iter_mut().zip(among) {
                *word &= if among % 2 == 0 { among } else { 1 << (among >> 58) };
            }
            let stored: Vec<u64> = values.iter().map(|value| value.wrapping_sub(offset)).collect();
            let row = |row: &usize| mask.0[row / 64] >> (row % 64) & 1 == 1;
            let expected = (0..values.len()).filter(row).filter(|row| members.contains(&values[*row]));
            let expected: Vec<usize> = expected.collect();
            let set = OrdinalSet::new(members.clone());
            for kernels in Level::available().filter_map(Kernels::at) {
                let mut kept = mask;
                set.retain_members(kernels, &stored, offset, &mut kept);
                prop_assert!(kept.iter().eq(expected.iter().copied()), "{}", kernels.level());
            }
        }
    }

    #[test]
    fn a_dense_range_is_a_bitmap_and_a_sparse_one_is_not() {
        let is_bitmap =
            |values: Vec<u64>| matches!(OrdinalSet::new(values).members, Members::Bitmap(_));
        assert!(is_bitmap((0..10_000).map(|i| i * 100).collect()));
        assert!(!is_bitmap((0..10_000).map(|i| i * 100_000).collect()));
        assert!(!is_bitmap(vec![0, u64::MAX]));
        assert!(is_bitmap(vec![u64::MAX]));
    }
}
