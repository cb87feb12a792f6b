//! The layout of packed codes: sizes, packing, access to one code, and the checked view of a block.

use super::{MAX_WIDTH, PAD_BYTES};

macro_rules! pack_runs {
    ($($width:literal)*) => {
        [$(pack_runs::<T, $width>),*]
    };
}

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

/// Bits that `code` needs.
#[inline]
pub(crate) fn width_of(code: u64) -> u8 {
    (64 - code.leading_zeros()) as u8
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

/// What values are packed from: integers of 32 or 64 bits, which count modulo 2 to the power of that.
pub trait Unit: Copy + sealed::Sealed {
    /// Bits of a value.
    const BITS: usize;

    /// The value without its sign.
    fn bits(self) -> u64;
}

mod sealed {
    /// Kernels load units as they lie in memory, so only integers are any.
    pub trait Sealed {}
}

macro_rules! unit {
    ($($ty:ty as $unsigned:ty)*) => {$(
        impl sealed::Sealed for $ty {}
        impl Unit for $ty {
            const BITS: usize = <$ty>::BITS as usize;

            #[inline(always)]
            fn bits(self) -> u64 {
                u64::from(self as $unsigned)
            }
        }
    )*};
}
unit!(u32 as u32 i32 as u32 u64 as u64 i64 as u64);

/// Codes packed at a time: they fill whole bytes, whatever their width.
const RUN: usize = 8;

/// Checks what is packed, and returns the bytes that it takes.
///
/// # Panics
/// If the width exceeds 64 or `out` is shorter than [`packed_bytes`].
#[inline]
pub(super) fn place(values: usize, width: u8, out: &mut [u8]) -> &mut [u8] {
    assert!(
        width <= MAX_WIDTH,
        "codes of {width} bits: at most {MAX_WIDTH} are possible"
    );
    let len_bytes = packed_bytes(values, width);
    assert!(
        out.len() >= len_bytes,
        "{values} codes of {width} bits need {len_bytes} bytes, not {}",
        out.len()
    );
    &mut out[..len_bytes]
}

/// Packs the low `width` bits of each `value - base` into a [`place`]; unused bits of the last byte are zero.
#[inline(always)]
pub(super) fn pack<T: Unit>(values: &[T], base: T, width: u8, out: &mut [u8]) {
    if width == 0 {
        return;
    }
    let pack_runs = T::PACK_RUNS[usize::from(width) - 1];
    let (runs, rest) = values.split_at(values.len() / RUN * RUN);
    let (out, last) = out.split_at_mut(packed_bytes(runs.len(), width));
    pack_runs(runs, base, out);
    if !rest.is_empty() {
        let mut run = [base; RUN];
        run[..rest.len()].copy_from_slice(rest);
        let mut bytes = [0; RUN * 8];
        let bytes = &mut bytes[..usize::from(width)];
        pack_runs(&run, base, bytes);
        last.copy_from_slice(&bytes[..last.len()]);
    }
}

/// Packs whole runs of one width.
type PackRuns<T> = fn(&[T], T, &mut [u8]);

/// The functions for all widths.
trait PackAll: Sized {
    /// By width less one. All places and shifts are constants of a width: about one instruction for
    /// each step that a code needs.
    const PACK_RUNS: [PackRuns<Self>; MAX_WIDTH as usize];
}

impl<T: Unit> PackAll for T {
    const PACK_RUNS: [PackRuns<T>; MAX_WIDTH as usize] = pack_runs![
        1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16
        17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32
        33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48
        49 50 51 52 53 54 55 56 57 58 59 60 61 62 63 64
    ];
}

/// Packs whole runs into [`packed_bytes`] bytes.
fn pack_runs<T: Unit, const WIDTH: usize>(values: &[T], base: T, out: &mut [u8]) {
    // Bits above those of a value are cut off as they are from the value.
    let value_mask = max_code(WIDTH as u8) & max_code(T::BITS as u8);
    for (run, out) in values.chunks_exact(RUN).zip(out.chunks_exact_mut(WIDTH)) {
        let mut words = [0_u64; RUN];
        for (i, value) in run.iter().enumerate() {
            let code = value.bits().wrapping_sub(base.bits()) & value_mask;
            let (word, shift) = (i * WIDTH / 64, i * WIDTH % 64);
            words[word] |= code << shift;
            if shift + WIDTH > 64 {
                words[word + 1] |= code >> (64 - shift);
            }
        }
        let mut bytes = [0; RUN * 8];
        for (bytes, word) in bytes.chunks_exact_mut(8).zip(words) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        out.copy_from_slice(&bytes[..WIDTH]);
    }
}

/// The words of eight bytes that code `index` of a block lies in: one, rarely two; none where codes
/// have no width. Words are counted from the block's start, so that where it starts on a line no
/// word straddles two: what is read of a code's surroundings never costs a line that the code itself
/// does not touch.
///
/// # Panics
/// If the code and the pad do not lie in `packed`.
#[inline]
pub(super) fn words(packed: &[u8], width: u8, index: usize) -> &[u8] {
    let bit = index * usize::from(width);
    &packed[bit / 64 * 8..(bit + usize::from(width)).div_ceil(64) * 8]
}

/// Code `index` of a block, out of its [`words`].
#[inline]
pub(super) fn code_in(words: &[u8], width: u8, index: usize) -> u64 {
    debug_assert!(width <= MAX_WIDTH);
    let (Some(low), Some(high)) = (words.first_chunk(), words.last_chunk()) else {
        // No words, no width.
        return 0;
    };
    let phase = index * usize::from(width) % 64;
    let low = u64::from_le_bytes(*low) >> phase;
    // Shifting in two steps keeps each shift below 64 when the phase is zero. Where there is only
    // one word, what comes in from it again lies above the code.
    let high = u64::from_le_bytes(*high) << 1 << (63 - phase);
    // A width is at least 1 here: this shift, too, is below 64.
    let unused = u32::from(MAX_WIDTH.wrapping_sub(width));
    (low | high).wrapping_shl(unused).wrapping_shr(unused)
}
