//! A filter in the codes of one dictionary: made once per scan, bound to any number of chunks.
//!
//! Looking the values of an IN-list up in a dictionary is the expensive part of such a filter and the same
//! for every chunk that uses the dictionary, so the chunks share the result.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use tierra_interleave::Lookups;

use super::bound::Test;
use crate::dictionary::{CodeSet, Dictionary, bitmap_of, clear_beyond};
use crate::error::FilterError;
use crate::filter::{Filter, ResolvedFilter};

/// With more ranges than this, one pass over a bitmap beats a pass per range.
const RANGES_MAX: usize = 3;

/// A [`Filter`] on the values of a dictionary, as one on its codes. Made by
/// [`Dictionary::code_filter`], bound by [`Chunk::bind_codes`](crate::Chunk::bind_codes).
#[derive(Debug)]
pub struct CodeFilter {
    pub(super) generation: u64,
    pub(super) matches_null: bool,
    matching: MatchingCodes,
}

/// The codes that pass.
#[derive(Debug)]
enum MatchingCodes {
    /// Inclusive, sorted, disjoint.
    Ranges(Vec<(u64, u64)>),
    Scattered(ScatteredCodes),
}

/// Codes in many ranges.
#[derive(Debug)]
struct ScatteredCodes {
    /// In ascending order; `None` where the bitmap came first.
    list: Option<Vec<u32>>,
    /// Values of the dictionary.
    values: usize,
    /// A bit per code; made by the first chunk that is tested.
    bitmap: OnceLock<Arc<[u64]>>,
    /// The same after a bit for NULL, for chunks whose code 0 is NULL.
    with_null_bit: OnceLock<Arc<[u64]>>,
}

impl Dictionary {
    /// `filter` in the codes of this dictionary. The values of a set are looked up one by one, as
    /// `lookups` says.
    ///
    /// # Errors
    /// [`FilterError`] where the filter is on values of another type, or on the codes of another
    /// generation.
    pub fn code_filter(
        &self,
        filter: &Filter,
        lookups: &mut Lookups,
    ) -> Result<CodeFilter, FilterError> {
        let resolved = ResolvedFilter::new(filter, self.logical_type())?;
        CodeFilter::new(&resolved, filter.matches_null, self, lookups)
    }
}

impl CodeFilter {
    pub(super) fn new(
        resolved: &ResolvedFilter,
        matches_null: bool,
        dictionary: &Dictionary,
        lookups: &mut Lookups,
    ) -> Result<CodeFilter, FilterError> {
        let codes = match resolved {
            ResolvedFilter::Codes { generation, bitmap } => {
                if *generation != dictionary.generation() {
                    return Err(FilterError::Codes {
                        filter: *generation,
                        column: format!("dictionary generation {}", dictionary.generation()),
                    });
                }
                // Codes beyond the bitmap do not pass, codes beyond the dictionary do not exist.
                let mut codes = vec![0; dictionary.len().div_ceil(64)];
                for (word, bits) in codes.iter_mut().zip(bitmap.iter()) {
                    *word = *bits;
                }
                clear_beyond(&mut codes, dictionary.len());
                CodeSet::Bitmap(codes)
            }
            resolved => dictionary.matching_codes(resolved, lookups),
        };
        Ok(CodeFilter {
            generation: dictionary.generation(),
            matches_null,
            matching: MatchingCodes::new(codes, dictionary.len()),
        })
    }

    /// The generation of the dictionary whose codes these are.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Whether a NULL row passes.
    pub fn matches_null(&self) -> bool {
        self.matches_null
    }

    /// Whether the codes that pass lie in few ranges, which are tested faster than a bitmap.
    pub fn are_ranges(&self) -> bool {
        matches!(self.matching, MatchingCodes::Ranges(_))
    }

    /// How many codes pass. Reads a bit per value of the dictionary where they are many.
    pub fn count(&self) -> u64 {
        match &self.matching {
            MatchingCodes::Ranges(ranges) => ranges.iter().map(|(low, high)| high - low + 1).sum(),
            MatchingCodes::Scattered(codes) => match &codes.list {
                Some(list) => list.len() as u64,
                None => {
                    let words = codes.bitmap().iter();
                    words.map(|word| u64::from(word.count_ones())).sum()
                }
            },
        }
    }

    /// The codes that pass, ascending, if they are `most` at most.
    pub fn codes(&self, most: usize) -> Option<Cow<'_, [u32]>> {
        match &self.matching {
            MatchingCodes::Ranges(ranges) => {
                let codes = || ranges.iter().flat_map(|&(low, high)| low..=high);
                (self.count() <= most as u64).then(|| codes().map(|code| code as u32).collect())
            }
            MatchingCodes::Scattered(codes) => codes.codes(most),
        }
    }

    /// The test of a chunk, whose code 0 may stand for NULL.
    pub(super) fn test(&self, null_is_a_code: bool) -> Test {
        match &self.matching {
            MatchingCodes::Ranges(ranges) => Test::of_ranges(ranges.clone()),
            MatchingCodes::Scattered(codes) if !null_is_a_code => {
                Test::Codes(Arc::clone(codes.bitmap()))
            }
            MatchingCodes::Scattered(codes) => Test::Codes(codes.with_null_bit(self.matches_null)),
        }
    }
}

impl MatchingCodes {
    fn new(codes: CodeSet, values: usize) -> MatchingCodes {
        let found = match &codes {
            CodeSet::Listed(codes) => joined(codes.iter().map(|code| {
                let code = u64::from(*code);
                (code, code)
            })),
            CodeSet::Bitmap(bitmap) => joined(Runs::new(bitmap)),
        };
        if let Some(ranges) = found {
            return MatchingCodes::Ranges(ranges);
        }
        let bitmap = OnceLock::new();
        let list = match codes {
            CodeSet::Listed(codes) => Some(codes),
            CodeSet::Bitmap(codes) => {
                bitmap.get_or_init(|| codes.into());
                None
            }
        };
        MatchingCodes::Scattered(ScatteredCodes {
            list,
            values,
            bitmap,
            with_null_bit: OnceLock::new(),
        })
    }
}

impl ScatteredCodes {
    fn bitmap(&self) -> &Arc<[u64]> {
        let of_list = || bitmap_of(self.list.as_deref().unwrap_or(&[]), self.values).into();
        self.bitmap.get_or_init(of_list)
    }

    fn with_null_bit(&self, matches_null: bool) -> Arc<[u64]> {
        let shifted = || {
            let codes = self.bitmap();
            let mut shifted = Vec::with_capacity(codes.len() + 1);
            let mut carried = u64::from(matches_null);
            for word in codes.iter() {
                shifted.push(word << 1 | carried);
                carried = word >> 63;
            }
            shifted.push(carried);
            shifted.into()
        };
        Arc::clone(self.with_null_bit.get_or_init(shifted))
    }

    fn codes(&self, most: usize) -> Option<Cow<'_, [u32]>> {
        if let Some(list) = &self.list {
            return (list.len() <= most).then_some(Cow::Borrowed(list));
        }
        let mut codes = Vec::new();
        for (low, high) in Runs::new(self.bitmap()) {
            if codes.len() as u64 + (high - low) >= most as u64 {
                return None;
            }
            codes.extend((low..=high).map(|code| code as u32));
        }
        Some(Cow::Owned(codes))
    }
}

/// Neighbouring intervals joined, unless many are left.
fn joined(runs: impl Iterator<Item = (u64, u64)>) -> Option<Vec<(u64, u64)>> {
    let mut found: Vec<(u64, u64)> = Vec::with_capacity(RANGES_MAX);
    for (low, high) in runs {
        let count = found.len();
        match found.last_mut() {
            Some((_, last)) if *last + 1 == low => *last = high,
            _ if count == RANGES_MAX => return None,
            _ => found.push((low, high)),
        }
    }
    Some(found)
}

/// A bitmap's runs of ones within words, as inclusive intervals, ascending.
struct Runs<'a> {
    bitmap: &'a [u64],
    index: usize,
    rest: u64,
}

impl<'a> Runs<'a> {
    fn new(bitmap: &'a [u64]) -> Self {
        Runs {
            bitmap,
            index: 0,
            rest: bitmap.first().copied().unwrap_or(0),
        }
    }
}

impl Iterator for Runs<'_> {
    type Item = (u64, u64);

    fn next(&mut self) -> Option<(u64, u64)> {
        while self.rest == 0 {
            self.index += 1;
            self.rest = *self.bitmap.get(self.index)?;
        }
        let start = self.rest.trailing_zeros();
        let ones = (self.rest >> start).trailing_ones();
        self.rest &= u64::MAX.checked_shl(start + ones).unwrap_or(0);
        let low = self.index as u64 * 64 + u64::from(start);
        Some((low, low + u64::from(ones) - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(codes: CodeSet, values: usize) -> CodeFilter {
        CodeFilter {
            generation: 1,
            matches_null: false,
            matching: MatchingCodes::new(codes, values),
        }
    }

    #[test]
    fn codes_are_listed_up_to_the_limit_whatever_they_came_as() {
        let values = 1000;
        for codes in [
            vec![],
            vec![999],
            vec![63, 64],
            (60..70).collect(),
            vec![1, 3, 5, 7],
            vec![0, 2, 4, 128, 129, 130],
        ] {
            let list = filter(CodeSet::Listed(codes.clone()), values);
            let bits = filter(CodeSet::Bitmap(bitmap_of(&codes, values)), values);
            for filter in [list, bits] {
                assert_eq!(filter.codes(codes.len()).as_deref(), Some(&codes[..]));
                assert_eq!(filter.codes(values).as_deref(), Some(&codes[..]));
                assert_eq!(filter.count(), codes.len() as u64);
                if !codes.is_empty() {
                    assert_eq!(filter.codes(codes.len() - 1), None, "{codes:?}");
                }
            }
        }
    }
}
