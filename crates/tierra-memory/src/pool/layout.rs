//! The bytes of a pool that are neither payload nor free: header, slots, extent headers.
//!
//! ```text
//! offset 0        4096      8192      12288     16384
//! +---------------+---------+---------+---------+----------------------------------------+
//! | header        | slot 0  | slot 1  | twins   | extents and free space, in 4 KiB grains |
//! +---------------+---------+---------+---------+----------------------------------------+
//!
//! extent  | 64-byte header | payload (line-aligned) | rest of its last grain, undefined |
//! ```
//!
//! Each of the three records is 64 bytes, one cache line, and all integers are little-endian. Each has a twin, the same
//! bytes on another page, a kibibyte from the next: no page that fails costs more than one of two.
//! Invariant: bytes read here are untrusted; each decoder checks everything that it returns.

use crate::LINE_BYTES;

/// Version of the layout written here.
pub(crate) const VERSION: u8 = 1;
/// Space is handed out in grains of this size: no two extents share a page, so that writing one back
/// never rewrites another.
pub(crate) const GRAIN_BYTES: u64 = 4096;
/// Where the header and its twin begin.
pub(crate) const HEADER_OFFSETS: [u64; 2] = [0, 12288];
/// Where slot 0 and its twin, slot 1 and its twin begin. The first of two is written first.
pub(crate) const SLOT_OFFSETS: [[u64; 2]; 2] = [[4096, 12288 + 1024], [8192, 12288 + 2048]];
/// Where the first extent may begin.
pub(crate) const FIRST_EXTENT: u64 = 16384;
/// Bytes between an extent's beginning and its payload.
pub(crate) const EXTENT_HEADER_BYTES: u64 = LINE_BYTES as u64;

const POOL_MAGIC: [u8; 8] = *b"TIERRAPL";
const EXTENT_MAGIC: [u8; 8] = *b"TIERRAEX";
const SLOT_MAGIC: u32 = u32::from_le_bytes(*b"SLOT");

/// One line of the file.
pub(crate) type LineBytes = [u8; LINE_BYTES];

fn put(line: &mut LineBytes, at: usize, bytes: &[u8]) {
    line[at..at + bytes.len()].copy_from_slice(bytes);
}

fn u32_at(line: &LineBytes, at: usize) -> u32 {
    let mut bytes = [0; 4];
    bytes.copy_from_slice(&line[at..at + 4]);
    u32::from_le_bytes(bytes)
}

fn u64_at(line: &LineBytes, at: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&line[at..at + 8]);
    u64::from_le_bytes(bytes)
}

/// The pool's header: written once, when the pool is created.
///
/// ```text
/// 0 magic "TIERRAPL" | 8 version u8, 7 zero | 16 pool id u64 | 24 grain bytes u32
/// | 28 first extent u32 | 32 zero | 60 CRC32C of bytes 0..60
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PoolHeader {
    pub(crate) pool_id: u64,
}

/// Why a header is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeaderFault {
    Magic,
    Newer {
        version: u8,
        /// Whether the line has the checksum of what it holds.
        is_valid: bool,
    },
    Checksum,
}

impl PoolHeader {
    pub(crate) fn encode(&self) -> LineBytes {
        let mut line = [0; LINE_BYTES];
        put(&mut line, 0, &POOL_MAGIC);
        line[8] = VERSION;
        put(&mut line, 16, &self.pool_id.to_le_bytes());
        put(&mut line, 24, &(GRAIN_BYTES as u32).to_le_bytes());
        put(&mut line, 28, &(FIRST_EXTENT as u32).to_le_bytes());
        let crc = crc32c::crc32c(&line[..60]);
        put(&mut line, 60, &crc.to_le_bytes());
        line
    }

    /// Checks magic, then version, then the rest.
    pub(crate) fn decode(line: &LineBytes) -> Result<PoolHeader, HeaderFault> {
        if line[..8] != POOL_MAGIC {
            return Err(HeaderFault::Magic);
        }
        if line[8] > VERSION {
            return Err(HeaderFault::Newer {
                version: line[8],
                is_valid: crc32c::crc32c(&line[..60]) == u32_at(line, 60),
            });
        }
        let header = PoolHeader {
            pool_id: u64_at(line, 16),
        };
        // Version 1 has no other freedom: the line must be what this program would write.
        if header.encode() == *line {
            Ok(header)
        } else {
            Err(HeaderFault::Checksum)
        }
    }
}

/// What a slot publishes.
///
/// ```text
/// 0 sequence u64 | 8 root offset u64 | 16 root bytes u64 | 24 pool bytes u64 | 32 pool id u64
/// | 40 version u64 | 48 CRC32C of the root's payload, u32 | 52 zero | 56 CRC32C of bytes 0..56, u32 | 60 "SLOT"
/// ```
/// The last word is the commit word: it is cleared before the rest is written and stored after it. A root at offset 0 is
/// none: so both slots of a new pool are written, and a slot of zeros is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SuperblockSlot {
    /// Counts publications; the slot with the higher one is current, and it lies in slot
    /// `sequence % 2`.
    pub(crate) sequence: u64,
    pub(crate) root_offset: u64,
    pub(crate) root_bytes: u64,
    /// Bytes the file must have.
    pub(crate) pool_bytes: u64,
    pub(crate) pool_id: u64,
    /// What its owner calls the publication.
    pub(crate) version: u64,
    /// As the root's header says; of a log zero.
    pub(crate) root_crc: u32,
}

/// Whether a line of header or superblock is one that was written whole.
pub(crate) fn is_valid(line: &LineBytes) -> bool {
    let has_crc = |at: usize| crc32c::crc32c(&line[..at]) == u32_at(line, at);
    let is_slot = u32_at(line, COMMIT_AT + 4) == SLOT_MAGIC && has_crc(COMMIT_AT);
    is_slot || (line[..8] == POOL_MAGIC && has_crc(LINE_BYTES - 4))
}

/// Where in a slot its commit word lies.
pub(crate) const COMMIT_AT: usize = 56;

impl SuperblockSlot {
    pub(crate) fn encode(&self) -> LineBytes {
        let mut line = [0; LINE_BYTES];
        put(&mut line, 0, &self.sequence.to_le_bytes());
        put(&mut line, 8, &self.root_offset.to_le_bytes());
        put(&mut line, 16, &self.root_bytes.to_le_bytes());
        put(&mut line, 24, &self.pool_bytes.to_le_bytes());
        put(&mut line, 32, &self.pool_id.to_le_bytes());
        put(&mut line, 40, &self.version.to_le_bytes());
        put(&mut line, 48, &self.root_crc.to_le_bytes());
        let crc = crc32c::crc32c(&line[..COMMIT_AT]);
        put(&mut line, COMMIT_AT, &crc.to_le_bytes());
        put(&mut line, COMMIT_AT + 4, &SLOT_MAGIC.to_le_bytes());
        line
    }

    /// `None` for a slot that is torn or damaged, of another pool, or in the wrong place.
    pub(crate) fn decode(line: &LineBytes, index: usize, pool_id: u64) -> Option<SuperblockSlot> {
        let slot = SuperblockSlot {
            sequence: u64_at(line, 0),
            root_offset: u64_at(line, 8),
            root_bytes: u64_at(line, 16),
            pool_bytes: u64_at(line, 24),
            pool_id: u64_at(line, 32),
            version: u64_at(line, 40),
            root_crc: u32_at(line, 48),
        };
        let whole = slot.encode() == *line && slot.pool_id == pool_id;
        (whole && (slot.sequence % 2) as usize == index).then_some(slot)
    }
}

/// What precedes every payload.
///
/// ```text
/// 0 magic "TIERRAEX" | 8 owner u64 | 16 payload offset u64 | 24 payload bytes u64
/// | 32 span bytes u64 | 40 pool id u64 | 48 payload CRC32C u32 | 52 kind u32: 0 sealed, 1 log
/// | 56 zero | 60 CRC32C of bytes 0..60
/// ```
/// The span is what the extent takes of the pool, header and last grain included. A log's payload
/// changes after its header was written, so its payload checksum is zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ExtentHeader {
    pub(crate) owner: u64,
    pub(crate) payload_offset: u64,
    pub(crate) payload_bytes: u64,
    pub(crate) pool_id: u64,
    pub(crate) payload_crc: u32,
    pub(crate) kind: ExtentKind,
}

/// What may happen to a payload after its header was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExtentKind {
    /// Nothing: it is immutable and has a checksum.
    Sealed,
    /// It is overwritten in place, record by record.
    Log,
}

/// Bytes of the pool that a payload takes, header and last grain included; `None` beyond 2^64.
pub(crate) fn span_bytes(payload_bytes: u64) -> Option<u64> {
    payload_bytes
        .checked_add(EXTENT_HEADER_BYTES)?
        .checked_next_multiple_of(GRAIN_BYTES)
}

impl ExtentHeader {
    pub(crate) fn encode(&self) -> LineBytes {
        let span = span_bytes(self.payload_bytes).unwrap_or(0);
        let mut line = [0; LINE_BYTES];
        put(&mut line, 0, &EXTENT_MAGIC);
        put(&mut line, 8, &self.owner.to_le_bytes());
        put(&mut line, 16, &self.payload_offset.to_le_bytes());
        put(&mut line, 24, &self.payload_bytes.to_le_bytes());
        put(&mut line, 32, &span.to_le_bytes());
        put(&mut line, 40, &self.pool_id.to_le_bytes());
        put(&mut line, 48, &self.payload_crc.to_le_bytes());
        put(
            &mut line,
            52,
            &u32::from(self.kind == ExtentKind::Log).to_le_bytes(),
        );
        let crc = crc32c::crc32c(&line[..60]);
        put(&mut line, 60, &crc.to_le_bytes());
        line
    }

    /// The header, or what is wrong with it.
    pub(crate) fn decode(line: &LineBytes) -> Result<ExtentHeader, &'static str> {
        if line[..8] != EXTENT_MAGIC {
            return Err("no extent begins here");
        }
        let kind = match u32_at(line, 52) {
            0 => ExtentKind::Sealed,
            1 => ExtentKind::Log,
            _ => return Err("its header is damaged"),
        };
        let header = ExtentHeader {
            owner: u64_at(line, 8),
            payload_offset: u64_at(line, 16),
            payload_bytes: u64_at(line, 24),
            pool_id: u64_at(line, 40),
            payload_crc: u32_at(line, 48),
            kind,
        };
        if header.encode() == *line {
            Ok(header)
        } else {
            Err("its header is damaged")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: ExtentHeader = ExtentHeader {
        owner: 1,
        payload_offset: FIRST_EXTENT + 64,
        payload_bytes: 100,
        pool_id: 9,
        payload_crc: 5,
        kind: ExtentKind::Sealed,
    };
    const SLOT: SuperblockSlot = SuperblockSlot {
        sequence: 3,
        root_offset: 4,
        root_bytes: 5,
        pool_bytes: 6,
        pool_id: 9,
        version: 7,
        root_crc: 8,
    };

    #[test]
    fn records_come_back_and_any_flipped_bit_is_noticed() {
        let pool = PoolHeader { pool_id: 9 };
        assert_eq!(PoolHeader::decode(&pool.encode()), Ok(pool));
        assert_eq!(SuperblockSlot::decode(&SLOT.encode(), 1, 9), Some(SLOT));
        assert_eq!(ExtentHeader::decode(&HEADER.encode()), Ok(HEADER));
        for bit in 0..LINE_BYTES * 8 {
            let flip = |mut line: LineBytes| {
                line[bit / 8] ^= 1 << (bit % 8);
                line
            };
            assert!(
                PoolHeader::decode(&flip(pool.encode())).is_err(),
                "bit {bit}"
            );
            assert_eq!(
                SuperblockSlot::decode(&flip(SLOT.encode()), 1, 9),
                None,
                "bit {bit}"
            );
            assert!(
                ExtentHeader::decode(&flip(HEADER.encode())).is_err(),
                "bit {bit}"
            );
        }
    }

    #[test]
    fn a_slot_of_another_pool_or_place_is_none() {
        assert_eq!(SuperblockSlot::decode(&SLOT.encode(), 0, 9), None);
        assert_eq!(SuperblockSlot::decode(&SLOT.encode(), 1, 8), None);
        assert_eq!(SuperblockSlot::decode(&[0; LINE_BYTES], 0, 0), None);
    }

    #[test]
    fn a_newer_version_is_told_from_damage() {
        let mut line = PoolHeader { pool_id: 9 }.encode();
        line[8] = VERSION + 1;
        let newer = |is_valid| HeaderFault::Newer {
            version: VERSION + 1,
            is_valid,
        };
        assert_eq!(PoolHeader::decode(&line), Err(newer(false)));
        let crc = crc32c::crc32c(&line[..60]);
        put(&mut line, 60, &crc.to_le_bytes());
        assert_eq!(PoolHeader::decode(&line), Err(newer(true)));
    }

    #[test]
    fn spans_round_up_to_grains() {
        assert_eq!(span_bytes(0), Some(4096));
        assert_eq!(span_bytes(4096 - 64), Some(4096));
        assert_eq!(span_bytes(4096 - 63), Some(8192));
        assert_eq!(span_bytes(u64::MAX - 64), None);
        assert_eq!(span_bytes(u64::MAX), None);
    }
}
