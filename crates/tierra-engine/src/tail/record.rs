//! A record of the tail's log: what one commit does to the table, and the fields that prove its place in the log.
//!
//! ```text
//! offset 0   magic "TLOG"
//!        4   format version, u8
//!        5   transaction state, u8: 0, it commits by itself; 1, only together with records of other tables
//!        6   flags, u16                                          (unused yet: 0)
//!        8   length of the payload, u32
//!       12   rows that are appended, u32
//!       16   sequence number, u64: one more than the record before it, across extents
//!       24   commit number, u64: one more than the commit before it, in the whole database
//!       32   version of the manifest that it follows, u64
//!       40   epoch of the extent, u64: never used twice, so bytes of an earlier use never count
//!       48   CRC32C of the payload, u32
//!       52   chain, u32: the last field of the record before it in the log, 0 in the first
//!       56   participants, u32: tables of the commit, if it is one of several; otherwise 0
//!       60   CRC32C of bytes 0 to 59, u32
//!       64   payload, then zeros up to a multiple of 64
//!
//! payload   | participant | .. | part | part | ..
//! participant  table id u64 | sequence number of the commit's record in that table's log u64
//! part      0                  8               12              16
//!           | bytes of deleted u32, 0 u32 | bytes of rows u32 | rows u32 | deleted (`RowIds`), zeros | rows (`payload`), zeros |
//! ```
//!
//! Each of the variable parts is followed by zeros up to a multiple of 16. A part is what one session asked for: commits that wait
//! at the same time share a record, and so a fence. The parts of a record delete and append one after the other.
//!
//! Invariant: a header is used only if its checksum matches, and only by a build that knows all of its fields.

use std::ops::Range;

use arrow::array::RecordBatch;
use arrow::buffer::MutableBuffer;
use arrow::error::ArrowError;
use tierra_memory::LINE_BYTES;

use super::payload;
use crate::deleted::row_ids::RowIds;
use crate::error::LogError;

const MAGIC: [u8; 4] = *b"TLOG";
const FORMAT_VERSION: u8 = 1;
const ALIGN: usize = 16;
const PART_HEADER_BYTES: usize = 16;
const PARTICIPANT_BYTES: usize = 16;
/// The record commits only if all of its participants are there.
const TOGETHER: u8 = 1;

/// A table of a commit, and the number of the commit's record in its log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Participant {
    pub(crate) table: u64,
    pub(crate) sequence: u64,
}

/// A record being built, with room for its header before the payload.
pub(crate) struct Record {
    bytes: MutableBuffer,
    payload_crc: u32,
    payload_len: u32,
    rows: u32,
    participants: u32,
}

/// The fields that tie a record to a log.
pub(super) struct Label {
    pub(super) sequence: u64,
    pub(super) commit: u64,
    pub(super) follows: u64,
    pub(super) epoch: u64,
    pub(super) chain: u32,
}

impl Record {
    /// A record with one part: rows that go, and rows that come.
    pub(crate) fn of(deleted: &RowIds, rows: Option<&RecordBatch>) -> Result<Self, ArrowError> {
        let mut encoded = Vec::new();
        if !deleted.is_empty() {
            deleted.encode(&mut encoded);
        }
        let mut bytes = MutableBuffer::with_capacity(1024 + encoded.len());
        bytes.extend_zeros(LINE_BYTES + PART_HEADER_BYTES);
        let deleted_at = bytes.len();
        bytes.extend_from_slice(&encoded);
        let deleted_len = (bytes.len() - deleted_at) as u32;
        pad(&mut bytes, ALIGN);
        let rows_at = bytes.len();
        if let Some(rows) = rows {
            payload::encode(rows, &mut bytes)?;
        }
        let rows_len = (bytes.len() - rows_at) as u32;
        pad(&mut bytes, ALIGN);
        let rows = rows.map_or(0, RecordBatch::num_rows) as u32;
        let header = &mut bytes.as_slice_mut()[LINE_BYTES..][..PART_HEADER_BYTES];
        header[..4].copy_from_slice(&deleted_len.to_le_bytes());
        header[8..12].copy_from_slice(&rows_len.to_le_bytes());
        header[12..].copy_from_slice(&rows.to_le_bytes());
        Ok(Self::finished(bytes, rows, 0))
    }

    /// A record with the parts of all of these, of a commit with these participants; none if it has one table.
    pub(crate) fn together<'r>(
        participants: &[Participant],
        records: impl Iterator<Item = &'r Record> + Clone,
    ) -> Self {
        let len = records.clone().map(|record| record.bytes.len()).sum();
        let mut bytes = MutableBuffer::with_capacity(len);
        bytes.extend_zeros(LINE_BYTES);
        for participant in participants {
            bytes.extend_from_slice(&participant.table.to_le_bytes());
            bytes.extend_from_slice(&participant.sequence.to_le_bytes());
        }
        let mut rows = 0;
        for record in records {
            rows += record.rows;
            bytes.extend_from_slice(record.parts());
        }
        Self::finished(bytes, rows, participants.len() as u32)
    }

    fn finished(mut bytes: MutableBuffer, rows: u32, participants: u32) -> Self {
        let payload_len = u32::try_from(bytes.len() - LINE_BYTES);
        let payload_len =
            payload_len.expect("what is larger than some MiB becomes a segment at once");
        let payload_crc = crc32c::crc32c(&bytes[LINE_BYTES..]);
        // The padding, and the terminator.
        pad(&mut bytes, LINE_BYTES);
        bytes.extend_zeros(LINE_BYTES);
        Self {
            bytes,
            payload_crc,
            payload_len,
            rows,
            participants,
        }
    }

    /// The parts of its payload.
    fn parts(&self) -> &[u8] {
        let first = LINE_BYTES + self.participants as usize * PARTICIPANT_BYTES;
        &self.bytes[first..LINE_BYTES + self.payload_len as usize]
    }

    #[cfg(test)]
    pub(super) fn payload(&self) -> &[u8] {
        &self.bytes[LINE_BYTES..][..self.payload_len as usize]
    }

    /// Rows that it appends.
    pub(crate) fn rows(&self) -> u32 {
        self.rows
    }

    /// Its size in the log, without the terminator.
    pub(crate) fn len_bytes(&self) -> u64 {
        (self.bytes.len() - LINE_BYTES) as u64
    }

    /// The most that a record with the parts of this one takes in a commit to so many tables.
    pub(crate) fn len_bytes_among(&self, tables: usize) -> u64 {
        match tables {
            1 => self.len_bytes(),
            participants => {
                let listed = participants * PARTICIPANT_BYTES;
                self.len_bytes() + listed.next_multiple_of(LINE_BYTES) as u64
            }
        }
    }

    /// Header, payload, padding and terminator.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Writes the header. Returns its checksum, which the next record repeats.
    pub(super) fn seal(&mut self, label: &Label) -> u32 {
        let header = &mut self.bytes.as_slice_mut()[..LINE_BYTES];
        header[..4].copy_from_slice(&MAGIC);
        header[4] = FORMAT_VERSION;
        header[5] = if self.participants == 0 { 0 } else { TOGETHER };
        header[6..8].fill(0);
        header[8..12].copy_from_slice(&self.payload_len.to_le_bytes());
        header[12..16].copy_from_slice(&self.rows.to_le_bytes());
        header[16..24].copy_from_slice(&label.sequence.to_le_bytes());
        header[24..32].copy_from_slice(&label.commit.to_le_bytes());
        header[32..40].copy_from_slice(&label.follows.to_le_bytes());
        header[40..48].copy_from_slice(&label.epoch.to_le_bytes());
        header[48..52].copy_from_slice(&self.payload_crc.to_le_bytes());
        header[52..56].copy_from_slice(&label.chain.to_le_bytes());
        header[56..60].copy_from_slice(&self.participants.to_le_bytes());
        let crc = crc32c::crc32c(&header[..60]);
        header[60..64].copy_from_slice(&crc.to_le_bytes());
        crc
    }
}

/// A record's header that passed its checksum.
pub(super) struct Header {
    pub(super) payload_len: u32,
    pub(super) participants: u32,
    pub(super) label: Label,
    pub(super) payload_crc: u32,
    pub(super) crc: u32,
}

pub(super) enum RecordStart {
    Zeros,
    Header(Header),
    Other(&'static str),
}

/// What a line is in which a record should, or may, start.
pub(super) fn read_header(line: &[u8]) -> Result<RecordStart, LogError> {
    if line.iter().all(|byte| *byte == 0) {
        return Ok(RecordStart::Zeros);
    }
    if line[..4] != MAGIC {
        return Ok(RecordStart::Other("no record starts here"));
    }
    let u64_at = |at: usize| u64::from_le_bytes(line[at..at + 8].try_into().expect("eight bytes"));
    let u32_at = |at: usize| u32::from_le_bytes(line[at..at + 4].try_into().expect("four bytes"));
    if crc32c::crc32c(&line[..60]) != u32_at(60) {
        return Ok(RecordStart::Other("the header's checksum is wrong"));
    }
    if line[4] != FORMAT_VERSION {
        return Err(LogError::Version {
            found: line[4],
            supported: FORMAT_VERSION,
        });
    }
    let participants = u32_at(56);
    let is_together = line[5] == TOGETHER && participants > 1;
    let unknown = [
        (line[5] > TOGETHER, "a transaction state"),
        (line[6..8] != [0; 2], "flags"),
        (
            !is_together && (line[5] != 0 || participants != 0),
            "participants of a transaction",
        ),
    ];
    if let Some((_, what)) = unknown.into_iter().find(|(is_there, _)| *is_there) {
        return Err(LogError::Unknown { what });
    }
    Ok(RecordStart::Header(Header {
        payload_len: u32_at(8),
        participants,
        label: Label {
            sequence: u64_at(16),
            commit: u64_at(24),
            follows: u64_at(32),
            epoch: u64_at(40),
            chain: u32_at(52),
        },
        payload_crc: u32_at(48),
        crc: u32_at(60),
    }))
}

/// One part of a record.
pub(crate) struct Part<'a> {
    pub(crate) deleted: RowIds,
    /// The encoded rows; empty if there are none.
    pub(crate) rows: &'a [u8],
}

/// The participants and parts of a payload whose checksum is right; what is wrong if they do not fill it.
pub(crate) fn read_payload(
    payload: &[u8],
    participants: u32,
) -> Result<(Vec<Participant>, Vec<Part<'_>>), String> {
    let short = || "the record is shorter than it says".to_owned();
    let listed = (participants as usize).checked_mul(PARTICIPANT_BYTES);
    let listed = listed.and_then(|len| payload.split_at_checked(len));
    let (listed, mut rest) = listed.ok_or_else(short)?;
    let participants = listed.chunks_exact(PARTICIPANT_BYTES);
    let participants = participants.map(|participant| {
        let (table, sequence) = participant.split_at(8);
        let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
        Participant {
            table: number(table),
            sequence: number(sequence),
        }
    });
    let participants: Vec<Participant> = participants.collect();
    if !participants.is_sorted_by(|a, b| a.table < b.table) {
        return Err("the tables of its commit are out of order".to_owned());
    }
    let mut parts = Vec::new();
    while !rest.is_empty() {
        let (header, behind) = rest.split_at_checked(PART_HEADER_BYTES).ok_or_else(short)?;
        let len_at = |at: usize| {
            u32::from_le_bytes(header[at..at + 4].try_into().expect("four bytes")) as usize
        };
        let (deleted_len, rows_len) = (len_at(0), len_at(8));
        let deleted = range_of(0, deleted_len);
        let rows = range_of(deleted.1, rows_len);
        let bytes = |range: &Range<usize>| behind.get(range.clone()).ok_or_else(short);
        parts.push(Part {
            deleted: match deleted_len {
                0 => RowIds::default(),
                _ => RowIds::decode(bytes(&deleted.0)?)?,
            },
            rows: bytes(&rows.0)?,
        });
        rest = behind.get(rows.1..).ok_or_else(short)?;
    }
    match parts.is_empty() {
        true => Err("the record is empty".to_owned()),
        false => Ok((participants, parts)),
    }
}

/// The range of `len` bytes, and where the next begins.
fn range_of(first: usize, len: usize) -> (Range<usize>, usize) {
    let end = first + len;
    (first..end, end.next_multiple_of(ALIGN))
}

fn pad(bytes: &mut MutableBuffer, align: usize) {
    bytes.extend_zeros(bytes.len().next_multiple_of(align) - bytes.len());
}
