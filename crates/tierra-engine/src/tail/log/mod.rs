//! The tail's log, as the writer appends to it: records in extents, each whole or absent.
//!
//! ```text
//! extent: | head, a line | record | record | .. | record | terminator: a line of zeros, where there is room |
//! ```
//!
//! Invariant: a record and the terminator behind it are written and persisted at once, and with them the mark that the records before
//! it were acknowledged.

#[cfg(test)]
mod tests;

use tierra_memory::replication::{Method, ReplicaSet, ReplicationError};

use super::format::LINE;
use super::header::{LogHeader, MARK_AT};
use super::record::{Label, Record};
use crate::calibration::LOG_METHOD;
use crate::manifest::{ExtentId, LogEntry};
use crate::storage::extent::OwnedExtent;

/// A log's first extent; each further one doubles.
const LOG_LEAST_BYTES: u64 = 64 << 10;
/// No extent grows past this unless one record needs it.
const LOG_MOST_BYTES: u64 = 16 << 20;

/// A commit by a record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Commit {
    /// In the whole database.
    pub(crate) number: u64,
    /// The version of the manifest that it follows.
    pub(crate) follows: u64,
}

/// Where the next record goes.
#[derive(Debug)]
pub(crate) struct TailLog {
    /// The last extent.
    last: Option<Last>,
    end: LogEnd,
}

#[derive(Debug)]
struct Last {
    extent: ExtentId,
    head: LogHeader,
    set: ReplicaSet,
}

/// How far a log goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogEnd {
    /// First free byte of the last extent.
    pub(crate) at: u64,
    /// Of the next record.
    pub(crate) sequence: u64,
    /// Checksum of the last record's header.
    pub(super) chain: u32,
    /// The head of the last extent.
    pub(super) head: Option<LogHeader>,
    /// All records before this one are marked as acknowledged.
    pub(super) marked: u64,
    /// Records behind the end that are given up, for they follow a newer manifest than the one that is gone back to.
    pub(crate) given_up: u64,
}

impl LogEnd {
    /// Of a log whose first record will be number `sequence`.
    pub(super) fn starting_at(sequence: u64) -> LogEnd {
        LogEnd {
            at: 0,
            sequence,
            chain: 0,
            head: None,
            marked: sequence,
            given_up: 0,
        }
    }
}

impl TailLog {
    /// A log whose first record will be number `sequence`; it has no extent yet.
    pub(crate) fn starting_at(sequence: u64) -> Self {
        Self {
            last: None,
            end: LogEnd::starting_at(sequence),
        }
    }

    /// A log that was read back. `last` is its last extent, if it has any, whose copies are equal and
    /// durable up to the end.
    pub(crate) fn reopened(
        last: Option<&OwnedExtent>,
        end: LogEnd,
    ) -> Result<Self, ReplicationError> {
        let last = last.zip(end.head).map(|(extent, head)| {
            let set = replica_set(extent)?;
            let extent = extent.id();
            Ok::<_, ReplicationError>(Last { extent, head, set })
        });
        Ok(Self {
            last: last.transpose()?,
            end,
        })
    }

    pub(crate) fn next_sequence(&self) -> u64 {
        self.end.sequence
    }

    /// How many records behind the end are given up by [`TailLog::cut`].
    pub(crate) fn given_up(&self) -> u64 {
        self.end.given_up
    }

    fn last_bytes(&self) -> Option<u64> {
        self.last.as_ref().map(|last| last.set.len_bytes())
    }

    /// Whether the record fits the last extent.
    pub(crate) fn fits(&self, record: &Record) -> bool {
        self.last_bytes()
            .is_some_and(|len_bytes| self.end.at + record.len_bytes() <= len_bytes)
    }

    /// How long the extent has to be that is added for this record.
    pub(crate) fn next_extent_bytes(&self, record: &Record) -> u64 {
        let doubled = self.last_bytes().map_or(LOG_LEAST_BYTES, |len_bytes| {
            (2 * len_bytes).min(LOG_MOST_BYTES)
        });
        doubled.max(record.len_bytes() + 2 * LINE as u64)
    }

    fn next_head(&self, epoch: u64) -> LogHeader {
        LogHeader {
            epoch,
            first_sequence: self.end.sequence,
            chain: self.end.chain,
        }
    }

    /// Makes an empty extent one that the log can go on in, durably: from then on a manifest may name it.
    pub(crate) fn prepare(
        &self,
        entry: LogEntry,
        extent: &OwnedExtent,
    ) -> Result<(), ReplicationError> {
        let line = self.next_head(entry.epoch).line();
        replica_set(extent)?.write(&LOG_METHOD, 0, &line)
    }

    /// Continues in a prepared extent, which the published manifest names, or the next one before it counts.
    pub(crate) fn continue_in(
        &mut self,
        entry: LogEntry,
        extent: &OwnedExtent,
    ) -> Result<(), ReplicationError> {
        let head = self.next_head(entry.epoch);
        self.last = Some(Last {
            extent: entry.extent,
            head,
            set: replica_set(extent)?,
        });
        // The manifest that names the extent says that all before were acknowledged.
        self.end = LogEnd {
            at: LINE as u64,
            head: Some(head),
            marked: self.end.sequence,
            ..self.end
        };
        Ok(())
    }

    /// Goes on in the same last extent with other copies of it, which are equal up to the end.
    pub(crate) fn change_copies(&mut self, extent: &OwnedExtent) -> Result<(), ReplicationError> {
        if let Some(last) = &mut self.last {
            last.set = replica_set(extent)?;
        }
        Ok(())
    }

    /// The number of the last extent, and how many bytes of it are taken.
    pub(crate) fn filling(&self) -> Option<(ExtentId, u64)> {
        self.last.as_ref().map(|last| (last.extent, self.end.at))
    }

    /// Writes the record to all copies and persists it, and with it the mark that all records before it were acknowledged. On
    /// an error the log is as before.
    ///
    /// # Panics
    /// If the record does not fit.
    pub(crate) fn append(
        &mut self,
        method: &Method,
        record: &mut Record,
        commit: Commit,
    ) -> Result<(), ReplicationError> {
        let Last { head, set, .. } = self.last.as_mut().expect("the caller made room");
        let chain = record.seal(&Label {
            sequence: self.end.sequence,
            commit: commit.number,
            follows: commit.follows,
            epoch: head.epoch,
            chain: self.end.chain,
        });
        let room = (set.len_bytes() - self.end.at) as usize;
        let written = record.bytes().len().min(room);
        assert!(written as u64 >= record.len_bytes(), "the caller made room");
        let record_at = (self.end.at, &record.bytes()[..written]);
        match self.end.marked == self.end.sequence {
            true => set.write_all(method, &[record_at])?,
            false => {
                let mark = head.mark(self.end.sequence);
                set.write_all(method, &[(MARK_AT as u64, &mark), record_at])?;
            }
        }
        self.end = LogEnd {
            at: self.end.at + record.len_bytes(),
            sequence: self.end.sequence + 1,
            chain,
            marked: self.end.sequence,
            ..self.end
        };
        Ok(())
    }

    /// Makes the log one that ends where it does, durably, if records behind its end are given up. May be done again.
    pub(crate) fn cut(&mut self, method: &Method) -> Result<(), ReplicationError> {
        let (at, sequence) = (self.end.at, self.end.sequence);
        if let Some(Last { head, set, .. }) = &mut self.last
            && self.end.given_up > 0
        {
            let zeros = vec![0; (set.len_bytes() - at) as usize];
            set.write(method, MARK_AT as u64, &head.mark(sequence))?;
            set.write(method, at, &zeros)?;
            (self.end.marked, self.end.given_up) = (sequence, 0);
        }
        Ok(())
    }

    /// Whether the last record is not marked as acknowledged.
    pub(crate) fn has_unmarked(&self) -> bool {
        self.last.is_some() && self.end.marked < self.end.sequence
    }

    /// Marks all records as acknowledged, durably.
    pub(crate) fn mark(&mut self, method: &Method) -> Result<(), ReplicationError> {
        let sequence = self.end.sequence;
        if let Some(Last { head, set, .. }) = &mut self.last
            && self.end.marked < sequence
        {
            set.write(method, MARK_AT as u64, &head.mark(sequence))?;
            self.end.marked = sequence;
        }
        Ok(())
    }
}

fn replica_set(extent: &OwnedExtent) -> Result<ReplicaSet, ReplicationError> {
    let copies = extent.copies().iter();
    let copies: Vec<_> = copies
        .map(|copy| (copy.pool().clone(), copy.extent()))
        .collect();
    ReplicaSet::of_equal(&copies)
}
