//! Appends rows to the tail: into its log, then into its near arrays.

use std::sync::Arc;

use arrow::array::RecordBatch;
use tierra_memory::replication::ReplicationError;

use super::losses::is_lost;
use super::state::Writer;
use crate::error::{AppendError, InputError, StorageError};
use crate::manifest::SEGMENT_ROWS;
use crate::manifest::row_id::RowId;
use crate::manifest::{LogEntry, TableEntry, lineage_mark};
use crate::storage::extent::{OwnedExtent, Owner};
use crate::table::Table;
use crate::table::requests::Append;
use crate::table::version::TableVersion;
use crate::tail::{Commit, Record, TailLog};

/// Retries of an append with another log after pages of its log were lost.
const APPEND_TRIES_MOST: usize = 4;
/// The most bytes a tail logs: an append that would exceed them seals the tail first.
const TAIL_MOST_BYTES: u64 = 256 << 20;

impl Writer {
    pub(super) fn append(&mut self, request: Append) -> Result<(), AppendError> {
        let Append {
            table,
            batch,
            mut record,
            keys,
            ..
        } = request;
        self.entry(&table)?;
        let tail = &table.current().tail;
        let full = tail.rows() as usize + batch.num_rows() > SEGMENT_ROWS;
        if full || tail.rows() > 0 && tail.bytes() + record.len_bytes() > TAIL_MOST_BYTES {
            self.seal(&table)?;
        }
        let mut appended = self.append_rows(&table, &batch, &mut record, keys.as_deref());
        for _ in 0..APPEND_TRIES_MOST {
            if !matches!(&appended, Err(AppendError::Storage(StorageError::Pool(error))) if is_lost(error))
            {
                break;
            }
            // The log's pages were lost. The earlier rows are also in near memory; they move to a segment, and a new log begins.
            self.storage.note_losses();
            self.leave_log(&table)?;
            appended = self.append_rows(&table, &batch, &mut record, keys.as_deref());
        }
        appended
    }

    fn append_rows(
        &mut self,
        table: &Arc<Table>,
        batch: &RecordBatch,
        record: &mut Record,
        keys: Option<&[u64]>,
    ) -> Result<(), AppendError> {
        let name = || table.spec().name.clone();
        let current = table.current();
        let first = current.tail.rows();
        let row_id = |at: usize| RowId::new(current.tail.segment_id, first + at as u32);
        let keys = match (table.key(), keys) {
            (Some(key), Some(hashes)) => Some(key.extend(table, &current, batch, hashes, row_id)?),
            _ => None,
        };
        // Before anything is written: rows that cannot be made visible must not be durable.
        let tail = current.tail.push(batch.clone(), record.len_bytes());
        let tail = tail.map_err(|source| InputError::Arrow {
            table: name(),
            source,
        })?;
        let first_log = match self.is_begun(table) {
            true => Some(self.write_first(table, record)?),
            false => {
                self.write(table, record)?;
                None
            }
        };
        table.publish(TableVersion {
            tail,
            keys: current.keys.next(keys),
            ..current.next()
        });
        if let Some(log) = first_log {
            self.show(table, log);
        }
        Ok(())
    }

    /// Writes a record, which commits the rows.
    fn write(&mut self, table: &Table, record: &mut Record) -> Result<(), StorageError> {
        self.make_room(table, record)?;
        let Err(error) = self.log_record(table, record)? else {
            return Ok(());
        };
        if !self.lose_failed_tiers() {
            return Err(error.into());
        }
        // One copy can no longer be written: the record goes to the others.
        let mut next = self.published.manifest().clone();
        next.lineage.push(lineage_mark());
        self.publish(next, Vec::new())?;
        self.leave_lost_tiers()?;
        Ok(self.log_record(table, record)??)
    }

    /// Writes a record to the current log, which has room for it.
    fn log_record(
        &mut self,
        table: &Table,
        record: &mut Record,
    ) -> Result<Result<(), ReplicationError>, StorageError> {
        let commit = self.next_commit();
        let log = self.logs.get_mut(&table.id()).ok_or(StorageError::Closed)?;
        let appended = log.append(&self.storage.log_method, record, commit);
        if appended.is_ok() {
            self.commit = commit.number;
            self.schedule_idle_marks();
        }
        Ok(appended)
    }

    /// The number and epoch of the next record or publication.
    fn next_commit(&self) -> Commit {
        Commit {
            number: self.commit + 1,
            follows: self.published.manifest().version,
        }
    }

    /// Writes the first record of a table that was begun, then the manifest that names the table and its log.
    fn write_first(&mut self, table: &Table, record: &mut Record) -> Result<TailLog, StorageError> {
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
    fn make_room(&mut self, table: &Table, record: &Record) -> Result<(), StorageError> {
        let log = self.logs.get(&table.id()).ok_or(StorageError::Closed)?;
        if log.fits(record) {
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

    /// Forgets the log of a sealed tail: the next record starts a new one.
    pub(super) fn restart_log(&mut self, table: &Arc<Table>, sequence: u64) {
        self.logs.insert(table.id(), TailLog::starting_at(sequence));
    }
}
