//! The layout of packed codes: sizes, packing, access to one code, and the checked view of a block.

use super::{MAX_WIDTH, PAD_BYTES};

/// Bytes that `n` codes of `width` bits occupy, without the pad.
#[inline]
pub const fn packed_bytes(n: usize, width: u8) -> usize {
    (n * width as usize).div_ceil(8)
}

/// The largest code of `width` bits.
#[inline]
pub const fn max_code(width: u8) -> u64 {
    if width >= 64 { !0 } else { (1 << width) - 1 }
}

/// A block whose bounds have been checked: all that the kernels read lies inside `bytes`.
#[derive(Clone, Copy)]
pub(super) struct Block<'a> {
    bytes: &'a [u8],
    width: u8,
    n: usize,
}

impl<'a> Block<'a> {
    /// # Panics
    /// If the width exceeds 64 or `bytes` is shorter than `n` codes and the pad.
    #[inline]
    pub(super) fn new(bytes: &'a [u8], width: u8, n: usize) -> Self {
        assert!(
            width <= MAX_WIDTH,
            "codes of {width} bits: at most {MAX_WIDTH} are possible"
        );
        assert!(
            bytes.len() >= packed_bytes(n, width) + PAD_BYTES,
            "{n} codes of {width} bits and {PAD_BYTES} bytes of pad do not fit in {} bytes",
            bytes.len()
        );
        Self { bytes, width, n }
    }

    #[inline(always)]
    pub(super) fn as_ptr(&self) -> *const u8 {
        self.bytes.as_ptr()
    }

    #[inline(always)]
    pub(super) fn width(&self) -> u8 {
        self.width
    }

    #[inline(always)]
    pub(super) fn n(&self) -> usize {
        self.n
    }
}

/// Packs the low `width` bits of each value; unused bits of the last byte are zero.
///
/// # Panics
/// If the width exceeds 64 or `out` is shorter than [`packed_bytes`].
pub(super) fn pack<T: Copy + Into<u64>>(values: &[T], width: u8, out: &mut [u8]) {
    assert!(
        width <= MAX_WIDTH,
        "codes of {width} bits: at most {MAX_WIDTH} are possible"
    );
    let len_bytes = packed_bytes(values.len(), width);
    assert!(
        out.len() >= len_bytes,
        "{} codes of {width} bits need {len_bytes} bytes, not {}",
        values.len(),
        out.len()
    );
    let mut words = out[..len_bytes].chunks_exact_mut(8);
    let (mut pending, mut pending_bits) = (0u64, 0u32);
    for &value in values {
        let code = value.into() & max_code(width);
        pending |= code << pending_bits;
        pending_bits += u32::from(width);
        if pending_bits >= 64 {
            if let Some(word) = words.next() {
                word.copy_from_slice(&pending.to_le_bytes());
            }
            pending_bits -= 64;
            // The shift is by 64 only when nothing of the code is left over.
            pending = code
                .checked_shr(u32::from(width) - pending_bits)
                .unwrap_or(0);
        }
    }
    // What is pending is a last whole word (of 57 bits or more), or the bytes after the last one.
    let pending = pending.to_le_bytes();
    match words.next() {
        Some(word) => word.copy_from_slice(&pending),
        None => {
            let rest = words.into_remainder();
            rest.copy_from_slice(&pending[..rest.len()]);
        }
    }
}

/// Code `index` of a block.
///
/// # Panics
/// If the width exceeds 64 or the code and the pad do not lie in `packed`.
#[inline]
pub(super) fn get(packed: &[u8], width: u8, index: usize) -> u64 {
    assert!(
        width <= MAX_WIDTH,
        "codes of {width} bits: at most {MAX_WIDTH} are possible"
    );
    let bit = index * usize::from(width);
    let (byte, phase) = (bit / 8, bit % 8);
    let window = &packed[byte..byte + 9];
    let (low, high) = window.split_at(8);
    let low = u64::from_le_bytes(low.try_into().expect("split at eight bytes")) >> phase;
    // Shifting in two steps keeps each shift below 64 when the phase is zero.
    let high = u64::from(high[0]) << 1 << (63 - phase);
    (low | high) & max_code(width)
}
