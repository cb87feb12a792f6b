//! The tables of the paper's tuple reconstruction: the value of every cell, without a copy of the data.
//!
//! INTEGER and DECIMAL(10, 2) columns have unique values. A VARCHAR column has at most 100,000 different strings of 20 to 50
//! bytes. All columns have dictionaries. A cell is computed from its row and column, so the table is loaded column by column,
//! each made when it is encoded, and every cell that is read can be checked.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, AsArray, Decimal128Array, Int32Array, RecordBatch, StringViewArray, StringViewBuilder,
};
use arrow::datatypes::{Decimal128Type, Int32Type};
use arrow::error::ArrowError;
use indicatif::ProgressBar;
use tierra_column::{Encoding, LogicalType};
use tierra_data::wide::Wide;
use tierra_engine::{ColumnSource, ColumnSpec, TableSpec};

use crate::lab::SEED;
use crate::random::Random;

/// Different strings of a column.
const STRINGS: u32 = 100_000;
const STRING_BYTES: Range<usize> = 20..51;
/// Letters that distinguish a column's strings: 26^5 exceeds their number.
const NUMBER_BYTES: usize = 5;

/// Rows and typed columns.
#[derive(Clone, Copy, Debug)]
pub(in crate::experiments) struct Shape {
    /// The numbers from which cells are made, unique within a column.
    numbers: Wide,
    mixed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Integer,
    Decimal,
    Varchar,
}

impl Shape {
    /// INTEGER columns.
    pub(in crate::experiments) fn integers(rows: u32, columns: u32) -> Shape {
        Shape {
            numbers: Wide::new(rows, columns).with_value_bits(31),
            mixed: false,
        }
    }

    /// A third each of INTEGER, DECIMAL(10, 2) and VARCHAR columns.
    pub(in crate::experiments) fn mixed(rows: u32, columns: u32) -> Shape {
        Shape {
            mixed: true,
            ..Shape::integers(rows, columns)
        }
    }

    pub(super) fn rows(self) -> u32 {
        self.numbers.rows()
    }

    pub(super) fn columns(self) -> u32 {
        self.numbers.columns()
    }

    fn kind(self, column: u32) -> Kind {
        const THIRDS: [Kind; 3] = [Kind::Integer, Kind::Decimal, Kind::Varchar];
        if self.mixed {
            THIRDS[(u64::from(column) * 3 / u64::from(self.columns())) as usize]
        } else {
            Kind::Integer
        }
    }

    /// The table, its first column the key.
    pub(super) fn spec(self, name: &str) -> TableSpec {
        let column = |number| {
            let ty = match self.kind(number) {
                Kind::Integer => LogicalType::Integer,
                Kind::Decimal => LogicalType::Decimal {
                    precision: 10,
                    scale: 2,
                },
                Kind::Varchar => LogicalType::Varchar,
            };
            ColumnSpec {
                encoding: Some(Encoding::Dictionary),
                ..ColumnSpec::new(Wide::column_name(number), ty).not_null()
            }
        };
        TableSpec {
            name: name.to_owned(),
            columns: (0..self.columns()).map(column).collect(),
            primary_key: vec![0],
        }
    }

    /// The key of a row.
    pub(super) fn key(self, row: u32) -> i32 {
        self.numbers.cell(row, 0)
    }

    /// The one row with that key.
    pub(super) fn row_of(self, key: i32) -> Option<u32> {
        self.numbers.row_of(key, 0)
    }

    /// Whether row `place` of a batch of all columns is row `row` of the table.
    pub(super) fn is_row(self, batch: &RecordBatch, place: usize, row: u32) -> bool {
        batch.num_columns() == self.columns() as usize
            && batch.columns().iter().zip(0..).all(|(values, column)| {
                let number = self.numbers.cell(row, column);
                !values.is_null(place)
                    && match self.kind(column) {
                        Kind::Integer => values
                            .as_primitive_opt::<Int32Type>()
                            .is_some_and(|values| values.value(place) == number),
                        Kind::Decimal => values
                            .as_primitive_opt::<Decimal128Type>()
                            .is_some_and(|values| values.value(place) == i128::from(number)),
                        Kind::Varchar => values.as_string_view_opt().is_some_and(|values| {
                            let (bytes, len) = string(column, string_number(number));
                            values.value(place).as_bytes() == &bytes[..len]
                        }),
                    }
            })
    }

    fn values(self, column: u32, rows: Range<u32>) -> Result<ArrayRef, ArrowError> {
        let numbers = rows.map(|row| self.numbers.cell(row, column));
        Ok(match self.kind(column) {
            Kind::Integer => Arc::new(Int32Array::from_iter_values(numbers)),
            Kind::Decimal => Arc::new(
                Decimal128Array::from_iter_values(numbers.map(i128::from))
                    .with_precision_and_scale(10, 2)?,
            ),
            Kind::Varchar => Arc::new(strings(column, numbers.map(string_number))?),
        })
    }

    /// The rows as a source of a load. `progress` advances with every column.
    pub(super) fn source(self, progress: &ProgressBar) -> impl ColumnSource<Error = ArrowError> {
        Source {
            shape: self,
            progress: progress.clone(),
        }
    }
}

/// The string of its column that a number stands for.
fn string_number(number: i32) -> u32 {
    number.unsigned_abs() % STRINGS
}

/// String `number` of a column: its buffer of lower-case letters, and its length.
fn string(column: u32, number: u32) -> ([u8; STRING_BYTES.end], usize) {
    let mut random = Random::new(SEED ^ (u64::from(column) << 32 | u64::from(number)));
    let len = STRING_BYTES.start + random.below(STRING_BYTES.len() as u64) as usize;
    let mut bytes = [0; STRING_BYTES.end];
    let letter = |number: u64| b'a' + (number % 26) as u8;
    for part in bytes.chunks_mut(8) {
        let mut bits = random.bits();
        for byte in part {
            *byte = letter(bits);
            bits >>= 8;
        }
    }
    let mut rest = u64::from(number);
    for byte in &mut bytes[..NUMBER_BYTES] {
        *byte = letter(rest);
        rest /= 26;
    }
    (bytes, len)
}

/// Strings of a column; each different one is stored once.
fn strings(column: u32, numbers: impl Iterator<Item = u32>) -> Result<StringViewArray, ArrowError> {
    let mut text = Vec::with_capacity(STRINGS as usize * STRING_BYTES.end);
    let places: Vec<(u32, u32)> = (0..STRINGS)
        .map(|number| {
            let (bytes, len) = string(column, number);
            let place = (text.len() as u32, len as u32);
            text.extend_from_slice(&bytes[..len]);
            place
        })
        .collect();
    let mut builder = StringViewBuilder::new();
    let block = builder.append_block(text.into());
    for number in numbers {
        let (start, len) = places[number as usize];
        builder.try_append_view(block, start, len)?;
    }
    Ok(builder.finish())
}

struct Source {
    shape: Shape,
    progress: ProgressBar,
}

impl ColumnSource for Source {
    type Error = ArrowError;

    fn rows(&self) -> u64 {
        self.shape.rows().into()
    }

    fn bytes(&self, column: usize, rows: Range<u64>) -> u64 {
        let each = match self.shape.kind(column as u32) {
            Kind::Integer => size_of::<i32>(),
            Kind::Decimal | Kind::Varchar => size_of::<u128>(),
        };
        (rows.end - rows.start) * each as u64
    }

    fn read(&self, column: usize, rows: Range<u64>) -> Result<Vec<ArrayRef>, ArrowError> {
        let values = self
            .shape
            .values(column as u32, rows.start as u32..rows.end as u32)?;
        self.progress.inc(1);
        Ok(vec![values])
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use arrow::array::Array;

    use super::*;

    #[test]
    fn the_strings_of_a_column_differ_and_are_as_long_as_stated() {
        let texts: HashSet<Vec<u8>> = (0..STRINGS)
            .map(|number| {
                let (bytes, len) = string(7, number);
                bytes[..len].to_vec()
            })
            .collect();
        assert_eq!(texts.len(), STRINGS as usize);
        let lengths: HashSet<usize> = texts.iter().map(Vec::len).collect();
        assert_eq!(lengths, STRING_BYTES.collect());
    }

    #[test]
    fn rows_are_recognised_and_a_wrong_cell_is_noticed() {
        let shape = Shape::mixed(50, 6);
        let read = |column| shape.values(column, 0..50).unwrap();
        let batch = |columns: Vec<ArrayRef>| {
            let named = columns.into_iter().enumerate();
            RecordBatch::try_from_iter(named.map(|(at, values)| (format!("c{at}"), values)))
                .unwrap()
        };
        let right = batch((0..6).map(read).collect());
        assert_eq!(
            right.column(5).data_type(),
            &arrow::datatypes::DataType::Utf8View
        );
        for row in 0..50 {
            assert!(shape.is_row(&right, row as usize, row));
            assert!(!shape.is_row(&right, row as usize, (row + 1) % 50));
            assert_eq!(shape.row_of(shape.key(row)), Some(row));
        }
        for column in 1..6 {
            let mut columns = right.columns().to_vec();
            let shifted = [columns[column].slice(1, 49), columns[column].slice(0, 1)];
            let shifted: Vec<&dyn Array> = shifted.iter().map(|part| &**part).collect();
            columns[column] = arrow::compute::concat(&shifted).unwrap();
            let wrong = batch(columns);
            assert!(
                (0..50).all(|row| !shape.is_row(&wrong, row as usize, row)),
                "column {column}"
            );
        }
        assert!(!shape.is_row(&right.project(&[0, 1, 2, 3, 4]).unwrap(), 0, 0));
    }
}
