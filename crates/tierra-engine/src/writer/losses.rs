//! What is lost of what only the writer writes is written anew: the rows of logs, which are in near memory as well, and the
//! manifests.
//!
//! Invariant: nothing is published that lies on a lost page; what is lost of extents that are about to be is restored first.

use std::sync::Arc;

use tierra_memory::PoolError;

use super::Writer;
use crate::error::StorageError;
use crate::mend;
use crate::space::{ExtentCopy, OwnedExtent};
use crate::storage::Storage;
use crate::table::Table;

/// Times that a publication is tried again because pages were lost that it needs.
pub(super) const PUBLISH_TRIES_MOST: usize = 4;

/// Whether a write failed because pages were lost, which can be written anew.
pub(super) fn is_lost(error: &PoolError) -> bool {
    matches!(error, PoolError::Lost { .. } | PoolError::Truncated { .. })
}

/// Restores what is lost of extents that nobody has published yet, as far as there are copies.
pub(super) fn restore(storage: &Storage, fresh: &[Arc<OwnedExtent>]) {
    storage.note_losses();
    for extent in fresh {
        for copy in extent.copies() {
            mend::lost_parts(extent, copy);
        }
    }
}

impl Writer {
    /// Pages were lost: tails whose logs had some become segments, and each tier gets a manifest again.
    pub(super) fn see_to_losses(&mut self) {
        let before = self.published.manifest().version;
        for table in self.catalog.tables() {
            if let Err(error) = self.leave_lost_log(&table) {
                let table = &table.spec().name;
                tracing::error!(table, %error, "a log that lost pages could not be left");
            }
        }
        if self.published.manifest().version != before {
            return;
        }
        let next = self.published.manifest().clone();
        if let Err(error) = self.publish(next, Vec::new()) {
            tracing::error!(%error, "the manifest could not be written anew");
        }
    }

    /// How many tiers' manifests cannot be read any more. All are written anew then, if asked for.
    pub(super) fn check_manifests(&mut self, mend: bool) -> Result<u64, StorageError> {
        let roots = self.published.roots().iter();
        let is_damaged =
            |root: &&Arc<ExtentCopy>| root.pool().verify_extent(root.extent()).is_err();
        let damaged = roots.filter(is_damaged).count() as u64;
        if damaged > 0 && mend {
            let next = self.published.manifest().clone();
            self.publish(next, Vec::new())?;
        }
        Ok(damaged)
    }

    fn leave_lost_log(&mut self, table: &Arc<Table>) -> Result<(), StorageError> {
        let Some(entry) = self.published.table(table.id()) else {
            return Ok(());
        };
        let logs = entry.tail.logs.iter();
        let mut logs = logs.filter_map(|log| self.published.extent(log.extent));
        match logs.any(|log| log.copies().iter().any(|copy| copy.has_losses())) {
            true => self.leave_log(table),
            false => Ok(()),
        }
    }

    /// Has the rows of a tail lie in a segment instead of its log.
    pub(super) fn leave_log(&mut self, table: &Arc<Table>) -> Result<(), StorageError> {
        let logs = self
            .published
            .table(table.id())
            .map(|entry| entry.tail.logs.clone());
        let logs = logs.unwrap_or_default();
        let held = logs
            .iter()
            .filter_map(|log| self.published.extent(log.extent));
        let held: Vec<_> = held.cloned().collect();
        self.seal(table)?;
        for extent in held {
            for copy in extent.copies().iter().filter(|copy| copy.has_losses()) {
                copy.note_whole();
                let log = &extent.all_losses().log;
                log.repaired(&extent, copy, &(0..usize::MAX), "near memory");
            }
        }
        Ok(())
    }
}
