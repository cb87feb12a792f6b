//! Tiers come and go.
//!
//! Invariant: the directory names a tier before any manifest does, and until none does any more; what it
//! names without a manifest is left alone when the database is opened.

use std::path::{Path, PathBuf};

use tierra_memory::{Pool, PoolOptions};

use super::Writer;
use crate::database;
use crate::directory::{self, PoolPlace};
use crate::error::{StorageError, TierError};
use crate::tiers::{FIRST_NAME, MissingTier, NEAR_NAME, TIERS_MOST, Tier, TierId, Tiers};

impl Writer {
    pub(super) fn add_tier(&mut self, name: String, path: PathBuf) -> Result<(), TierError> {
        let tiers = self.storage.tiers();
        if !directory::is_tier_name(&name) {
            return Err(TierError::Name { name });
        }
        let entries = tiers.entries();
        if [FIRST_NAME, NEAR_NAME].contains(&&*name) || entries.iter().any(|tier| tier.name == name)
        {
            return Err(TierError::Exists { name });
        }
        if entries.len() == TIERS_MOST {
            return Err(TierError::Many);
        }
        let named = self.places()?;
        // As the directory is about to name it.
        let number = 1 + named.iter().filter(|place| place.name != name).count();
        let options = PoolOptions {
            capacity_bytes: None,
            ..database::pool_options(&self.storage.options, number)
        };
        let pool = Pool::create(&path, &options).map_err(StorageError::from)?;
        // Numbers are given out once: those of tiers that were dropped may be in an old pool's manifest.
        let last = self.published.manifest().last_tier_id;
        let id = TierId(last + 1);
        let mut next = Tiers::clone(&tiers);
        next.open.push(Tier::new(id, name.as_str(), pool.clone()));
        let place = PoolPlace { name, path };
        let added = self.change_places(|places| {
            // Of an addition that was interrupted.
            places.retain(|other| other.name != place.name);
            places.push(place);
        });
        let added = added.and_then(|()| Ok(self.publish_tiers(next)?));
        if added.is_err() {
            // Nothing names it. The first error is the one to tell.
            let _ = pool.discard();
        }
        added
    }

    pub(super) fn drop_tier(&mut self, name: &str) -> Result<(), TierError> {
        let tiers = self.storage.tiers();
        let name_of = || name.to_owned();
        let entries = tiers.entries();
        let Some(entry) = entries.iter().find(|tier| tier.name == name) else {
            return Err(TierError::Unknown { name: name_of() });
        };
        let id = entry.id;
        let is_used = |ids: &[TierId]| ids.contains(&id);
        let manifest = self.published.manifest();
        let users = manifest.tables.iter().filter(|table| {
            let on_it = table.extents().any(|extent| {
                let copies = &manifest.extents[&extent].copies;
                copies.iter().any(|copy| copy.tier == id)
            });
            on_it || is_used(&table.homes.everywhere())
        });
        let mut users: Vec<_> = users.map(|table| table.spec.name.as_str()).collect();
        users.sort_unstable();
        if !users.is_empty() {
            return Err(TierError::InUse {
                name: name_of(),
                tables: users.join(", "),
            });
        }
        let mut next = Tiers::clone(&tiers);
        next.leave(id);
        next.missing.retain(|tier| tier.id != id);
        if next.open.is_empty() {
            return Err(TierError::Last { name: name_of() });
        }
        self.publish_tiers(next)?;
        self.change_places(|places| places.retain(|place| place.name != name))
    }

    /// Goes on without the tiers whose devices refuse writes, as long as there are others: they count as
    /// missing until the database is opened again. Whether there was one.
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
                "a tier failed: the database goes on without it"
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
        true
    }

    /// Publishes a manifest with these tiers, and uses them from then on.
    fn publish_tiers(&mut self, next: Tiers) -> Result<(), StorageError> {
        let mut manifest = self.published.manifest().clone();
        let last = next.entries().last().map_or(0, |tier| tier.id.0);
        manifest.last_tier_id = manifest.last_tier_id.max(last);
        self.published.publish(&next, manifest, Vec::new())?;
        self.storage.set_tiers(next);
        Ok(())
    }

    /// What the directory says of further tiers.
    fn places(&self) -> Result<Vec<PoolPlace>, TierError> {
        let dir: &Path = &self.storage.dir;
        directory::read_tiers(dir).map_err(|error| TierError::Io {
            path: dir.to_owned(),
            source: std::io::Error::other(error),
        })
    }

    /// Changes what the directory says of further tiers.
    fn change_places(&self, change: impl FnOnce(&mut Vec<PoolPlace>)) -> Result<(), TierError> {
        let mut places = self.places()?;
        change(&mut places);
        directory::write_tiers(&self.storage.dir, &places)
            .map_err(|(path, source)| TierError::Io { path, source })
    }
}
