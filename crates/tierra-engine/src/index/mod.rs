//! Indexes of a table, stored beside its segments: inverted indexes of columns, and the index of a primary key.

pub(crate) mod inverted;
pub(crate) mod key;
