//! Rows of a key in a hash table.

use tierra_index::HashIndex;
use tierra_interleave::{Cx, Plain, run_plain};

use crate::manifest::row_id::RowId;

/// Every row of a table whose key has this normalized key.
pub(crate) fn rows_in(table: &HashIndex, normalized_key: u64) -> impl Iterator<Item = RowId> {
    let mut candidates = table.candidates(normalized_key);
    std::iter::from_fn(move || run_plain(|cx: Cx<Plain>| candidates.next(cx)))
        .map(RowId::from_number)
}
