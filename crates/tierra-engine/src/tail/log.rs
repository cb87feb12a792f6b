//! The tail's log: records appended to extents, each whole or absent.
//!
//! ```text
//! extent: | record | record | .. | record | terminator: a line of zeros, where there is room |
//!
//! record, aligned to 64 bytes:
//!   offset 0   magic "TLOG"
//!          4   format version, u8, and three zeros
//!          8   length of the payload, u64
//!         16   sequence number, u64: one more than the record before it, across extents
//!         24   epoch of the extent, u64: never used twice, so bytes of an earlier use never count
//!         32   rows, u32
//!         36   CRC32C of the payload, u32
//!         40   zeros
//!         60   CRC32C of bytes 0 to 59, u32
//!         64   payload (see `payload`), then zeros up to a multiple of 64
//! ```
//!
//! Invariant: a record and the terminator behind it are written and persisted at once, in this
//! order of belief: header checksum, payload checksum, sequence. A record that fails in all copies is the
//! torn end of the log if nothing of this epoch follows it, and damage otherwise; one that fails in some is
//! taken from another.

use std::ops::Range;

use arrow::buffer::MutableBuffer;
use tierra_memory::PoolError;
use tierra_memory::replication::{
    Composition, CopyBy, Master, Method, ReplicaSet, ReplicationError, Waits,
};

use crate::manifest::{ExtentId, LogEntry, TailEntry};
use crate::space::OwnedExtent;

const MAGIC: [u8; 4] = *b"TLOG";
const FORMAT_VERSION: u8 = 1;
const LINE: usize = 64;
/// A log's first extent; each further one doubles.
const LOG_LEAST_BYTES: u64 = 64 << 10;
/// No extent grows past this unless one record needs it.
const LOG_MOST_BYTES: u64 = 16 << 20;

/// Records that cannot be believed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// Damage before the end.
    #[error(
        "the tail log is damaged at byte {at} of its extent {extent} (record {sequence}): {what}, \
         yet later records follow; restore the database from a copy"
    )]
    Damaged {
        /// The number of the extent.
        extent: u64,
        /// Where the record should start.
        at: usize,
        /// The record that should be there.
        sequence: u64,
        /// Which check failed.
        what: &'static str,
    },
    /// Written by a newer Tierra.
    #[error(
        "the tail log has format version {found}, this Tierra reads up to {FORMAT_VERSION}: use a newer one"
    )]
    Newer {
        /// The version found.
        found: u8,
    },
    /// Checksums hold but the rows are no rows of this table.
    #[error("record {sequence} of the tail log: {source}")]
    Rows {
        /// The record.
        sequence: u64,
        /// What is wrong.
        source: arrow::error::ArrowError,
    },
}

/// A record being made, with room for its header before the payload.
pub(crate) struct Record {
    bytes: MutableBuffer,
    payload_crc: u32,
    payload_len: usize,
    rows: u32,
}

impl Record {
    /// `payload` appends to a buffer that starts with an empty header.
    pub(crate) fn new<E>(
        rows: u32,
        payload: impl FnOnce(&mut MutableBuffer) -> Result<(), E>,
    ) -> Result<Self, E> {
        let mut bytes = MutableBuffer::with_capacity(4096);
        bytes.extend_zeros(LINE);
        payload(&mut bytes)?;
        let payload_len = bytes.len() - LINE;
        let payload_crc = crc32c::crc32c(&bytes[LINE..]);
        // The padding, and the terminator.
        bytes.extend_zeros(bytes.len().next_multiple_of(LINE) - bytes.len() + LINE);
        Ok(Self {
            bytes,
            payload_crc,
            payload_len,
            rows,
        })
    }

    /// Bytes taken in the log, without the terminator.
    pub(crate) fn len_bytes(&self) -> u64 {
        (self.bytes.len() - LINE) as u64
    }

    fn seal(&mut self, sequence: u64, epoch: u64) {
        let header = &mut self.bytes.as_slice_mut()[..LINE];
        header[..4].copy_from_slice(&MAGIC);
        header[4] = FORMAT_VERSION;
        header[8..16].copy_from_slice(&(self.payload_len as u64).to_le_bytes());
        header[16..24].copy_from_slice(&sequence.to_le_bytes());
        header[24..32].copy_from_slice(&epoch.to_le_bytes());
        header[32..36].copy_from_slice(&self.rows.to_le_bytes());
        header[36..40].copy_from_slice(&self.payload_crc.to_le_bytes());
        let crc = crc32c::crc32c(&header[..60]);
        header[60..64].copy_from_slice(&crc.to_le_bytes());
    }
}

/// How a record reaches all copies where nobody has measured: written to each, waited for once.
pub(crate) const METHOD: Method = Method::Always(Composition {
    waits: Waits::Once,
    master: Master::Pre,
    prefetch: true,
    copy: CopyBy::Stores,
});

/// Where the next record goes.
#[derive(Debug)]
pub(crate) struct TailLog {
    /// The last extent.
    last: Option<(LogEntry, ReplicaSet)>,
    end: LogEnd,
}

/// How far a log goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogEnd {
    /// First free byte of the last extent.
    pub(crate) at: u64,
    /// Of the next record.
    pub(crate) sequence: u64,
}

impl TailLog {
    /// A log whose first record will be number `sequence`; it has no extent yet.
    pub(crate) fn starting_at(sequence: u64) -> Self {
        Self {
            last: None,
            end: LogEnd { at: 0, sequence },
        }
    }

    /// A log that was read back. `last` is its last extent, if it has any, whose copies are equal and
    /// durable up to the end.
    pub(crate) fn reopened(
        last: Option<(LogEntry, &OwnedExtent)>,
        end: LogEnd,
    ) -> Result<Self, ReplicationError> {
        let set =
            |(entry, extent): (LogEntry, &OwnedExtent)| replica_set(extent).map(|set| (entry, set));
        Ok(Self {
            last: last.map(set).transpose()?,
            end,
        })
    }

    pub(crate) fn next_sequence(&self) -> u64 {
        self.end.sequence
    }

    fn last_bytes(&self) -> Option<u64> {
        self.last.as_ref().map(|(_, set)| set.len_bytes())
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
        doubled.max(record.len_bytes() + LINE as u64)
    }

    /// Continues in a new extent, which the published manifest names, or the next one before it counts.
    pub(crate) fn continue_in(
        &mut self,
        log: LogEntry,
        extent: &OwnedExtent,
    ) -> Result<(), ReplicationError> {
        self.last = Some((log, replica_set(extent)?));
        self.end.at = 0;
        Ok(())
    }

    /// Goes on in the same last extent with other copies of it, which are equal up to the end.
    pub(crate) fn change_copies(&mut self, extent: &OwnedExtent) -> Result<(), ReplicationError> {
        if let Some((_, set)) = &mut self.last {
            *set = replica_set(extent)?;
        }
        Ok(())
    }

    /// The number of the last extent, and how many bytes of it are taken.
    pub(crate) fn filling(&self) -> Option<(ExtentId, u64)> {
        self.last.as_ref().map(|(log, _)| (log.extent, self.end.at))
    }

    /// Writes the record to all copies and persists it. On an error the log is as before.
    ///
    /// # Panics
    /// If the record does not fit.
    pub(crate) fn append(
        &mut self,
        method: &Method,
        record: &mut Record,
    ) -> Result<(), ReplicationError> {
        let (log, set) = self.last.as_mut().expect("the caller made room");
        record.seal(self.end.sequence, log.epoch);
        let room = (set.len_bytes() - self.end.at) as usize;
        let written = record.bytes.len().min(room);
        assert!(written as u64 >= record.len_bytes(), "the caller made room");
        set.write(method, self.end.at, &record.bytes[..written])?;
        self.end.at += record.len_bytes();
        self.end.sequence += 1;
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

/// Bytes of a copy of an extent that differ from what another copy holds, which is right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mend {
    pub(crate) extent: ExtentId,
    /// Of the extent's copies, by their order.
    pub(crate) wrong: usize,
    pub(crate) right: usize,
    pub(crate) range: Range<usize>,
}

/// Brings the copies of logs up to what was read from them.
pub(crate) fn mend<'a>(
    mends: &[Mend],
    extent_of: impl Fn(ExtentId) -> &'a OwnedExtent,
) -> Result<(), PoolError> {
    for mend in mends {
        let copies = extent_of(mend.extent).copies();
        let (wrong, right) = (&copies[mend.wrong], &copies[mend.right]);
        // A copy, for the pool takes no slice of itself.
        let bytes = right[mend.range.clone()].to_vec();
        wrong
            .pool()
            .write(wrong.extent(), mend.range.start as u64, &bytes)?;
    }
    Ok(())
}

/// A record's header that passed its checksum.
struct Header {
    payload_len: u64,
    sequence: u64,
    epoch: u64,
    payload_crc: u32,
}

enum Line {
    Zeros,
    Header(Header),
    Other(&'static str),
}

fn read_header(line: &[u8]) -> Result<Line, LogError> {
    if line.iter().all(|byte| *byte == 0) {
        return Ok(Line::Zeros);
    }
    if line[..4] != MAGIC {
        return Ok(Line::Other("no record starts here"));
    }
    let u64_at = |at: usize| u64::from_le_bytes(line[at..at + 8].try_into().expect("eight bytes"));
    let u32_at = |at: usize| u32::from_le_bytes(line[at..at + 4].try_into().expect("four bytes"));
    if crc32c::crc32c(&line[..60]) != u32_at(60) {
        return Ok(Line::Other("the header's checksum is wrong"));
    }
    if line[4] != FORMAT_VERSION {
        return Err(LogError::Newer { found: line[4] });
    }
    let (payload_len, sequence, epoch) = (u64_at(8), u64_at(16), u64_at(24));
    Ok(Line::Header(Header {
        payload_len,
        sequence,
        epoch,
        payload_crc: u32_at(36),
    }))
}

/// What one copy has at a place where a record should start.
enum At {
    /// The record, and where the next one starts.
    Record(Range<usize>, usize),
    /// Nothing of this epoch.
    Nothing,
    Fault(&'static str),
    /// A whole record of this epoch that belongs elsewhere: nobody tore that.
    Misplaced,
}

fn record_at(bytes: &[u8], at: usize, epoch: u64, sequence: u64) -> Result<At, LogError> {
    let Some(line) = bytes.get(at..at + LINE) else {
        return Ok(At::Nothing);
    };
    Ok(match read_header(line)? {
        Line::Zeros => At::Nothing,
        Line::Other(what) => At::Fault(what),
        Line::Header(header) if header.epoch != epoch => At::Nothing,
        Line::Header(header) if header.sequence != sequence => At::Misplaced,
        Line::Header(header) => {
            let start = at + LINE;
            let len = usize::try_from(header.payload_len).ok();
            let end = len.and_then(|len| start.checked_add(len));
            match end.and_then(|end| bytes.get(start..end)) {
                None => At::Fault("its payload leaves the extent"),
                Some(payload) if crc32c::crc32c(payload) != header.payload_crc => {
                    At::Fault("the payload's checksum is wrong")
                }
                Some(payload) => {
                    let end = start + payload.len();
                    At::Record(start..end, end.next_multiple_of(LINE))
                }
            }
        }
    })
}

/// Calls `row_payload(sequence, payload, bytes logged)` for every committed record, in order. Returns
/// where the next one goes, and what is wrong in which copies. `copies_of` are the copies of an extent, at
/// least one; a record counts if one of them has it.
pub(crate) fn replay<'a>(
    tail: &TailEntry,
    copies_of: impl Fn(ExtentId) -> Vec<&'a [u8]>,
    mut row_payload: impl FnMut(u64, &[u8], u64) -> Result<(), LogError>,
) -> Result<(LogEnd, Vec<Mend>), LogError> {
    let mut sequence = tail.first_sequence;
    let mut mends = Vec::new();
    let mut at = 0;
    for entry in &tail.logs {
        let copies = copies_of(entry.extent);
        at = 0;
        loop {
            let found = copies
                .iter()
                .map(|copy| record_at(copy, at, entry.epoch, sequence));
            let found = found.collect::<Result<Vec<_>, _>>()?;
            let whole = found
                .iter()
                .enumerate()
                .find_map(|(copy, found)| match found {
                    At::Record(payload, end) => Some((copy, payload.clone(), *end)),
                    _ => None,
                });
            let Some((right, payload, end)) = whole else {
                if let Some(what) = damage(&copies, &found, at, entry.epoch, sequence)? {
                    return Err(LogError::Damaged {
                        extent: entry.extent.0,
                        at,
                        sequence,
                        what,
                    });
                }
                break;
            };
            let range = at..end.min(copies[right].len());
            for (wrong, copy) in copies.iter().enumerate() {
                if wrong != right && copy.get(range.clone()) != Some(&copies[right][range.clone()])
                {
                    mends.push(Mend {
                        extent: entry.extent,
                        wrong,
                        right,
                        range: range.clone(),
                    });
                }
            }
            row_payload(sequence, &copies[right][payload], (end - at) as u64)?;
            at = end;
            sequence += 1;
        }
    }
    let end = LogEnd {
        at: at as u64,
        sequence,
    };
    Ok((end, mends))
}

/// What is wrong where no copy has the next record; nothing if the log ends there.
fn damage(
    copies: &[&[u8]],
    found: &[At],
    at: usize,
    epoch: u64,
    sequence: u64,
) -> Result<Option<&'static str>, LogError> {
    if found.iter().any(|found| matches!(found, At::Misplaced)) {
        return Ok(Some("another record is in its place"));
    }
    // Even a line of zeros is only believed to be the end if nothing follows it: zeros are
    // also what a lost page looks like.
    for copy in copies {
        let rest = copy.get(at + LINE..).unwrap_or_default();
        if later_record(rest, epoch, sequence)? {
            let fault = found.iter().find_map(|found| match found {
                At::Fault(what) => Some(*what),
                _ => None,
            });
            return Ok(Some(fault.unwrap_or("there is none")));
        }
    }
    Ok(None)
}

/// Whether any later record of this epoch starts on a line of `rest`.
fn later_record(rest: &[u8], epoch: u64, sequence: u64) -> Result<bool, LogError> {
    for line in rest.chunks_exact(LINE).filter(|line| line[..4] == MAGIC) {
        if let Line::Header(header) = read_header(line)?
            && header.epoch == epoch
            && header.sequence > sequence
        {
            return Ok(true);
        }
    }
    Ok(false)
}
