//! Rows put together: their cells in one buffer, on their way to arrow arrays.
//!
//! ```text
//! values   | column 0, all rows | column 1, all rows | ...      each aligned to its type
//! texts    | every string that a view does not hold whole |      views lie among the values
//! ```
//!
//! Made for few rows of many columns: all columns share one allocation of values, all strings
//! another, so a row of 1,000 columns costs 1,000 array headers and nothing else. Cells may arrive
//! in any order.
//!
//! Invariant: a cell that never arrived, or arrived as NULL, is zero; those that are NULL are listed.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, PrimitiveArray, RecordBatch, RecordBatchOptions, StringViewArray,
    make_view,
};
use arrow::buffer::{BooleanBuffer, Buffer, MutableBuffer, NullBuffer, ScalarBuffer};
use arrow::datatypes::{
    ArrowPrimitiveType, Date32Type, Decimal128Type, Float64Type, Int32Type, Int64Type, SchemaRef,
    TimestampMicrosecondType,
};
use arrow::error::ArrowError;
use tierra_column::{Cell, LogicalType, ordinal};

/// Some columns of some rows. Made by [`Snapshot::gather`](crate::Snapshot::gather).
#[derive(Debug)]
pub struct Rows {
    len: usize,
    columns: Vec<Column>,
    values: MutableBuffer,
    texts: Texts,
    /// Column and row of each NULL.
    nulls: Vec<(u32, u32)>,
}

/// Where the values of a column lie.
#[derive(Clone, Copy, Debug)]
struct Column {
    ty: LogicalType,
    offset_bytes: usize,
}

impl Rows {
    /// `len` rows of columns of these types, without any cell yet.
    pub(crate) fn new(types: impl ExactSizeIterator<Item = LogicalType>, len: usize) -> Self {
        let mut columns = Vec::with_capacity(types.len());
        let mut len_bytes = 0_usize;
        for ty in types {
            // Widths are powers of two.
            let offset_bytes = (len_bytes + width_bytes(ty) - 1) & !(width_bytes(ty) - 1);
            columns.push(Column { ty, offset_bytes });
            len_bytes = offset_bytes + len * width_bytes(ty);
        }
        Self {
            len,
            columns,
            values: MutableBuffer::from_len_zeroed(len_bytes),
            texts: Texts::default(),
            nulls: Vec::new(),
        }
    }

    /// How many rows.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Puts a cell into its place.
    ///
    /// # Panics
    /// If there is no such column or row.
    #[inline(always)]
    pub(crate) fn put(&mut self, column: usize, row: usize, cell: Cell<'_>) {
        use LogicalType as Type;
        let Column { ty, offset_bytes } = self.columns[column];
        debug_assert!(row < self.len);
        let out = self.values.get_mut(offset_bytes..).unwrap_or_default();
        match (ty, cell) {
            (Type::Integer | Type::Date, Cell::Ordinal(value)) => {
                write(out, row, ordinal::to_i32(value).to_ne_bytes());
            }
            (Type::BigInt | Type::Timestamp, Cell::Ordinal(value)) => {
                write(out, row, ordinal::to_i64(value).to_ne_bytes());
            }
            (Type::Double, Cell::Ordinal(value)) => {
                write(out, row, ordinal::to_f64(value).to_ne_bytes());
            }
            (Type::Decimal { .. }, Cell::Ordinal(value)) => {
                write(out, row, i128::from(ordinal::to_i64(value)).to_ne_bytes());
            }
            (Type::Decimal { .. }, Cell::Wide(value)) => write(out, row, value.to_ne_bytes()),
            (Type::Varchar, Cell::Bytes(text)) => {
                write(out, row, self.texts.push(text).to_ne_bytes());
            }
            (Type::Boolean, Cell::Ordinal(value)) => write(out, row, [value as u8]),
            (_, other) => {
                debug_assert_eq!(other, Cell::Null, "a {ty} column has no such cells");
                self.nulls.push((column as u32, row as u32));
            }
        }
    }

    /// The rows as arrow has them. `schema` is that of the columns.
    ///
    /// # Errors
    /// [`ArrowError`] where a NULL stands in a column declared without, or a string is no UTF-8:
    /// the bytes of the chunk are not what was written.
    pub fn into_batch(self, schema: SchemaRef) -> Result<RecordBatch, ArrowError> {
        let Rows {
            len,
            columns,
            values,
            texts,
            mut nulls,
        } = self;
        let values = Buffer::from(values);
        let texts = texts.finish();
        nulls.sort_unstable();
        let mut nulls = &nulls[..];
        let mut arrays = Vec::with_capacity(columns.len());
        for (at, Column { ty, offset_bytes }) in columns.into_iter().enumerate() {
            let values = values.slice_with_length(offset_bytes, len * width_bytes(ty));
            let nulls = match nulls.first() {
                Some((column, _)) if *column as usize == at => Some(take_nulls(&mut nulls, len)),
                _ => None,
            };
            arrays.push(array(ty, values, &texts, nulls)?);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(len));
        RecordBatch::try_new_with_options(schema, arrays, &options)
    }
}

/// Bytes of a value among the others.
#[inline(always)]
fn width_bytes(ty: LogicalType) -> usize {
    match ty {
        LogicalType::Boolean => 1,
        LogicalType::Integer | LogicalType::Date => 4,
        LogicalType::BigInt | LogicalType::Timestamp | LogicalType::Double => 8,
        LogicalType::Decimal { .. } | LogicalType::Varchar => 16,
    }
}

#[inline(always)]
fn write<const N: usize>(out: &mut [u8], row: usize, value: [u8; N]) {
    out.as_chunks_mut().0[row] = value;
}

/// The validity of the column that the first NULL listed belongs to; leaves those of later columns.
fn take_nulls(nulls: &mut &[(u32, u32)], len: usize) -> NullBuffer {
    let of_column = nulls.partition_point(|(column, _)| *column == nulls[0].0);
    let (mine, rest) = nulls.split_at(of_column);
    *nulls = rest;
    let mut valid = vec![true; len];
    for (_, row) in mine {
        valid[*row as usize] = false;
    }
    NullBuffer::from(valid)
}

fn array(
    ty: LogicalType,
    values: Buffer,
    texts: &Arc<[Buffer]>,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef, ArrowError> {
    Ok(match ty {
        LogicalType::Integer => primitive::<Int32Type>(values, nulls),
        LogicalType::Date => primitive::<Date32Type>(values, nulls),
        LogicalType::BigInt => primitive::<Int64Type>(values, nulls),
        LogicalType::Timestamp => primitive::<TimestampMicrosecondType>(values, nulls),
        LogicalType::Double => primitive::<Float64Type>(values, nulls),
        LogicalType::Decimal { .. } => {
            let decimals = PrimitiveArray::<Decimal128Type>::new(ScalarBuffer::from(values), nulls);
            Arc::new(decimals.with_data_type(ty.arrow()))
        }
        LogicalType::Boolean => {
            let bits = BooleanBuffer::collect_bool(values.len(), |row| values[row] == 1);
            Arc::new(BooleanArray::new(bits, nulls))
        }
        LogicalType::Varchar => {
            let views = ScalarBuffer::from(values);
            Arc::new(StringViewArray::try_new(views, texts.clone(), nulls)?)
        }
    })
}

fn primitive<T: ArrowPrimitiveType>(values: Buffer, nulls: Option<NullBuffer>) -> ArrayRef {
    match nulls {
        None => without_nulls::<T>(values),
        nulls => Arc::new(PrimitiveArray::<T>::new(ScalarBuffer::from(values), nulls)),
    }
}

/// A function of its own without the checks of the other: what arrow's functions return lies in memory and is
/// moved in other pieces than it was written in, which waits for the writes. A row of 1,000 columns has 1,000 of each.
#[inline(never)]
fn without_nulls<T: ArrowPrimitiveType>(values: Buffer) -> ArrayRef {
    assert!(values.as_ptr().cast::<T::Native>().is_aligned());
    // SAFETY: the buffer is aligned for the type, as was just seen; there are no NULLs whose number could differ
    // from that of the values.
    Arc::new(unsafe {
        PrimitiveArray::<T>::new_unchecked(ScalarBuffer::new_unchecked(values), None)
    })
}

/// Strings that views point to.
#[derive(Debug, Default)]
struct Texts {
    closed: Vec<Buffer>,
    open: Vec<u8>,
}

/// A buffer is closed at this size: views hold 32-bit offsets.
const TEXTS_BYTES_MAX: usize = 1 << 30;

impl Texts {
    /// Keeps a string and returns its view.
    fn push(&mut self, text: &[u8]) -> u128 {
        if self.open.len() + text.len() > TEXTS_BYTES_MAX {
            self.close();
        }
        let view = make_view(text, self.closed.len() as u32, self.open.len() as u32);
        // A view holds up to twelve bytes itself.
        if text.len() > 12 {
            self.open.extend_from_slice(text);
        }
        view
    }

    fn close(&mut self) {
        if !self.open.is_empty() {
            let open = std::mem::take(&mut self.open);
            self.closed.push(Buffer::from_vec(open));
        }
    }

    fn finish(mut self) -> Arc<[Buffer]> {
        self.close();
        self.closed.into()
    }
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::{Field, Schema};

    use super::*;

    const TYPES: [LogicalType; 9] = [
        LogicalType::Boolean,
        LogicalType::Decimal {
            precision: 10,
            scale: 2,
        },
        LogicalType::Integer,
        LogicalType::Varchar,
        LogicalType::Date,
        LogicalType::Double,
        LogicalType::Timestamp,
        LogicalType::Decimal {
            precision: 30,
            scale: 3,
        },
        LogicalType::BigInt,
    ];

    fn schema() -> SchemaRef {
        let field = |ty: &LogicalType| Field::new(ty.to_string(), ty.arrow(), true);
        Arc::new(Schema::new(TYPES.iter().map(field).collect::<Vec<_>>()))
    }

    /// A cell that tells its place.
    fn cell(ty: LogicalType, row: usize, text: &str) -> Cell<'_> {
        match ty {
            LogicalType::Boolean => Cell::Ordinal(row as u64 % 2),
            LogicalType::Integer | LogicalType::Date => Cell::Ordinal(ordinal::of_i32(row as i32)),
            LogicalType::Double => Cell::Ordinal(ordinal::of_f64(row as f64)),
            LogicalType::Decimal { precision: 30, .. } => Cell::Wide(row as i128),
            LogicalType::Varchar => Cell::Bytes(text.as_bytes()),
            _ => Cell::Ordinal(ordinal::of_i64(row as i64)),
        }
    }

    #[test]
    fn cells_arrive_in_any_order_and_lie_in_their_places() {
        for len in [0, 1, 2, 13] {
            // Some inline in their views, some not.
            let texts: Vec<String> = (0..len)
                .map(|row| "text of a row ".repeat(row % 3))
                .collect();
            let mut rows = Rows::new(TYPES.into_iter(), len);
            for row in (0..len).rev() {
                for (column, ty) in TYPES.into_iter().enumerate() {
                    let is_null = (row + column) % 4 == 1;
                    let cell = cell(ty, row, &texts[row]);
                    rows.put(column, row, if is_null { Cell::Null } else { cell });
                }
            }
            assert_eq!((rows.len(), rows.is_empty()), (len, len == 0));
            let batch = rows.into_batch(schema()).unwrap();
            assert_eq!(batch.num_rows(), len);
            for (column, (values, ty)) in batch.columns().iter().zip(TYPES).enumerate() {
                for (row, text) in texts.iter().enumerate() {
                    let found = crate::cells::cell_of(ty, values, row);
                    let expected = match (row + column) % 4 {
                        1 => Cell::Null,
                        _ => cell(ty, row, text),
                    };
                    assert_eq!(found, expected, "{ty} of row {row}");
                }
            }
        }
    }

    #[test]
    fn rows_without_columns_are_still_counted() {
        let rows = Rows::new([].into_iter(), 7);
        let batch = rows.into_batch(Arc::new(Schema::empty())).unwrap();
        assert_eq!(batch.num_rows(), 7);
    }

    #[test]
    fn what_is_no_text_is_an_error() {
        for text in [&b"\xff"[..], b"long enough for a buffer \xff"] {
            let mut rows = Rows::new([LogicalType::Varchar].into_iter(), 1);
            rows.put(0, 0, Cell::Bytes(text));
            let field = Field::new("s", LogicalType::Varchar.arrow(), true);
            let schema = Arc::new(Schema::new(vec![field]));
            assert!(rows.into_batch(schema).is_err());
        }
    }

    #[test]
    fn a_null_in_a_column_without_is_an_error() {
        let mut rows = Rows::new([LogicalType::Integer].into_iter(), 2);
        rows.put(0, 1, Cell::Null);
        let field = Field::new("i", LogicalType::Integer.arrow(), false);
        assert!(rows.into_batch(Arc::new(Schema::new(vec![field]))).is_err());
    }
}
