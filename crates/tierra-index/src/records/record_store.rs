//! Access to the records that a table names.

/// The store of the records that a [`RecordTable`](super::RecordTable) names.
pub trait RecordStore {
    /// The first bytes of a record, as many as [`has_key`](Self::has_key) mostly needs: they are loaded before
    /// it is called. Not empty.
    fn head(&self, record: u64) -> &[u8];

    /// Whether `key` is the record's.
    fn has_key(&self, record: u64, key: &[u8]) -> bool;

    /// The hash of the record's key, the same as was given when it was inserted.
    fn hash(&self, record: u64) -> u64;
}
