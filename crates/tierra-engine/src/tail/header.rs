//! The first line of each extent of a log, with its mark: the number of records known to be acknowledged.
//!
//! ```text
//! offset 0   magic "TLGX"
//!        4   format version, u8, and three zeros
//!        8   epoch of the extent, u64
//!       16   sequence number of its first record, u64
//!       24   chain of its first record, u32
//!       28   zeros
//!       52   CRC32C of bytes 0 to 51, u32
//!       56   mark: records of this extent that were acknowledged, u32; CRC32C of epoch and mark, u32
//! ```
//!
//! Invariant: the line is durable before a manifest names the extent. Only the mark changes, by one store of 8 bytes, which no
//! power cut tears. A commit stores it under its own fence for the commits before. So a log with fewer records than its mark has
//! lost some.

use tierra_memory::LINE_BYTES;

use crate::error::LogError;

const MAGIC: [u8; 4] = *b"TLGX";
const FORMAT_VERSION: u8 = 1;
/// Offset of the mark in the line.
pub(super) const MARK_AT: usize = 56;

/// The content of an extent's first line, without the mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LogHeader {
    pub(super) epoch: u64,
    pub(super) first_sequence: u64,
    pub(super) chain: u32,
}

impl LogHeader {
    /// The line for an extent without acknowledged records.
    pub(super) fn line(&self) -> [u8; LINE_BYTES] {
        let mut line = [0; LINE_BYTES];
        line[..4].copy_from_slice(&MAGIC);
        line[4] = FORMAT_VERSION;
        line[8..16].copy_from_slice(&self.epoch.to_le_bytes());
        line[16..24].copy_from_slice(&self.first_sequence.to_le_bytes());
        line[24..28].copy_from_slice(&self.chain.to_le_bytes());
        let crc = crc32c::crc32c(&line[..52]);
        line[52..56].copy_from_slice(&crc.to_le_bytes());
        line[MARK_AT..].copy_from_slice(&self.mark(self.first_sequence));
        line
    }

    /// The mark for all records before this one.
    pub(super) fn mark(&self, before: u64) -> [u8; 8] {
        let count = u32::try_from(before - self.first_sequence);
        let count = count.expect("a tail has fewer records than a segment has rows");
        let crc = mark_crc(self.epoch, &count.to_le_bytes());
        (u64::from(crc) << 32 | u64::from(count)).to_le_bytes()
    }
}

fn mark_crc(epoch: u64, count: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&epoch.to_le_bytes()), count)
}

/// The head of an extent and the number of its first unmarked record, or what is wrong with the line.
pub(super) fn read(bytes: &[u8]) -> Result<Result<(LogHeader, u64), &'static str>, LogError> {
    let Some(line) = bytes.get(..LINE_BYTES).filter(|line| line[..4] == MAGIC) else {
        return Ok(Err("its first line is not there"));
    };
    let u64_at = |at: usize| u64::from_le_bytes(line[at..at + 8].try_into().expect("eight bytes"));
    let u32_at = |at: usize| u32::from_le_bytes(line[at..at + 4].try_into().expect("four bytes"));
    if crc32c::crc32c(&line[..52]) != u32_at(52) {
        return Ok(Err("the checksum of its first line is wrong"));
    }
    if line[4] != FORMAT_VERSION {
        return Err(LogError::Version {
            found: line[4],
            supported: FORMAT_VERSION,
        });
    }
    let head = LogHeader {
        epoch: u64_at(8),
        first_sequence: u64_at(16),
        chain: u32_at(24),
    };
    if mark_crc(head.epoch, &line[MARK_AT..60]) != u32_at(60) {
        return Ok(Err(
            "how many of its records were acknowledged cannot be read",
        ));
    }
    let marked = head
        .first_sequence
        .saturating_add(u64::from(u32_at(MARK_AT)));
    Ok(Ok((head, marked)))
}
