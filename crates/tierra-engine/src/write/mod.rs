//! Writing rows: appends and loads, their encoding, and the one thread that commits.

pub(crate) mod append;
pub(crate) mod column_source;
pub(crate) mod encode;
pub(crate) mod keys;
pub(crate) mod loader;
pub(crate) mod writer;
