//! Rows found first and read later: by their ids, in groups of interleaved look-ups.

mod reader;

pub(crate) use reader::{LookupWork, RowReader, RowSource};
