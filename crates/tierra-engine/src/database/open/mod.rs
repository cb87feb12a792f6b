//! Reads back what a database holds: the tiers, the newest manifest of any tier, and its extents. [`tables`] reads the tables
//! that these make up.
//!
//! Every extent is checked against its header before its bytes are used. If one copy fails, another is read. A file that was
//! truncated is extended again if other tiers have all that lay in the lost end ([`truncated`]).
//!
//! Invariant: nothing is written before the tiers have been checked completely. Then the only writes are those that bring all
//! tiers to the newest manifest and all copies of logs to what was read.

mod deletions;
mod missing_parts;
mod newest_manifest;
mod owners;
mod pools;
mod tables;
mod together;
mod truncated;
mod unreadable_publication;

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;

use tierra_memory::{Extent, Pool};

use crate::error::OpenError;
use crate::manifest::{ExtentEntry, ExtentId, Manifest, ManifestError};
use crate::spec::replicas::TierId;
use crate::storage::directory::{self, DatabaseDirectory, TierState};
use crate::storage::extent::{ExtentCopy, OwnedExtent, Owner};
use crate::storage::tier::Tier;
use crate::storage::tiers::Tiers;
use crate::write::writer::Published;

pub(crate) use self::owners::owned_by;
use self::owners::{PAGE_BYTES, check_owner};
use self::pools::Candidate;
pub(crate) use self::pools::{
    FoundPool, find, identity_of_pool, is_empty, is_of, is_there, is_unfinished, rebuild,
};
pub(crate) use self::tables::read_tables;

/// How a database may be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OpenAccess {
    /// Even if tiers are missing.
    pub(crate) degraded: bool,
    /// Without writing.
    pub(crate) read_only: bool,
}

/// The result of reading a database.
pub(crate) struct OpenedState {
    pub(crate) tiers: Tiers,
    pub(crate) published: Published,
    /// Extents that only manifests of outdated tiers name; free with the next publication.
    pub(crate) superseded: Vec<Arc<ExtentCopy>>,
    /// Whether the tiers that are present differ from the newest manifest.
    pub(crate) is_behind: bool,
    /// The tiers that are present, ordered by the versions of their manifests.
    pub(crate) most_behind_first: Vec<TierId>,
    /// Whether tiers are missing that the newest manifest lists as present. They may be used without these, and the two could
    /// then not be joined again; therefore the first write puts a mark into the manifest.
    pub(crate) goes_on_without: bool,
}

/// The tiers, and the newest manifest of any of them with its extents, each checked against its header.
pub(crate) fn read_manifest(
    directory: &DatabaseDirectory,
    found: Vec<FoundPool>,
    access: OpenAccess,
) -> Result<OpenedState, OpenError> {
    let dir = directory.dir();
    let here = directory::identity_of(dir).map_err(directory::io_error(dir))?;
    let found = told(found)?;
    check_outside(directory, &here, &found)?;
    let (found, has_lost_publication) = unreadable_publication::open(directory, found);
    let (found, cuts) = match access.read_only {
        true => (found, Vec::new()),
        false => truncated::restore_ends(directory, found),
    };
    let mut candidates = Vec::new();
    let mut pools = Vec::new();
    let mut failures = Vec::new();
    for found in found {
        let (name, path) = (found.name.clone(), found.path.clone());
        let pool = match &found.opened {
            Ok(pool) => pool.clone(),
            Err(_) => {
                let failure = found.opened.err().map(OpenError::from);
                failures.extend(failure.map(|error| (name, path, error)));
                continue;
            }
        };
        match pools::read_root(directory, &pool) {
            Ok((root, manifest)) => {
                pools::check_owner(directory, &here, &found, &manifest)?;
                candidates.push(Candidate {
                    pool: pool.clone(),
                    root,
                    manifest,
                });
            }
            Err(
                error @ OpenError::Manifest {
                    source: ManifestError::Version { .. } | ManifestError::Unknown { .. },
                    ..
                },
            ) => return Err(error),
            // The pool's data may still be whole if another tier has the manifest.
            Err(error) => failures.push((name.clone(), path.clone(), error)),
        }
        pools.push((name, path, pool));
    }
    let told = || {
        if failures.is_empty() {
            let why = "none is missing: were they put back, or copied while the database was open?";
            return why.to_owned();
        }
        let told = failures.iter();
        let told = told.map(|(name, _, error)| format!("tier {name:?}: {error}"));
        told.collect::<Vec<_>>().join("; ")
    };
    let Some(newest) = newest_manifest::choose(directory, &candidates, told)? else {
        let first = failures.into_iter().next();
        let (name, _, error) = first.expect("a directory names a pool");
        let pool = pools.iter().find(|(other, _, _)| *other == name);
        return Err(match pool {
            Some((_, _, pool)) => pools::unreadable(directory, pool, error),
            None => error,
        });
    };
    let mut manifest = newest.manifest.clone();
    let tiers = pools::match_tiers(directory, &manifest, pools, &failures);
    warn_of_missing(directory, &tiers, access)?;
    let goes_on_without = manifest
        .tiers
        .iter()
        .any(|tier| tier.present && tiers.get(tier.id).is_none());
    let versions = candidates
        .iter()
        .filter(|candidate| {
            let mut open = tiers.open.iter();
            open.any(|tier| Arc::ptr_eq(&tier.pool, &candidate.pool))
        })
        .map(|candidate| candidate.manifest.version);
    let version_of = |pool: &Arc<Pool>| {
        let mut candidates = candidates.iter();
        let own = candidates.find(|candidate| Arc::ptr_eq(&candidate.pool, pool));
        own.map_or(0, |own| own.manifest.version)
    };
    let mut most_behind_first: Vec<TierId> = tiers.open.iter().map(|tier| tier.id).collect();
    most_behind_first.sort_by_key(|id| tiers.get(*id).map(|tier| version_of(&tier.pool)));
    let (count, least) = versions.fold((0, u64::MAX), |(count, least), version| {
        (count + 1, least.min(version))
    });
    let is_same_directory = directory::is_same(&manifest.directory_identity, &here);
    let is_behind = tiers.open.len() > count
        || least < manifest.version
        || tiers.entries() != manifest.tiers
        || manifest.database != directory.file().database
        || !is_same_directory
            && !directory
                .file()
                .tiers
                .iter()
                .all(|tier| tier.path.is_relative());
    manifest.database = directory.file().database;
    manifest.directory_identity = here;
    let (published, lost, superseded) = read_extents(dir, manifest, &tiers, &candidates)?;
    truncated::note(&cuts, &tiers);
    Ok(OpenedState {
        tiers,
        published,
        superseded,
        is_behind: is_behind || lost || has_lost_publication,
        most_behind_first,
        goes_on_without,
    })
}

/// All pools, or the error of a pool that cannot be opened for a reason other than loss.
fn told(found: Vec<FoundPool>) -> Result<Vec<FoundPool>, OpenError> {
    let tell = |found: FoundPool| match found.opened {
        // A tier that is being added may not exist yet.
        Err(error) if found.state != TierState::Adding && !pools::is_loss(&error) => {
            Err(OpenError::from(error))
        }
        opened => Ok(FoundPool { opened, ..found }),
    };
    found.into_iter().map(tell).collect()
}

/// Rejects unreadable pools outside of the directory, unless the newest manifest of the others belongs to this directory.
fn check_outside(
    directory: &DatabaseDirectory,
    here: &directory::DirectoryIdentity,
    found: &[FoundPool],
) -> Result<(), OpenError> {
    let manifest = |found: &FoundPool| {
        let pool = found.opened.as_ref().ok()?;
        Some(pools::read_root(directory, pool).ok()?.1)
    };
    let known: Vec<_> = found.iter().map(manifest).collect();
    let newest = known.iter().flatten().max_by_key(|known| known.version);
    let Some(newest) = newest else {
        return Ok(());
    };
    for (found, known) in found.iter().zip(&known) {
        let is_there = !matches!(found.opened, Err(tierra_memory::PoolError::Missing { .. }));
        if known.is_none() && is_there && found.state != TierState::Adding {
            pools::check_identity(directory, here, found, &newest.directory_identity)?;
        }
    }
    Ok(())
}

/// Warns of missing tiers; an error unless the database may be opened without them.
fn warn_of_missing(
    directory: &DatabaseDirectory,
    tiers: &Tiers,
    access: OpenAccess,
) -> Result<(), OpenError> {
    if tiers.missing.is_empty() {
        return Ok(());
    }
    if access.degraded {
        for tier in &tiers.missing {
            tracing::warn!(tier = %tier.name, why = %tier.why, "a tier is missing: the database continues without it");
        }
        return Ok(());
    }
    let missing = tiers.missing.iter();
    let missing = missing.map(|tier| format!("tier {:?} ({})", tier.name, tier.why));
    Err(OpenError::Degraded {
        dir: directory.dir().to_owned(),
        missing: missing.collect::<Vec<_>>().join(", "),
    })
}

/// The extents of the manifest, whether some of their copies are lost, and the extents that only outdated tiers' manifests name.
/// Until those manifests are replaced, their tiers may become the only ones left, so these extents must not be overwritten.
fn read_extents(
    dir: &Path,
    mut manifest: Manifest,
    tiers: &Tiers,
    candidates: &[Candidate],
) -> Result<(Published, bool, Vec<Arc<ExtentCopy>>), OpenError> {
    let owners = owners(&manifest);
    let mut extents = Vec::with_capacity(manifest.extents.len());
    let mut lost = false;
    let (mut without_header, mut without_copy) = (Vec::new(), Vec::new());
    for (id, entry) in &manifest.extents {
        let mut copies = Vec::with_capacity(entry.copies.len());
        let (mut elsewhere, mut unverified, mut damaged) = (Vec::new(), None, Vec::new());
        for copy in &entry.copies {
            let Some(tier) = tiers.get(copy.tier) else {
                elsewhere.push(*copy);
                continue;
            };
            let extent = Extent {
                offset: copy.offset,
                len_bytes: entry.len_bytes,
            };
            match check_owner(&tier.pool, extent, owners[id]) {
                Ok(()) => copies.push(ExtentCopy::published(tier, extent)),
                Err(error) => {
                    tracing::warn!(tier = &*tier.name, %error, "a copy is damaged");
                    damaged.push((tier, extent));
                    match unverified.is_none() && tier.pool.has_damaged_header(extent) {
                        true => unverified = Some((tier, extent)),
                        false => lost = true,
                    }
                }
            }
        }
        match unverified {
            // The last copy is used without a header: its content has checksums of its own.
            Some((tier, extent)) if copies.is_empty() => {
                without_header.push((tier.id, extent));
                copies.push(ExtentCopy::published(tier, extent));
            }
            Some(_) => lost = true,
            None => {}
        }
        if copies.is_empty() {
            // The extent stays reserved: the next open could not tell new data written over it from the old.
            let damaged = damaged.into_iter();
            let there = damaged.filter(|(tier, extent)| tier.pool.has_room_for(*extent));
            without_copy.extend(there.map(|(tier, extent)| {
                without_header.push((tier.id, extent));
                (*id, ExtentCopy::published(tier, extent))
            }));
            continue;
        }
        if let Owner::Log(_) = owners[id] {
            // Copies in missing tiers do not receive later appends, and may hold a record that was never acknowledged at the
            // position of one that will be: they are made anew.
            elsewhere.clear();
        }
        let (losses, owner) = (&tiers.losses, owners[id]);
        extents.push(OwnedExtent::new(losses, *id, owner, copies, elsewhere));
    }
    let held: HashMap<ExtentId, &OwnedExtent> = extents
        .iter()
        .map(|extent| (extent.id(), &**extent))
        .collect();
    for table in &mut manifest.tables {
        // A part may come back with the missing tier.
        if missing_parts::of_table(dir, table, tiers, &manifest.extents, |id| {
            held.contains_key(&id)
        })
        .is_none()
        {
            missing_parts::forget_lost_parts(&held, table);
        }
    }
    let mut superseded = Vec::new();
    for tier in &tiers.open {
        let copies = extents.iter().flat_map(|extent| extent.copies());
        let copies = copies.chain(without_copy.iter().map(|(_, copy)| copy));
        let of_tier = copies.filter(|copy| copy.tier() == tier.id);
        let mut live: Vec<_> = of_tier.map(|copy| copy.extent()).collect();
        let own = candidates
            .iter()
            .find(|candidate| Arc::ptr_eq(&candidate.pool, &tier.pool));
        if let Some(own) = own.filter(|own| own.manifest.version < manifest.version) {
            let before = only_named_by(&own.manifest, tier, &live);
            live.extend(&before);
            superseded.extend(
                before
                    .into_iter()
                    .map(|extent| ExtentCopy::published(tier, extent)),
            );
        }
        let without_header = without_header.iter().filter(|(id, _)| *id == tier.id);
        let without_header: Vec<_> = without_header.map(|(_, extent)| *extent).collect();
        tier.pool.retain_without_header(&live, &without_header)?;
    }
    let root = |candidate: &Candidate| {
        let tier = tiers
            .open
            .iter()
            .find(|tier| Arc::ptr_eq(&tier.pool, &candidate.pool));
        tier.map(|tier| ExtentCopy::published(tier, candidate.root))
    };
    let roots = candidates.iter().filter_map(root).collect();
    let published = Published::new(manifest, roots, extents).with_lost(without_copy);
    Ok((published, lost, superseded))
}

/// The extents that an outdated manifest names in a tier, outside of all live extents and with the right header.
fn only_named_by(manifest: &Manifest, tier: &Tier, live: &[Extent]) -> Vec<Extent> {
    let in_tier = |entry: &ExtentEntry| {
        let copy = entry.copies.iter().find(|copy| copy.tier == tier.id)?;
        Some(Extent {
            offset: copy.offset,
            len_bytes: entry.len_bytes,
        })
    };
    // Space is allocated in pages.
    let pages = |extent: &Extent| {
        let end = extent.offset.saturating_add(extent.len_bytes);
        extent.offset / PAGE_BYTES..end.div_ceil(PAGE_BYTES)
    };
    let live: BTreeMap<u64, u64> = live
        .iter()
        .map(|live| (pages(live).start, pages(live).end))
        .collect();
    let is_apart = |extent: &Extent| {
        let before_end = live.range(..pages(extent).end).next_back();
        before_end.is_none_or(|(_, live_end)| *live_end <= pages(extent).start)
    };
    let mut named: Vec<Extent> = manifest
        .extents
        .values()
        .filter_map(in_tier)
        .filter(is_apart)
        .filter(|extent| tier.pool.check_extent(*extent).is_ok())
        .collect();
    // Of two extents that overlap, one is left free: this is no reason to refuse the open.
    named.sort_unstable_by_key(|extent| extent.offset);
    named.dedup_by(|next, before| pages(next).start < pages(before).end);
    named
}

/// The owner of each extent.
fn owners(manifest: &Manifest) -> HashMap<ExtentId, Owner> {
    manifest
        .tables
        .iter()
        .flat_map(|table| owned_by(table))
        .collect()
}
