//! A filter in the codes of one dictionary: made once per scan, bound to any number of chunks.
//!
//! Looking the values of an IN-list up in a dictionary is the dear part of such a filter and the same
//! for every chunk that uses the dictionary; what is left to do per chunk is to share the result.

use std::sync::{Arc, OnceLock};

use tierra_interleave::Lookups;

use super::bind::Test;
use crate::dictionary::{Dictionary, clear_beyond};
use crate::error::FilterError;
use crate::filter::{Filter, Resolved};

/// With more stretches than this, one pass over a bitmap beats a pass per stretch.
const RANGES_MAX: usize = 3;

/// A [`Filter`] on the values of a dictionary, as one on its codes. Made by
/// [`Dictionary::code_filter`], bound by [`Chunk::bind_codes`](crate::Chunk::bind_codes).
#[derive(Debug)]
pub struct CodeFilter {
    pub(super) generation: u64,
    pub(super) matches_null: bool,
    passing: Passing,
}

/// The codes that pass.
#[derive(Debug)]
enum Passing {
    /// Inclusive, sorted, disjoint.
    Stretches(Vec<(u64, u64)>),
    Bitmap {
        /// A bit per code.
        codes: Arc<[u64]>,
        /// The same behind a bit for NULL, for chunks whose code 0 that is; made by the first.
        behind_null: OnceLock<Arc<[u64]>>,
    },
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
        let resolved = Resolved::new(filter, self.logical_type())?;
        CodeFilter::new(&resolved, filter.matches_null, self, lookups)
    }
}

impl CodeFilter {
    pub(super) fn new(
        resolved: &Resolved,
        matches_null: bool,
        dictionary: &Dictionary,
        lookups: &mut Lookups,
    ) -> Result<CodeFilter, FilterError> {
        let codes = match resolved {
            Resolved::Codes { generation, bitmap } => {
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
                codes
            }
            resolved => dictionary.matching_codes(resolved, lookups),
        };
        let passing = match stretches(&codes, dictionary.len()) {
            Some(stretches) => Passing::Stretches(stretches),
            None => Passing::Bitmap {
                codes: codes.into(),
                behind_null: OnceLock::new(),
            },
        };
        Ok(CodeFilter {
            generation: dictionary.generation(),
            matches_null,
            passing,
        })
    }

    /// The test of a chunk, whose code 0 may stand for NULL.
    pub(super) fn test(&self, null_is_a_code: bool) -> Test {
        match &self.passing {
            Passing::Stretches(stretches) => Test::of_ranges(stretches.clone()),
            Passing::Bitmap { codes, .. } if !null_is_a_code => Test::Codes(Arc::clone(codes)),
            Passing::Bitmap { codes, behind_null } => {
                let shifted = || {
                    let mut shifted = Vec::with_capacity(codes.len() + 1);
                    let mut carried = u64::from(self.matches_null);
                    for word in codes.iter() {
                        shifted.push(word << 1 | carried);
                        carried = word >> 63;
                    }
                    shifted.push(carried);
                    shifted.into()
                };
                Test::Codes(Arc::clone(behind_null.get_or_init(shifted)))
            }
        }
    }
}

/// The bitmap's stretches of ones as code intervals, unless there are many.
fn stretches(codes: &[u64], len: usize) -> Option<Vec<(u64, u64)>> {
    let mut found: Vec<(u64, u64)> = Vec::with_capacity(RANGES_MAX);
    for (index, &word) in codes.iter().enumerate() {
        let mut rest = word;
        while rest != 0 {
            let start = rest.trailing_zeros();
            let ones = (rest >> start).trailing_ones();
            let low = index as u64 * 64 + u64::from(start);
            let high = low + u64::from(ones) - 1;
            let count = found.len();
            match found.last_mut() {
                Some((_, last)) if *last + 1 == low => *last = high,
                _ if count == RANGES_MAX => return None,
                _ => found.push((low, high)),
            }
            rest &= u64::MAX.checked_shl(start + ones).unwrap_or(0);
        }
    }
    debug_assert!(found.last().is_none_or(|&(_, high)| high < len as u64));
    Some(found)
}
