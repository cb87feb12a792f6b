//! The tail's log, as the writer appends to it: records in extents, each whole or absent.
//!
//! ```text
//! extent: | head, a line | record | record | .. | record | terminator: a line of zeros, if there is room |
//! ```
//!
//! Invariant: a record, the terminator after it, and the mark that the earlier records were acknowledged are written and
//! persisted together.

#[cfg(test)]
mod tests;

use tierra_memory::replication::{Method, ReplicaSet, ReplicationError, SetWrites};
use tierra_memory::{LINE_BYTES, MediumKind};

use super::header::{LogHeader, MARK_AT};
use super::record::{Label, Record};
use crate::calibration::LOG_METHOD;
use crate::manifest::{ExtentId, LogEntry};
use crate::storage::extent::OwnedExtent;

/// Size of a log's first extent; each further one doubles.
const LOG_LEAST_BYTES: u64 = 64 << 10;
/// The largest extent, unless one record needs more.
const LOG_MOST_BYTES: u64 = 16 << 20;

/// A commit through a log record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Commit {
    /// Number in the whole database.
    pub(crate) number: u64,
    /// The version of the manifest that it follows.
    pub(crate) follows: u64,
}

/// The writer's end of a log.
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
    /// Whether all its copies are memory: writing waits for no device.
    is_memory: bool,
}

/// A record that is complete and has its place.
struct Sealed {
    at: u64,
    /// With the terminator, if there is room for it.
    len_bytes: usize,
    /// That all records before were acknowledged.
    mark: [u8; 8],
    /// Whether the log has that mark.
    is_marked: bool,
    /// The end of the log with the record.
    end: LogEnd,
}

impl Sealed {
    /// The mark, and the record, each with its place.
    fn writes<'w>(&'w self, record: &'w Record) -> [(u64, &'w [u8]); 2] {
        let record = &record.bytes()[..self.len_bytes];
        [(MARK_AT as u64, &self.mark[..]), (self.at, record)]
    }

    /// The first of these that is not there yet.
    fn first_write(&self) -> usize {
        usize::from(self.is_marked)
    }
}

/// The end of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogEnd {
    /// First free byte of the last extent.
    pub(crate) at: u64,
    /// Sequence number of the next record.
    pub(crate) sequence: u64,
    /// Checksum of the last record's header.
    pub(super) chain: u32,
    /// The head of the last extent.
    pub(super) head: Option<LogHeader>,
    /// All records before this one are marked as acknowledged.
    pub(super) marked: u64,
    /// Records after the end to be given up: they follow a newer manifest than the restored one.
    pub(crate) given_up: u64,
}

impl LogEnd {
    /// The end of a log whose first record will have number `sequence`.
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

    /// Whether its mark, or a manifest that reached that record, shows that the last record was acknowledged.
    pub(crate) fn acknowledges_last(&self, reached: u64) -> bool {
        self.marked.max(reached) >= self.sequence
    }
}

impl TailLog {
    /// A log whose first record will have number `sequence`; it has no extent yet.
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
            Ok::<_, ReplicationError>(Last {
                extent: extent.id(),
                head,
                set,
                is_memory: is_memory(extent),
            })
        });
        Ok(Self {
            last: last.transpose()?,
            end,
        })
    }

    pub(crate) fn next_sequence(&self) -> u64 {
        self.end.sequence
    }

    /// The number of records after the end that [`TailLog::cut`] gives up.
    pub(crate) fn given_up(&self) -> u64 {
        self.end.given_up
    }

    fn last_bytes(&self) -> Option<u64> {
        self.last.as_ref().map(|last| last.set.len_bytes())
    }

    /// Whether a record of this size fits into the last extent.
    pub(crate) fn fits(&self, record_bytes: u64) -> bool {
        self.last_bytes()
            .is_some_and(|len_bytes| self.end.at + record_bytes <= len_bytes)
    }

    /// Whether its last extent is memory, so that writing to it waits for no device.
    pub(crate) fn is_memory(&self) -> bool {
        self.last.as_ref().is_some_and(|last| last.is_memory)
    }

    /// Size of the extent to be added for this record.
    pub(crate) fn next_extent_bytes(&self, record: &Record) -> u64 {
        let doubled = self.last_bytes().map_or(LOG_LEAST_BYTES, |len_bytes| {
            (2 * len_bytes).min(LOG_MOST_BYTES)
        });
        doubled.max(record.len_bytes() + 2 * LINE_BYTES as u64)
    }

    fn next_head(&self, epoch: u64) -> LogHeader {
        LogHeader {
            epoch,
            first_sequence: self.end.sequence,
            chain: self.end.chain,
        }
    }

    /// Prepares an empty extent for the log, durably: then a manifest may name it.
    pub(crate) fn prepare(
        &self,
        entry: LogEntry,
        extent: &OwnedExtent,
    ) -> Result<(), ReplicationError> {
        let line = self.next_head(entry.epoch).line();
        replica_set(extent)?.write(&LOG_METHOD, 0, &line)
    }

    /// Continues in a prepared extent. The published manifest names it, or the next one will before the extent counts.
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
            is_memory: is_memory(extent),
        });
        // The manifest that names the extent implies that all earlier records were acknowledged.
        self.end = LogEnd {
            at: LINE_BYTES as u64,
            head: Some(head),
            marked: self.end.sequence,
            ..self.end
        };
        Ok(())
    }

    /// Continues in other copies of the last extent, which are equal up to the end.
    pub(crate) fn change_copies(&mut self, extent: &OwnedExtent) -> Result<(), ReplicationError> {
        if let Some(last) = &mut self.last {
            last.set = replica_set(extent)?;
            last.is_memory = is_memory(extent);
        }
        Ok(())
    }

    /// The number of the last extent, and the bytes used in it.
    pub(crate) fn filling(&self) -> Option<(ExtentId, u64)> {
        self.last.as_ref().map(|last| (last.extent, self.end.at))
    }

    /// Writes the record to all copies and persists it, together with the mark that all earlier records were acknowledged. An
    /// error leaves the log as it was.
    ///
    /// # Panics
    /// If the record does not fit.
    pub(crate) fn append(
        &mut self,
        method: &Method,
        record: &mut Record,
        commit: Commit,
    ) -> Result<(), ReplicationError> {
        let next = self.seal(record, commit);
        let writes = next.writes(record);
        let Last { set, .. } = self.last.as_mut().expect("it was sealed for this extent");
        set.write_all(method, &writes[next.first_write()..])?;
        self.end = next.end;
        Ok(())
    }

    /// Appends a record to each of several logs as [`TailLog::append`] does, under one fence of all where the method waits once.
    /// An error comes with the number of a log that failed, which is left as it was. The others may have their records:
    /// they are to [take them back](TailLog::take_back).
    ///
    /// # Panics
    /// If a record does not fit.
    pub(crate) fn append_together(
        method: &Method,
        logs: &mut [TailLog],
        records: &mut [&mut Record],
        commit: Commit,
    ) -> Result<(), (usize, ReplicationError)> {
        let each = logs.iter().zip(records.iter_mut());
        let sealed: Vec<Sealed> = each.map(|(log, record)| log.seal(record, commit)).collect();
        let writes = records.iter().zip(&sealed);
        let writes: Vec<_> = writes
            .map(|(record, sealed)| sealed.writes(record))
            .collect();
        let mut sets = Vec::with_capacity(logs.len());
        for ((log, sealed), writes) in logs.iter_mut().zip(&sealed).zip(&writes) {
            let Last { set, .. } = log.last.as_mut().expect("it was sealed for this extent");
            let writes = &writes[sealed.first_write()..];
            sets.push(SetWrites { set, writes });
        }
        let written = ReplicaSet::write_together(method, &mut sets);
        let failed = written.as_ref().err().map(|(failed, _)| *failed);
        for (at, (log, sealed)) in logs.iter_mut().zip(&sealed).enumerate() {
            if failed != Some(at) {
                log.end = sealed.end;
            }
        }
        written
    }

    /// Completes the next record, and says what is to be written.
    fn seal(&self, record: &mut Record, commit: Commit) -> Sealed {
        let Last { head, set, .. } = self.last.as_ref().expect("the caller made room");
        let chain = record.seal(&Label {
            sequence: self.end.sequence,
            commit: commit.number,
            follows: commit.follows,
            epoch: head.epoch,
            chain: self.end.chain,
        });
        let room = (set.len_bytes() - self.end.at) as usize;
        let len_bytes = record.bytes().len().min(room);
        assert!(
            len_bytes as u64 >= record.len_bytes(),
            "the caller made room"
        );
        Sealed {
            at: self.end.at,
            len_bytes,
            mark: head.mark(self.end.sequence),
            is_marked: self.end.marked == self.end.sequence,
            end: LogEnd {
                at: self.end.at + record.len_bytes(),
                sequence: self.end.sequence + 1,
                chain,
                marked: self.end.sequence,
                ..self.end
            },
        }
    }

    /// Ends the log before its last record, which does not count: [`TailLog::cut`] removes it.
    pub(crate) fn end_before(&mut self, before: LogEnd) {
        self.end = LogEnd {
            marked: self.end.marked.min(before.sequence),
            given_up: self.end.sequence - before.sequence + self.end.given_up,
            ..before
        };
    }

    /// Where the log ends.
    pub(crate) fn end(&self) -> LogEnd {
        self.end
    }

    /// Durably removes the last record, which was never acknowledged: the log ends at `before` again.
    pub(crate) fn take_back(
        &mut self,
        method: &Method,
        before: LogEnd,
    ) -> Result<(), ReplicationError> {
        debug_assert_eq!(before.sequence + 1, self.end.sequence);
        let Some(Last { set, .. }) = &mut self.last else {
            return Ok(());
        };
        let removed = set.write(method, before.at, &[0; LINE_BYTES]);
        // The mark that was to be written with the record may be missing: the next one is written again.
        self.end = LogEnd {
            // It may still be there.
            given_up: u64::from(removed.is_err()),
            ..before
        };
        removed
    }

    /// Durably removes the records after the log's end, if these are given up. May be repeated.
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

fn is_memory(extent: &OwnedExtent) -> bool {
    let copies = extent.copies().iter();
    let mut media = copies.map(|copy| copy.pool().medium());
    media.all(|medium| medium != MediumKind::File)
}
