//! The keys of one database.

use tierra_index::RecordTable;

use super::expiry_queue::ExpiryQueue;

/// The number of a database.
pub type DbId = u8;

/// How many databases there are, as in Redis by default.
pub const DATABASES: usize = 16;

/// The keys of one database.
pub(super) struct Table {
    pub(super) records: RecordTable,
    pub(super) expiries: ExpiryQueue,
    /// Keys that expire.
    pub(super) expiring: usize,
}

impl Table {
    pub(super) fn new(records: RecordTable) -> Table {
        Table {
            records,
            expiries: ExpiryQueue::default(),
            expiring: 0,
        }
    }

    /// Empty ones for all databases, in the memory that this one is in.
    pub(super) fn all_like(empty: &RecordTable) -> [Table; DATABASES] {
        std::array::from_fn(|_| Table::new(empty.empty_like()))
    }
}
