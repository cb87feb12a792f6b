//! What all stored bytes have in common: little-endian integers, and lines of 64 bytes.

/// Blocks begin on a multiple of this many bytes.
pub(crate) use tierra_memory::LINE_BYTES;

pub(crate) fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..at + N].try_into().expect("a slice of N bytes")
}

pub(crate) fn read_u32(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(array(bytes, at))
}

pub(crate) fn read_u64(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(array(bytes, at))
}

/// `len_bytes` rounded up to whole lines.
pub(crate) fn lines(len_bytes: usize) -> usize {
    len_bytes.div_ceil(LINE_BYTES) * LINE_BYTES
}
