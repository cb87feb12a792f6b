//! What a database holds, read back: the tiers, the newest manifest of any of them, and its extents. The tables that these
//! make up are read by [`tables`].
//!
//! Every extent is checked against its header before its bytes are believed. What fails in one copy is taken from another. A
//! file that was cut short gets its end again where other tiers have all that lay there ([`cut`]).
//!
//! Invariant: nothing is written before everything about the tiers is believed; then only what brings all of them to
//! the newest manifest, and copies of logs to what was read.

mod cut;
mod lacking;
mod tables;

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tierra_memory::{Extent, Pool, PoolError, PoolOptions};

use crate::error::{DamageError, OpenError};
use crate::manifest::{ExtentEntry, ExtentId, Manifest, ManifestError, TableEntry, lineage_mark};
use crate::space::{ExtentCopy, OwnedExtent, Owner};
use crate::tiers::{MissingTier, Tier, Tiers};
use crate::writer::Published;

pub(crate) use self::tables::read_tables;

const PAGE_BYTES: u64 = 4096;

/// A pool that the directory names, and what became of opening it.
pub(crate) struct FoundPool {
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    pub(crate) opened: Result<Arc<Pool>, PoolError>,
    pub(crate) options: PoolOptions,
}

/// A manifest that a pool publishes.
struct Candidate {
    pool: Arc<Pool>,
    root: Extent,
    manifest: Manifest,
}

/// The tiers, and the newest manifest of any of them with the extents that it names, each checked to be
/// what it should be.
pub(crate) fn read_manifest(
    dir: &Path,
    found: Vec<FoundPool>,
) -> Result<(Tiers, Published), OpenError> {
    let mut candidates = Vec::new();
    let mut pools = Vec::new();
    let mut failures = Vec::new();
    let (found, cuts) = cut::restore_ends(dir, found);
    for found in found {
        let (name, path) = (found.name, found.path);
        let pool = match found.opened {
            Ok(pool) => pool,
            Err(error) if is_loss(&error) => {
                failures.push((name, path, OpenError::from(error)));
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        match read_root(dir, &pool) {
            Ok((root, manifest)) => candidates.push(Candidate {
                pool: pool.clone(),
                root,
                manifest,
            }),
            Err(
                error @ OpenError::Manifest {
                    source: ManifestError::Version { .. } | ManifestError::Unknown { .. },
                    ..
                },
            ) => return Err(error),
            // What it holds may be whole all the same, if another tier says what that is.
            Err(error) => failures.push((name.clone(), path.clone(), error)),
        }
        pools.push((name, path, pool));
    }
    let newest = candidates
        .iter()
        .max_by_key(|candidate| candidate.manifest.version);
    let Some(newest) = newest else {
        let (_, _, error) = failures
            .into_iter()
            .next()
            .expect("a directory names a pool");
        return Err(error);
    };
    for other in &candidates {
        if !newest.manifest.continues(&other.manifest) {
            return Err(OpenError::Diverged {
                dir: dir.to_owned(),
                newest: newest.pool.path().to_owned(),
                other: other.pool.path().to_owned(),
            });
        }
    }
    let mut manifest = newest.manifest.clone();
    let tiers = match_tiers(dir, &manifest, pools, &failures)?;
    // Tiers that are not there any more may go on without these, so that both may not be joined again.
    let fewer = manifest
        .tiers
        .iter()
        .any(|tier| tier.present && tiers.get(tier.id).is_none());
    if fewer {
        manifest.lineage.push(lineage_mark());
    }
    let versions = candidates
        .iter()
        .map(|candidate| candidate.manifest.version);
    let behind = tiers.open.len() > candidates.len() || versions.min() < Some(manifest.version);
    let changed = tiers.entries() != manifest.tiers && newest.manifest.tiers == manifest.tiers;
    let (mut published, lost, superseded) = read_extents(dir, manifest, &tiers, &candidates)?;
    cut::note(&cuts, &tiers);
    if lost || fewer || behind || changed {
        // All tiers come to name the same. Space that damaged copies took is free: what is written there, and not
        // published before a power cut, must not be taken for them.
        let next = published.manifest().clone();
        match published.publish(&tiers, next, Vec::new()) {
            Ok(()) => superseded.iter().for_each(|copy| copy.release()),
            Err(error) if fewer => return Err(error.into()),
            Err(error) => {
                tracing::warn!(%error, "a database with damaged copies could not be published without them");
            }
        }
    }
    Ok((tiers, published))
}

/// Whether a pool that fails so is as good as not there: others may stand in for it.
fn is_loss(error: &PoolError) -> bool {
    matches!(
        error,
        PoolError::Missing { .. }
            | PoolError::Device { .. }
            | PoolError::NotAPool { .. }
            | PoolError::Damaged { .. }
            | PoolError::Truncated { .. }
            | PoolError::Io { .. }
    )
}

/// What a pool publishes.
fn read_root(dir: &Path, pool: &Pool) -> Result<(Extent, Manifest), OpenError> {
    let Some(root) = pool.root() else {
        return Err(OpenError::NotADatabase {
            dir: dir.to_owned(),
            why: "its creation was interrupted",
        });
    };
    if pool.verify_extent(root)? != Owner::Manifest.tag() {
        return Err(OpenError::NotADatabase {
            dir: dir.to_owned(),
            why: "its pool holds something else",
        });
    }
    let manifest = Manifest::decode(pool.bytes(root));
    let manifest = manifest.map_err(|source| OpenError::Manifest {
        dir: dir.to_owned(),
        source,
    })?;
    Ok((root, manifest))
}

/// Which pool is which tier, by the pool's number.
fn match_tiers(
    dir: &Path,
    manifest: &Manifest,
    mut pools: Vec<(String, PathBuf, Arc<Pool>)>,
    failures: &[(String, PathBuf, OpenError)],
) -> Result<Tiers, OpenError> {
    let mut tiers = Tiers::default();
    for entry in &manifest.tiers {
        let (id, name) = (entry.id, Arc::from(&*entry.name));
        let found = pools
            .iter()
            .position(|(_, _, pool)| pool.id() == entry.pool_id);
        if let Some(at) = found {
            let (_, _, pool) = pools.swap_remove(at);
            tiers.open.push(Tier::new(id, name, pool));
            continue;
        }
        let failure = failures.iter().find(|(name, _, _)| *name == entry.name);
        let why = failure.map_or_else(
            || "the directory does not say where it is".to_owned(),
            |(_, _, error)| error.to_string(),
        );
        tracing::warn!(
            tier = entry.name,
            why,
            "a tier is missing: the database goes on without it"
        );
        tiers.missing.push(MissingTier {
            id,
            name,
            pool_id: entry.pool_id,
            why: why.into(),
        });
    }
    for (name, path, pool) in pools {
        if pool.root().is_some() {
            return Err(OpenError::OtherPool {
                dir: dir.to_owned(),
                tier: name,
                path,
            });
        }
        tracing::warn!(tier = name, path = %path.display(), "a tier whose addition was interrupted is left alone");
    }
    Ok(tiers)
}

/// The extents of the manifest, whether some copies of them are lost, and what only the manifests of tiers name that are behind:
/// until those are replaced, their tiers may come to be the only ones, so that nothing of it may be overwritten.
fn read_extents(
    dir: &Path,
    mut manifest: Manifest,
    tiers: &Tiers,
    candidates: &[Candidate],
) -> Result<(Published, bool, Vec<Arc<ExtentCopy>>), OpenError> {
    let owners = owners(&manifest);
    let mut extents = Vec::with_capacity(manifest.extents.len());
    let mut lost = false;
    let mut headless = Vec::new();
    for (id, entry) in &manifest.extents {
        let mut copies = Vec::with_capacity(entry.copies.len());
        let (mut elsewhere, mut doubtful) = (Vec::new(), None);
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
                    match doubtful.is_none() && tier.pool.has_damaged_header(extent) {
                        true => doubtful = Some((tier, extent)),
                        false => lost = true,
                    }
                }
            }
        }
        match doubtful {
            // Nothing else is left: what lies there has checksums of its own.
            Some((tier, extent)) if copies.is_empty() => {
                headless.push((tier.id, extent));
                copies.push(ExtentCopy::published(tier, extent));
            }
            Some(_) => lost = true,
            None => {}
        }
        if copies.is_empty() {
            continue;
        }
        if let Owner::Log(_) = owners[id] {
            // Nobody is told what is appended while they are away, and a record that was being written may be in them alone,
            // in the place of one that is going to be acknowledged: they are made anew.
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
        // What waits for a tier may come back with it.
        if lacking::of_table(dir, table, tiers, &manifest.extents, |id| {
            held.contains_key(&id)
        })
        .is_none()
        {
            lacking::forget_lost_parts(&held, table);
        }
    }
    let mut superseded = Vec::new();
    for tier in &tiers.open {
        let copies = extents.iter().flat_map(|extent| extent.copies());
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
        let headless = headless.iter().filter(|(id, _)| *id == tier.id);
        let headless: Vec<_> = headless.map(|(_, extent)| *extent).collect();
        tier.pool.retain_headless(&live, &headless)?;
    }
    let root = |candidate: &Candidate| {
        let tier = tiers
            .open
            .iter()
            .find(|tier| Arc::ptr_eq(&tier.pool, &candidate.pool));
        tier.map(|tier| ExtentCopy::published(tier, candidate.root))
    };
    let roots = candidates.iter().filter_map(root).collect();
    Ok((Published::new(manifest, roots, extents), lost, superseded))
}

/// What a manifest names in a tier and lies apart from all that is live there, as far as it is what it should be.
fn only_named_by(manifest: &Manifest, tier: &Tier, live: &[Extent]) -> Vec<Extent> {
    let in_tier = |entry: &ExtentEntry| {
        let copy = entry.copies.iter().find(|copy| copy.tier == tier.id)?;
        Some(Extent {
            offset: copy.offset,
            len_bytes: entry.len_bytes,
        })
    };
    // Space is given out in pages.
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
    // One that two of them share is free, rather than a reason not to open.
    named.sort_unstable_by_key(|extent| extent.offset);
    named.dedup_by(|next, before| pages(next).start < pages(before).end);
    named
}

/// What each extent is for.
fn owners(manifest: &Manifest) -> HashMap<ExtentId, Owner> {
    manifest
        .tables
        .iter()
        .flat_map(|table| owned_by(table))
        .collect()
}

/// What an extent that the table names is for.
fn owner_in(table: &TableEntry, id: ExtentId) -> Option<Owner> {
    owned_by(table)
        .find(|(of, _)| *of == id)
        .map(|(_, owner)| owner)
}

fn owned_by(table: &TableEntry) -> impl Iterator<Item = (ExtentId, Owner)> {
    let segments = table.segments.iter().flat_map(|segment| &segment.extents);
    let logs = table.tail.logs.iter().map(|log| &log.extent);
    let images = table.dictionaries.iter().flatten();
    let images =
        images.flat_map(|dictionary| std::iter::once(&dictionary.main).chain(&dictionary.deltas));
    let parts = table.parts.iter().map(|part| &part.extent);
    let runs = table.runs.iter().map(|run| &run.extent);
    let parts = parts.chain(runs);
    let named = segments.map(|id| (*id, Owner::Segment(table.id)));
    let named = named.chain(logs.map(|id| (*id, Owner::Log(table.id))));
    let named = named.chain(images.map(|image| (image.extent, Owner::Dictionary(table.id))));
    named.chain(parts.map(|id| (*id, Owner::Index(table.id))))
}

fn check_owner(pool: &Pool, extent: Extent, owner: Owner) -> Result<(), DamageError> {
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
