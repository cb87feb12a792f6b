//! The queried column: 31-bit numbers, or strings of 15 letters made of such numbers.
//!
//! A value is computed from its number, so that loading needs no copy of the data and every answer can be checked. If there are
//! fewer values than rows, they repeat in the same order.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, StringViewBuilder};
use indicatif::ProgressBar;
use tierra_column::{Encoding, LogicalType, Value, ordinal};
use tierra_data::wide::Wide;
use tierra_engine::{ColumnSource, ColumnSpec, IndexKind};

/// The type of the column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Integer,
    Varchar,
}

/// Bytes of a string.
const STRING_BYTES: usize = 15;
/// Letters that tell strings apart: 26^7 are more than 2^31.
const NUMBER_BYTES: usize = 7;

/// A column of `rows` rows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Column {
    pub(super) kind: Kind,
    pub(super) rows: u32,
    /// The numbers of its values, no two the same.
    numbers: Wide,
}

impl Kind {
    /// The name in results.
    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Integer => "INTEGER",
            Kind::Varchar => "VARCHAR(15)",
        }
    }

    /// Rows that share a value. Strings occur twice: that halves the load time and gives the index lists of several rows.
    pub(super) fn rows_per_value(self) -> u32 {
        match self {
            Kind::Integer => 1,
            Kind::Varchar => 2,
        }
    }
}

impl Column {
    pub(super) fn new(kind: Kind, rows: u32, distinct: u32) -> Column {
        Column {
            kind,
            rows,
            numbers: Wide::new(distinct, 1).with_value_bits(31),
        }
    }

    /// Different values.
    pub(super) fn distinct(self) -> u32 {
        self.numbers.rows()
    }

    /// The number of rows with the value at `place`.
    pub(super) fn rows_of(self, place: u32) -> u64 {
        let (all, distinct) = (self.rows, self.distinct());
        u64::from(all / distinct) + u64::from(place < all % distinct)
    }

    /// The declaration, with this index.
    pub(super) fn spec(self, name: &str, index: Option<IndexKind>) -> ColumnSpec {
        let ty = match self.kind {
            Kind::Integer => LogicalType::Integer,
            Kind::Varchar => LogicalType::Varchar,
        };
        ColumnSpec {
            encoding: Some(Encoding::Dictionary),
            index,
            ..ColumnSpec::new(name, ty).not_null()
        }
    }

    /// The value at `place`, below [`Column::distinct`].
    pub(super) fn value(self, place: u32) -> Value {
        let number = self.numbers.cell(place, 0);
        match self.kind {
            Kind::Integer => Value::Ordinal(ordinal::of_i32(number)),
            Kind::Varchar => Value::Bytes(string(number).as_slice().into()),
        }
    }

    /// The same as SQL writes it.
    pub(super) fn literal(self, place: u32) -> String {
        let number = self.numbers.cell(place, 0);
        match self.kind {
            Kind::Integer => number.to_string(),
            Kind::Varchar => format!(
                "'{}'",
                string(number).map(char::from).iter().collect::<String>()
            ),
        }
    }

    fn values(self, rows: Range<u64>) -> ArrayRef {
        let distinct = u64::from(self.distinct());
        let numbers = rows.map(|row| self.numbers.cell((row % distinct) as u32, 0));
        match self.kind {
            Kind::Integer => Arc::new(Int32Array::from_iter_values(numbers)),
            Kind::Varchar => {
                let mut builder = StringViewBuilder::new();
                for number in numbers {
                    let letters = string(number);
                    builder.append_value(std::str::from_utf8(&letters).unwrap_or_default());
                }
                Arc::new(builder.finish())
            }
        }
    }

    /// The rows as a source of a load, in so many parts. `progress` advances with each.
    pub(super) fn source(
        self,
        progress: &ProgressBar,
    ) -> impl ColumnSource<Error = std::convert::Infallible> {
        Source {
            column: self,
            progress: progress.clone(),
        }
    }
}

/// Fifteen letters: the first seven distinguish numbers, the others follow from them.
fn string(number: i32) -> [u8; STRING_BYTES] {
    let mut rest = u64::from(number.unsigned_abs());
    let mut more = rest.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 16;
    let mut letters = [0; STRING_BYTES];
    for (place, letter) in letters.iter_mut().enumerate() {
        let digits = if place < NUMBER_BYTES {
            &mut rest
        } else {
            &mut more
        };
        *letter = b'a' + (*digits % 26) as u8;
        *digits /= 26;
    }
    letters
}

struct Source {
    column: Column,
    progress: ProgressBar,
}

impl ColumnSource for Source {
    type Error = std::convert::Infallible;

    fn rows(&self) -> u64 {
        self.column.rows.into()
    }

    fn bytes(&self, _: usize, rows: Range<u64>) -> u64 {
        let each = match self.column.kind {
            Kind::Integer => size_of::<i32>(),
            Kind::Varchar => size_of::<u128>() + STRING_BYTES,
        };
        (rows.end - rows.start) * each as u64
    }

    fn read(&self, _: usize, rows: Range<u64>) -> Result<Vec<ArrayRef>, Self::Error> {
        self.progress.inc(1);
        Ok(vec![self.column.values(rows)])
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn a_value_occurs_as_often_as_stated() {
        for kind in [Kind::Integer, Kind::Varchar] {
            let column = Column::new(kind, 1_000, 300);
            let values = column.values(0..1_000);
            let mut found: HashMap<Value, u64> = HashMap::new();
            for row in 0..1_000 {
                *found
                    .entry(Value::of_array(&values, row).unwrap())
                    .or_default() += 1;
            }
            assert_eq!(found.len(), 300);
            for place in 0..300 {
                assert_eq!(found[&column.value(place)], column.rows_of(place));
            }
        }
    }

    #[test]
    fn literals_are_the_values() {
        let integer = Column::new(Kind::Integer, 9, 9);
        let literal: i32 = integer.literal(4).parse().unwrap();
        assert_eq!(integer.value(4), Value::Ordinal(ordinal::of_i32(literal)));
        let varchar = Column::new(Kind::Varchar, 9, 9);
        let literal = varchar.literal(4);
        let text = literal.trim_matches('\'');
        assert_eq!((text.len(), literal.len()), (15, 17));
        assert_eq!(varchar.value(4), Value::Bytes(text.as_bytes().into()));
    }
}
