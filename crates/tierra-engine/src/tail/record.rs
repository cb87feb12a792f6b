//! A record of the tail's log: one commit's rows, and the fields that prove its place in the log.
//!
//! ```text
//! offset 0   magic "TLOG"
//!        4   format version, u8
//!        5   transaction state, u8: 0, it commits by itself      (others unused yet)
//!        6   flags, u16                                          (unused yet: 0)
//!        8   length of the payload, u32
//!       12   rows, u32
//!       16   sequence number, u64: one more than the record before it, across extents
//!       24   commit number, u64: one more than the commit before it, in the whole database
//!       32   version of the manifest that it follows, u64
//!       40   epoch of the extent, u64: never used twice, so bytes of an earlier use never count
//!       48   CRC32C of the payload, u32
//!       52   chain, u32: the last field of the record before it in the log, 0 in the first
//!       56   participants of its transaction, u32                (unused yet: 0)
//!       60   CRC32C of bytes 0 to 59, u32
//!       64   payload (see `payload`), then zeros up to a multiple of 64
//! ```
//!
//! Invariant: a header is used only if its checksum matches, and only by a build that knows all of its fields.

use arrow::buffer::MutableBuffer;
use tierra_memory::LINE_BYTES;

use crate::error::LogError;

const MAGIC: [u8; 4] = *b"TLOG";
const FORMAT_VERSION: u8 = 1;

/// A record being built, with room for its header before the payload.
pub(crate) struct Record {
    bytes: MutableBuffer,
    payload_crc: u32,
    payload_len: u32,
    rows: u32,
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
    /// `payload` appends to a buffer that starts with an empty header.
    pub(crate) fn new<E>(
        rows: u32,
        payload: impl FnOnce(&mut MutableBuffer) -> Result<(), E>,
    ) -> Result<Self, E> {
        let mut bytes = MutableBuffer::with_capacity(4096);
        bytes.extend_zeros(LINE_BYTES);
        payload(&mut bytes)?;
        let payload_len = u32::try_from(bytes.len() - LINE_BYTES);
        let payload_len = payload_len.expect("more than 64 MiB of rows become a segment at once");
        let payload_crc = crc32c::crc32c(&bytes[LINE_BYTES..]);
        // The padding, and the terminator.
        bytes.extend_zeros(bytes.len().next_multiple_of(LINE_BYTES) - bytes.len() + LINE_BYTES);
        Ok(Self {
            bytes,
            payload_crc,
            payload_len,
            rows,
        })
    }

    /// Its size in the log, without the terminator.
    pub(crate) fn len_bytes(&self) -> u64 {
        (self.bytes.len() - LINE_BYTES) as u64
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
        header[5..8].fill(0);
        header[8..12].copy_from_slice(&self.payload_len.to_le_bytes());
        header[12..16].copy_from_slice(&self.rows.to_le_bytes());
        header[16..24].copy_from_slice(&label.sequence.to_le_bytes());
        header[24..32].copy_from_slice(&label.commit.to_le_bytes());
        header[32..40].copy_from_slice(&label.follows.to_le_bytes());
        header[40..48].copy_from_slice(&label.epoch.to_le_bytes());
        header[48..52].copy_from_slice(&self.payload_crc.to_le_bytes());
        header[52..56].copy_from_slice(&label.chain.to_le_bytes());
        header[56..60].fill(0);
        let crc = crc32c::crc32c(&header[..60]);
        header[60..64].copy_from_slice(&crc.to_le_bytes());
        crc
    }
}

/// A record's header that passed its checksum.
pub(super) struct Header {
    pub(super) payload_len: u32,
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
    let unknown = [
        (line[5] != 0, "a transaction state"),
        (line[6..8] != [0; 2], "flags"),
        (u32_at(56) != 0, "participants of a transaction"),
    ];
    if let Some((_, what)) = unknown.into_iter().find(|(is_there, _)| *is_there) {
        return Err(LogError::Unknown { what });
    }
    Ok(RecordStart::Header(Header {
        payload_len: u32_at(8),
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
