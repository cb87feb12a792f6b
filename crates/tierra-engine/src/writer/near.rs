//! Near copies of segments, made after they were opened or committed where they lie: nobody waits for
//! a copy.
//!
//! Invariant: the rows stay the same, and snapshots go on with the segment that they have.

use std::sync::Arc;

use crate::storage::Storage;
use crate::table::Table;
use crate::version::TableVersion;

/// Replaces a segment by itself with near copies, if the budget has room and it is still there.
pub(super) fn copy(storage: &Storage, table: &Arc<Table>, segment: u32) {
    if storage.is_closing() || storage.budget.used() >= storage.budget.limit() {
        return;
    }
    let current = table.current();
    let found = current
        .segments
        .binary_search_by_key(&segment, |segment| segment.id());
    let Ok(at) = found else { return };
    let mut segments = current.segments.to_vec();
    let copied = storage.whole(|| segments[at].with_near_copies(table.spec(), &storage.budget));
    match copied.unwrap_or_else(|error| Err(error.into())) {
        Ok(copied) => segments[at] = copied,
        Err(error) => {
            // The far chunks were opened before; reading them goes on.
            tracing::warn!(table = %table.spec().name, segment, %error, "no near copy was made");
            return;
        }
    }
    table.publish(TableVersion {
        segments: segments.into(),
        dictionaries: current.dictionaries.clone(),
        indexes: current.indexes.clone(),
        tail: current.tail.clone(),
        keys: current.keys.next(None),
    });
}
