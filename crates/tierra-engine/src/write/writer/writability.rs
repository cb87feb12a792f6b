//! Whether the database can be written, and what the first write must do before.
//!
//! A database that is opened without some of its tiers still matches them while it is only read. The first write makes the two
//! diverge: the newest manifest and the directory file get a mark. A tier whose manifest lacks the mark must be brought up to
//! date before it counts again.
//!
//! Invariant: while a tier is missing that the newest manifest lists as present, opening and reading publish no manifest, except in
//! an adoption. So a tier that returns before the first write is still up to date.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::state::Writer;
use crate::error::{OpenError, StorageError};
use crate::manifest::{Manifest, lineage_mark};
use crate::spec::replicas::TierId;
use crate::storage::directory::{CreationState, DirectoryFile, TierState};
use crate::storage::extent::ExtentCopy;
use crate::storage::tiers::Tiers;

/// Work that opening leaves to be done.
pub(crate) struct Unsettled {
    /// Space that is free with the next publication.
    pub(crate) superseded: Vec<Arc<ExtentCopy>>,
    /// Whether some tiers do not have the newest manifest.
    pub(crate) is_behind: bool,
    /// The present tiers, in the order of their publication.
    pub(crate) most_behind_first: Vec<TierId>,
    /// Whether tiers are missing that the newest manifest lists as present.
    pub(crate) goes_on_without: bool,
}

impl Writer {
    /// Brings all tiers to the same manifest, and the directory file up to date with it, unless that would make missing tiers
    /// diverge.
    ///
    /// # Errors [`OpenError`] only in an adoption. Any other failure is logged, and the next open tries again.
    pub(crate) fn settle(&mut self, unsettled: Unsettled) -> Result<(), OpenError> {
        self.superseded = unsettled.superseded;
        if self.storage.read_only().is_some() {
            return Ok(());
        }
        let is_adopted = self.storage.directory().file().former.is_some();
        let waits = unsettled.goes_on_without && !is_adopted;
        if !waits && let Err(error) = self.cut_logs() {
            // The first write tries again.
            tracing::warn!(%error, "the ends of logs could not be cleared");
            return Ok(());
        }
        if waits {
            self.storage.is_settled.store(false, Ordering::Release);
        } else if unsettled.is_behind {
            let mut next = self.published.manifest().clone();
            if unsettled.goes_on_without {
                next.lineage.push(lineage_mark());
            }
            // All tiers will name the same extents. The space of damaged copies is then free: data that is written there but not
            // published before a power cut must not be taken for those copies.
            match self.publish_in(&unsettled.most_behind_first, next) {
                Ok(()) => {}
                Err(error) if is_adopted => {
                    return Err(OpenError::Adoption {
                        dir: self.storage.dir.clone(),
                        source: Box::new(error),
                    });
                }
                // The first write tries again: a row that it adds would be in a log that some tiers do not know.
                Err(error) => {
                    tracing::warn!(%error, "tiers could not be brought to the newest manifest");
                    self.behind = unsettled.most_behind_first;
                    self.storage.is_settled.store(false, Ordering::Release);
                    return Ok(());
                }
            }
        }
        let is_published = !waits;
        let told = self.record_publication(is_published);
        match told {
            Err(source) if is_adopted => Err(OpenError::Adoption {
                dir: self.storage.dir.clone(),
                source: Box::new(source),
            }),
            Err(error) => {
                tracing::warn!(%error, "the directory file could not be brought up to date");
                if self.storage.directory().file().state == CreationState::Creating {
                    self.storage.is_settled.store(false, Ordering::Release);
                }
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    /// Publishes a manifest in the tiers in this order, so that after an interruption no tier lacks more publications than there
    /// are other tiers.
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

    /// Updates the directory file from the manifest: the newest mark, and the tiers.
    fn record_publication(&self, is_published: bool) -> Result<(), StorageError> {
        let manifest = self.published.manifest();
        let mut directory = self.storage.directory();
        let is_known = |name: &str| manifest.tiers.iter().any(|tier| tier.name == name);
        for tier in &directory.file().tiers {
            // A pool left by an interrupted addition is removed; one that is not certain to be that stays.
            if tier.state == TierState::Adding
                && !is_known(&tier.name)
                && let Err(error) = directory.remove_remains(tier, &self.storage.options)
            {
                tracing::warn!(tier = tier.name, %error, "its pool was left by an addition that was interrupted");
            }
        }
        let next = |file: &mut DirectoryFile| {
            file.lineage = manifest.lineage.last().copied();
            // A restore says itself when it has finished.
            if file.state == CreationState::Creating {
                file.state = CreationState::Ready;
            }
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
        let mut expected = directory.file().clone();
        next(&mut expected);
        if expected == *directory.file() {
            directory.restore_both_files();
            return Ok(());
        }
        let changed = directory.change(next);
        changed.map_err(|(path, source)| StorageError::Directory { path, source })
    }

    /// Whether the outcome of a write that fails now is unknown, because a device failed without saying what it stored.
    pub(super) fn has_failed_device(&self) -> bool {
        let tiers = self.storage.tiers();
        tiers.open.iter().any(|tier| tier.pool.is_poisoned())
    }

    /// Must be called before every write. Fails if the database cannot be written, and marks missing tiers as outdated.
    pub(super) fn begin_writing(&mut self) -> Result<(), StorageError> {
        self.storage.check_writable()?;
        if self.must_leave_lost {
            self.go_on_without_lost()?;
            self.note_lineage()?;
        }
        self.finish_creation()?;
        self.cut_logs()?;
        if self.storage.is_settled() {
            return Ok(());
        }
        let mut next = self.published.manifest().clone();
        next.lineage.push(lineage_mark());
        match std::mem::take(&mut self.behind) {
            order if order.is_empty() => self.publish(next, Vec::new())?,
            order => {
                let published = self.publish_in(&order, next);
                published.inspect_err(|_| self.behind = order)?;
            }
        }
        self.note_lineage()?;
        self.storage.is_settled.store(true, Ordering::Release);
        for table in self.catalog.tables() {
            // Work that was waiting for this.
            table.ask_for_missing_copies();
            table.ask_for_indexes();
            table.ask_for_index_copies();
        }
        Ok(())
    }

    /// Says that the database is created, if opening could not: until then it counts as one in which nothing was stored.
    fn finish_creation(&self) -> Result<(), StorageError> {
        let mut directory = self.storage.directory();
        if directory.file().state != CreationState::Creating {
            return Ok(());
        }
        let changed = directory.change(|file| file.state = CreationState::Ready);
        changed.map_err(|(path, source)| StorageError::Directory { path, source })
    }

    /// Removes records that do not count from the ends of logs, durably.
    pub(super) fn cut_logs(&mut self) -> Result<(), StorageError> {
        self.cut_logs_but(None)
    }

    /// The same but for the log of one table, which is about to be left.
    pub(super) fn cut_logs_but(&mut self, left: Option<u64>) -> Result<(), StorageError> {
        if self.must_cut_logs {
            let logs = self.logs.iter_mut();
            for (_, log) in logs.filter(|(table, _)| Some(**table) != left) {
                log.cut(&self.storage.log_method)?;
            }
            self.must_cut_logs = self.logs.values().any(|log| log.given_up() > 0);
        }
        Ok(())
    }

    /// Writes the newest mark into the directory file, unless it is there.
    pub(super) fn note_lineage(&self) -> Result<(), StorageError> {
        let mark = self.published.manifest().lineage.last().copied();
        let mut directory = self.storage.directory();
        if directory.file().lineage == mark {
            return Ok(());
        }
        let changed = directory.change(|file| file.lineage = mark);
        changed.map_err(|(path, source)| StorageError::Directory { path, source })
    }
}
