//! Offsets of bits in a value.

use super::{Call, Failure};
use crate::number::parse_i64;

/// An argument as the offset of a bit, which has to lie within the longest possible string.
pub(super) fn offset(call: &Call<'_>, text: &[u8], unit_bits: i64) -> Result<u64, Failure> {
    parse_i64(text)
        .and_then(|offset| offset.checked_mul(unit_bits))
        .filter(|&offset| offset >= 0 && offset >> 3 < call.shared.config.proto_max_bulk_len)
        .map(|offset| offset as u64)
        .ok_or("ERR bit offset is not an integer or out of range".into())
}

/// The byte of a bit, and the bit's shift in it.
pub(super) fn byte_and_shift(offset: u64) -> (usize, u8) {
    ((offset / 8) as usize, 7 - (offset % 8) as u8)
}

/// A bit of a value; zero beyond its end.
pub(super) fn bit(value: &[u8], offset: u64) -> bool {
    let (byte, shift) = byte_and_shift(offset);
    value.get(byte).is_some_and(|byte| byte >> shift & 1 == 1)
}

pub(super) fn set_bit(value: &mut [u8], offset: u64, on: bool) {
    let (byte, shift) = byte_and_shift(offset);
    value[byte] = value[byte] & !(1 << shift) | u8::from(on) << shift;
}
