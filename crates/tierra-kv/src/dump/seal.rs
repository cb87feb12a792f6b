//! What stands behind a payload: its version, and a checksum of all before.

use crc::{CRC_64_REDIS, Crc, Table};

/// Bytes behind the value: version and checksum.
const FOOTER_BYTES: usize = 10;
const CHECKSUM_BYTES: usize = 8;
/// The version that Redis 7.0 writes.
const VERSION: u16 = 10;
/// The newest that is read, Redis 7.4's (7.2's and Valkey 8's is 11): they write strings, hashes and sorted sets as 7.0 does, and what
/// they have besides has types of its own.
const NEWEST_VERSION: u16 = 12;

pub(super) static CRC: Crc<u64, Table<16>> = Crc::<u64, Table<16>>::new(&CRC_64_REDIS);

/// Appends version and checksum to a payload's type and value.
pub fn seal(payload: &mut Vec<u8>) {
    payload.extend_from_slice(&VERSION.to_le_bytes());
    let checksum = CRC.checksum(payload);
    payload.extend_from_slice(&checksum.to_le_bytes());
}

/// Type and value of a payload, if its footer is right.
pub(super) fn unseal(payload: &[u8]) -> Option<&[u8]> {
    let value_bytes = payload.len().checked_sub(FOOTER_BYTES)?;
    let (value, footer) = payload.split_at(value_bytes);
    let checked = &payload[..payload.len() - CHECKSUM_BYTES];
    let is_right = u16::from_le_bytes([footer[0], footer[1]]) <= NEWEST_VERSION
        && footer[2..] == CRC.checksum(checked).to_le_bytes();
    is_right.then_some(value)
}
