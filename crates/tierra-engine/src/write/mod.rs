//! Writing rows: appends and loads, their encoding, and the one thread that commits.

pub(crate) mod append;
pub(crate) mod change;
pub(crate) mod column_source;
pub(crate) mod encode;
pub(crate) mod keys;
pub(crate) mod loader;
mod next_version;
pub(crate) mod pending;
pub(crate) mod writer;
