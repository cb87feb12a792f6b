//! A filter in the terms of one chunk: what binding makes, and blocks are tested with.

use std::sync::Arc;

use crate::filter::{Bitmap, ResolvedFilter, ValueSet};

/// Up to this many members a set is tested one by one, a comparison of packed codes each.
pub(super) const MEMBERS_COMPARED: usize = 4;

/// A filter bound to one chunk. Made by [`Chunk::bind`](crate::Chunk::bind), of no use with another.
#[derive(Debug, Clone)]
pub struct BoundFilter {
    pub(crate) test: Test,
    pub(crate) matches_null: bool,
}

/// Which values pass, in the terms of the chunk.
#[derive(Debug, Clone)]
pub(crate) enum Test {
    Nothing,
    Everything,
    /// Of ordinals or dictionary codes: inclusive, sorted, disjoint.
    Ranges(Vec<(u64, u64)>),
    Set {
        values: Arc<ValueSet>,
        /// The members that the chunk may have, where the set itself keeps no bitmap.
        bitmap: Option<Arc<Bitmap>>,
        negated: bool,
    },
    /// A bit per stored code (of a dictionary, or static packing), NULL's included.
    Codes(Arc<[u64]>),
    /// Strings and wide DECIMALs, value by value.
    Values(ResolvedFilter),
}

impl Test {
    pub(super) fn of_ranges(ranges: Vec<(u64, u64)>) -> Test {
        match ranges[..] {
            [] => Test::Nothing,
            [(u64::MIN, u64::MAX)] => Test::Everything,
            _ => Test::Ranges(ranges),
        }
    }
}
