//! The hash of a key.

/// Spreads keys over all bits: two rounds of multiply and xor-shift, each of them reversible, so
/// that different keys have different hashes.
#[inline(always)]
pub(crate) fn hash_of(key: u64) -> u64 {
    let mut hash = key ^ key >> 32;
    hash = hash.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    hash ^= hash >> 29;
    hash = hash.wrapping_mul(0xd6e8_feb8_6659_fd93);
    hash ^ hash >> 32
}
