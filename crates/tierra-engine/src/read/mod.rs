//! Reading a snapshot: scans, alone and in batches, lookups by key and by row, the replica that suits a reader, and the rows that they return.

pub(crate) mod batch;
pub(crate) mod keys;
pub(crate) mod lookup;
pub(crate) mod replicas;
pub(crate) mod rows;
pub(crate) mod scan;
