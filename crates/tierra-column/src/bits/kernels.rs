//! The kernels as the rest of the project calls them: arguments checked once, then one dispatch
//! to the level.

use super::{
    BLOCK_LEN, CodeBits, Level, Mask,
    arch::{self, MinMax, SelectBetween, SelectIn, Sum, UnpackFew, UnpackSelected},
    level::Available,
    packing::{self, Block, Unit, max_code},
};

/// A code that its dictionary does not have: the codes were read from damaged bytes, or belong
/// to another dictionary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("code {code} is beyond its dictionary of {len} values: verify the chunk it was read from")]
pub struct CodeOutOfRange {
    /// The largest code.
    pub code: u32,
    /// Values in the dictionary.
    pub len: usize,
}

/// The kernels of one level that this CPU has.
///
/// In all methods on packed codes, `width` is the size of a code in bits (at most 64), `n` the
/// number of codes in the block, and `packed` the block with at least
/// [`PAD_BYTES`](super::PAD_BYTES) bytes after the last code. They panic if `packed` is shorter
/// than that, or if there are more codes than a [`Mask`] that goes with them has rows.
#[derive(Clone, Copy, Debug)]
pub struct Kernels(Available);

impl Kernels {
    /// The fastest kernels this CPU can run.
    #[inline]
    pub fn best() -> Self {
        Self(Available::fastest())
    }

    /// The kernels of a level, or `None` if this CPU lacks it.
    pub fn at(level: Level) -> Option<Self> {
        Available::new(level).map(Self)
    }

    /// The level these kernels are written for.
    pub fn level(&self) -> Level {
        self.0.level()
    }

    /// Runs `work` compiled for the level: the loops that are inlined into it may use the level's
    /// registers.
    #[inline]
    pub fn compiled<R>(self, work: impl FnOnce() -> R) -> R {
        arch::compiled(self.0, work)
    }

    /// [`Mask::count`], with the level's instructions.
    #[inline]
    pub(crate) fn count(self, mask: &Mask) -> usize {
        self.compiled(|| mask.count())
    }

    /// Below one selected code in this many, unpacking them one by one (about 6 cycles each) takes fewer cycles
    /// than unpacking all registers that have one: as measured on one block in the cache.
    fn rows_per_few(self, width: u8) -> usize {
        match (self.level(), width) {
            (Level::Avx512, 0..=16) => 48,
            (Level::Avx512, _) => 16,
            (Level::Avx2, 0..=32) => 10,
            // Four codes a register, or two, or one.
            (Level::Avx2 | Level::Sse42 | Level::Scalar, _) => 3,
        }
    }

    /// Packs the low `width` bits of each value. Writes
    /// [`packed_bytes`](super::packed_bytes)`(values.len(), width)` bytes, no pad.
    pub fn pack(&self, values: &[u64], width: u8, out: &mut [u8]) {
        self.pack_from(values, 0, width, out);
    }

    /// [`Kernels::pack`] of `value - base`, which wraps around like the type.
    pub fn pack_from<T: Unit>(&self, values: &[T], base: T, width: u8, out: &mut [u8]) {
        let out = packing::place(values.len(), width, out);
        arch::pack(self.0, values, base, width, out);
    }

    /// Code `index` of a block: one cache line, rarely two.
    #[inline]
    pub fn get(packed: &[u8], width: u8, index: usize) -> u64 {
        packing::code_in(packing::words(packed, width, index), width, index)
    }

    /// The bytes that hold code `index` of a block: whole words of eight, one or two, in the lines
    /// that the code lies in and no other.
    #[inline]
    pub(crate) fn words(packed: &[u8], width: u8, index: usize) -> &[u8] {
        packing::words(packed, width, index)
    }

    /// Code `index` of a block, out of the bytes that [`Kernels::words`] found.
    #[inline]
    pub(crate) fn code_in(words: &[u8], width: u8, index: usize) -> u64 {
        packing::code_in(words, width, index)
    }

    /// Unpacks `out.len()` codes of at most 32 bits.
    pub fn unpack_u32(&self, packed: &[u8], width: u8, out: &mut [u32]) {
        assert!(width <= 32, "codes of {width} bits do not fit in 32");
        arch::unpack(self.0, Block::new(packed, width, out.len()), 0, out);
    }

    /// Unpacks `out.len()` codes.
    pub fn unpack_u64(&self, packed: &[u8], width: u8, out: &mut [u64]) {
        arch::unpack(self.0, Block::new(packed, width, out.len()), 0, out);
    }

    /// Appends `n` codes, each with `plus` added modulo 2^32: of wider codes the low 32 bits count.
    pub fn append_i32(&self, packed: &[u8], width: u8, n: usize, plus: i32, out: &mut Vec<i32>) {
        arch::append(self.0, Block::new(packed, width, n), plus, out);
    }

    /// Appends `n` codes, each with `plus` added modulo 2^64.
    pub fn append_i64(&self, packed: &[u8], width: u8, n: usize, plus: i64, out: &mut Vec<i64>) {
        arch::append(self.0, Block::new(packed, width, n), plus, out);
    }

    /// Unpacks the selected codes, of at most 32 bits, in order; returns how many there are.
    /// Panics if `out` is shorter than that; what follows them in `out` is undefined.
    pub fn unpack_selected_u32(
        &self,
        packed: &[u8],
        width: u8,
        n: usize,
        mask: &Mask,
        out: &mut [u32],
    ) -> usize {
        assert!(width <= 32, "codes of {width} bits do not fit in 32");
        let block = masked_block(packed, width, n);
        match self.count(mask) * self.rows_per_few(width) < n {
            true => arch::on_single_codes(self.0, block, UnpackFew { mask, out }),
            false => arch::on_codes(self.0, block, UnpackSelected { mask, out }),
        }
    }

    /// As [`Kernels::unpack_selected_u32`] for codes of any width.
    pub fn unpack_selected_u64(
        &self,
        packed: &[u8],
        width: u8,
        n: usize,
        mask: &Mask,
        out: &mut [u64],
    ) -> usize {
        let block = masked_block(packed, width, n);
        match self.count(mask) * self.rows_per_few(width) < n {
            true => arch::on_single_codes(self.0, block, UnpackFew { mask, out }),
            false => arch::on_codes(self.0, block, UnpackSelected { mask, out }),
        }
    }

    /// Keeps the rows with `low <= code <= high`; rows from `n` on are dropped. Runs of 64 rows
    /// of which none is selected are not read.
    pub fn select_between(
        &self,
        packed: &[u8],
        width: u8,
        n: usize,
        low: u64,
        high: u64,
        mask: &mut Mask,
    ) {
        let block = masked_block(packed, width, n);
        let high = high.min(max_code(width));
        if low > high {
            *mask = Mask::none();
        } else if high - low == max_code(width) {
            mask.and(&Mask::first(n));
        } else {
            arch::on_codes(
                self.0,
                block,
                SelectBetween {
                    low,
                    span: high - low,
                    mask,
                },
            );
        }
    }

    /// Keeps the rows whose code's bit is set: code `c` is bit `c % 64` of `bitmap[c / 64]`, and
    /// codes beyond the bitmap are not in it. Rows from `n` on are dropped.
    pub fn select_in(&self, packed: &[u8], width: u8, n: usize, bitmap: &[u64], mask: &mut Mask) {
        if bitmap.is_empty() {
            *mask = Mask::none();
            return;
        }
        self.select_in_bits(packed, width, n, CodeBits::whole(bitmap), mask);
    }

    /// [`Kernels::select_in`] of a stretch of a bitmap; codes outside of it are dropped.
    ///
    /// # Panics
    /// If codes of at most 32 bits meet a stretch that ends beyond bit 2^32.
    pub(crate) fn select_in_bits(
        &self,
        packed: &[u8],
        width: u8,
        n: usize,
        bits: CodeBits<'_>,
        mask: &mut Mask,
    ) {
        let block = masked_block(packed, width, n);
        let Some(bits) = bits.up_to(max_code(width)) else {
            *mask = Mask::none();
            return;
        };
        assert!(
            width > 32 || bits.first_bit() + bits.span() <= u64::from(u32::MAX),
            "bits of codes of {width} bits are numbered in 32"
        );
        arch::on_codes(
            self.0,
            block,
            SelectIn {
                bits,
                code_limit: max_code(width).saturating_add(1),
                mask,
            },
        );
    }

    /// Keeps the rows whose value's bit is set, of a stretch that may go on with 0 after `u64::MAX`; rows beyond the
    /// values are dropped.
    pub(crate) fn select_in_bits_u64(&self, values: &[u64], bits: CodeBits<'_>, mask: &mut Mask) {
        arch::on_u64s(
            self.0,
            masked(values),
            SelectIn {
                bits,
                code_limit: u64::MAX,
                mask,
            },
        );
    }

    /// The sum of the selected codes; of all without a mask.
    pub fn sum(&self, packed: &[u8], width: u8, n: usize, mask: Option<&Mask>) -> u128 {
        arch::on_codes(self.0, masked_block(packed, width, n), Sum { mask })
    }

    /// The smallest and the largest selected code, of all without a mask; `None` if there is none.
    pub fn min_max(
        &self,
        packed: &[u8],
        width: u8,
        n: usize,
        mask: Option<&Mask>,
    ) -> Option<(u64, u64)> {
        arch::on_codes(self.0, masked_block(packed, width, n), MinMax { mask })
    }

    /// Appends `dictionary[code]` for every code.
    ///
    /// # Errors
    /// [`CodeOutOfRange`] if any code is not below `dictionary.len()`; `out` is then as it was.
    pub fn gather<T: Copy>(
        &self,
        dictionary: &[T],
        codes: &[u32],
        out: &mut Vec<T>,
    ) -> Result<(), CodeOutOfRange> {
        arch::gather(self.0, dictionary, codes, out).map_err(|code| CodeOutOfRange {
            code,
            len: dictionary.len(),
        })
    }

    /// Copies the selected values to the front of `out` in order; returns how many there are.
    /// Panics if `out` is shorter than that; what follows them in `out` is undefined.
    pub fn compress_u64(&self, values: &[u64], mask: &Mask, out: &mut [u64]) -> usize {
        arch::on_u64s(self.0, masked(values), UnpackSelected { mask, out })
    }

    /// The sum of the selected values, of a block at most; of all without a mask.
    pub(crate) fn sum_u64(&self, values: &[u64], mask: Option<&Mask>) -> u128 {
        arch::on_u64s(self.0, masked(values), Sum { mask })
    }

    /// The smallest and the largest of the selected values, of a block at most; of all without a mask. `None` if there is none.
    pub(crate) fn min_max_selected_u64(
        &self,
        values: &[u64],
        mask: Option<&Mask>,
    ) -> Option<(u64, u64)> {
        arch::on_u64s(self.0, masked(values), MinMax { mask })
    }

    /// The smallest and the largest of any number of values; `None` if there is none.
    pub fn min_max_u64(&self, values: &[u64]) -> Option<(u64, u64)> {
        arch::on_u64s(self.0, values, MinMax { mask: None })
    }

    /// Keeps the rows with `low <= value <= high`; rows beyond the values are dropped.
    pub fn select_between_u64(&self, values: &[u64], low: u64, high: u64, mask: &mut Mask) {
        match high.checked_sub(low) {
            Some(span) => {
                arch::on_u64s(self.0, masked(values), SelectBetween { low, span, mask });
            }
            None => *mask = Mask::none(),
        }
    }
}

/// A block whose rows a mask can select.
#[inline]
fn masked_block(packed: &[u8], width: u8, n: usize) -> Block<'_> {
    assert!(
        n <= BLOCK_LEN,
        "a block has at most {BLOCK_LEN} codes, not {n}"
    );
    Block::new(packed, width, n)
}

/// Values whose rows a mask can select.
#[inline]
fn masked<T>(values: &[T]) -> &[T] {
    assert!(
        values.len() <= BLOCK_LEN,
        "a mask has {BLOCK_LEN} rows, not {}",
        values.len()
    );
    values
}
