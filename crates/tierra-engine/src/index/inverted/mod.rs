//! Inverted indexes: which rows hold a value, asked instead of scanned.
//!
//! An index belongs to a table's column, not to its chunks: looking 10,000 values up in each of a
//! hundred segments would be a million lookups. It consists of *parts*, immutable as everything on
//! far memory, each with the postings of some segments in one generation of the column's
//! dictionary ([`part`]). The writer makes them in the background (`write/writer/index.rs`), joins small
//! ones so that their number stays logarithmic, and makes them anew after a dictionary merge, or where
//! one is damaged.
//!
//! Invariant: a part lists all rows of its segments or none; rows that no part covers are scanned, so
//! an answer never depends on which parts there are.

mod part;

use std::sync::Arc;

pub(crate) use part::{InvertedPart, PartRows};

/// The parts of all columns of a table. Those of one column cover different segments.
pub(crate) type InvertedParts = Arc<[Arc<InvertedPart>]>;
