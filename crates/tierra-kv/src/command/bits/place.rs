//! Where a bit is in a value.

use super::{Call, Failure};
use crate::number::parse_i64;

/// An argument as the place of a bit, which has to be in the longest string that there may be.
pub(super) fn offset(call: &Call<'_>, text: &[u8], unit_bits: i64) -> Result<u64, Failure> {
    parse_i64(text)
        .and_then(|offset| offset.checked_mul(unit_bits))
        .filter(|&offset| offset >= 0 && offset >> 3 < call.shared.config.proto_max_bulk_len)
        .map(|offset| offset as u64)
        .ok_or("ERR bit offset is not an integer or out of range".into())
}

/// The byte of a bit, and the bit's place in it.
pub(super) fn place(offset: u64) -> (usize, u8) {
    ((offset / 8) as usize, 7 - (offset % 8) as u8)
}

/// A bit of a value, which has zeros behind its end.
pub(super) fn bit(value: &[u8], offset: u64) -> bool {
    let (byte, shift) = place(offset);
    value.get(byte).is_some_and(|byte| byte >> shift & 1 == 1)
}

pub(super) fn set_bit(value: &mut [u8], offset: u64, on: bool) {
    let (byte, shift) = place(offset);
    value[byte] = value[byte] & !(1 << shift) | u8::from(on) << shift;
}
