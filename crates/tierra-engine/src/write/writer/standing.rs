//! Whether the database may be written, and what the first write has to do before.
//!
//! A database that is opened without some of its tiers stays one with theirs as long as it is only read. With the first write the two
//! go different ways, of which the newest manifest gets a mark, and the directory as well: a tier that lacks it has to be brought up
//! to date before it counts again.
//!
//! Invariant: opening and reading publish nothing that a tier that is missing would not lead to.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::state::Writer;
use crate::error::{OpenError, StorageError};
use crate::manifest::{Manifest, lineage_mark};
use crate::spec::replicas::TierId;
use crate::storage::directory::{DirectoryFile, State, TierState};
use crate::storage::extent::ExtentCopy;
use crate::storage::tiers::Tiers;

/// What opening has left to be done.
pub(crate) struct Unsettled {
    /// Space that is free with the next publication.
    pub(crate) superseded: Vec<Arc<ExtentCopy>>,
    /// Whether some tiers have to be told what is here.
    pub(crate) is_behind: bool,
    /// The tiers that are there, in the order in which they are told.
    pub(crate) most_behind_first: Vec<TierId>,
    /// Whether tiers are missing that the newest manifest counts on.
    pub(crate) goes_on_without: bool,
}

impl Writer {
    /// Brings all tiers to the same manifest, and the directory to what that says, as far as nothing goes different ways by that.
    ///
    /// # Errors
    /// [`OpenError`] in an adoption alone. Otherwise what fails is told, and done the next time.
    pub(crate) fn settle(&mut self, unsettled: Unsettled) -> Result<(), OpenError> {
        self.superseded = unsettled.superseded;
        if self.storage.read_only().is_some() {
            return Ok(());
        }
        let is_adopted = self.storage.home().file().former.is_some();
        let waits = unsettled.goes_on_without && !is_adopted;
        if waits {
            self.storage.is_settled.store(false, Ordering::Release);
        } else if unsettled.is_behind {
            let mut next = self.published.manifest().clone();
            if unsettled.goes_on_without {
                next.lineage.push(lineage_mark());
            }
            // All tiers come to name the same. Space that damaged copies took is free: what is written there, and not
            // published before a power cut, must not be taken for them.
            match self.publish_in(&unsettled.most_behind_first, next) {
                Ok(()) => {}
                Err(error) if is_adopted => {
                    return Err(OpenError::Adoption {
                        dir: self.storage.dir.clone(),
                        source: Box::new(error),
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "tiers could not be brought to the newest manifest");
                    return Ok(());
                }
            }
        }
        let is_published = !waits;
        let told = self.tell_home(is_published);
        match told {
            Err(source) if is_adopted => Err(OpenError::Adoption {
                dir: self.storage.dir.clone(),
                source: Box::new(source),
            }),
            Err(error) => {
                tracing::warn!(%error, "the directory file could not be brought up to date");
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    /// Publishes a manifest in the tiers in this order: whatever is cut short, none is behind by more publications than there are
    /// others.
    fn publish_in(&mut self, order: &[TierId], mut next: Manifest) -> Result<(), StorageError> {
        next.commit = self.commit + 1;
        self.note_reached(&mut next);
        let mut tiers = Tiers::clone(&self.storage.tiers());
        let place = |id: TierId| order.iter().position(|other| *other == id);
        tiers.open.sort_by_key(|tier| place(tier.id));
        self.published.publish(&tiers, next, Vec::new())?;
        self.commit += 1;
        self.release_superseded();
        Ok(())
    }

    /// Has the directory say what the manifest does: the newest mark, and which tiers there are.
    fn tell_home(&self, is_published: bool) -> Result<(), StorageError> {
        let manifest = self.published.manifest();
        let mut home = self.storage.home();
        let is_known = |name: &str| manifest.tiers.iter().any(|tier| tier.name == name);
        for tier in &home.file().tiers {
            // Of an addition that was interrupted. What is not certain to be that stays.
            if tier.state == TierState::Adding
                && !is_known(&tier.name)
                && let Err(error) = home.remove_remains(tier, &self.storage.options)
            {
                tracing::warn!(tier = tier.name, %error, "its pool was left by an addition that was interrupted");
            }
        }
        let next = |file: &mut DirectoryFile| {
            file.lineage = manifest.lineage.last().copied();
            file.state = State::Ready;
            file.tiers.retain(|tier| is_known(&tier.name));
            let adding = |tier: &TierState| *tier == TierState::Adding;
            for tier in &mut file.tiers {
                if is_published || adding(&tier.state) {
                    tier.state = TierState::There;
                }
            }
            if is_published {
                file.former = None;
            }
        };
        let mut expected = home.file().clone();
        next(&mut expected);
        if expected == *home.file() {
            home.restore_twin();
            return Ok(());
        }
        let changed = home.change(next);
        changed.map_err(|(path, source)| StorageError::Directory { path, source })
    }

    /// Whether the outcome of a write that failed now is unknown: a device did not say what it has.
    pub(super) fn has_failed_device(&self) -> bool {
        let tiers = self.storage.tiers();
        tiers.open.iter().any(|tier| tier.pool.is_poisoned())
    }

    /// Has to come before whatever writes: fails where nothing can be written, and sees to it that tiers that are missing are
    /// known to be behind.
    pub(super) fn begin_writing(&mut self) -> Result<(), StorageError> {
        self.storage.check_writable()?;
        if self.storage.is_settled() {
            return Ok(());
        }
        let mut next = self.published.manifest().clone();
        next.lineage.push(lineage_mark());
        self.publish(next, Vec::new())?;
        self.note_lineage()?;
        self.storage.is_settled.store(true, Ordering::Release);
        for table in self.catalog.tables() {
            // What waited for this.
            table.ask_to_heal();
            table.ask_for_indexes();
            table.ask_for_index_copies();
        }
        Ok(())
    }

    /// Writes the newest mark into the directory, unless it is there.
    pub(super) fn note_lineage(&self) -> Result<(), StorageError> {
        let mark = self.published.manifest().lineage.last().copied();
        let mut home = self.storage.home();
        if home.file().lineage == mark {
            return Ok(());
        }
        let changed = home.change(|file| file.lineage = mark);
        changed.map_err(|(path, source)| StorageError::Directory { path, source })
    }
}
