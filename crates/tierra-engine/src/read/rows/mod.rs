//! Rows whose cells lie in one buffer, before they become arrow arrays.
//!
//! ```text
//! values   | column 0, all rows | column 1, all rows | ...      each aligned to its type
//! texts    | every string that a view does not hold whole |      views lie among the values
//! ```
//!
//! Made for few rows of many columns: all columns share one allocation of values, and all strings another, so a row of 1,000
//! columns costs 1,000 array headers (`arrays.rs`) and nothing else. The offsets of a column's values are known before any row
//! (`projection.rs`). Cells may arrive in any order.
//!
//! Invariant: a cell that is NULL or never arrived is zero; the NULLs are listed.

mod arrays;
mod projection;

use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions, make_view};
use arrow::buffer::{Buffer, MutableBuffer};
use arrow::error::ArrowError;
use tierra_column::{Cell, LogicalType, ordinal};

use self::projection::CellPlace;
pub use self::projection::Projection;

/// Some columns of some rows. Made by [`Snapshot::gather`](crate::Snapshot::gather).
#[derive(Debug)]
pub struct Rows {
    len: usize,
    projection: Projection,
    values: MutableBuffer,
    texts: Texts,
    /// Column and row of each NULL.
    nulls: Vec<(u32, u32)>,
}

impl Rows {
    /// `len` rows, without any cell yet.
    pub(crate) fn new(projection: &Projection, len: usize) -> Self {
        Self {
            len,
            projection: projection.clone(),
            values: MutableBuffer::from_len_zeroed(projection.row_bytes() * len),
            texts: Texts::default(),
            nulls: Vec::new(),
        }
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Starts filling in cells.
    #[inline(always)]
    pub(crate) fn filling(&mut self) -> Filling<'_> {
        Filling {
            len: self.len,
            places: self.projection.places(),
            values: &mut self.values,
            texts: &mut self.texts,
            nulls: &mut self.nulls,
        }
    }

    /// Converts the rows to an arrow batch.
    ///
    /// # Errors
    /// [`ArrowError`] if a NULL is in a NOT NULL column, or a string is not UTF-8: the chunk's bytes are not those that were
    /// written.
    pub fn into_batch(self) -> Result<RecordBatch, ArrowError> {
        let Rows {
            len,
            projection,
            values,
            texts,
            mut nulls,
        } = self;
        nulls.sort_unstable();
        let (values, texts) = (Buffer::from(values), texts.finish());
        let arrays = arrays::all(projection.places(), len, &values, &texts, &nulls)?;
        let schema = projection.schema().clone();
        if nulls.is_empty() {
            // SAFETY: there is an array for each field, of `len` values and no NULLs, whose type is that of the field:
            // both are of the column's type, which was compared when the projection was made.
            return Ok(unsafe { RecordBatch::new_unchecked(schema, arrays, len) });
        }
        let options = RecordBatchOptions::new().with_row_count(Some(len));
        RecordBatch::try_new_with_options(schema, arrays, &options)
    }
}

/// Rows being filled with cells, with what that needs looked up once.
pub(crate) struct Filling<'r> {
    len: usize,
    places: &'r [CellPlace],
    values: &'r mut [u8],
    texts: &'r mut Texts,
    nulls: &'r mut Vec<(u32, u32)>,
}

impl Filling<'_> {
    /// Puts a cell into its place.
    ///
    /// # Panics
    /// If there is no such column or row.
    #[inline(always)]
    pub(crate) fn put(&mut self, column: usize, row: usize, cell: Cell<'_>) {
        use LogicalType as Type;
        let CellPlace { ty, offset_bytes } = self.places[column];
        debug_assert!(row < self.len);
        let first = offset_bytes * self.len;
        match (ty, cell) {
            (Type::Integer | Type::Date, Cell::Ordinal(value)) => {
                self.write(first, row, ordinal::to_i32(value).to_ne_bytes());
            }
            (Type::BigInt | Type::Timestamp, Cell::Ordinal(value)) => {
                self.write(first, row, ordinal::to_i64(value).to_ne_bytes());
            }
            (Type::Double, Cell::Ordinal(value)) => {
                self.write(first, row, ordinal::to_f64(value).to_ne_bytes());
            }
            (Type::Decimal { .. }, Cell::Ordinal(value)) => {
                let value = i128::from(ordinal::to_i64(value));
                self.write(first, row, value.to_ne_bytes());
            }
            (Type::Decimal { .. }, Cell::Wide(value)) => {
                self.write(first, row, value.to_ne_bytes());
            }
            (Type::Varchar, Cell::Bytes(text)) => {
                let view = self.texts.push(text);
                self.write(first, row, view.to_ne_bytes());
            }
            (Type::Boolean, Cell::Ordinal(value)) => self.write(first, row, [value as u8]),
            (_, other) => {
                debug_assert_eq!(other, Cell::Null, "a {ty} column has no such cells");
                self.nulls.push((column as u32, row as u32));
            }
        }
    }

    /// Writes a row's value; the value of the column's first row begins at `first`.
    #[inline(always)]
    fn write<const N: usize>(&mut self, first: usize, row: usize, value: [u8; N]) {
        let place = self.values[first + row * N..].first_chunk_mut();
        *place.expect("there is room for the values of every row") = value;
    }
}

/// Width of a value in the buffer.
#[inline(always)]
fn width_bytes(ty: LogicalType) -> usize {
    match ty {
        LogicalType::Boolean => 1,
        LogicalType::Integer | LogicalType::Date => 4,
        LogicalType::BigInt | LogicalType::Timestamp | LogicalType::Double => 8,
        LogicalType::Decimal { .. } | LogicalType::Varchar => 16,
    }
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
    /// Stores a string and returns its view.
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
    use arrow::datatypes::{Field, Schema, SchemaRef};

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

    fn of_types(types: &[LogicalType], schema: SchemaRef) -> Projection {
        Projection::of_types((0..types.len()).collect(), types, schema)
    }

    /// A cell whose value tells its place.
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
            // Some are stored inside their views, some are not.
            let texts: Vec<String> = (0..len)
                .map(|row| "text of a row ".repeat(row % 3))
                .collect();
            let mut rows = Rows::new(&of_types(&TYPES, schema()), len);
            for row in (0..len).rev() {
                for (column, ty) in TYPES.into_iter().enumerate() {
                    let is_null = (row + column) % 4 == 1;
                    let cell = cell(ty, row, &texts[row]);
                    rows.filling()
                        .put(column, row, if is_null { Cell::Null } else { cell });
                }
            }
            assert_eq!((rows.len(), rows.is_empty()), (len, len == 0));
            let batch = rows.into_batch().unwrap();
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
        let rows = Rows::new(&of_types(&[], Arc::new(Schema::empty())), 7);
        let batch = rows.into_batch().unwrap();
        assert_eq!(batch.num_rows(), 7);
    }

    #[test]
    fn what_is_no_text_is_an_error() {
        for text in [&b"\xff"[..], b"long enough for a buffer \xff"] {
            let field = Field::new("s", LogicalType::Varchar.arrow(), true);
            let schema = Arc::new(Schema::new(vec![field]));
            let mut rows = Rows::new(&of_types(&[LogicalType::Varchar], schema), 1);
            rows.filling().put(0, 0, Cell::Bytes(text));
            assert!(rows.into_batch().is_err());
        }
    }

    #[test]
    fn a_null_in_a_column_without_is_an_error() {
        let field = Field::new("i", LogicalType::Integer.arrow(), false);
        let schema = Arc::new(Schema::new(vec![field]));
        let mut rows = Rows::new(&of_types(&[LogicalType::Integer], schema), 2);
        rows.filling().put(0, 1, Cell::Null);
        assert!(rows.into_batch().is_err());
    }
}
