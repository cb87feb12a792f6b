//! Adding and dropping tiers.
//!
//! Invariant: the directory file names a tier before its pool is made, and until no manifest names it any more. A tier
//! that only the directory file names does not count. So an interruption leaves the database with or without the tier, and
//! without it the tier's pool holds nothing that is needed.

use std::path::{Path, PathBuf};
use std::sync::{Arc, MutexGuard};

use tierra_memory::{Pool, PoolOptions};

use super::state::Writer;
use crate::error::{StorageError, TierError};
use crate::manifest::{Manifest, TableEntry, lineage_mark};
use crate::spec::replicas::{Replicas, TIERS_MOST, TierId};
use crate::storage::access::Access;
use crate::storage::directory::{self, DatabaseDirectory, DirectoryFile, TierLine, TierState};
use crate::storage::tier::Tier;
use crate::storage::tiers::{FIRST_NAME, MissingTier, NEAR_NAME, Tiers};

impl Writer {
    pub(super) fn add_tier(
        &mut self,
        name: String,
        path: PathBuf,
        access: Access,
    ) -> Result<(), TierError> {
        let tiers = self.storage.tiers();
        if !directory::is_tier_name(&name) {
            return Err(TierError::Name { name });
        }
        let entries = tiers.entries();
        if [NEAR_NAME, Replicas::AUTO].contains(&&*name) {
            return Err(TierError::Reserved { name });
        }
        if name == FIRST_NAME || entries.iter().any(|tier| tier.name == name) {
            return Err(TierError::Exists { name });
        }
        if entries.len() == TIERS_MOST {
            return Err(TierError::Many);
        }
        let (line, path, options) = self.name_pool(&name, &path, access)?;
        let pool = match Pool::create(&path, &options) {
            Ok(pool) => pool,
            Err(error) => {
                self.forget_pool(&line.name);
                return Err(StorageError::from(error).into());
            }
        };
        if let Err(error) = access.check(&pool) {
            let _ = self.storage.directory().discard(&pool);
            self.forget_pool(&line.name);
            return Err(error.into());
        }
        // Numbers are never reused: an old pool's manifest may name a dropped tier's.
        let last = self.published.manifest().last_tier_id;
        let id = TierId(last + 1);
        let mut next = Tiers::clone(&tiers);
        next.open
            .push(Tier::new(id, name.as_str(), pool.clone(), access));
        if let Err(error) = self.publish_tiers(next, false) {
            // After a device failure it is unknown whether a manifest names the tier.
            if !self.has_failed_device() && !pool.is_poisoned() {
                // Report the first error.
                let _ = self.storage.directory().discard(&pool);
                self.forget_pool(&line.name);
            }
            return Err(error.into());
        }
        let is_it = |tier: &&mut TierLine| tier.name == line.name;
        self.record_in_directory(|file| {
            if let Some(tier) = file.tiers.iter_mut().find(is_it) {
                tier.state = TierState::There;
            }
        });
        Ok(())
    }

    /// Names a pool that is about to be made in the directory file, and removes what earlier pools of that name or path left.
    fn name_pool(
        &self,
        name: &str,
        path: &Path,
        access: Access,
    ) -> Result<(TierLine, PathBuf, PoolOptions), TierError> {
        let mut directory = self.storage.directory();
        let written = directory.written(path).map_err(|source| TierError::Io {
            path: path.to_owned(),
            source,
        })?;
        let tiers = &self.published.manifest().tiers;
        let is_left = |line: &&TierLine| {
            (line.name == name || line.path == written)
                && tiers.iter().all(|tier| tier.name != line.name)
        };
        let left: Vec<_> = directory
            .file()
            .tiers
            .iter()
            .filter(is_left)
            .cloned()
            .collect();
        for line in &left {
            if line.state == TierState::Adding {
                let removed = directory.remove_remains(line, &self.storage.options);
                removed.map_err(StorageError::from)?;
            }
        }
        let line = TierLine {
            name: name.to_owned(),
            pool_id: lineage_mark(),
            state: TierState::Adding,
            access,
            path: written,
        };
        let path = directory.path_of(&line);
        let options = PoolOptions {
            capacity_bytes: None,
            id: Some(line.pool_id),
            ..directory.pool_options(name, &path, &self.storage.options)
        };
        // What is named is taken for the addition's own, should it be interrupted.
        Pool::check_free(&path, &options).map_err(StorageError::from)?;
        change(&mut directory, |file| {
            file.tiers.retain(|line| !left.contains(line));
            file.tiers.push(line.clone());
        })?;
        Ok((line, path, options))
    }

    /// Removes the name of a pool that was not made.
    fn forget_pool(&self, name: &str) {
        self.record_in_directory(|file| file.tiers.retain(|tier| tier.name != name));
    }

    /// Changes the directory file. An error is only logged: the file is valid without the change, and the next open makes it.
    fn record_in_directory(&self, note: impl FnOnce(&mut DirectoryFile)) {
        if let Err((path, error)) = self.storage.directory().change(note) {
            let path = path.display();
            tracing::warn!(%path, %error, "the directory file could not be brought up to date");
        }
    }

    /// Changes how scans reach a tier's blocks: those that begin from now on.
    pub(super) fn set_access(&mut self, name: &str, access: Access) -> Result<(), TierError> {
        let mut next = Tiers::clone(&self.storage.tiers());
        let Some(tier) = next.open.iter_mut().find(|tier| *tier.name == *name) else {
            let name = name.to_owned();
            let mut missing = next.missing.iter().filter(|tier| *tier.name == *name);
            return Err(match missing.next() {
                Some(tier) => TierError::Missing {
                    name,
                    why: tier.why.to_string(),
                },
                None => TierError::Unknown { name },
            });
        };
        access.check(&tier.pool)?;
        tier.access = access;
        change(&mut self.storage.directory(), |file| {
            if let Some(line) = file.tiers.iter_mut().find(|line| line.name == name) {
                line.access = access;
            }
        })?;
        self.storage.set_tiers(next);
        Ok(())
    }

    pub(super) fn drop_tier(&mut self, name: &str) -> Result<(), TierError> {
        let tiers = self.storage.tiers();
        let name_of = || name.to_owned();
        let entries = tiers.entries();
        let Some(entry) = entries.iter().find(|tier| tier.name == name) else {
            return Err(TierError::Unknown { name: name_of() });
        };
        let id = entry.id;
        self.move_away_from(id)?;
        let is_used = |table: &&Arc<TableEntry>| self.lies_in(table, id) || is_placed_in(table, id);
        let users = self.published.manifest().tables.iter().filter(is_used);
        let mut users: Vec<_> = users.map(|table| table.spec.name.as_str()).collect();
        users.sort_unstable();
        if !users.is_empty() {
            return Err(TierError::InUse {
                name: name_of(),
                tables: users.join(", "),
            });
        }
        let mut next = Tiers::clone(&tiers);
        let was_there = next.leave(id).is_some();
        next.missing.retain(|tier| tier.id != id);
        if next.open.is_empty() {
            return Err(TierError::Last { name: name_of() });
        }
        // Its own manifest still lists it as a tier: opened alone, it would be an older state.
        self.publish_tiers(next, was_there)?;
        let mark = self.published.manifest().lineage.last().copied();
        self.record_in_directory(|file| {
            file.lineage = mark;
            file.tiers.retain(|tier| tier.name != name);
        });
        Ok(())
    }

    /// Moves data of tables that should have nothing in this tier: an index, or a load that began before its table's placement
    /// changed.
    fn move_away_from(&mut self, id: TierId) -> Result<(), StorageError> {
        let tables = self.published.manifest().tables.clone();
        for entry in tables {
            if self.lies_in(&entry, id)
                && !is_placed_in(&entry, id)
                && let Some(table) = self.catalog.table(&entry.spec.name)
            {
                self.make_missing_copies(&table)?;
            }
        }
        Ok(())
    }

    /// Whether a tier has a copy of any of the table's extents.
    fn lies_in(&self, table: &TableEntry, id: TierId) -> bool {
        let extents = &self.published.manifest().extents;
        let mut copies = table.extents().flat_map(|extent| &extents[&extent].copies);
        copies.any(|copy| copy.tier == id)
    }

    /// Gives up tiers whose devices reject writes, if there are others: they count as missing until the next open. Returns
    /// whether there was one.
    pub(super) fn lose_failed_tiers(&mut self) -> bool {
        let mut next = Tiers::clone(&self.storage.tiers());
        let failed = next.open.iter().filter(|tier| tier.pool.is_poisoned());
        let failed: Vec<_> = failed.map(|tier| tier.id).collect();
        if failed.is_empty() || failed.len() == next.open.len() {
            return false;
        }
        for id in failed {
            let Some(Tier { name, pool, .. }) = next.leave(id) else {
                continue;
            };
            tracing::error!(
                tier = &*name,
                path = %pool.path().display(),
                "a tier failed: the database continues without it"
            );
            next.losses.log.missing(id, &name);
            next.missing.push(MissingTier {
                id,
                name,
                pool_id: pool.id(),
                why: "its device refused a write".into(),
            });
        }
        self.storage.set_tiers(next);
        self.must_leave_lost = true;
        true
    }

    /// Publishes a manifest with these tiers, and uses them from then on. It gets a mark if one is left behind.
    fn publish_tiers(&mut self, next: Tiers, leaves_one: bool) -> Result<(), StorageError> {
        let mut manifest: Manifest = self.published.manifest().clone();
        let last = next.entries().last().map_or(0, |tier| tier.id.0);
        manifest.last_tier_id = manifest.last_tier_id.max(last);
        if leaves_one {
            manifest.lineage.push(lineage_mark());
        }
        self.published.publish(&next, manifest, Vec::new())?;
        self.release_superseded();
        self.storage.set_tiers(next);
        Ok(())
    }
}

/// Whether the table should have copies in a tier.
fn is_placed_in(table: &TableEntry, id: TierId) -> bool {
    table.placement.everywhere().contains(&id)
}

fn change(
    directory: &mut MutexGuard<'_, DatabaseDirectory>,
    change: impl FnOnce(&mut DirectoryFile),
) -> Result<(), TierError> {
    let changed = directory.change(change);
    changed.map_err(|(path, source)| TierError::Io { path, source })
}
