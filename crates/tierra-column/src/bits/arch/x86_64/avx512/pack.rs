//! Lanes into packed codes, in a handful of instructions for a register of values.
//!
//! Values are cut to the narrowest lanes that hold a code, and neighbouring codes joined within a lane: what a lane then
//! holds is a **field**. Fields have gaps of zeros between them, which three instructions close. A multishift cuts each
//! field where the bytes of the packed codes begin and end, one permutation collects the bytes that begin in each field,
//! and a second one the rests of those that end in the next field.
//!
//! ```text
//! width 5     bytes 000aaaaa 000bbbbb 000ccccc 000ddddd | ...   16 lanes of 4 bytes, 64 codes
//! multiply    field of 20 bits: aaaaabbbbbcccccddddd            with (1, 2^5), then with (1, 2^10)
//! multishift  aaaaabbb bbcccccd dddd0000 | 0000aaaa abbbbbcc    where the bytes of the packed codes begin and end
//! permute     aaaaabbb bbcccccd dddd---- ...                    ---- is or'ed in from the next field
//! ```
//!
//! | width       | a field is                     | bits of a lane |
//! |-------------|--------------------------------|----------------|
//! | 1 to 7      | four codes                     | 32             |
//! | 9 to 14     | two codes                      | 32             |
//! | 15, 17 to 26, 28 | a code                    | 32             |
//! | 27, 29, 30  | two codes                      | 64             |
//! | 31, 33 to 58, 60 | a code                    | 64             |
//!
//! Lanes of 8, 16, 32 and 64 bits have no gaps. The few widths that are left (59, 61, 62, 63) leave too few zeros
//! between fields to cut these at bytes, and are packed one by one.

use crate::bits::{
    mask::first_bits,
    packing::{Unit, max_code},
};
use std::arch::x86_64::*;

/// How the gaps between fields are closed.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Closing {
    /// For each byte of a lane, the bit of its 64-bit word it starts at.
    bits: [u8; 64],
    /// For each packed byte, the byte that holds its first bits.
    first: [u8; 64],
    /// For each packed byte that ends in the next field, the byte that holds its last bits.
    last: [u8; 64],
    /// The packed bytes that end in the next field.
    straddling: u64,
    /// Packed bytes of a register.
    len_bytes: usize,
    /// Whether fields do not begin where bytes of their lanes do.
    is_shifted: bool,
}

impl Closing {
    const NONE: Closing = Closing {
        bits: [0; 64],
        first: [0; 64],
        last: [0; 64],
        straddling: 0,
        len_bytes: 0,
        is_shifted: false,
    };

    /// Of fields that begin at bit `first_bit` of each lane.
    const fn new(field_bits: usize, lane_bits: usize, first_bit: usize) -> Closing {
        assert!(Self::suffices(field_bits, lane_bits));
        let (lanes, lane_bytes) = (512 / lane_bits, lane_bits / 8);
        let mut closing = Closing {
            len_bytes: lanes * field_bits / 8,
            is_shifted: first_bit != 0 || !field_bits.is_multiple_of(8),
            ..Closing::NONE
        };
        let mut lane = 0;
        while lane < lanes {
            let mut byte = 0;
            while byte < lane_bytes {
                // The packed byte begins before its field where the field before ends within it.
                let before = lane * field_bits % 8;
                let bit = lane * lane_bits % 64 + first_bit + byte * 8 + 64 - before;
                closing.bits[lane * lane_bytes + byte] = (bit % 64) as u8;
                byte += 1;
            }
            lane += 1;
        }
        let mut at = 0;
        while at < closing.len_bytes {
            let lane = at * 8 / field_bits;
            closing.first[at] = (lane * lane_bytes + at - lane * field_bits / 8) as u8;
            if at * 8 + 8 > (lane + 1) * field_bits {
                closing.last[at] = ((lane + 1) * lane_bytes) as u8;
                closing.straddling |= 1 << at;
            }
            at += 1;
        }
        closing
    }

    /// Whether as many bytes as the packed bytes of any field lie in a lane, and are zero around the field.
    const fn suffices(field_bits: usize, lane_bits: usize) -> bool {
        // Fields begin at multiples of this many bits of a packed byte.
        let step = 1 << field_bits.trailing_zeros();
        let step = if step > 8 { 8 } else { step };
        field_bits + 8 - step <= lane_bits
    }
}

/// What the values of a width become before gaps are closed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fields {
    /// Lanes without gaps, of 8, 16, 32 or 64 bits.
    Lanes,
    Quads,
    Pairs16,
    Single32,
    Pairs32,
    Single64,
    /// Nothing here.
    None,
}

impl Fields {
    const fn of(width: usize) -> Fields {
        match width {
            8 | 16 | 32 | 64 => Fields::Lanes,
            1..=7 => Fields::Quads,
            9..=14 => Fields::Pairs16,
            15 | 17..=26 | 28 => Fields::Single32,
            27 | 29 | 30 => Fields::Pairs32,
            31 | 33..=58 | 60 => Fields::Single64,
            _ => Fields::None,
        }
    }

    const fn closing(self, width: usize) -> Closing {
        match self {
            Fields::Quads => Closing::new(4 * width, 32, 0),
            Fields::Pairs16 => Closing::new(2 * width, 32, 16 - width),
            Fields::Single32 => Closing::new(width, 32, 0),
            Fields::Pairs32 => Closing::new(2 * width, 64, 32 - width),
            Fields::Single64 => Closing::new(width, 64, 0),
            Fields::Lanes | Fields::None => Closing::NONE,
        }
    }
}

/// By width.
static CLOSINGS: [Closing; 65] = {
    let mut closings = [Closing::NONE; 65];
    let mut width = 1;
    while width <= 64 {
        closings[width] = Fields::of(width).closing(width);
        width += 1;
    }
    closings
};

/// Whether values of this type and width are packed here.
pub(in crate::bits::arch) fn can_pack<T: Unit>(width: u8) -> bool {
    Fields::of(width.into()) != Fields::None && usize::from(width) <= T::BITS
}

/// Packs `value - base` into as many bytes as that takes.
///
/// # Safety
/// The CPU has the level, and [`can_pack`] the width. `out` has exactly the bytes of the codes.
#[target_feature(
    enable = "avx512f,avx512bw,avx512vl,avx512vbmi,avx512vbmi2,avx2,bmi1,bmi2,lzcnt,popcnt"
)]
pub(in crate::bits::arch) unsafe fn pack<T: Unit>(
    values: &[T],
    base: T,
    width: u8,
    out: &mut [u8],
) {
    let base_bits = base.bits();
    // SAFETY: the CPU has the level by the caller's promise, which is all that the registers of a type need.
    unsafe {
        match (Fields::of(width.into()), width) {
            (Fields::Lanes, 8) => {
                run::<T, Bytes>(values, base, width, Bytes::new(base_bits, 8), out)
            }
            (Fields::Lanes, 16) => {
                run::<T, Halves>(values, base, width, Halves::new(base_bits, 16), out)
            }
            (Fields::Lanes, 32) => {
                run::<T, Words>(values, base, width, Words::new(base_bits, 32), out)
            }
            (Fields::Lanes, _) | (Fields::Single64, _) => {
                run::<T, Longs>(values, base, width, Longs::new(base_bits, width), out)
            }
            (Fields::Quads, _) => {
                run::<T, Quads>(values, base, width, Quads::new(base_bits, width), out)
            }
            (Fields::Pairs16, _) => {
                run::<T, Pairs16>(values, base, width, Pairs16::new(base_bits, width), out)
            }
            (Fields::Single32, _) => {
                run::<T, Words>(values, base, width, Words::new(base_bits, width), out)
            }
            (Fields::Pairs32, _) => {
                run::<T, Pairs32>(values, base, width, Pairs32::new(base_bits, width), out)
            }
            (Fields::None, _) => debug_assert!(false, "width {width} is packed one by one"),
        }
    }
}

/// Makes fields of values.
trait Joined: Copy {
    /// Values of a register of fields.
    const VALUES: usize;

    /// # Safety
    /// The CPU has the level, and `from` as many readable values.
    unsafe fn fields<T: Unit>(&self, from: *const T) -> __m512i;
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,avx512vbmi2")]
unsafe fn run<T: Unit, J: Joined>(values: &[T], base: T, width: u8, joined: J, out: &mut [u8]) {
    let closing = &CLOSINGS[usize::from(width)];
    // SAFETY: the caller's promise.
    unsafe {
        if closing.len_bytes == 0 {
            let whole = J::VALUES * usize::from(width) / 8;
            groups(values, base, joined, whole, out, |fields| fields);
            return;
        }
        let len_bytes = closing.len_bytes;
        let bits = _mm512_loadu_si512(closing.bits.as_ptr().cast());
        let first = _mm512_loadu_si512(closing.first.as_ptr().cast());
        let last = _mm512_loadu_si512(closing.last.as_ptr().cast());
        let (packed, straddling) = (first_bits(len_bytes), closing.straddling);
        if straddling != 0 {
            groups(values, base, joined, len_bytes, out, |fields| {
                let cut = _mm512_multishift_epi64_epi8(bits, fields);
                let firsts = _mm512_maskz_permutexvar_epi8(packed, first, cut);
                let lasts = _mm512_maskz_permutexvar_epi8(straddling, last, cut);
                _mm512_or_si512(firsts, lasts)
            });
        } else if closing.is_shifted {
            groups(values, base, joined, len_bytes, out, |fields| {
                let cut = _mm512_multishift_epi64_epi8(bits, fields);
                _mm512_maskz_permutexvar_epi8(packed, first, cut)
            });
        } else {
            groups(values, base, joined, len_bytes, out, |fields| {
                _mm512_maskz_permutexvar_epi8(packed, first, fields)
            });
        }
    }
}

/// Packs register by register; each register's bytes, `len_bytes` of them, are followed by zeros.
///
/// # Safety
/// The CPU has the level, and `out` the bytes of the codes.
#[inline(always)]
unsafe fn groups<T: Unit, J: Joined>(
    values: &[T],
    base: T,
    joined: J,
    len_bytes: usize,
    out: &mut [u8],
    close: impl Fn(__m512i) -> __m512i,
) {
    let word_bytes = 64 / J::VALUES * len_bytes;
    let (mut values, mut left) = (values, out);
    // Words of 64 values as long as there are places behind them.
    while let Some((word, rest)) = values.split_first_chunk::<64>()
        && left.len() >= word_bytes + 64
    {
        for group in 0..64 / J::VALUES {
            // SAFETY: the CPU by the caller's promise; the values are in the word, and the places are there.
            unsafe {
                let packed = close(joined.fields(word.as_ptr().add(group * J::VALUES)));
                let place = left.as_mut_ptr().add(group * len_bytes);
                _mm512_storeu_si512(place.cast(), packed);
            }
        }
        (values, left) = (rest, &mut left[word_bytes..]);
    }
    let groups = values.chunks_exact(J::VALUES);
    let rest = groups.remainder();
    for group in groups {
        // SAFETY: the CPU by the caller's promise; the group has a register's values.
        let packed = unsafe { close(joined.fields(group.as_ptr())) };
        // SAFETY: the CPU by the caller's promise.
        unsafe { store(packed, len_bytes, left) };
        left = &mut left[len_bytes..];
    }
    if !rest.is_empty() {
        // What follows the last value is code 0, whose bits are the unused ones of the last byte.
        let mut padded = [base; 64];
        padded[..rest.len()].copy_from_slice(rest);
        // SAFETY: as above; the array is as long as any register's values.
        unsafe {
            let packed = close(joined.fields(padded.as_ptr()));
            store(packed, left.len(), left);
        }
    }
}

/// Stores the first `len` bytes of a register, and others behind them only if `out` has places for all.
///
/// # Safety
/// The CPU has the level; `len` is at most 64.
///
/// # Panics
/// If `out` has fewer than `len` places.
#[inline(always)]
unsafe fn store(packed: __m512i, len: usize, out: &mut [u8]) {
    if out.len() >= 64 {
        // SAFETY: 64 places are there.
        unsafe { _mm512_storeu_si512(out.as_mut_ptr().cast(), packed) };
    } else {
        assert!(len <= out.len());
        // SAFETY: only the places that were just found to be there are written.
        unsafe { _mm512_mask_storeu_epi8(out.as_mut_ptr().cast(), first_bits(len), packed) };
    }
}

/// Sixteen values, cut to 32 bits.
///
/// # Safety
/// The CPU has the level, and `from` sixteen readable values.
#[inline(always)]
unsafe fn sixteen<T: Unit>(from: *const T) -> __m512i {
    // SAFETY: the caller's promise.
    unsafe {
        let low = _mm512_loadu_si512(from.cast());
        if T::BITS == 32 {
            return low;
        }
        let high = _mm512_loadu_si512(from.add(8).cast());
        let even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
        _mm512_permutex2var_epi32(low, even, high)
    }
}

/// The lowest byte of each of 32 lanes of two registers.
static LOW_BYTES: [u8; 64] = {
    let mut bytes = [0; 64];
    let mut at = 0;
    while at < 32 {
        bytes[at] = (at * 4) as u8;
        at += 1;
    }
    bytes
};

/// The lower half of each of 32 lanes of two registers.
static LOW_HALVES: [u16; 32] = {
    let mut halves = [0; 32];
    let mut at = 0;
    while at < 32 {
        halves[at] = (at * 2) as u16;
        at += 1;
    }
    halves
};

/// 64 codes of a byte.
#[derive(Clone, Copy)]
struct Bytes {
    base: __m512i,
    code_mask: __m512i,
    low_bytes: __m512i,
}

impl Bytes {
    super::avx512! {
        unsafe fn new(base: u64, width: u8) -> Bytes {
            Bytes {
                base: _mm512_set1_epi8(base as i8),
                code_mask: _mm512_set1_epi8(max_code(width) as i8),
                // SAFETY: the array is a register long.
                low_bytes: unsafe { _mm512_loadu_si512(LOW_BYTES.as_ptr().cast()) },
            }
        }
    }
}

impl Joined for Bytes {
    const VALUES: usize = 64;

    #[inline(always)]
    unsafe fn fields<T: Unit>(&self, from: *const T) -> __m512i {
        // SAFETY: the caller's promise.
        unsafe {
            let [a, b] = [sixteen(from), sixteen(from.add(16))];
            let [c, d] = [sixteen(from.add(32)), sixteen(from.add(48))];
            let low = _mm512_permutex2var_epi8(a, self.low_bytes, b);
            let high = _mm512_permutex2var_epi8(c, self.low_bytes, d);
            let bytes = _mm512_inserti64x4::<1>(low, _mm512_castsi512_si256(high));
            _mm512_and_si512(_mm512_sub_epi8(bytes, self.base), self.code_mask)
        }
    }
}

/// Four codes a field of 32 bits.
#[derive(Clone, Copy)]
struct Quads {
    bytes: Bytes,
    by_width: __m512i,
    by_two_widths: __m512i,
}

impl Quads {
    super::avx512! {
        unsafe fn new(base: u64, width: u8) -> Quads {
            Quads {
                // SAFETY: the caller's promise.
                bytes: unsafe { Bytes::new(base, width) },
                by_width: _mm512_set1_epi16(1 | 1 << (width + 8)),
                by_two_widths: _mm512_set1_epi32(1 | 1 << (2 * width + 16)),
            }
        }
    }
}

impl Joined for Quads {
    const VALUES: usize = 64;

    #[inline(always)]
    unsafe fn fields<T: Unit>(&self, from: *const T) -> __m512i {
        // SAFETY: the caller's promise.
        unsafe {
            // The first factor counts as unsigned, and codes have no sign.
            let pairs = _mm512_maddubs_epi16(self.by_width, self.bytes.fields(from));
            _mm512_madd_epi16(pairs, self.by_two_widths)
        }
    }
}

/// 32 codes of 16 bits.
#[derive(Clone, Copy)]
struct Halves {
    base: __m512i,
    code_mask: __m512i,
    low_halves: __m512i,
}

impl Halves {
    super::avx512! {
        unsafe fn new(base: u64, width: u8) -> Halves {
            Halves {
                base: _mm512_set1_epi16(base as i16),
                code_mask: _mm512_set1_epi16(max_code(width) as i16),
                // SAFETY: the array is a register long.
                low_halves: unsafe { _mm512_loadu_si512(LOW_HALVES.as_ptr().cast()) },
            }
        }
    }
}

impl Joined for Halves {
    const VALUES: usize = 32;

    #[inline(always)]
    unsafe fn fields<T: Unit>(&self, from: *const T) -> __m512i {
        // SAFETY: the caller's promise.
        unsafe {
            let (low, high) = (sixteen(from), sixteen(from.add(16)));
            let halves = _mm512_permutex2var_epi16(low, self.low_halves, high);
            _mm512_and_si512(_mm512_sub_epi16(halves, self.base), self.code_mask)
        }
    }
}

/// Two codes a field of 32 bits.
#[derive(Clone, Copy)]
struct Pairs16 {
    halves: Halves,
    to_next: __m512i,
}

impl Pairs16 {
    super::avx512! {
        unsafe fn new(base: u64, width: u8) -> Pairs16 {
            Pairs16 {
                // SAFETY: the caller's promise.
                halves: unsafe { Halves::new(base, width) },
                to_next: _mm512_set1_epi32(16 - i32::from(width)),
            }
        }
    }
}

impl Joined for Pairs16 {
    const VALUES: usize = 32;

    #[inline(always)]
    unsafe fn fields<T: Unit>(&self, from: *const T) -> __m512i {
        // SAFETY: the caller's promise. The lower code of two is moved next to the upper one.
        unsafe { _mm512_sllv_epi16(self.halves.fields(from), self.to_next) }
    }
}

/// 16 codes of 32 bits.
#[derive(Clone, Copy)]
struct Words {
    base: __m512i,
    code_mask: __m512i,
}

impl Words {
    super::avx512! {
        unsafe fn new(base: u64, width: u8) -> Words {
            Words {
                base: _mm512_set1_epi32(base as i32),
                code_mask: _mm512_set1_epi32(max_code(width) as i32),
            }
        }
    }
}

impl Joined for Words {
    const VALUES: usize = 16;

    #[inline(always)]
    unsafe fn fields<T: Unit>(&self, from: *const T) -> __m512i {
        // SAFETY: the caller's promise.
        unsafe { _mm512_and_si512(_mm512_sub_epi32(sixteen(from), self.base), self.code_mask) }
    }
}

/// Two codes a field of 64 bits.
#[derive(Clone, Copy)]
struct Pairs32 {
    words: Words,
    to_next: __m512i,
}

impl Pairs32 {
    super::avx512! {
        unsafe fn new(base: u64, width: u8) -> Pairs32 {
            Pairs32 {
                // SAFETY: the caller's promise.
                words: unsafe { Words::new(base, width) },
                to_next: _mm512_set1_epi64(32 - i64::from(width)),
            }
        }
    }
}

impl Joined for Pairs32 {
    const VALUES: usize = 16;

    #[inline(always)]
    unsafe fn fields<T: Unit>(&self, from: *const T) -> __m512i {
        // SAFETY: the caller's promise. The lower code of two is moved next to the upper one.
        unsafe { _mm512_sllv_epi32(self.words.fields(from), self.to_next) }
    }
}

/// Eight codes of 64 bits.
#[derive(Clone, Copy)]
struct Longs {
    base: __m512i,
    code_mask: __m512i,
}

impl Longs {
    super::avx512! {
        unsafe fn new(base: u64, width: u8) -> Longs {
            Longs {
                base: _mm512_set1_epi64(base as i64),
                code_mask: _mm512_set1_epi64(max_code(width) as i64),
            }
        }
    }
}

impl Joined for Longs {
    const VALUES: usize = 8;

    #[inline(always)]
    unsafe fn fields<T: Unit>(&self, from: *const T) -> __m512i {
        // SAFETY: the caller's promise.
        unsafe {
            let values = match T::BITS {
                32 => _mm512_cvtepu32_epi64(_mm256_loadu_si256(from.cast())),
                _ => _mm512_loadu_si512(from.cast()),
            };
            _mm512_and_si512(_mm512_sub_epi64(values, self.base), self.code_mask)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_four_widths_are_left() {
        let left = (1..=64).filter(|&width| !can_pack::<u64>(width));
        assert_eq!(left.collect::<Vec<_>>(), [59, 61, 62, 63]);
        assert!((1..=32).all(can_pack::<u32>));
        for (field, lane) in [(59, 64), (62, 64), (30, 32), (27, 32)] {
            assert!(!Closing::suffices(field, lane), "{field} of {lane}");
        }
    }
}
