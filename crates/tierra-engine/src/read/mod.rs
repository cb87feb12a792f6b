//! Reading a snapshot: scans, alone and in batches, lookups by key and by row, and the rows that they return.

pub(crate) mod batch;
pub(crate) mod keys;
pub(crate) mod lookup;
pub(crate) mod rows;
pub(crate) mod scan;
