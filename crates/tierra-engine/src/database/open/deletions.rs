//! The deleted rows of a table: the bitmaps that its manifest names, and what its log deletes on top of them.
//!
//! Invariant: every row that is deleted exists and is deleted once. A bitmap that no copy has makes its table unavailable: its
//! rows never come back.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::tables::{copy_of, range};
use crate::deleted::row_ids::RowIds;
use crate::deleted::{DeletedRows, Deletions, image};
use crate::error::{DamageError, UnavailableError};
use crate::integrity::repair;
use crate::manifest::{DeletedEntry, TableEntry};
use crate::storage::extent::OwnedExtent;
use crate::tail::Tail;
use crate::write::writer::Published;

/// The bitmaps of a table.
pub(super) struct StoredDeletions {
    pub(super) deletions: Deletions,
    /// Segments whose bitmap cannot be read.
    pub(super) lost: BTreeSet<u32>,
    /// Why one of them cannot.
    pub(super) error: Option<DamageError>,
}

/// Reads the bitmaps, each from the first right copy. Other copies are repaired.
pub(super) fn stored(published: &Published, entry: &TableEntry) -> StoredDeletions {
    let (mut lost, mut error) = (BTreeSet::new(), None);
    let mut read = |(id, deleted): (&u32, &DeletedEntry)| {
        let extent = published.extent(deleted.place.extent);
        let rows = match extent {
            Some(extent) => bitmap(entry, *id, deleted, extent),
            None => Err(DamageError::NoCopy {
                extent: deleted.place.extent.0,
            }),
        };
        match rows {
            Ok(rows) => Some((*id, rows)),
            Err(why) => {
                lost.insert(*id);
                error.get_or_insert(why);
                None
            }
        }
    };
    let deletions = entry.deleted.iter().filter_map(&mut read).collect();
    StoredDeletions {
        deletions,
        lost,
        error,
    }
}

fn bitmap(
    entry: &TableEntry,
    id: u32,
    deleted: &DeletedEntry,
    extent: &Arc<OwnedExtent>,
) -> Result<Arc<DeletedRows>, DamageError> {
    let segment = entry.segments.iter().find(|segment| segment.id == id);
    let segment_rows = segment.map_or(0, |segment| segment.rows);
    let place = range(&deleted.place);
    let read = |copy: usize| {
        let bytes = &copy_of(extent, copy)[place.clone()];
        image::read(bytes, id, segment_rows, deleted.rows)
    };
    let mut rows = read(0);
    for copy in 1..extent.copies().len() {
        if rows.is_ok() {
            break;
        }
        rows = read(copy);
        if rows.is_ok() {
            repair::range(extent, copy_of(extent, copy), place.clone());
        }
    }
    rows.map_err(|source| DamageError::Deleted {
        segment: id,
        source,
    })
}

/// The deletions after a log record deletes more, or why that is impossible. `tail` is the tail before the record. Of segments
/// whose bitmap is `lost` nothing is known.
pub(super) fn replayed(
    entry: &TableEntry,
    manifest_commit: u64,
    commit: u64,
    before: &Deletions,
    tail: &Tail,
    deleted: &RowIds,
    lost: &BTreeSet<u32>,
) -> Result<Deletions, String> {
    let mut included = lost.clone();
    for (id, rows) in deleted.by_segment().filter(|(id, _)| !lost.contains(id)) {
        let last = rows.last().unwrap_or_default();
        let segments = &entry.segments;
        let at = segments.binary_search_by_key(&id, |segment| segment.id);
        let stored_rows = match at {
            Ok(at) => segments[at].rows,
            Err(_) if id == tail.segment_id => tail.rows(),
            // Its rows were moved to another segment later, or removed with all others.
            Err(_) if commit <= manifest_commit && id < entry.next_segment_id => {
                included.insert(id);
                continue;
            }
            Err(_) => {
                return Err(format!(
                    "it deletes rows of segment {id}, which is not there"
                ));
            }
        };
        if last >= stored_rows {
            return Err(format!(
                "it deletes row {last} of segment {id}, which has {stored_rows} rows"
            ));
        }
        let bitmap = entry.deleted.get(&id);
        if bitmap.is_some_and(|bitmap| bitmap.commit >= commit) {
            included.insert(id);
            let known = before.of(id);
            let is_known = |row| known.is_some_and(|known| known.contains(row as usize));
            if let Some(row) = rows.iter().find(|row| !is_known(*row)) {
                return Err(format!(
                    "it deletes row {row} of segment {id}, which a later bitmap has not deleted"
                ));
            }
        }
    }
    let rest = deleted.in_segments(|id| !included.contains(&id));
    before.with(&rest).map_err(|row| {
        let (segment, row) = (row.segment(), row.row());
        format!("it deletes row {row} of segment {segment} a second time")
    })
}

/// The reason why a table with lost bitmaps cannot be read.
pub(super) fn why_lost(
    lost: &BTreeSet<u32>,
    error: &DamageError,
    damaged: impl Fn(&dyn std::fmt::Display) -> UnavailableError,
) -> UnavailableError {
    let segments: Vec<_> = lost.iter().map(u32::to_string).collect();
    damaged(&format!(
        "which rows of segment {} are deleted is lost ({error})",
        segments.join(", ")
    ))
}
