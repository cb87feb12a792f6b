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
//! order of belief: header checksum, payload checksum, sequence. A record that fails is the torn
//! end of the log if nothing of this epoch follows it, and damage otherwise.

use arrow::buffer::MutableBuffer;
use tierra_memory::{Extent, Pool, PoolError};

use crate::manifest::{LogEntry, TailEntry};

const MAGIC: [u8; 4] = *b"TLOG";
const FORMAT_VERSION: u8 = 1;
const LINE: usize = 64;
/// A log's first extent; each further one doubles.
const LOG_LEAST_BYTES: u64 = 64 << 10;
/// No extent grows past this unless one record needs it.
const LOG_MOST_BYTES: u64 = 16 << 20;

/// Records that cannot be believed.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// Damage before the end.
    #[error(
        "the tail log is damaged at byte {at} of its extent at {extent} (record {sequence}): {what}, \
         yet later records follow; restore the database from a copy"
    )]
    Damaged {
        /// Where the extent lies in its pool.
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

/// Where the next record goes.
#[derive(Clone, Debug, Default)]
pub(crate) struct TailLog {
    last: Option<LogEntry>,
    /// First free byte of the last extent.
    at: u64,
    sequence: u64,
}

impl TailLog {
    /// A log whose first record will be number `sequence`; it has no extent yet.
    pub(crate) fn starting_at(sequence: u64) -> Self {
        Self {
            last: None,
            at: 0,
            sequence,
        }
    }

    pub(crate) fn next_sequence(&self) -> u64 {
        self.sequence
    }

    /// Whether the record fits the last extent.
    pub(crate) fn fits(&self, record: &Record) -> bool {
        self.last
            .is_some_and(|log| self.at + record.len_bytes() <= log.extent.len_bytes)
    }

    /// How long the extent has to be that is added for this record.
    pub(crate) fn next_extent_bytes(&self, record: &Record) -> u64 {
        let doubled = self.last.map_or(LOG_LEAST_BYTES, |log| {
            (2 * log.extent.len_bytes).min(LOG_MOST_BYTES)
        });
        doubled.max(record.len_bytes() + LINE as u64)
    }

    /// Continues in an extent that the published manifest names, or the next one before it counts.
    pub(crate) fn continue_in(&mut self, log: LogEntry) {
        (self.last, self.at) = (Some(log), 0);
    }

    /// Makes durable what was read from the last extent; those before it were durable before the next
    /// one was named.
    pub(crate) fn persist(&self, pool: &Pool) -> Result<(), PoolError> {
        let Some(log) = self.last else { return Ok(()) };
        pool.persist_log(log.extent, self.at)
    }

    /// Writes and persists the record. On an error the log is as before.
    ///
    /// # Panics
    /// If the record does not fit.
    pub(crate) fn append(&mut self, pool: &Pool, record: &mut Record) -> Result<(), PoolError> {
        let log = self.last.expect("the caller made room");
        record.seal(self.sequence, log.epoch);
        let room = (log.extent.len_bytes - self.at) as usize;
        let written = record.bytes.len().min(room);
        assert!(written as u64 >= record.len_bytes(), "the caller made room");
        pool.write(log.extent, self.at, &record.bytes[..written])?;
        self.at += record.len_bytes();
        self.sequence += 1;
        Ok(())
    }
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

/// Calls `row_payload(sequence, payload, bytes logged)` for every committed record, in order, and
/// returns where the next one goes.
pub(crate) fn replay<'a>(
    tail: &TailEntry,
    bytes_of: impl Fn(Extent) -> &'a [u8],
    mut row_payload: impl FnMut(u64, &[u8], u64) -> Result<(), LogError>,
) -> Result<TailLog, LogError> {
    let mut log = TailLog::starting_at(tail.first_sequence);
    for entry in &tail.logs {
        let bytes = bytes_of(entry.extent);
        let extent = entry.extent.offset;
        let damaged = |at, sequence, what| LogError::Damaged {
            extent,
            at,
            sequence,
            what,
        };
        log.continue_in(*entry);
        loop {
            let at = log.at as usize;
            let Some(line) = bytes.get(at..at + LINE) else {
                break;
            };
            let sequence = log.sequence;
            let fault = match read_header(line)? {
                Line::Zeros => None,
                Line::Other(what) => Some(what),
                Line::Header(header) if header.epoch != entry.epoch => None,
                Line::Header(header) if header.sequence != sequence => {
                    return Err(damaged(at, sequence, "another record is in its place"));
                }
                Line::Header(header) => {
                    let end = usize::try_from(header.payload_len)
                        .ok()
                        .and_then(|len| (at + LINE).checked_add(len));
                    let payload = end.and_then(|end| bytes.get(at + LINE..end));
                    match payload {
                        None => Some("its payload leaves the extent"),
                        Some(payload) if crc32c::crc32c(payload) != header.payload_crc => {
                            Some("the payload's checksum is wrong")
                        }
                        Some(payload) => {
                            let taken = (LINE + payload.len()).next_multiple_of(LINE) as u64;
                            row_payload(sequence, payload, taken)?;
                            log.at += taken;
                            log.sequence += 1;
                            continue;
                        }
                    }
                }
            };
            // Even a line of zeros is only believed to be the end if nothing follows it: zeros are
            // also what a lost page looks like.
            let follows = later_record(&bytes[at + LINE..], entry.epoch, sequence)?;
            match fault {
                _ if !follows => break,
                Some(what) => return Err(damaged(at, sequence, what)),
                None => return Err(damaged(at, sequence, "there is none")),
            }
        }
    }
    Ok(log)
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
