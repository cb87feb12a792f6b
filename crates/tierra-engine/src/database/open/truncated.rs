//! Tiers whose files were truncated while they were closed.
//!
//! A file's length is recorded at its beginning. If the beginning is whole, and other tiers have copies of everything in the lost
//! end, the file is extended with zeros and the copies are restored: the tier has lost data but is not missing. If something lay
//! only in the lost end, the tier stays as it is and the error names it: data that may still exist elsewhere is not given up.

use std::sync::Arc;

use tierra_memory::{Pool, PoolError};

use super::owners::PAGE_BYTES;
use super::pools::{FoundPool, read_root};
use crate::manifest::Manifest;
use crate::spec::replicas::TierId;
use crate::storage::directory::DatabaseDirectory;
use crate::storage::extent::Owner;
use crate::storage::faults::FaultKind;
use crate::storage::tier::Tier;
use crate::storage::tiers::Tiers;

/// A pool whose file was extended again.
pub(super) struct Cut {
    pool_id: u64,
    /// Offset of the first lost byte.
    from: u64,
}

/// Opens truncated pools if the others have what they lost.
pub(super) fn restore_ends(
    directory: &DatabaseDirectory,
    found: Vec<FoundPool>,
) -> (Vec<FoundPool>, Vec<Cut>) {
    let is_cut = |found: &FoundPool| matches!(found.opened, Err(PoolError::Truncated { .. }));
    if !found.iter().any(is_cut) {
        return (found, Vec::new());
    }
    let whole: Vec<Arc<Pool>> = found
        .iter()
        .filter_map(|found| found.opened.as_ref().ok().cloned())
        .collect();
    let manifests = whole
        .iter()
        .filter_map(|pool| read_root(directory, pool).ok());
    let newest = manifests
        .map(|(_, manifest)| manifest)
        .max_by_key(|manifest| manifest.version);
    let Some(newest) = newest else {
        return (found, Vec::new());
    };
    let mut cuts = Vec::new();
    let restore = |mut found: FoundPool| {
        let Err(PoolError::Truncated { len_bytes, .. }) = found.opened else {
            return found;
        };
        let from = len_bytes - len_bytes % PAGE_BYTES;
        if is_elsewhere(&newest, &found.name, from, &whole) {
            found.opened = Pool::open_cut(&found.path, &found.options);
            if let Ok(pool) = &found.opened {
                let path = found.path.display();
                tracing::warn!(tier = found.name, %path, from, "a truncated file was extended again");
                let pool_id = pool.id();
                cuts.push(Cut { pool_id, from });
            }
        }
        found
    };
    let found = found.into_iter().map(restore).collect();
    (found, cuts)
}

/// Whether the whole pools have a copy of everything that the named tier held from that offset on.
fn is_elsewhere(manifest: &Manifest, name: &str, from: u64, whole: &[Arc<Pool>]) -> bool {
    let Some(tier) = manifest.tiers.iter().find(|tier| tier.name == name) else {
        return false;
    };
    let is_intact = |id: TierId| {
        let entry = manifest.tiers.iter().find(|tier| tier.id == id);
        entry.is_some_and(|entry| whole.iter().any(|pool| pool.id() == entry.pool_id))
    };
    manifest.extents.values().all(|extent| {
        let mut copies = extent.copies.iter();
        let is_hit = copies.any(|copy| {
            copy.tier == tier.id && copy.offset.saturating_add(extent.len_bytes) > from
        });
        !is_hit || extent.copies.iter().any(|copy| is_intact(copy.tier))
    })
}

/// Logs the faults and marks the lost parts of copies that begin before the cut: these are restored like all lost pages.
pub(super) fn note(cuts: &[Cut], tiers: &Tiers) {
    for Cut { pool_id, from } in cuts {
        let is_its = |tier: &&Tier| tier.pool.id() == *pool_id;
        let Some(tier) = tiers.open.iter().find(is_its) else {
            continue;
        };
        let log = &tiers.losses.log;
        log.cut_short(tier.id, &tier.name, true);
        for extent in tiers.losses.held() {
            // Records of logs are compared in all copies anyway.
            if matches!(extent.owner(), Owner::Log(_)) {
                continue;
            }
            let copies = extent.copies().iter();
            for copy in copies.filter(|copy| Arc::ptr_eq(copy.pool(), &tier.pool)) {
                let part = copy.note_lost(&(*from..u64::MAX));
                if let Some(part) = part.filter(|part| !part.is_empty()) {
                    log.found(&extent, copy, part, FaultKind::LostPage);
                }
            }
        }
    }
}
