//! Sets of ordinals: a bitmap where they lie close together, else hashed, behind a sieve.

use crate::bits::Mask;

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
    /// Bit `value - sorted[0]`.
    Bitmap(Vec<u64>),
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
        let (Some(&first), Some(&last)) = (sorted.first(), sorted.last()) else {
            return OrdinalSet {
                sorted,
                members: Members::Bitmap(Vec::new()),
            };
        };
        let span = last - first;
        let budget =
            BITMAP_BITS_MAX.min((sorted.len() as u64).saturating_mul(BITMAP_BITS_PER_VALUE));
        let members = if span < budget {
            let mut bitmap = vec![0; span as usize / 64 + 1];
            for value in &sorted {
                let bit = (value - first) as usize;
                bitmap[bit / 64] |= 1 << (bit % 64);
            }
            Members::Bitmap(bitmap)
        } else {
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
            let sieve = Sieve::new(&sorted);
            Members::Hash {
                slots,
                shift,
                sieve,
            }
        };
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

    /// Whether `value` is a member.
    #[inline]
    pub fn contains(&self, value: u64) -> bool {
        let Some(&first) = self.sorted.first() else {
            return false;
        };
        match &self.members {
            Members::Bitmap(bitmap) => {
                let bit = value.wrapping_sub(first);
                bitmap
                    .get((bit / 64) as usize)
                    .is_some_and(|word| word >> (bit % 64) & 1 == 1)
            }
            Members::Hash { slots, shift, .. } => {
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

    /// Keeps the rows of `mask` whose value, `offset` more than in `values`, is a member. Bits are read without
    /// a branch, which would be unpredictable; what passes the sieve is looked up.
    pub(crate) fn retain_members(&self, values: &[u64], offset: u64, mask: &mut Mask) {
        let Some(&first) = self.sorted.first() else {
            *mask = Mask::none();
            return;
        };
        for (word, values) in mask.0.iter_mut().zip(values.chunks(64)) {
            let is_dense = word.count_ones() > ROWS_PROBED;
            match &self.members {
                Members::Bitmap(bitmap) if is_dense => {
                    let offset = offset.wrapping_sub(first);
                    *word &= found(values, |value| {
                        let bit = value.wrapping_add(offset);
                        let word = bitmap.get((bit / 64) as usize).copied();
                        word.unwrap_or(0) >> (bit % 64)
                    });
                    continue;
                }
                Members::Hash { sieve, .. } if is_dense => {
                    *word &= found(values, |value| sieve.bit(value.wrapping_add(offset)));
                }
                _ => {}
            }
            let mut rest = *word;
            while rest != 0 {
                let row = rest.trailing_zeros() as usize;
                rest &= rest - 1;
                let is_member = self.contains(values[row].wrapping_add(offset));
                *word &= !(u64::from(!is_member) << row);
            }
        }
    }

    /// The set as a bitmap of `bits` bits that starts at ordinal `low`, which the caller knows to
    /// be no greater than any member in reach; written over `out`.
    pub(crate) fn window(&self, low: u64, bits: usize, out: &mut Vec<u64>) {
        let words = bits.div_ceil(64);
        out.clear();
        match (&self.members, self.sorted.first()) {
            // Shift the bitmap word by word.
            (Members::Bitmap(bitmap), Some(&first)) if low >= first => {
                let start = low - first;
                let shift = (start % 64) as u32;
                let at = usize::try_from(start / 64).unwrap_or(usize::MAX);
                let word = |i: usize| bitmap.get(at.saturating_add(i)).copied().unwrap_or(0);
                out.extend((0..words).map(|i| {
                    let carried = if shift == 0 {
                        0
                    } else {
                        word(i + 1) << (64 - shift)
                    };
                    word(i) >> shift | carried
                }));
            }
            _ => {
                out.resize(words, 0);
                let high = low.saturating_add(bits as u64 - u64::from(bits > 0));
                for value in self.within(low, high) {
                    let bit = (value - low) as usize;
                    out[bit / 64] |= 1 << (bit % 64);
                }
            }
        }
    }
}

/// For each of 64 values at most, the lowest bit of what `bit` says.
#[inline]
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

    /// The lowest bit is set for every member.
    #[inline]
    fn bit(&self, value: u64) -> u64 {
        let bit = hash(value, self.shift);
        self.words[bit / 64] >> (bit % 64)
    }
}

/// Multiplicative hashing: the high bits of the product are well mixed.
#[inline]
fn hash(value: u64, shift: u32) -> usize {
    (value.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> shift) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
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
            let before = mask;
            let stored: Vec<u64> = values.iter().map(|value| value.wrapping_sub(offset)).collect();
            OrdinalSet::new(members.clone()).retain_members(&stored, offset, &mut mask);
            let row = |row: &usize| before.0[row / 64] >> (row % 64) & 1 == 1;
            let expected = (0..values.len()).filter(row).filter(|row| members.contains(&values[*row]));
            prop_assert!(mask.iter().eq(expected));
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
