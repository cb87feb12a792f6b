//! Lanes into packed codes. Neighbouring codes are joined by multiplication within a lane as long as they fit: what a lane
//! then holds is a **field**. Eight fields are as many bytes as a field has bits, so that their 32-bit words are made
//! of lanes by distances that repeat: each word begins in one field and ends in the next, or the one after that.
//!
//! ```text
//! width 11, two codes a field of 22 bits          lanes  0 .. 7    22 bits each, 10 zeros above
//! word 0   field 0 | field 1 << 22
//! word 1   field 1 >> 10 | field 2 << 12          distances from 32 on leave nothing
//! word 2   field 2 >> 20 | field 3 << 2 | field 4 << 24
//! ```
//!
//! | width      | a field is  | closed by                                             |
//! |------------|-------------|-------------------------------------------------------|
//! | 1 to 7     | eight codes | bytes: a field is as many of them as a code has bits  |
//! | 9 to 14    | two codes   | words                                                 |
//! | 15, 17 to 31 | a code    | words                                                 |
//!
//! Codes of 8, 16 and 32 bits fill their lanes. Wider ones are packed one by one.

use crate::bits::packing::{Unit, max_code};
use std::arch::x86_64::*;

/// Places that are written at a time.
const STORE_BYTES: usize = 32;

/// The most values of a register of fields.
const VALUES_MAX: usize = 32;

/// Whether codes of this width are packed here.
pub(in crate::bits::arch) fn can_pack(width: u8) -> bool {
    (1..=32).contains(&width)
}

/// Packs `value - base` into as many bytes as that takes.
///
/// # Safety
/// The CPU has the level, and [`can_pack`] the width. `out` has exactly the bytes of the codes.
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
pub(in crate::bits::arch) unsafe fn pack<T: Unit>(
    values: &[T],
    base: T,
    width: u8,
    out: &mut [u8],
) {
    // SAFETY: the CPU has the level by the caller's promise, which is all that the registers of a width need.
    unsafe {
        let codes = Codes::new(base.bits(), width);
        match width {
            1..=7 => groups(values, base, width, Eights::new(codes, width), out),
            8 => groups(values, base, width, Bytes(codes), out),
            9..=14 => groups(values, base, width, Pairs::new(codes, width), out),
            16 => groups(values, base, width, Halves(codes), out),
            15 | 17..=31 => groups(values, base, width, Singles::new(codes, width), out),
            _ => groups(values, base, width, Words(codes), out),
        }
    }
}

/// Packs some values of one width at a time.
trait Packer: Copy {
    /// How many.
    const VALUES: usize;

    /// Writes their bytes, and others behind these.
    ///
    /// # Safety
    /// The CPU has the level; as many values are readable at `from`, and [`STORE_BYTES`] places writable at `out`.
    unsafe fn pack<T: Unit>(&self, from: *const T, out: *mut u8);
}

/// Packs words of 64 values as long as there are places behind them, then some values at a time.
///
/// # Safety
/// The CPU has the level.
///
/// # Panics
/// If `out` has fewer than the bytes of the codes.
#[inline(always)]
unsafe fn groups<T: Unit, P: Packer>(values: &[T], base: T, width: u8, packer: P, out: &mut [u8]) {
    let len_bytes = P::VALUES * usize::from(width) / 8;
    let word_bytes = 8 * usize::from(width);
    let (mut values, mut left) = (values, out);
    while let Some((word, rest)) = values.split_first_chunk::<64>()
        && left.len() >= word_bytes + STORE_BYTES
    {
        for group in 0..64 / P::VALUES {
            // SAFETY: the CPU by the caller's promise; the values are in the word, and the places are there.
            unsafe {
                let from = word.as_ptr().add(group * P::VALUES);
                packer.pack(from, left.as_mut_ptr().add(group * len_bytes));
            }
        }
        (values, left) = (rest, &mut left[word_bytes..]);
    }
    let groups = values.chunks_exact(P::VALUES);
    let rest = groups.remainder();
    for group in groups {
        if left.len() >= STORE_BYTES {
            // SAFETY: the CPU by the caller's promise; the group has its values, and the places are there.
            unsafe { packer.pack(group.as_ptr(), left.as_mut_ptr()) };
        } else {
            // SAFETY: as above.
            unsafe { pack_end(packer, group, &mut left[..len_bytes]) };
        }
        left = &mut left[len_bytes..];
    }
    if !rest.is_empty() {
        // What follows the last value is code 0, whose bits are the unused ones of the last byte.
        let mut padded = [base; VALUES_MAX];
        padded[..rest.len()].copy_from_slice(rest);
        // SAFETY: the CPU by the caller's promise.
        unsafe { pack_end(packer, &padded, left) };
    }
}

/// Packs values into fewer than [`STORE_BYTES`] places, or as many.
///
/// # Safety
/// The CPU has the level; there are at least as many values as the packer takes.
#[inline(always)]
unsafe fn pack_end<T: Unit, P: Packer>(packer: P, values: &[T], out: &mut [u8]) {
    let mut bytes = [0; STORE_BYTES];
    // SAFETY: the caller's promise; the array has the places.
    unsafe { packer.pack(values.as_ptr(), bytes.as_mut_ptr()) };
    out.copy_from_slice(&bytes[..out.len()]);
}

/// Makes codes of values.
#[derive(Clone, Copy)]
struct Codes {
    /// Added to a value, it subtracts the base.
    minus_base: __m256i,
    code_mask: __m256i,
}

impl Codes {
    super::avx2! {
        unsafe fn new(base: u64, width: u8) -> Codes {
            Codes {
                minus_base: _mm256_set1_epi32((base as i32).wrapping_neg()),
                code_mask: _mm256_set1_epi32(max_code(width) as i32),
            }
        }
    }

    /// The codes of eight values.
    ///
    /// # Safety
    /// The CPU has the level, and `from` eight readable values.
    #[inline(always)]
    unsafe fn eight<T: Unit>(&self, from: *const T) -> __m256i {
        // SAFETY: the caller's promise.
        unsafe {
            let low = _mm256_loadu_si256(from.cast());
            let values = if T::BITS == 32 {
                low
            } else {
                let high = _mm256_loadu_si256(from.cast::<__m256i>().add(1));
                // The lower halves of both, which come in pairs of one and the other.
                let (low, high) = (_mm256_castsi256_ps(low), _mm256_castsi256_ps(high));
                let lower = _mm256_castps_si256(_mm256_shuffle_ps::<0b10_00_10_00>(low, high));
                _mm256_permute4x64_epi64::<0b11_01_10_00>(lower)
            };
            _mm256_and_si256(_mm256_add_epi32(values, self.minus_base), self.code_mask)
        }
    }

    /// Sixteen codes in lanes of 16 bits: codes 0 to 3, 8 to 11, 4 to 7, 12 to 15.
    ///
    /// # Safety
    /// The CPU has the level, `from` sixteen readable values, and codes at most 16 bits.
    #[inline(always)]
    unsafe fn sixteen<T: Unit>(&self, from: *const T) -> __m256i {
        // SAFETY: the caller's promise.
        unsafe { _mm256_packus_epi32(self.eight(from), self.eight(from.add(8))) }
    }

    /// 32 codes in bytes: runs of four codes, the runs 0, 2, 4, 6, 1, 3, 5, 7.
    ///
    /// # Safety
    /// The CPU has the level, `from` 32 readable values, and codes at most 8 bits.
    #[inline(always)]
    unsafe fn bytes<T: Unit>(&self, from: *const T) -> __m256i {
        // SAFETY: the caller's promise.
        unsafe { _mm256_packus_epi16(self.sixteen(from), self.sixteen(from.add(16))) }
    }
}

super::avx2! {
    /// The lanes 0, 2, 4, 6, 1, 3, 5, 7 in ascending order.
    ///
    /// # Safety
    /// The CPU has the level.
    unsafe fn in_order(lanes: __m256i) -> __m256i {
        _mm256_permutevar8x32_epi32(lanes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7))
    }

    /// Writes a register to 32 places.
    ///
    /// # Safety
    /// The CPU has the level; the places are writable.
    unsafe fn store(packed: __m256i, out: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe { _mm256_storeu_si256(out.cast(), packed) }
    }
}

/// Codes of a byte.
#[derive(Clone, Copy)]
struct Bytes(Codes);

impl Packer for Bytes {
    const VALUES: usize = 32;

    #[inline(always)]
    unsafe fn pack<T: Unit>(&self, from: *const T, out: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe { store(in_order(self.0.bytes(from)), out) }
    }
}

/// Codes of 16 bits.
#[derive(Clone, Copy)]
struct Halves(Codes);

impl Packer for Halves {
    const VALUES: usize = 16;

    #[inline(always)]
    unsafe fn pack<T: Unit>(&self, from: *const T, out: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe {
            let halves = self.0.sixteen(from);
            store(_mm256_permute4x64_epi64::<0b11_01_10_00>(halves), out);
        }
    }
}

/// Codes of 32 bits.
#[derive(Clone, Copy)]
struct Words(Codes);

impl Packer for Words {
    const VALUES: usize = 8;

    #[inline(always)]
    unsafe fn pack<T: Unit>(&self, from: *const T, out: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe { store(self.0.eight(from), out) }
    }
}

/// Codes of at most 7 bits, eight of which are as many bytes as one has bits.
#[derive(Clone, Copy)]
struct Eights {
    codes: Codes,
    by_width: __m256i,
    by_two_widths: __m256i,
    /// Moves the lower lane of two next to the upper one, and back both.
    to_next: __m256i,
    gap: __m128i,
    /// Collects the bytes of two fields in each half of a register.
    bytes: __m256i,
    half_bytes: usize,
}

/// By width: for each byte of a half of a register, the byte of the half it comes from. None of the others counts.
static FIELD_BYTES: [[u8; 16]; 8] = {
    let mut tables = [[0; 16]; 8];
    let mut width = 1;
    while width < 8 {
        let mut at = 0;
        while at < 2 * width {
            tables[width][at] = (at / width * 8 + at % width) as u8;
            at += 1;
        }
        width += 1;
    }
    tables
};

impl Eights {
    super::avx2! {
        unsafe fn new(codes: Codes, width: u8) -> Eights {
            let gap = 32 - 4 * i32::from(width);
            // SAFETY: the array is half a register long.
            let bytes = unsafe { _mm_loadu_si128(FIELD_BYTES[usize::from(width)].as_ptr().cast()) };
            Eights {
                codes,
                by_width: _mm256_set1_epi16(1 | 1 << (width + 8)),
                by_two_widths: _mm256_set1_epi32(1 | 1 << (2 * width + 16)),
                to_next: _mm256_set1_epi64x(i64::from(gap)),
                gap: _mm_cvtsi32_si128(gap),
                bytes: _mm256_broadcastsi128_si256(bytes),
                half_bytes: 2 * usize::from(width),
            }
        }
    }
}

impl Packer for Eights {
    const VALUES: usize = 32;

    #[inline(always)]
    unsafe fn pack<T: Unit>(&self, from: *const T, out: *mut u8) {
        // SAFETY: the caller's promise. Two halves of a register, at most 14 bytes apart, lie in 32 places.
        unsafe {
            // The first factor counts as unsigned, and codes have no sign.
            let twos = _mm256_maddubs_epi16(self.by_width, self.codes.bytes(from));
            let fours = in_order(_mm256_madd_epi16(twos, self.by_two_widths));
            let eights = _mm256_srl_epi64(_mm256_sllv_epi32(fours, self.to_next), self.gap);
            let packed = _mm256_shuffle_epi8(eights, self.bytes);
            _mm_storeu_si128(out.cast(), _mm256_castsi256_si128(packed));
            let high = _mm256_extracti128_si256::<1>(packed);
            _mm_storeu_si128(out.add(self.half_bytes).cast(), high);
        }
    }
}

/// How eight fields become words without gaps.
#[derive(Clone, Copy)]
#[repr(C, align(32))]
struct Closing {
    /// For each word, the lanes of the field it begins in and of the next two.
    lanes: [[u32; 8]; 3],
    /// How far the first of these is moved down.
    down: [u32; 8],
    /// How far the others are moved up; 32 where they are not in the word.
    up: [[u32; 8]; 2],
    /// Whether any word ends in its third field.
    has_three: bool,
}

impl Closing {
    const NONE: Closing = Closing {
        lanes: [[0; 8]; 3],
        down: [0; 8],
        up: [[32; 8]; 2],
        has_three: false,
    };

    /// Of fields of so many bits, field `i` in lane `lanes[i]`.
    const fn new(field_bits: usize, lanes: [u32; 8]) -> Closing {
        let mut closing = Closing::NONE;
        let mut word = 0;
        while word * 32 < 8 * field_bits {
            let first = word * 32 / field_bits;
            let down = word * 32 - first * field_bits;
            closing.lanes[0][word] = lanes[first];
            closing.down[word] = down as u32;
            let mut more = 0;
            while more < 2 && first + 1 + more < 8 {
                let up = (more + 1) * field_bits - down;
                closing.lanes[1 + more][word] = lanes[first + 1 + more];
                if up < 32 {
                    closing.up[more][word] = up as u32;
                    closing.has_three |= more == 1;
                }
                more += 1;
            }
            assert!(first + 3 >= 8 || 3 * field_bits - down >= 32);
            word += 1;
        }
        closing
    }
}

/// Of fields that are single codes, by width.
static SINGLE_CLOSINGS: [Closing; 32] = {
    let mut closings = [Closing::NONE; 32];
    let mut width = 15;
    while width < 32 {
        closings[width] = Closing::new(width, [0, 1, 2, 3, 4, 5, 6, 7]);
        width += 1;
    }
    closings
};

/// Of fields that are two codes, by width.
static PAIR_CLOSINGS: [Closing; 15] = {
    let mut closings = [Closing::NONE; 15];
    let mut width = 9;
    while width < 15 {
        closings[width] = Closing::new(2 * width, [0, 1, 4, 5, 2, 3, 6, 7]);
        width += 1;
    }
    closings
};

/// A [`Closing`] in registers.
#[derive(Clone, Copy)]
struct Loaded {
    lanes: [__m256i; 3],
    down: __m256i,
    up: [__m256i; 2],
    has_three: bool,
}

impl Loaded {
    super::avx2! {
        unsafe fn new(closing: &Closing) -> Loaded {
            // SAFETY: every array is a register long.
            let load = |of: &[u32; 8]| unsafe { _mm256_loadu_si256(of.as_ptr().cast()) };
            Loaded {
                lanes: [load(&closing.lanes[0]), load(&closing.lanes[1]), load(&closing.lanes[2])],
                down: load(&closing.down),
                up: [load(&closing.up[0]), load(&closing.up[1])],
                has_three: closing.has_three,
            }
        }

        /// # Safety
        /// The CPU has the level.
        unsafe fn close(&self, fields: __m256i) -> __m256i {
            let [first, second, third] = self.lanes;
            let first = _mm256_srlv_epi32(_mm256_permutevar8x32_epi32(fields, first), self.down);
            let second = _mm256_sllv_epi32(_mm256_permutevar8x32_epi32(fields, second), self.up[0]);
            let words = _mm256_or_si256(first, second);
            if !self.has_three {
                return words;
            }
            let third = _mm256_sllv_epi32(_mm256_permutevar8x32_epi32(fields, third), self.up[1]);
            _mm256_or_si256(words, third)
        }
    }
}

/// A code a field of 32 bits.
#[derive(Clone, Copy)]
struct Singles {
    codes: Codes,
    closing: Loaded,
}

impl Singles {
    super::avx2! {
        unsafe fn new(codes: Codes, width: u8) -> Singles {
            // SAFETY: the caller's promise.
            let closing = unsafe { Loaded::new(&SINGLE_CLOSINGS[usize::from(width)]) };
            Singles { codes, closing }
        }
    }
}

impl Packer for Singles {
    const VALUES: usize = 8;

    #[inline(always)]
    unsafe fn pack<T: Unit>(&self, from: *const T, out: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe { store(self.closing.close(self.codes.eight(from)), out) }
    }
}

/// Two codes a field of 32 bits.
#[derive(Clone, Copy)]
struct Pairs {
    codes: Codes,
    by_width: __m256i,
    closing: Loaded,
}

impl Pairs {
    super::avx2! {
        unsafe fn new(codes: Codes, width: u8) -> Pairs {
            Pairs {
                codes,
                // Codes of 14 bits and their factor have no sign.
                by_width: _mm256_set1_epi32(1 | 1 << (width + 16)),
                // SAFETY: the caller's promise.
                closing: unsafe { Loaded::new(&PAIR_CLOSINGS[usize::from(width)]) },
            }
        }
    }
}

impl Packer for Pairs {
    const VALUES: usize = 16;

    #[inline(always)]
    unsafe fn pack<T: Unit>(&self, from: *const T, out: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe {
            let fields = _mm256_madd_epi16(self.codes.sixteen(from), self.by_width);
            store(self.closing.close(fields), out);
        }
    }
}
