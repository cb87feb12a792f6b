//! Stores the bitmaps of deleted rows, when a log that says so is given up.
//!
//! Invariant: a manifest's bitmaps have the deletions of all commits up to the one that they name. Later ones are in the log.

use std::sync::Arc;

use tierra_memory::LINE_BYTES;

use super::state::Writer;
use crate::deleted::Deletions;
use crate::deleted::image::Image;
use crate::error::StorageError;
use crate::manifest::{DeletedEntry, StoredRange, TableEntry};
use crate::storage::extent::{OwnedExtent, Owner};

impl Writer {
    /// Writes the bitmaps that are not stored yet into an extent, and names them in the entry, which the next publication
    /// publishes. Segments that the entry does not have are left out.
    pub(super) fn store_deletions(
        &self,
        entry: &mut TableEntry,
        deletions: &Deletions,
    ) -> Result<Option<Arc<OwnedExtent>>, StorageError> {
        let has = |id: u32| {
            let segments = &entry.segments;
            segments
                .binary_search_by_key(&id, |segment| segment.id)
                .is_ok()
        };
        // Rows are only ever added to a bitmap: one of as many rows is the same.
        let is_new = |id: u32, rows: usize| {
            let stored = entry.deleted.get(&id);
            has(id) && stored.is_none_or(|stored| stored.rows as usize != rows)
        };
        let new = deletions
            .iter()
            .filter(|(id, rows)| is_new(*id, rows.count()));
        let images: Vec<Image> = new.map(|(id, rows)| Image::of(id, rows)).collect();
        entry.deleted.retain(|id, _| {
            let segments = &entry.segments;
            segments
                .binary_search_by_key(id, |segment| segment.id)
                .is_ok()
        });
        if images.is_empty() {
            return Ok(None);
        }
        let lens = images.iter().map(Image::len_bytes);
        let len_bytes: usize = lens.map(|len| len.next_multiple_of(LINE_BYTES)).sum();
        let (tiers, owner) = (entry.placement.everywhere(), Owner::Deleted(entry.id));
        let mut writer = self.storage.allocate(&tiers, len_bytes as u64, owner)?;
        let (mut at, mut places) = (0, Vec::with_capacity(images.len()));
        for image in &images {
            let bytes = image.bytes();
            let end = (at + bytes.len()).next_multiple_of(LINE_BYTES);
            writer[at..at + bytes.len()].copy_from_slice(&bytes);
            writer[at + bytes.len()..end].fill(0);
            writer.copy_up_to(end);
            places.push((at as u64, bytes.len() as u64));
            at = end;
        }
        let extent = writer.finish()?;
        // The number of the publication, which includes all commits before it.
        let commit = self.commit + 1;
        for (image, (offset, len_bytes)) in images.iter().zip(places) {
            let place = StoredRange {
                extent: extent.id(),
                offset,
                len_bytes,
            };
            let stored = DeletedEntry {
                rows: image.rows(),
                commit,
                place,
            };
            entry.deleted.insert(image.segment(), stored);
        }
        Ok(Some(extent))
    }
}
