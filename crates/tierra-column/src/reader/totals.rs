//! From chunks to totals: how many selected rows of a column have a value, the sum of the values, the least and the greatest,
//! without an array in between.
//!
//! ```text
//! ordinal = value + bias               2^31 or 2^63, by the type
//! ordinal = code + base                code 0 is NULL in some chunks, and adds nothing to a sum
//! sum of values = sum of codes + values * (base - bias)
//! ```
//! Packed codes are added up and compared where they lie, those of runs once each. Other formats are unpacked first, a block at a time, into a buffer that stays
//! in the first-level cache. What a chunk's directory knows of a block is not read at all ([`ColumnTotals::add_known`]).
//!
//! Invariant: totals of whole blocks are those of the values that [`ColumnReader`](super::ColumnReader) returns.

use arrow::array::{Array, AsArray};
use arrow::datatypes::{
    Date32Type, Decimal128Type, Int32Type, Int64Type, TimestampMicrosecondType,
};

use super::dictionary_codes;
use crate::bits::{BLOCK_LEN, Kernels, Mask};
use crate::chunk::block_data::{BlockData, Payload};
use crate::chunk::{Chunk, Scratch};
use crate::dictionary::{Dictionary, DictionaryValues};
use crate::encoding::EncodeError;
use crate::error::FormatError;
use crate::logical_type::{LogicalType, Physical};
use crate::ordinal::{self, OrdinalType};

/// What is wanted of a column, besides the number of its values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WantedTotals {
    /// The sum of the values.
    pub sum: bool,
    /// The least and the greatest.
    pub extremes: bool,
}

impl WantedTotals {
    /// Whether columns of a type have these totals: those of integers, dates, times and DECIMALs of up to 18 digits have all, others
    /// only the number of their values.
    pub fn of_type(self, ty: LogicalType) -> bool {
        let has_all = match ty {
            LogicalType::Integer
            | LogicalType::BigInt
            | LogicalType::Date
            | LogicalType::Timestamp => true,
            LogicalType::Decimal { .. } => ty.physical() == Physical::Ordinal,
            LogicalType::Boolean | LogicalType::Double | LogicalType::Varchar => false,
        };
        has_all || self == WantedTotals::default()
    }
}

/// The totals of some rows of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Totals {
    /// Rows that have a value.
    pub count: u64,
    /// The sum of the values, those of a DECIMAL without their point; 0 if it is not wanted.
    pub sum: i128,
    /// Ordinals; crossed where there is no value, or none is wanted.
    least: u64,
    greatest: u64,
}

impl Totals {
    /// Of no rows.
    pub const NONE: Totals = Totals {
        count: 0,
        sum: 0,
        least: u64::MAX,
        greatest: 0,
    };

    /// The ordinals of the least and the greatest value; `None` if there is no value, or they are not wanted.
    pub fn extremes(&self) -> Option<(u64, u64)> {
        (self.least <= self.greatest).then_some((self.least, self.greatest))
    }

    /// Adds those of other rows.
    pub fn add(&mut self, other: &Totals) {
        self.count += other.count;
        self.sum += other.sum;
        self.widen((other.least, other.greatest));
    }

    pub(super) fn widen(&mut self, (least, greatest): (u64, u64)) {
        self.least = self.least.min(least);
        self.greatest = self.greatest.max(greatest);
    }
}

/// Collects the totals of rows of one column.
#[derive(Clone, Debug)]
pub struct ColumnTotals {
    ty: LogicalType,
    wanted: WantedTotals,
    totals: Totals,
}

impl ColumnTotals {
    /// Totals of a column of type `ty`.
    ///
    /// # Panics
    /// If columns of the type do not have them ([`WantedTotals::of_type`]).
    pub fn new(ty: LogicalType, wanted: WantedTotals) -> ColumnTotals {
        assert!(wanted.of_type(ty), "{ty} has no {wanted:?}");
        ColumnTotals {
            ty,
            wanted,
            totals: Totals::NONE,
        }
    }

    /// Adds `rows` selected rows of a block if the chunk's directory knows enough: of all rows of a block the extremes, of equal values the
    /// sum. Extremes that change nothing need not be known. If it returns `false`, nothing was added.
    ///
    /// # Panics
    /// If there is no such block.
    pub fn add_known(&mut self, chunk: &Chunk<'_>, block: usize, rows: usize) -> bool {
        let entry = chunk.entry(block);
        let nulls = usize::from(entry.null_count);
        let all = chunk.block_rows(block);
        let values = match nulls {
            0 => rows,
            _ if nulls == all => 0,
            _ if rows == all => rows - nulls,
            _ => return false,
        };
        if values > 0 && self.wanted != WantedTotals::default() {
            // Of a dictionary the directory knows codes.
            if chunk.encoding().uses_dictionary() {
                return false;
            }
            let Totals {
                least, greatest, ..
            } = self.totals;
            let is_one = entry.min == entry.max;
            let is_inside = least <= entry.min && entry.max <= greatest;
            if self.wanted.sum && !is_one
                || self.wanted.extremes && !is_one && rows < all && !is_inside
            {
                return false;
            }
            if self.wanted.sum {
                let value = i128::from(entry.min) - self.bias();
                self.totals.sum += value * values as i128;
            }
            if self.wanted.extremes {
                self.totals.widen((entry.min, entry.max));
            }
        }
        self.totals.count += values as u64;
        true
    }

    /// Adds the rows of a block that `mask` selects; returns whether values had to be unpacked.
    ///
    /// # Errors
    /// [`FormatError`] where the block cannot be what was written, or its dictionary is missing or another generation. Then the totals are
    /// of no use.
    ///
    /// # Panics
    /// If the chunk is of another type, or there is no such block.
    pub fn append(
        &mut self,
        chunk: &Chunk<'_>,
        block: usize,
        mask: &Mask,
        dictionary: Option<&Dictionary>,
        scratch: &mut Scratch,
    ) -> Result<bool, FormatError> {
        assert_eq!(
            chunk.logical_type(),
            self.ty,
            "totals are those of one column"
        );
        let data = chunk.block(block)?;
        let mut mask = *mask;
        mask.and(&Mask::first(data.rows));
        let nulls = data.nulls(scratch.kernels, &mask);
        mask.and_not(&nulls);
        let count = scratch.kernels.count(&mask);
        self.totals.count += count as u64;
        if count == 0 || self.wanted == WantedTotals::default() {
            return Ok(false);
        }
        if chunk.encoding().uses_dictionary() {
            let dictionary = chunk.dictionary(dictionary)?;
            let DictionaryValues::Ordinals(values) = dictionary.values() else {
                return Err(FormatError::corrupt(
                    "a dictionary",
                    "it is of another type",
                ));
            };
            dictionary_codes(&data, &mask, count, dictionary.len(), scratch)?;
            let ordinals = &mut scratch.selected[..count];
            for (ordinal, &code) in ordinals.iter_mut().zip(&scratch.narrow[..count]) {
                *ordinal = values[code as usize];
            }
            self.add_ordinals(scratch.kernels, ordinals);
            return Ok(true);
        }
        let wanted = self.unknown(&data, count);
        let selected = (count < data.rows).then_some(&mask);
        if wanted == WantedTotals::default()
            || self.add_packed(&data, wanted, selected, count, scratch.kernels)
        {
            return Ok(false);
        }
        let kernels = scratch.kernels;
        let codes = data.unpack(kernels, &mut scratch.codes)?;
        if wanted.sum {
            let sum = kernels.sum_u64(codes, selected);
            self.add_sum(&data, sum, count);
        }
        if wanted.extremes {
            self.widen_by(&data, kernels.min_max_selected_u64(codes, selected));
        }
        Ok(true)
    }

    /// What the values of a block have to tell of `count` of them, whose extremes are taken from the directory if these are all, or change
    /// nothing.
    fn unknown(&mut self, data: &BlockData<'_>, count: usize) -> WantedTotals {
        let entry = &data.entry;
        let are_all = count + usize::from(entry.null_count) == data.rows;
        if self.wanted.extremes && are_all {
            self.totals.widen((entry.min, entry.max));
        }
        let is_inside = self.totals.least <= entry.min && entry.max <= self.totals.greatest;
        WantedTotals {
            sum: self.wanted.sum,
            extremes: self.wanted.extremes && !is_inside,
        }
    }

    /// Adds codes that lie packed, or runs of which all rows are selected; `false`, and nothing added, if they do not.
    fn add_packed(
        &mut self,
        data: &BlockData<'_>,
        wanted: WantedTotals,
        selected: Option<&Mask>,
        count: usize,
        kernels: Kernels,
    ) -> bool {
        let (mut sum, mut extremes) = (0_u128, None::<(u64, u64)>);
        if let (Payload::Runs(runs), None) = (data.payload, selected) {
            debug_assert!(!wanted.extremes, "the directory knows those of all rows");
            runs.for_each_code(kernels, |rows, code| sum += rows as u128 * u128::from(code));
            self.add_sum(data, sum, count);
            return true;
        }
        let mut add = |packed: &[u8], width: u8, rows: usize, selected: Option<&Mask>| {
            if wanted.sum {
                sum += kernels.sum(packed, width, rows, selected);
            }
            if wanted.extremes
                && let Some((least, greatest)) = kernels.min_max(packed, width, rows, selected)
            {
                extremes = Some(match extremes {
                    None => (least, greatest),
                    Some((low, high)) => (least.min(low), greatest.max(high)),
                });
            }
        };
        match (data.payload, selected) {
            (Payload::Packed(run), selected) => add(run.packed, run.width, run.rows, selected),
            (Payload::MiniBlocks(minis), None) => {
                for run in minis.runs() {
                    add(run.packed, run.width, run.rows, None);
                }
            }
            (Payload::MiniBlocks(minis), Some(mask)) => {
                for run in minis.runs() {
                    // Runs begin on mini-blocks, which are words of a mask.
                    let (word, words) = (run.first_row / 64, run.rows.div_ceil(64));
                    let mut part = Mask::none();
                    part.0[..words].copy_from_slice(&mask.0[word..word + words]);
                    if part.any() {
                        add(run.packed, run.width, run.rows, Some(&part));
                    }
                }
            }
            (
                Payload::Runs(_)
                | Payload::Patched(_)
                | Payload::Compressed(_)
                | Payload::Differences(..)
                | Payload::Wide(_)
                | Payload::Strings(_)
                | Payload::Coded(_),
                _,
            ) => return false,
        }
        if wanted.sum {
            self.add_sum(data, sum, count);
        }
        if wanted.extremes {
            self.widen_by(data, extremes);
        }
        true
    }

    /// Adds the sum of the codes of `count` values.
    fn add_sum(&mut self, data: &BlockData<'_>, codes: u128, count: usize) {
        // The ordinal of the least code of a value: the base may lie below 0.
        let least = data.base.wrapping_add(data.null_codes);
        let shift = i128::from(least) - i128::from(data.null_codes) - self.bias();
        // 1,024 codes of 64 bits at most.
        self.totals.sum += codes as i128 + shift * count as i128;
    }

    /// Takes the least and the greatest code in.
    fn widen_by(&mut self, data: &BlockData<'_>, codes: Option<(u64, u64)>) {
        if let Some((least, greatest)) = codes {
            let least = least.wrapping_add(data.base);
            let greatest = greatest.wrapping_add(data.base);
            self.totals.widen((least, greatest));
        }
    }

    /// Adds the ordinals of values, 1,024 at most. They are counted already.
    fn add_ordinals(&mut self, kernels: Kernels, ordinals: &[u64]) {
        if self.wanted.sum {
            let sum = kernels.sum_u64(ordinals, None) as i128;
            self.totals.sum += sum - self.bias() * ordinals.len() as i128;
        }
        if self.wanted.extremes
            && let Some(extremes) = kernels.min_max_selected_u64(ordinals, None)
        {
            self.totals.widen(extremes);
        }
    }

    /// What an ordinal is more than its value.
    fn bias(&self) -> i128 {
        match self.ty {
            LogicalType::Integer | LogicalType::Date => i128::from(ordinal::of_i32(0)),
            LogicalType::Boolean
            | LogicalType::BigInt
            | LogicalType::Decimal { .. }
            | LogicalType::Double
            | LogicalType::Timestamp
            | LogicalType::Varchar => i128::from(ordinal::of_i64(0)),
        }
    }

    /// Adds all rows of an array.
    ///
    /// # Errors
    /// [`EncodeError::Type`] where the array is of another type.
    pub fn append_array(&mut self, array: &dyn Array) -> Result<(), EncodeError> {
        if *array.data_type() != self.ty.arrow() {
            return Err(EncodeError::Type {
                expected: self.ty,
                found: array.data_type().clone(),
            });
        }
        self.totals.count += (array.len() - array.null_count()) as u64;
        if self.wanted == WantedTotals::default() {
            return Ok(());
        }
        match self.ty {
            LogicalType::Integer => self.append_values::<Int32Type>(array),
            LogicalType::Date => self.append_values::<Date32Type>(array),
            LogicalType::BigInt => self.append_values::<Int64Type>(array),
            LogicalType::Timestamp => self.append_values::<TimestampMicrosecondType>(array),
            LogicalType::Decimal { .. } => self.append_values::<Decimal128Type>(array),
            LogicalType::Boolean | LogicalType::Double | LogicalType::Varchar => {
                debug_assert!(false, "{} has no {:?}", self.ty, self.wanted);
            }
        }
        Ok(())
    }

    fn append_values<T: OrdinalType>(&mut self, array: &dyn Array) {
        let kernels = Kernels::best();
        let array = array.as_primitive::<T>();
        let mut ordinals = [0; BLOCK_LEN];
        if array.null_count() == 0 {
            for values in array.values().chunks(BLOCK_LEN) {
                let ordinals = &mut ordinals[..values.len()];
                kernels.compiled(|| {
                    for (ordinal, value) in ordinals.iter_mut().zip(values) {
                        *ordinal = T::to_ordinal(*value);
                    }
                });
                self.add_ordinals(kernels, ordinals);
            }
            return;
        }
        let mut len = 0;
        for value in array.iter().flatten() {
            ordinals[len] = T::to_ordinal(value);
            len += 1;
            if len == BLOCK_LEN {
                self.add_ordinals(kernels, &ordinals);
                len = 0;
            }
        }
        self.add_ordinals(kernels, &ordinals[..len]);
    }

    /// The totals of the rows added, which begin anew.
    pub fn finish(&mut self) -> Totals {
        std::mem::replace(&mut self.totals, Totals::NONE)
    }
}
