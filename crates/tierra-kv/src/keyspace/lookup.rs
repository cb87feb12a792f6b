//! Single lookups in a table, and scans of it in steps.

use tierra_index::{EntryHandle, RecordTable, Resolved};
use tierra_interleave::{Cx, Execution, GroupSize, for_each};
use tierra_memory::in_mode;

use super::heap::Heap;

/// Where a key of a table is, found by itself.
#[inline]
pub(super) fn look_up_one(table: &RecordTable, heap: &Heap, hash: u64, key: &[u8]) -> EntryHandle {
    let mut found = None;
    in_mode!(Execution::Plain, M => for_each(
        GroupSize::DEFAULT,
        [()],
        |cx: Cx<M>, ()| table.find(cx, hash, key, heap),
        |_, handle| found = Some(handle),
    ));
    found.expect("one lookup, one answer")
}

/// The entry of a key in a table, found by itself.
pub(super) fn look_up(table: &RecordTable, heap: &Heap, key: &[u8]) -> Option<(EntryHandle, u64)> {
    let hash = heap.hash_of(key);
    let handle = look_up_one(table, heap, hash, key);
    match table.resolve(&handle) {
        Resolved::Record(record) => Some((handle, record)),
        _ => None,
    }
}

/// Calls `each` with about `count` records of a table from a cursor on, and returns the next cursor.
pub(super) fn scan_table(
    table: &RecordTable,
    heap: &Heap,
    mut cursor: u64,
    count: usize,
    mut each: impl FnMut(u64),
) -> u64 {
    let (mut returned, mut homes) = (0, 0);
    loop {
        cursor = table.scan(cursor, heap, |record| {
            returned += 1;
            each(record);
        });
        homes += 1;
        // In a table that has become nearly empty, many home groups would have to be visited.
        if cursor == 0 || returned >= count || homes >= count.saturating_mul(10) {
            return cursor;
        }
    }
}
