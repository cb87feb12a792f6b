//! Rewrites lost or damaged data that only the writer writes: the rows of logs and the values of dictionaries, which are also in
//! near memory, manifests and superblocks.
//!
//! Invariant: nothing is published that lies on a lost page; lost pages of extents to be published are restored first.

use std::collections::HashMap;
use std::sync::Arc;

use tierra_memory::PoolError;

use super::state::Writer;
use crate::dictionaries::PieceExtent;
use crate::error::StorageError;
use crate::integrity::repair;
use crate::manifest::{ExtentId, TableEntry};
use crate::storage::Storage;
use crate::storage::extent::{ExtentCopy, OwnedExtent};
use crate::storage::faults::FaultKind;
use crate::table::Table;
use crate::tail::{self, Named, TailLog};

/// Retries of a publication after pages that it needs were lost.
pub(super) const PUBLISH_TRIES_MOST: usize = 4;

/// Whether a write failed because of lost pages, which can be rewritten.
pub(super) fn is_lost(error: &PoolError) -> bool {
    matches!(error, PoolError::Lost { .. } | PoolError::Truncated { .. })
}

/// Restores lost pages of extents that are not yet published, as far as there are copies.
pub(super) fn restore(storage: &Storage, fresh: &[Arc<OwnedExtent>]) {
    storage.note_losses();
    for extent in fresh {
        for copy in extent.copies() {
            repair::lost_parts(extent, copy);
        }
    }
}

/// Whether a copy of the extent is whole, after lost pages were restored as far as there are copies.
fn is_there(extent: &Arc<OwnedExtent>) -> bool {
    let restored = extent
        .copies()
        .iter()
        .map(|copy| repair::lost_parts(extent, copy));
    restored.filter(|is_there| *is_there).count() > 0
}

/// Notes that the extent's content has moved to another extent.
fn note_replaced(extent: &Arc<OwnedExtent>) {
    for copy in extent.copies().iter().filter(|copy| copy.has_losses()) {
        copy.note_all_restored();
        let log = &extent.all_losses().log;
        log.repaired(extent, copy, &(0..usize::MAX), "near memory");
    }
}

impl Writer {
    /// Handles lost pages: a tail whose log lost pages becomes a segment, dictionaries without an intact copy get new pieces, and
    /// each tier gets a new manifest.
    pub(super) fn repair_losses(&mut self) {
        self.choose_replicas();
        if !self.storage.is_settled() {
            return;
        }
        let before = self.published.manifest().version;
        // Opening may read only a device's first page. It holds the header and the superblock, which are lost with it, also when
        // the page is cleared for other data on it.
        for tier in &self.storage.tiers().open {
            if let Err(error) = tier.pool.check_superblock(true) {
                tracing::error!(tier = %tier.name, %error, "the header of a tier could not be rewritten");
            }
        }
        for table in self.catalog.tables() {
            let left = self.leave_lost_log(&table);
            if let Err(error) = left.and_then(|()| self.replace_lost_pieces(&table)) {
                let table = &table.spec().name;
                tracing::error!(table, %error, "lost data of a table could not be rewritten");
            }
        }
        if self.published.manifest().version != before {
            return;
        }
        let next = self.published.manifest().clone();
        if let Err(error) = self.publish(next, Vec::new()) {
            tracing::error!(%error, "the manifest could not be rewritten");
        }
    }

    /// Compares what only the writer writes, except dictionaries, with its checksums: superblocks, manifests, records of logs.
    /// Returns the number of damaged copies. They are repaired if `repair` is set.
    pub(super) fn check_own(&mut self, repair: bool) -> Result<u64, StorageError> {
        let mut damaged = 0;
        for tier in &self.storage.tiers().open {
            if tier.pool.check_superblock(repair)? {
                damaged += 1;
                if repair {
                    let log = &self.storage.losses().log;
                    log.tier_header(tier.id, &tier.name);
                }
            }
        }
        damaged += self.check_manifests(repair)?;
        for table in self.catalog.tables() {
            damaged += self.check_log(&table, repair)?;
        }
        Ok(damaged)
    }

    /// The number of copies of a table's log with damaged records. Each record is repaired from another copy; if there is none,
    /// the rows, which are also in near memory, become a segment.
    pub(super) fn check_log(
        &mut self,
        table: &Arc<Table>,
        repair: bool,
    ) -> Result<u64, StorageError> {
        let entry = self.published.table(table.id()).cloned();
        let entry = entry.filter(|_| table.check_complete().is_ok() && !self.is_begun(table));
        let (Some(entry), Some(log)) = (entry, self.logs.get(&table.id())) else {
            return Ok(0);
        };
        let next_sequence = log.next_sequence();
        let logs = entry.tail.logs.iter();
        let held = logs.filter_map(|log| self.published.extent(log.extent));
        let held: HashMap<_, _> = held.map(|extent| (extent.id(), extent.clone())).collect();
        if held.len() < entry.tail.logs.len() {
            return Ok(0);
        }
        let copies_of = |id| held[&id].copies().iter().map(|copy| &***copy).collect();
        let manifest = self.published.manifest();
        let named = Named {
            tail: &entry.tail,
            version: manifest.version,
            commit: manifest.commit,
            goes_back: false,
        };
        let read = tail::replay(named, copies_of, |_| Ok(()));
        let read = read.ok().filter(|read| read.end.sequence == next_sequence);
        let repairs = read.as_ref().map_or(&[][..], |read| &read.repairs);
        for tail::LogRepair {
            extent,
            wrong,
            range,
            ..
        } in repairs
        {
            let (extent, log) = (&held[extent], &self.storage.losses().log);
            log.found(
                extent,
                &extent.copies()[*wrong],
                range.clone(),
                FaultKind::LogRecord,
            );
        }
        let mut wrong: Vec<_> = repairs
            .iter()
            .map(|repair| (repair.extent, repair.wrong))
            .collect();
        wrong.dedup();
        let damaged = match read.is_some() {
            true => wrong.len() as u64,
            false => held.len() as u64,
        };
        if damaged == 0 || !repair {
            return Ok(damaged);
        }
        let repaired = read.is_some() && tail::repair(repairs, |id| &*held[&id]).is_ok();
        if !repaired {
            self.leave_log(table)?;
        }
        for repair in repairs {
            let (extent, log) = (&held[&repair.extent], &self.storage.losses().log);
            let copies = extent.copies();
            let from = match repaired {
                true => &**copies[repair.right].tier_name(),
                false => "near memory",
            };
            log.repaired(extent, &copies[repair.wrong], &repair.range, from);
        }
        Ok(damaged)
    }

    /// The number of tiers with an unreadable manifest. If `repair` is set, all manifests are rewritten.
    fn check_manifests(&mut self, repair: bool) -> Result<u64, StorageError> {
        let roots = self.published.roots().iter();
        let is_damaged =
            |root: &&Arc<ExtentCopy>| root.pool().verify_extent(root.extent()).is_err();
        let damaged = roots.filter(is_damaged).count() as u64;
        if damaged > 0 && repair {
            let next = self.published.manifest().clone();
            self.publish(next, Vec::new())?;
        }
        Ok(damaged)
    }

    fn leave_lost_log(&mut self, table: &Arc<Table>) -> Result<(), StorageError> {
        // Nothing of a table with a missing tier is released.
        let entry = self.published.table(table.id());
        let Some(entry) = entry.filter(|_| table.check_complete().is_ok()) else {
            return Ok(());
        };
        let logs = entry.tail.logs.iter();
        let mut logs = logs.filter_map(|log| self.published.extent(log.extent));
        match logs.any(|log| log.copies().iter().any(|copy| copy.has_losses())) {
            true => self.leave_log(table),
            false => Ok(()),
        }
    }

    /// Moves the rows of a tail from its log to a segment. A table that is not yet visible has no log.
    pub(super) fn leave_log(&mut self, table: &Arc<Table>) -> Result<(), StorageError> {
        if self.is_begun(table) {
            return Ok(());
        }
        // Otherwise a record that does not count might seem to, once its fellows are gone.
        self.cut_logs_but(Some(table.id()))?;
        let entry = self.entry(table)?;
        let logs = entry.tail.logs.iter();
        let held = logs.filter_map(|log| self.published.extent(log.extent));
        let held: Vec<_> = held.cloned().collect();
        match table.current().tail.bytes() {
            0 => self.leave_empty_log(table, &entry)?,
            _ => self.seal(table)?,
        }
        held.iter().for_each(note_replaced);
        Ok(())
    }

    /// Writes new pieces of dictionaries, and bitmaps of deleted rows, that lost a part in all copies.
    fn replace_lost_pieces(&mut self, table: &Arc<Table>) -> Result<(), StorageError> {
        if table.check_complete().is_err() || self.is_begun(table) {
            return Ok(());
        }
        let mut entry = TableEntry::clone(&*self.entry(table)?);
        let current = table.current();
        let (mut pieces, mut left) = (PieceExtent::default(), Vec::new());
        for (column, known) in entry.dictionaries.iter_mut().enumerate() {
            let (Some(stored), Some(dictionary)) = (&*known, &current.dictionaries[column]) else {
                continue;
            };
            let places = std::iter::once(&stored.main).chain(&stored.deltas);
            let held = places.filter_map(|place| self.published.extent(place.extent));
            let lost: Vec<_> = held.filter(|extent| !is_there(extent)).cloned().collect();
            if !lost.is_empty() && stored.generation == dictionary.generation() {
                *known = Some(pieces.add_generation(dictionary));
                left.extend(lost);
            }
        }
        let is_held = |extent| self.published.extent(extent);
        let bitmaps = entry.deleted.values();
        let bitmaps = bitmaps.filter_map(|bitmap| is_held(bitmap.place.extent));
        let lost: Vec<_> = bitmaps
            .filter(|extent| !is_there(extent))
            .cloned()
            .collect();
        let is_lost = |id: ExtentId| lost.iter().any(|extent| extent.id() == id);
        entry
            .deleted
            .retain(|_, bitmap| !is_lost(bitmap.place.extent));
        left.extend(lost);
        if left.is_empty() {
            return Ok(());
        }
        let mut fresh = pieces.write(
            &self.storage,
            entry.id,
            &entry.placement,
            &mut entry.dictionaries,
        )?;
        fresh.extend(self.store_deletions(&mut entry, &current.deletions)?);
        let next = self.published.with_table(entry);
        self.publish(next, fresh)?;
        left.iter().for_each(note_replaced);
        Ok(())
    }

    /// Replaces a log whose first record could not be written.
    fn leave_empty_log(
        &mut self,
        table: &Arc<Table>,
        entry: &TableEntry,
    ) -> Result<(), StorageError> {
        let log = self.logs.get(&table.id()).ok_or(StorageError::Closed)?;
        let (mut entry, sequence) = (entry.clone(), log.next_sequence());
        entry.tail.logs.clear();
        entry.tail.first_sequence = sequence;
        entry.tail.reached = sequence;
        let next = self.published.with_table(entry);
        self.publish(next, Vec::new())?;
        self.logs.insert(table.id(), TailLog::starting_at(sequence));
        Ok(())
    }
}
