//! Filters in a chunk's own domain.
//!
//! Binding costs work once per chunk so that blocks need none: bounds become ordinals (or codes of
//! the dictionary), predicates on dictionary values become a bitmap over stored codes or, where
//! the bits form few stretches, intervals of codes again, which are cheaper to test ([`CodeFilter`]).

use std::sync::Arc;

use tierra_interleave::{Lookups, Scheduling};

use crate::chunk::bound::{MEMBERS_COMPARED, Test};
use crate::chunk::layout::Descriptor;
use crate::chunk::{BoundFilter, Chunk, CodeFilter};
use crate::dictionary::{Dictionary, clear_beyond};
use crate::error::{FilterError, FormatError};
use crate::filter::{Bitmap, Filter, ResolvedFilter, ValueSet};

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
}
