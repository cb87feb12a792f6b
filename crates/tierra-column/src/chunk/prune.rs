//! Which blocks a filter skips, or passes whole: by their minima, maxima and NULL counts alone.

use crate::chunk::bound::Test;
use crate::chunk::layout::BlockEntry;
use crate::chunk::{BoundFilter, Chunk};
use crate::filter::{OrdinalSet, ResolvedFilter, ValueSet};
use crate::ordinal;

/// What a block's minima, maxima and NULL count say about a filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// No row passes.
    Skip,
    /// Every row passes.
    All,
    /// The values decide.
    Test,
}

impl Chunk<'_> {
    /// What the directory says about a block: nothing of the block itself is read.
    ///
    /// # Panics
    /// If there is no such block.
    pub fn verdict(&self, bound: &BoundFilter, block: usize) -> Verdict {
        let entry = self.entry(block);
        let nulls = usize::from(entry.null_count);
        let all_null = nulls == self.block_rows(block);
        let (none, all) = if all_null {
            (true, true)
        } else {
            self.judge(&bound.test, &entry)
        };
        if none && (nulls == 0 || !bound.matches_null) {
            Verdict::Skip
        } else if all && (nulls == 0 || bound.matches_null) {
            Verdict::All
        } else {
            Verdict::Test
        }
    }

    /// Whether certainly no value, and whether certainly every value, of a block passes.
    fn judge(&self, test: &Test, &BlockEntry { min, max, .. }: &BlockEntry) -> (bool, bool) {
        match test {
            Test::Nothing => (true, false),
            Test::Everything => (false, true),
            Test::Ranges(ranges) => (
                ranges.iter().all(|&(low, high)| high < min || max < low),
                ranges.iter().any(|&(low, high)| low <= min && max <= high),
            ),
            Test::Set {
                values, negated, ..
            } => {
                let ValueSet::Ordinals(set) = &**values else {
                    return (false, false);
                };
                let (none, all) = set.none_or_all(min, max);
                if *negated { (all, none) } else { (none, all) }
            }
            Test::Codes(bitmap) => {
                let base = self.descriptor.base;
                count_bits(bitmap, min.wrapping_sub(base), max.wrapping_sub(base))
            }
            Test::Values(resolved) => (no_ordinal_passes(resolved, min, max), false),
        }
    }
}

/// Whether none, and whether all, of the bits `low..=high` are set; none is beyond the bitmap.
fn count_bits(bitmap: &[u64], low: u64, high: u64) -> (bool, bool) {
    let (mut none, mut all) = (true, (high / 64) < bitmap.len() as u64);
    for index in low / 64..(high / 64 + 1).min(bitmap.len() as u64) {
        let mut considered = u64::MAX;
        if index == low / 64 {
            considered &= u64::MAX << (low % 64);
        }
        if index == high / 64 {
            considered &= u64::MAX >> (63 - high % 64);
        }
        let word = bitmap[index as usize] & considered;
        none &= word == 0;
        all &= word == considered;
        // Asked once per block: a block whose codes span a large dictionary must not read it all.
        if !none && !all {
            break;
        }
    }
    (none, all)
}

/// Whether no value whose ordinal lies in `min..=max` can pass. Ordinals never decrease, so a value
/// between two others has an ordinal between theirs.
fn no_ordinal_passes(resolved: &ResolvedFilter, min: u64, max: u64) -> bool {
    use std::ops::Bound;
    let apart = |low: u64, high: u64| high < min || max < low;
    match resolved {
        ResolvedFilter::Wide(ranges) => ranges.iter().all(|&(low, high)| {
            apart(
                ordinal::of_i128_saturating(low),
                ordinal::of_i128_saturating(high),
            )
        }),
        ResolvedFilter::Bytes(ranges) => ranges.iter().all(|(low, high)| {
            let ordinal = |bound: &Bound<Box<[u8]>>, unbounded| match bound {
                Bound::Unbounded => unbounded,
                Bound::Included(value) | Bound::Excluded(value) => ordinal::of_prefix(value),
            };
            apart(ordinal(low, u64::MIN), ordinal(high, u64::MAX))
        }),
        ResolvedFilter::Set {
            values,
            negated: false,
        } => match &**values {
            ValueSet::Wide(sorted) => {
                no_member(sorted, min, max, |&v| ordinal::of_i128_saturating(v))
            }
            ValueSet::Bytes { sorted, .. } => {
                no_member(sorted, min, max, |v| ordinal::of_prefix(v))
            }
            ValueSet::Ordinals(set) => OrdinalSet::within(set, min, max).is_empty(),
        },
        _ => false,
    }
}

/// Whether no member of a sorted set has its ordinal in `min..=max`.
fn no_member<T>(sorted: &[T], min: u64, max: u64, ordinal: impl Fn(&T) -> u64) -> bool {
    let first = sorted.partition_point(|value| ordinal(value) < min);
    sorted.get(first).is_none_or(|value| ordinal(value) > max)
}
