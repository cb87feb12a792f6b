//! The owners of the extents that a manifest names.

use tierra_memory::{Extent, Pool};

use crate::error::DamageError;
use crate::manifest::{ExtentId, TableEntry};
use crate::storage::extent::Owner;

pub(super) const PAGE_BYTES: u64 = 4096;

/// The owner of an extent that the table names.
pub(super) fn owner_in(table: &TableEntry, id: ExtentId) -> Option<Owner> {
    owned_by(table)
        .find(|(of, _)| *of == id)
        .map(|(_, owner)| owner)
}

/// The extents that the table names, some of them several times, and their owners.
pub(crate) fn owned_by(table: &TableEntry) -> impl Iterator<Item = (ExtentId, Owner)> {
    let segments = table.segments.iter().flat_map(|segment| &segment.extents);
    let logs = table.tail.logs.iter().map(|log| &log.extent);
    let pieces = table.dictionaries.iter().flatten();
    let pieces =
        pieces.flat_map(|dictionary| std::iter::once(&dictionary.main).chain(&dictionary.deltas));
    let parts = table.parts.iter().map(|part| &part.extent);
    let runs = table.runs.iter().map(|run| &run.extent);
    let parts = parts.chain(runs);
    let named = segments.map(|id| (*id, Owner::Segment(table.id)));
    let named = named.chain(logs.map(|id| (*id, Owner::Log(table.id))));
    let named = named.chain(pieces.map(|piece| (piece.extent, Owner::Dictionary(table.id))));
    let deleted = table.deleted.values();
    let deleted = deleted.map(|deleted| (deleted.place.extent, Owner::Deleted(table.id)));
    let named = named.chain(deleted);
    named.chain(parts.map(|id| (*id, Owner::Index(table.id))))
}

pub(super) fn check_owner(pool: &Pool, extent: Extent, owner: Owner) -> Result<(), DamageError> {
    let (found, expected) = (pool.check_extent(extent)?, owner.tag());
    if found != expected {
        return Err(DamageError::Owner {
            offset: extent.offset,
            expected,
            found,
        });
    }
    Ok(())
}
