//! Sets of values for `IN`: a bitmap where the values lie close together, else sorted and hashed.
//!
//! A set keeps its values sorted in every case: block verdicts and narrowing to a block's range
//! are binary searches in them.

use arrow::array::Array;
use hashbrown::HashSet;

use crate::error::FilterError;
use crate::value::Value;

/// Distinct values of one kind.
#[derive(Debug, Clone, PartialEq)]
pub enum ValueSet {
    /// Of a type that maps to ordinals.
    Ordinals(OrdinalSet),
    /// DECIMALs beyond 18 digits, sorted.
    Wide(Vec<i128>),
    /// Strings: sorted, and hashed for membership.
    Bytes {
        /// In ascending order.
        sorted: Vec<Box<[u8]>>,
        /// The same, hashed.
        hashed: HashSet<Box<[u8]>>,
    },
}

/// A bitmap may spend this many bits on each value (a hashed value costs about as much).
const BITMAP_BITS_PER_VALUE: u64 = 128;
/// ... and in total never more than 1 MiB, so that it stays in a core's own cache.
const BITMAP_BITS_MAX: u64 = 1 << 23;

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
    Hash { slots: Vec<u64>, shift: u32 },
}

impl OrdinalSet {
    fn new(mut sorted: Vec<u64>) -> OrdinalSet {
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
            Members::Hash { slots, shift }
        };
        OrdinalSet { sorted, members }
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
            Members::Hash { slots, shift } => {
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

/// Multiplicative hashing: the high bits of the product are well mixed.
#[inline]
fn hash(value: u64, shift: u32) -> usize {
    (value.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> shift) as usize
}

impl ValueSet {
    /// A set of ordinals, in any order, repeated or not.
    pub fn ordinals(values: Vec<u64>) -> ValueSet {
        ValueSet::Ordinals(OrdinalSet::new(values))
    }

    /// A set of wide DECIMALs.
    pub fn wide(mut values: Vec<i128>) -> ValueSet {
        values.sort_unstable();
        values.dedup();
        ValueSet::Wide(values)
    }

    /// A set of strings.
    pub fn bytes(mut values: Vec<Box<[u8]>>) -> ValueSet {
        values.sort_unstable();
        values.dedup();
        ValueSet::Bytes {
            hashed: values.iter().cloned().collect(),
            sorted: values,
        }
    }

    /// The set of `values`, all of one kind (an empty list becomes an empty set of ordinals, which
    /// no filter keeps).
    ///
    /// # Errors
    /// [`FilterError::Type`] where kinds are mixed.
    pub fn new(values: Vec<Value>) -> Result<ValueSet, FilterError> {
        let kind = values.first().map_or("64-bit", Value::kind);
        let (mut ordinals, mut wide, mut bytes) = (Vec::new(), Vec::new(), Vec::new());
        for value in values {
            if value.kind() != kind {
                return Err(FilterError::Type {
                    filter: value.kind(),
                    column: kind.to_owned(),
                });
            }
            match value {
                Value::Ordinal(value) => ordinals.push(value),
                Value::Wide(value) => wide.push(value),
                Value::Bytes(value) => bytes.push(value),
            }
        }
        Ok(if !wide.is_empty() {
            ValueSet::wide(wide)
        } else if !bytes.is_empty() {
            ValueSet::bytes(bytes)
        } else {
            ValueSet::ordinals(ordinals)
        })
    }

    /// The set of an array's values, and whether a NULL was among them.
    ///
    /// # Errors
    /// [`FilterError::Type`] where no column has the array's type.
    pub fn of_array(array: &dyn Array) -> Result<(ValueSet, bool), FilterError> {
        let mut values = Vec::with_capacity(array.len());
        for row in 0..array.len() {
            match Value::of_array(array, row) {
                Some(value) => values.push(value),
                None if array.is_null(row) => {}
                None => {
                    return Err(FilterError::Type {
                        filter: "unsupported",
                        column: array.data_type().to_string(),
                    });
                }
            }
        }
        Ok((ValueSet::new(values)?, array.null_count() > 0))
    }

    /// Members.
    pub fn len(&self) -> usize {
        match self {
            ValueSet::Ordinals(set) => set.sorted.len(),
            ValueSet::Wide(sorted) => sorted.len(),
            ValueSet::Bytes { sorted, .. } => sorted.len(),
        }
    }

    /// Whether there are no members.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether `value` is a member; never for a value of another kind.
    pub fn contains(&self, value: &Value) -> bool {
        match (self, value) {
            (ValueSet::Ordinals(set), Value::Ordinal(value)) => set.contains(*value),
            (ValueSet::Wide(sorted), Value::Wide(value)) => sorted.binary_search(value).is_ok(),
            (ValueSet::Bytes { hashed, .. }, Value::Bytes(value)) => hashed.contains(value),
            _ => false,
        }
    }

    /// The members in ascending order.
    pub fn values(&self) -> Vec<Value> {
        match self {
            ValueSet::Ordinals(set) => set.sorted.iter().copied().map(Value::Ordinal).collect(),
            ValueSet::Wide(sorted) => sorted.iter().copied().map(Value::Wide).collect(),
            ValueSet::Bytes { sorted, .. } => sorted.iter().cloned().map(Value::Bytes).collect(),
        }
    }

    /// The members that `keep` accepts.
    pub(crate) fn retain(&self, keep: impl Fn(&Value) -> bool) -> ValueSet {
        let kept = self.values().into_iter().filter(keep).collect();
        ValueSet::new(kept).expect("members of one set are of one kind")
    }
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
            let ValueSet::Ordinals(set) = ValueSet::ordinals(values.clone()) else { unreachable!() };
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
