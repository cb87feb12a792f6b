//! Filters in a chunk's own domain, and which of them the directory alone decides for a block.
//!
//! Binding costs work once per chunk so that blocks need none: bounds become ordinals (or codes of
//! the dictionary), predicates on dictionary values become a bitmap over stored codes or, where
//! the bits form few stretches, intervals of codes again, which are cheaper to test ([`CodeFilter`]).

use std::sync::Arc;

use tierra_interleave::{Lookups, Scheduling};

use crate::chunk::bound::{MEMBERS_COMPARED, Test};
use crate::chunk::layout::{BlockEntry, Descriptor};
use crate::chunk::{BoundFilter, Chunk, CodeFilter};
use crate::dictionary::{Dictionary, clear_beyond};
use crate::error::{FilterError, FormatError};
use crate::filter::{Bitmap, Filter, OrdinalSet, ResolvedFilter, ValueSet};
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

/// Where codes have one base, sets are turned into bitmaps of up to this many bits, 32 KiB: they stay in a core's cache.
const STATIC_SET_WIDTH: u8 = 18;

/// A hashed set is turned into a bitmap for a chunk if that takes at most so many bits for each row, since making it is a
/// part of reading the chunk.
const SET_BITS_PER_ROW: u64 = 8;
/// ... and at most 1 MiB: it stays in a core's second cache.
const SET_BITS_MAX: u64 = 1 << 23;

impl Chunk<'_> {
    /// Translates `filter` into the chunk's domain. `dictionary` is the column's; only dictionary
    /// chunks look at it, and for many of them [`Dictionary::code_filter`] does so once.
    ///
    /// # Errors
    /// [`FilterError`] where the filter is on values of another type, on codes but the chunk is
    /// not (or of another generation), or the chunk's dictionary is missing or another one.
    pub fn bind(
        &self,
        filter: &Filter,
        dictionary: Option<&Dictionary>,
        scheduling: impl Into<Scheduling>,
    ) -> Result<BoundFilter, FilterError> {
        let resolved = ResolvedFilter::new(filter, self.logical_type())?;
        let is_dictionary = self.encoding().uses_dictionary();
        let test = match resolved {
            ResolvedFilter::Nothing => Test::Nothing,
            ResolvedFilter::Everything => Test::Everything,
            // The column may have no dictionary yet.
            _ if is_dictionary && self.is_all_null() => Test::Nothing,
            resolved if is_dictionary => {
                let dictionary = self.dictionary(dictionary)?;
                let lookups = &mut Lookups::new(scheduling);
                let codes = CodeFilter::new(&resolved, filter.matches_null, dictionary, lookups)?;
                return self.bind_codes(&codes);
            }
            ResolvedFilter::Codes { generation, .. } => {
                return Err(FilterError::Codes {
                    filter: generation,
                    column: format!("a chunk with encoding {}", self.encoding()),
                });
            }
            ResolvedFilter::Ordinals(ranges) => Test::of_ranges(ranges),
            ResolvedFilter::Set { values, negated } if matches!(*values, ValueSet::Ordinals(_)) => {
                let codes = self.static_set(&values, negated, filter.matches_null);
                codes.unwrap_or_else(|| Test::Set {
                    bitmap: self.set_bitmap(&values),
                    values,
                    negated,
                })
            }
            resolved => Test::Values(resolved),
        };
        Ok(BoundFilter {
            test,
            matches_null: filter.matches_null,
        })
    }

    /// The dictionary the chunk's codes belong to.
    pub(crate) fn dictionary<'d>(
        &self,
        dictionary: Option<&'d Dictionary>,
    ) -> Result<&'d Dictionary, FormatError> {
        let needed = self.descriptor.generation;
        dictionary
            .filter(|dictionary| dictionary.generation() == needed)
            .ok_or(FormatError::Generation {
                needed,
                given: dictionary.map(Dictionary::generation),
            })
    }

    /// [`Chunk::bind`] of a filter that was looked up in the chunk's dictionary already.
    ///
    /// # Errors
    /// [`FilterError`] where the chunk has another encoding, or codes of another dictionary.
    pub fn bind_codes(&self, filter: &CodeFilter) -> Result<BoundFilter, FilterError> {
        if !self.encoding().uses_dictionary() {
            return Err(FilterError::Codes {
                filter: filter.generation,
                column: format!("a chunk with encoding {}", self.encoding()),
            });
        }
        let needed = self.descriptor.generation;
        if filter.generation != needed {
            let given = Some(filter.generation);
            return Err(FormatError::Generation { needed, given }.into());
        }
        Ok(BoundFilter {
            test: filter.test(self.descriptor.null_codes() > 0),
            matches_null: filter.matches_null,
        })
    }

    /// A set as a bit per stored code, where one base serves the whole chunk and few codes do:
    /// blocks then need not cut their own piece out of the set.
    fn static_set(&self, values: &ValueSet, negated: bool, matches_null: bool) -> Option<Test> {
        let Descriptor {
            width,
            base,
            min,
            max,
            ..
        } = self.descriptor;
        let ValueSet::Ordinals(set) = values else {
            return None;
        };
        let members = set.within(min, max);
        if !self.descriptor.has_one_base()
            || width > STATIC_SET_WIDTH
            || members.len() <= MEMBERS_COMPARED
        {
            return None;
        }
        let codes = max.wrapping_sub(base) as usize + 1;
        let mut bitmap = vec![0_u64; codes.div_ceil(64)];
        for member in members {
            let code = member.wrapping_sub(base) as usize;
            bitmap[code / 64] |= 1 << (code % 64);
        }
        if negated {
            bitmap.iter_mut().for_each(|word| *word = !*word);
            clear_beyond(&mut bitmap, codes);
        }
        if self.descriptor.null_codes() > 0 {
            bitmap[0] = bitmap[0] & !1 | u64::from(matches_null);
        }
        Some(Test::Codes(bitmap.into()))
    }

    /// A hashed set as a bitmap of the members that the chunk may have, if they lie closely enough for its rows:
    /// bits of codes are tested in registers, hashed members one by one.
    fn set_bitmap(&self, values: &ValueSet) -> Option<Arc<Bitmap>> {
        let Descriptor { min, max, rows, .. } = self.descriptor;
        let ValueSet::Ordinals(set) = values else {
            return None;
        };
        if !self.descriptor.has_codes() || set.bitmap().is_some() {
            return None;
        }
        let members = set.within(min, max);
        let (first, last) = (members.first()?, members.last()?);
        let bits_max = SET_BITS_MAX.min(u64::from(rows) * SET_BITS_PER_ROW);
        let pays = members.len() > MEMBERS_COMPARED
            && members.len() <= rows as usize
            && last - first < bits_max;
        pays.then(|| Bitmap::new(members).map(Arc::new)).flatten()
    }

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
