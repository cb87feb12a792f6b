//! Byte by byte: the oracle, and what other processors run.

/// A bit for every byte of `bytes` that equals `wanted`, the first byte's lowest.
#[inline(always)]
pub(crate) fn equal_bytes(bytes: &[u8; 16], wanted: u8) -> u32 {
    let bit = |(at, &byte): (usize, &u8)| u32::from(byte == wanted) << at;
    bytes.iter().enumerate().map(bit).sum()
}
