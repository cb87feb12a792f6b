//! Inverted indexes: they list the rows of a value, so that these need not be scanned for.
//!
//! An index belongs to a table's column, not to its chunks: looking up 10,000 values in each of a hundred segments would be a
//! million lookups. It consists of *parts*, which are immutable like everything in far memory. Each has the postings of some
//! segments in one generation of the column's dictionary ([`part`]). The writer builds parts in the background
//! (`write/writer/index.rs`), joins small ones so that their number stays logarithmic, and rebuilds them after a dictionary merge
//! or when they are damaged.
//!
//! Invariant: a part lists all rows of its segments or none. Rows without a part are scanned, so an answer never depends on the
//! parts.

mod part;

use std::sync::Arc;

pub(crate) use part::{InvertedPart, PartRows};

/// The parts of all columns of a table. Those of one column cover different segments.
pub(crate) type InvertedParts = Arc<[Arc<InvertedPart>]>;
