//! Where a chunk's values come from: arrow arrays or dictionary codes, read a block at a time.
//!
//! Dispatch on the type happens once per block and array, never per value. A chunk's arrays may
//! have any lengths: blocks straddle them.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{
    Date32Type, Decimal128Type, Float64Type, Int32Type, Int64Type, TimestampMicrosecondType,
};

use crate::bits::{BLOCK_LEN, Kernels, Mask};
use crate::block::OrdinalBlock;
use crate::encoding::EncodeError;
use crate::encoding::integers::Integers;
use crate::limits::{CHUNK_ROWS, NULL_CODE};
use crate::logical_type::{LogicalType, Physical};
use crate::ordinal::OrdinalType;

/// Consecutive arrays of one type, with the row at which each begins.
pub(crate) struct Arrays {
    pub(crate) ty: LogicalType,
    arrays: Vec<ArrayRef>,
    starts: Vec<usize>,
    rows: usize,
}

impl Arrays {
    pub(crate) fn new(ty: LogicalType, arrays: &[ArrayRef]) -> Result<Arrays, EncodeError> {
        let expected = ty.arrow();
        let mut starts = Vec::with_capacity(arrays.len());
        let mut rows = 0;
        for array in arrays {
            if *array.data_type() != expected {
                return Err(EncodeError::Type {
                    expected: ty,
                    found: array.data_type().clone(),
                });
            }
            starts.push(rows);
            rows += array.len();
        }
        if rows > CHUNK_ROWS {
            return Err(EncodeError::TooManyRows { rows });
        }
        let arrays = Arrays {
            ty,
            arrays: arrays.to_vec(),
            starts,
            rows,
        };
        arrays.check_decimals()?;
        Ok(arrays)
    }

    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    pub(crate) fn arrays(&self) -> &[ArrayRef] {
        &self.arrays
    }

    /// A narrow DECIMAL must fit 64 bits: anything else would come back as another number.
    fn check_decimals(&self) -> Result<(), EncodeError> {
        if !matches!(self.ty, LogicalType::Decimal { .. })
            || self.ty.physical() != Physical::Ordinal
        {
            return Ok(());
        }
        for array in &self.arrays {
            let array = array.as_primitive::<Decimal128Type>();
            let lost = array
                .values()
                .iter()
                .fold(0, |lost, &value| lost | (value ^ i128::from(value as i64)));
            if lost == 0 {
                continue;
            }
            // NULL rows may hold anything.
            for value in array.iter().flatten() {
                if i64::try_from(value).is_err() {
                    return Err(EncodeError::DecimalOverflow { value, ty: self.ty });
                }
            }
        }
        Ok(())
    }

    /// Calls `visit(array, first row in it, rows, first row in the block)` for each piece of a
    /// block, and returns the block's rows.
    #[inline(always)]
    pub(crate) fn pieces(
        &self,
        block: usize,
        mut visit: impl FnMut(&ArrayRef, usize, usize, usize),
    ) -> usize {
        let first = block * BLOCK_LEN;
        let end = self.rows.min(first + BLOCK_LEN);
        let mut row = first;
        let mut at = self
            .starts
            .partition_point(|&start| start <= first)
            .saturating_sub(1);
        while row < end {
            let array = &self.arrays[at];
            let from = row - self.starts[at];
            let len = (array.len() - from).min(end - row);
            if len > 0 {
                visit(array, from, len, row - first);
            }
            row += len;
            at += 1;
        }
        end - first
    }

    /// The NULL rows of a block.
    pub(crate) fn nulls(&self, block: usize, out: &mut OrdinalBlock) {
        out.nulls = Mask::none();
        out.rows = self.pieces(block, |array, from, len, at| {
            mark_nulls(array, from, len, at, out)
        });
    }

    /// A block's integers, if it lies in one array of them and has no NULL.
    fn integers(&self, block: usize) -> Option<Integers<'_>> {
        let first = block * BLOCK_LEN;
        let rows = self.rows.min(first + BLOCK_LEN) - first;
        let at = self.starts.partition_point(|&start| start <= first);
        let at = at.checked_sub(1)?;
        let (array, from) = (&self.arrays[at], first - self.starts[at]);
        let end = from + rows;
        let has_nulls = |nulls: &NullBuffer| nulls.slice(from, rows).null_count() > 0;
        if end > array.len() || array.nulls().is_some_and(has_nulls) {
            return None;
        }
        Some(match self.ty {
            LogicalType::Integer => {
                Integers::Narrow(&array.as_primitive::<Int32Type>().values()[from..end])
            }
            LogicalType::Date => {
                Integers::Narrow(&array.as_primitive::<Date32Type>().values()[from..end])
            }
            LogicalType::BigInt => {
                Integers::Wide(&array.as_primitive::<Int64Type>().values()[from..end])
            }
            LogicalType::Timestamp => {
                let array = array.as_primitive::<TimestampMicrosecondType>();
                Integers::Wide(&array.values()[from..end])
            }
            LogicalType::Boolean
            | LogicalType::Double
            | LogicalType::Decimal { .. }
            | LogicalType::Varchar => return None,
        })
    }

    #[inline(always)]
    fn fill(&self, block: usize, out: &mut OrdinalBlock) {
        out.nulls = Mask::none();
        out.rows = self.pieces(block, |array, from, len, at| {
            let ordinals = &mut out.ordinals[at..at + len];
            match self.ty {
                LogicalType::Boolean => {
                    let values = array.as_boolean().values();
                    for (row, ordinal) in ordinals.iter_mut().enumerate() {
                        *ordinal = u64::from(values.value(from + row));
                    }
                }
                LogicalType::Integer => copy::<Int32Type>(array, from, ordinals),
                LogicalType::Date => copy::<Date32Type>(array, from, ordinals),
                LogicalType::BigInt => copy::<Int64Type>(array, from, ordinals),
                LogicalType::Timestamp => copy::<TimestampMicrosecondType>(array, from, ordinals),
                LogicalType::Double => copy::<Float64Type>(array, from, ordinals),
                LogicalType::Decimal { .. } => copy::<Decimal128Type>(array, from, ordinals),
                // Strings have no ordinals: their chunks go through `plain_strings` or codes.
                LogicalType::Varchar => ordinals.fill(0),
            }
            mark_nulls(array, from, len, at, out);
        });
        out.settle_nulls();
    }
}

#[inline(always)]
fn copy<T: OrdinalType>(array: &ArrayRef, from: usize, ordinals: &mut [u64]) {
    let values = &array.as_primitive::<T>().values()[from..from + ordinals.len()];
    for (ordinal, &value) in ordinals.iter_mut().zip(values) {
        *ordinal = T::to_ordinal(value);
    }
}

fn mark_nulls(array: &ArrayRef, from: usize, len: usize, at: usize, out: &mut OrdinalBlock) {
    let Some(nulls) = array.nulls() else { return };
    let validity = nulls.inner().slice(from, len);
    let chunks = validity.bit_chunks();
    for (word, bits) in chunks.iter_padded().enumerate() {
        // `iter_padded` may append an empty word.
        if let Some(left) = len.checked_sub(word * 64).filter(|&left| left > 0) {
            out.mark_nulls(at + word * 64, bits, left.min(64));
        }
    }
}

/// What a chunk's packed blocks are made from.
pub(crate) enum Source {
    Arrays(Arrays),
    /// Dictionary codes, [`NULL_CODE`] for NULL.
    Codes(Vec<u32>),
}

impl Source {
    pub(crate) fn rows(&self) -> usize {
        match self {
            Source::Arrays(arrays) => arrays.rows(),
            Source::Codes(codes) => codes.len(),
        }
    }

    /// The values, where they are no codes.
    ///
    /// # Panics
    /// If they are.
    pub(crate) fn arrays(&self) -> &Arrays {
        match self {
            Source::Arrays(arrays) => arrays,
            Source::Codes(_) => unreachable!("codes become dictionary chunks"),
        }
    }

    /// A block's integers where they lie, if it has nothing else.
    pub(crate) fn integers(&self, block: usize) -> Option<Integers<'_>> {
        match self {
            Source::Arrays(arrays) => arrays.integers(block),
            Source::Codes(_) => None,
        }
    }

    /// Reads block `block`'s ordinals (for codes: the codes).
    pub(crate) fn fill(&self, block: usize, out: &mut OrdinalBlock) {
        Kernels::best().compiled(|| self.fill_inlined(block, out));
    }

    #[inline(always)]
    fn fill_inlined(&self, block: usize, out: &mut OrdinalBlock) {
        match self {
            Source::Arrays(arrays) => arrays.fill(block, out),
            Source::Codes(codes) => {
                let first = block * BLOCK_LEN;
                let codes = &codes[first..codes.len().min(first + BLOCK_LEN)];
                out.nulls = Mask::none();
                out.rows = codes.len();
                let mut any_null = false;
                for (ordinal, &code) in out.ordinals.iter_mut().zip(codes) {
                    *ordinal = u64::from(code);
                    any_null |= code == NULL_CODE;
                }
                if any_null {
                    for (row, &code) in codes.iter().enumerate() {
                        if code == NULL_CODE {
                            out.nulls.set(row, true);
                        }
                    }
                }
                out.settle_nulls();
            }
        }
    }
}
