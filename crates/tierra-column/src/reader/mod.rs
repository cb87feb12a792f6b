//! From chunks to arrow arrays: selected rows of one column, appended block by block.
//!
//! Codes are unpacked into a buffer that stays in the first-level cache and turned into values in
//! one pass over it, straight into the array's own buffer. Strings are 16-byte views: from a
//! dictionary they are gathered, and its string buffers are shared, not copied.

mod groups;
mod strings;
mod totals;

use std::mem;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, BooleanBufferBuilder, NullBufferBuilder, PrimitiveArray,
};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer, ScalarBuffer};
use arrow::datatypes::{
    ArrowPrimitiveType, Date32Type, Decimal128Type, Float64Type, Int32Type, Int64Type,
    TimestampMicrosecondType,
};

use crate::bits::{Kernels, Mask};
use crate::cell::Cell;
use crate::chunk::block_data::{BlockData, Payload};
use crate::chunk::{Chunk, Scratch};
use crate::dictionary::{Dictionary, DictionaryValues};
use crate::encoding::EncodeError;
use crate::encoding::compressed::Compressed;
use crate::encoding::plain_wide;
use crate::error::FormatError;
use crate::logical_type::{LogicalType, Physical};
use crate::ordinal::{self, OrdinalType};
use strings::StringColumn;

pub use groups::{ColumnGroups, GroupTotals};
pub use totals::{ColumnTotals, Totals, WantedTotals};

/// Collects rows of one column into an arrow array.
#[derive(Debug)]
pub struct ColumnReader {
    ty: LogicalType,
    column: Column,
    nulls: NullBufferBuilder,
    capacity: usize,
}

#[derive(Debug)]
enum Column {
    Boolean(BooleanBufferBuilder),
    Integer(Vec<i32>),
    BigInt(Vec<i64>),
    Double(Vec<f64>),
    Decimal(Vec<i128>),
    Strings(StringColumn),
}

/// Selected codes, in order; `ordinal = code + base` (modulo 2^64).
enum Codes<'s> {
    Narrow(&'s [u32]),
    Wide(&'s [u64]),
}

/// Below one selected row in this many, mini-blocks and NULLs are read one by one.
const ROWS_PER_LOOKUP: usize = 24;

impl ColumnReader {
    /// A reader of a column of type `ty` with room for `capacity` rows.
    pub fn new(ty: LogicalType, capacity: usize) -> ColumnReader {
        ColumnReader {
            ty,
            column: Column::new(ty, capacity),
            nulls: NullBufferBuilder::new(capacity),
            capacity,
        }
    }

    /// Rows collected.
    pub fn len(&self) -> usize {
        self.nulls.len()
    }

    /// Whether no row has been collected since the last array.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends the rows of a block that `mask` selects.
    ///
    /// # Errors
    /// [`FormatError`] where the block cannot be what was written, or its dictionary is missing or
    /// another generation. What was collected before stays as it was.
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
    ) -> Result<(), FormatError> {
        assert_eq!(chunk.logical_type(), self.ty, "a reader reads one column");
        let data = chunk.block(block)?;
        let mut mask = *mask;
        mask.and(&Mask::first(data.rows));
        let count = scratch.kernels.count(&mask);
        if count == 0 {
            return Ok(());
        }
        match (&mut self.column, data.payload) {
            (Column::Strings(strings), Payload::Strings(block)) => {
                strings.append_block(&block, data.rows, &mask, count, scratch)?;
            }
            (Column::Strings(strings), Payload::Coded(block)) => {
                strings.append_coded(&block, &mask, scratch)?;
            }
            (Column::Decimal(values), Payload::Wide(block)) => {
                values.extend(mask.iter().map(|row| plain_wide::read_wide(block, row)));
            }
            // The column may have no dictionary yet.
            (column, _) if chunk.is_all_null() => column.extend_empty(count),
            (column, _) if chunk.encoding().uses_dictionary() => {
                let dictionary = chunk.dictionary(dictionary)?;
                dictionary_codes(&data, &mask, count, dictionary.len(), scratch)?;
                let codes = &scratch.narrow[..count];
                match (column, dictionary.values()) {
                    (Column::Strings(strings), DictionaryValues::Strings(values)) => {
                        strings.append_codes(values, codes, scratch.kernels)?;
                    }
                    (column, DictionaryValues::Ordinals(values)) => {
                        let ordinals = &mut scratch.selected[..count];
                        for (ordinal, &code) in ordinals.iter_mut().zip(codes) {
                            *ordinal = values[code as usize];
                        }
                        column.extend(self.ty, Codes::Wide(ordinals), 0);
                    }
                    _ => {
                        return Err(FormatError::corrupt(
                            "a dictionary",
                            "it is of another type",
                        ));
                    }
                }
            }
            (column, _) => {
                if count < data.rows || !column.append_all(&data, scratch.kernels)? {
                    let kernels = scratch.kernels;
                    let codes = selected_codes(&data, &mask, count, scratch)?;
                    kernels.compiled(|| column.extend(self.ty, codes, data.base));
                }
            }
        }
        self.append_validity(&data, &mask, count, scratch.kernels);
        Ok(())
    }

    fn append_validity(
        &mut self,
        data: &BlockData<'_>,
        mask: &Mask,
        count: usize,
        kernels: Kernels,
    ) {
        if data.entry.null_count == 0 {
            self.nulls.append_n_non_nulls(count);
            return;
        }
        if count * ROWS_PER_LOOKUP < data.rows {
            for row in mask {
                self.nulls.append(!data.is_null(row));
            }
            return;
        }
        let nulls = data.nulls(kernels, mask);
        if !nulls.any() {
            self.nulls.append_n_non_nulls(count);
        } else if count == data.rows {
            let words = Buffer::from_vec(nulls.not().0.to_vec());
            let valid = BooleanBuffer::new(words, 0, count);
            self.nulls.append_buffer(&NullBuffer::new(valid));
        } else {
            for row in mask {
                self.nulls.append(!nulls.get(row));
            }
        }
    }

    /// Appends one cell of a column of this type.
    ///
    /// # Errors
    /// [`FormatError::Corrupt`] where a string is not UTF-8, or cannot be decoded: its chunk is damaged.
    ///
    /// # Panics
    /// If the cell is of another type.
    pub fn append_cell(&mut self, cell: Cell<'_>) -> Result<(), FormatError> {
        match (&mut self.column, cell) {
            (column, Cell::Null) => {
                column.extend_empty(1);
                self.nulls.append_null();
                return Ok(());
            }
            (Column::Strings(strings), Cell::Bytes(bytes)) => strings.append_bytes(bytes)?,
            (Column::Strings(strings), Cell::Coded(text)) => strings.append_text(text)?,
            (Column::Decimal(values), Cell::Wide(value)) => values.push(value),
            (column, Cell::Ordinal(ordinal)) => column.extend(self.ty, Codes::Wide(&[ordinal]), 0),
            (_, cell) => panic!("a cell {cell:?} for a reader of {}", self.ty),
        }
        self.nulls.append_non_null();
        Ok(())
    }

    /// Appends all rows of an array; string buffers are shared, not copied.
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
        match &mut self.column {
            Column::Boolean(values) => values.append_buffer(array.as_boolean().values()),
            Column::Integer(values) if self.ty == LogicalType::Date => {
                values.extend_from_slice(array.as_primitive::<Date32Type>().values());
            }
            Column::Integer(values) => {
                values.extend_from_slice(array.as_primitive::<Int32Type>().values());
            }
            Column::BigInt(values) if self.ty == LogicalType::Timestamp => {
                values.extend_from_slice(array.as_primitive::<TimestampMicrosecondType>().values());
            }
            Column::BigInt(values) => {
                values.extend_from_slice(array.as_primitive::<Int64Type>().values());
            }
            Column::Double(values) => {
                values.extend_from_slice(array.as_primitive::<Float64Type>().values());
            }
            Column::Decimal(values) => {
                values.extend_from_slice(array.as_primitive::<Decimal128Type>().values());
            }
            Column::Strings(strings) => strings.append_array(array.as_string_view()),
        }
        match array.nulls() {
            Some(nulls) => self.nulls.append_buffer(nulls),
            None => self.nulls.append_n_non_nulls(array.len()),
        }
        Ok(())
    }

    /// The rows collected, as an array of [`LogicalType::arrow`]'s type; the reader is empty again.
    pub fn finish(&mut self) -> ArrayRef {
        let column = mem::replace(&mut self.column, Column::new(self.ty, self.capacity));
        let nulls = mem::replace(&mut self.nulls, NullBufferBuilder::new(self.capacity)).finish();
        match column {
            Column::Boolean(mut values) => Arc::new(BooleanArray::new(values.finish(), nulls)),
            Column::Integer(values) if self.ty == LogicalType::Date => {
                primitive::<Date32Type>(values, nulls)
            }
            Column::Integer(values) => primitive::<Int32Type>(values, nulls),
            Column::BigInt(values) if self.ty == LogicalType::Timestamp => {
                primitive::<TimestampMicrosecondType>(values, nulls)
            }
            Column::BigInt(values) => primitive::<Int64Type>(values, nulls),
            Column::Double(values) => primitive::<Float64Type>(values, nulls),
            Column::Decimal(values) => {
                let array =
                    PrimitiveArray::<Decimal128Type>::new(ScalarBuffer::from(values), nulls);
                Arc::new(array.with_data_type(self.ty.arrow()))
            }
            Column::Strings(strings) => Arc::new(strings.finish(nulls)),
        }
    }
}

fn primitive<T: ArrowPrimitiveType>(values: Vec<T::Native>, nulls: Option<NullBuffer>) -> ArrayRef {
    Arc::new(PrimitiveArray::<T>::new(ScalarBuffer::from(values), nulls))
}

impl Column {
    fn new(ty: LogicalType, capacity: usize) -> Column {
        match (ty, ty.physical()) {
            (LogicalType::Boolean, _) => Column::Boolean(BooleanBufferBuilder::new(capacity)),
            (LogicalType::Integer | LogicalType::Date, _) => {
                Column::Integer(Vec::with_capacity(capacity))
            }
            (LogicalType::Double, _) => Column::Double(Vec::with_capacity(capacity)),
            (LogicalType::Decimal { .. }, _) | (_, Physical::Wide) => {
                Column::Decimal(Vec::with_capacity(capacity))
            }
            (LogicalType::BigInt | LogicalType::Timestamp, _) => {
                Column::BigInt(Vec::with_capacity(capacity))
            }
            (LogicalType::Varchar, _) => Column::Strings(StringColumn::new(capacity)),
        }
    }

    /// Appends places for `count` NULLs.
    fn extend_empty(&mut self, count: usize) {
        match self {
            Column::Boolean(values) => values.append_n(count, false),
            Column::Integer(values) => drop(grown(values, count)),
            Column::BigInt(values) => drop(grown(values, count)),
            Column::Double(values) => drop(grown(values, count)),
            Column::Decimal(values) => drop(grown(values, count)),
            Column::Strings(strings) => strings.append_empty(count),
        }
    }

    /// Appends all rows of a block whose codes are one sum away from the column's integers; `false` if they are not.
    fn append_all(&mut self, data: &BlockData<'_>, kernels: Kernels) -> Result<bool, FormatError> {
        match (self, data.payload) {
            (
                column @ (Column::Integer(_) | Column::BigInt(_)),
                Payload::Compressed(compressed),
            ) => column.append_compressed(data, compressed, kernels),
            (column, _) => Ok(column.append_runs(data, kernels)),
        }
    }

    #[inline(never)]
    fn append_compressed(
        &mut self,
        data: &BlockData<'_>,
        compressed: Compressed<'_>,
        kernels: Kernels,
    ) -> Result<bool, FormatError> {
        let mut plain = Compressed::PLACE;
        let packed = compressed.decompress(&mut plain)?;
        Ok(self.append_runs(&data.packed(compressed.width(), packed), kernels))
    }

    fn append_runs(&mut self, data: &BlockData<'_>, kernels: Kernels) -> bool {
        // A value is its ordinal with another sign, and so is the base: `value = code + plus`.
        match (self, data.payload) {
            (Column::Integer(values), Payload::Runs(runs)) => {
                let plus = ordinal::to_i32(data.base);
                let out = grown(values, data.rows);
                runs.write(kernels, out, |code| plus.wrapping_add(code as i32));
                true
            }
            (Column::BigInt(values), Payload::Runs(runs)) => {
                let plus = ordinal::to_i64(data.base);
                let out = grown(values, data.rows);
                runs.write(kernels, out, |code| plus.wrapping_add(code as i64));
                true
            }
            (Column::Integer(values), _) => {
                let plus = ordinal::to_i32(data.base);
                data.for_each_run(|run| {
                    kernels.append_i32(run.packed, run.width, run.rows, plus, values);
                })
            }
            (Column::BigInt(values), _) => {
                let plus = ordinal::to_i64(data.base);
                data.for_each_run(|run| {
                    kernels.append_i64(run.packed, run.width, run.rows, plus, values);
                })
            }
            (
                Column::Boolean(_) | Column::Double(_) | Column::Decimal(_) | Column::Strings(_),
                _,
            ) => false,
        }
    }

    /// Appends `code + base` for every code.
    fn extend(&mut self, ty: LogicalType, codes: Codes<'_>, base: u64) {
        match self {
            Column::Boolean(values) => match codes {
                Codes::Narrow(codes) => {
                    codes
                        .iter()
                        .for_each(|&c| values.append(base.wrapping_add(c.into()) & 1 == 1));
                }
                Codes::Wide(codes) => {
                    codes
                        .iter()
                        .for_each(|&c| values.append(base.wrapping_add(c) & 1 == 1));
                }
            },
            Column::Integer(values) => extend::<Int32Type>(values, codes, base),
            Column::BigInt(values) => extend::<Int64Type>(values, codes, base),
            Column::Double(values) => extend::<Float64Type>(values, codes, base),
            Column::Decimal(values) => extend::<Decimal128Type>(values, codes, base),
            Column::Strings(strings) => {
                debug_assert!(false, "{ty} has no ordinals");
                strings.append_empty(1);
            }
        }
    }
}

/// Places for `count` more values.
fn grown<T: Clone + Default>(values: &mut Vec<T>, count: usize) -> &mut [T] {
    let before = values.len();
    values.resize(before + count, T::default());
    &mut values[before..]
}

fn extend<T: OrdinalType>(values: &mut Vec<T::Native>, codes: Codes<'_>, base: u64) {
    match codes {
        Codes::Narrow(codes) => values.extend(
            codes
                .iter()
                .map(|&code| T::from_ordinal(base.wrapping_add(u64::from(code)))),
        ),
        Codes::Wide(codes) => {
            values.extend(
                codes
                    .iter()
                    .map(|&code| T::from_ordinal(base.wrapping_add(code))),
            );
        }
    }
}

/// The selected codes of a block (its ordinals, where filters are not evaluated on codes).
fn selected_codes<'s>(
    data: &BlockData<'_>,
    mask: &Mask,
    count: usize,
    scratch: &'s mut Scratch,
) -> Result<Codes<'s>, FormatError> {
    let kernels = scratch.kernels;
    let all = count == data.rows;
    Ok(match data.payload {
        Payload::Packed(run) if run.width <= 32 => {
            let out = &mut scratch.narrow[..];
            if all {
                kernels.unpack_u32(run.packed, run.width, &mut out[..count]);
            } else {
                kernels.unpack_selected_u32(run.packed, run.width, run.rows, mask, out);
            }
            Codes::Narrow(&out[..count])
        }
        Payload::Packed(run) if !all => {
            let out = &mut scratch.selected[..];
            kernels.unpack_selected_u64(run.packed, run.width, run.rows, mask, out);
            Codes::Wide(&out[..count])
        }
        Payload::MiniBlocks(minis) if count * ROWS_PER_LOOKUP < data.rows => {
            let out = &mut scratch.selected[..count];
            kernels.compiled(|| minis.get_selected(mask, out));
            Codes::Wide(out)
        }
        Payload::Packed(_)
        | Payload::MiniBlocks(_)
        | Payload::Runs(_)
        | Payload::Patched(_)
        | Payload::Compressed(_)
        | Payload::Differences(..)
        | Payload::Wide(_)
        | Payload::Strings(_)
        | Payload::Coded(_) => {
            let codes = data.unpack(kernels, &mut scratch.codes)?;
            if all {
                return Ok(Codes::Wide(codes));
            }
            kernels.compress_u64(codes, mask, &mut scratch.selected[..]);
            Codes::Wide(&scratch.selected[..count])
        }
    })
}

/// Fills `scratch.narrow` with the selected dictionary codes of a block, 0 in place of NULL, each
/// checked to be below `len`.
fn dictionary_codes(
    data: &BlockData<'_>,
    mask: &Mask,
    count: usize,
    len: usize,
    scratch: &mut Scratch,
) -> Result<(), FormatError> {
    let Payload::Packed(run) = data.payload else {
        return Err(FormatError::corrupt(
            "a dictionary chunk",
            "it is not packed",
        ));
    };
    let (kernels, codes) = (scratch.kernels, &mut scratch.narrow);
    if count == data.rows {
        kernels.unpack_u32(run.packed, run.width, &mut codes[..count]);
    } else {
        kernels.unpack_selected_u32(run.packed, run.width, run.rows, mask, &mut codes[..]);
    }
    let mut greatest = 0;
    for code in &mut codes[..count] {
        *code = code.saturating_sub(data.null_codes as u32);
        greatest = greatest.max(*code);
    }
    if greatest as usize >= len {
        return Err(beyond(greatest.into(), len));
    }
    Ok(())
}

fn beyond(code: u64, len: usize) -> FormatError {
    FormatError::corrupt(
        "a dictionary chunk",
        format!("code {code} in a dictionary of {len} values"),
    )
}
