//! The logs of tails, as the writer extends them: room for a record, and the first record of a table.

use std::sync::Arc;

use super::state::Writer;
use crate::error::StorageError;
use crate::manifest::{LogEntry, TableEntry};
use crate::storage::extent::{OwnedExtent, Owner};
use crate::table::Table;
use crate::tail::{Commit, Record, TailLog};

impl Writer {
    /// The number and epoch of the next record or publication.
    pub(super) fn next_commit(&self) -> Commit {
        Commit {
            number: self.commit + 1,
            follows: self.published.manifest().version,
        }
    }

    /// Writes the first record of a table that was begun, then the manifest that names the table and its log.
    pub(super) fn write_first(
        &mut self,
        table: &Table,
        record: &mut Record,
    ) -> Result<TailLog, StorageError> {
        let mut entry = TableEntry::clone(&*self.entry(table)?);
        let mut log = TailLog::starting_at(entry.tail.first_sequence);
        let (extent, added) = self.new_extent(table, &log, record)?;
        log.continue_in(added, &extent)?;
        // The publication commits both, so the record has its number.
        log.append(&self.storage.log_method, record, self.next_commit())?;
        entry.tail.logs.push(added);
        entry.tail.reached = log.next_sequence();
        let next = self.published.with_table(entry);
        self.publish(next, vec![extent])?;
        self.schedule_idle_marks();
        Ok(log)
    }

    /// Adds an extent to the log if the record does not fit into the last one.
    pub(super) fn make_room(&mut self, table: &Table, record: &Record) -> Result<(), StorageError> {
        let log = self.logs.get(&table.id()).ok_or(StorageError::Closed)?;
        if log.fits(record.len_bytes()) {
            return Ok(());
        }
        let mut entry = TableEntry::clone(&*self.entry(table)?);
        let (extent, added) = self.new_extent(table, log, record)?;
        entry.tail.logs.push(added);
        let next = self.published.with_table(entry);
        self.publish(next, vec![extent])?;
        // Uses the copies that the extent has now: a tier may have been lost.
        let extent = self.published.extent(added.extent);
        if let (Some(log), Some(extent)) = (self.logs.get_mut(&table.id()), extent) {
            log.continue_in(added, extent)?;
        }
        Ok(())
    }

    /// An empty extent for a log with room for the record, and its entry for the next manifest.
    fn new_extent(
        &self,
        table: &Table,
        log: &TailLog,
        record: &Record,
    ) -> Result<(Arc<OwnedExtent>, LogEntry), StorageError> {
        let (placement, owner) = (table.placement(), Owner::Log(table.id()));
        let len_bytes = log.next_extent_bytes(record);
        let writer = self
            .storage
            .allocate(&placement.everywhere(), len_bytes, owner)?;
        let extent = writer.finish_log()?;
        // Only the next manifest has this version, so no record bears this epoch yet.
        let epoch = self.published.manifest().version + 1;
        let added = LogEntry {
            extent: extent.id(),
            epoch,
        };
        log.prepare(added, &extent)?;
        Ok((extent, added))
    }
}
