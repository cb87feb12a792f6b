//! A table of R rows and C INTEGER columns in which a column never holds a value twice: the table
//! of the tuple-reconstruction and IN-predicate experiments.
//!
//! Column c maps row numbers through its own bijection of the B-bit integers, so [`Wide::cell`]
//! tells what any cell must hold and [`Wide::row_of`] where any value must be found: the generator
//! is its own oracle, with no copy of the data.
//!
//! The bijection is a chain of steps, each invertible modulo 2^B:
//!
//! ```text
//! row --xor key--> * odd --> x ^ (x >> ceil(B/2)) --> * odd --> x ^ (x >> ceil(B/2)) --> value
//! ```

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, Int32Array, RecordBatch},
    datatypes::{DataType, Field, Schema, SchemaRef},
};

use crate::{Batches, Part, draw::Draw, source::by_ranges};

/// The shape of a wide table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wide {
    rows: u32,
    columns: u32,
    value_bits: u32,
}

/// One column's bijection of the B-bit integers.
#[derive(Clone, Copy)]
struct Permutation {
    bits: u32,
    key: u32,
    factors: [u32; 2],
}

impl Wide {
    /// A table of `rows` rows (at most 2^31) and `columns` columns, its values below the next
    /// power of two of `rows`: as compact as unique values can be.
    ///
    /// # Panics
    /// If `rows` exceeds 2^31, more than there are values of an INTEGER that is not negative.
    pub fn new(rows: u32, columns: u32) -> Self {
        assert!(rows <= 1 << 31, "{rows} rows cannot hold unique INTEGERs");
        let value_bits = rows.max(2).next_power_of_two().trailing_zeros();
        Self {
            rows,
            columns,
            value_bits,
        }
    }

    /// The same shape with values spread over `value_bits` bits (at most 31): the sparser they
    /// are, the more a dictionary's codes save.
    ///
    /// # Panics
    /// If `value_bits` exceeds 31 or cannot tell the rows apart.
    pub fn with_value_bits(self, value_bits: u32) -> Self {
        assert!(value_bits <= 31 && u64::from(self.rows) <= 1 << value_bits);
        Self { value_bits, ..self }
    }

    /// Number of rows.
    pub fn rows(self) -> u32 {
        self.rows
    }

    /// Number of columns.
    pub fn columns(self) -> u32 {
        self.columns
    }

    /// Column `column`'s name: `c0`, `c1` and so on.
    pub fn column_name(column: u32) -> String {
        format!("c{column}")
    }

    /// The columns, none nullable.
    pub fn schema(self) -> SchemaRef {
        let field = |c| Field::new(Self::column_name(c), DataType::Int32, false);
        Arc::new(Schema::new(
            (0..self.columns).map(field).collect::<Vec<_>>(),
        ))
    }

    /// What row `row` holds in column `column`.
    pub fn cell(self, row: u32, column: u32) -> i32 {
        debug_assert!(row < self.rows && column < self.columns);
        self.permutation(column).forward(row) as i32
    }

    /// The one row that holds `value` in column `column`, if any does.
    pub fn row_of(self, value: i32, column: u32) -> Option<u32> {
        let value = u32::try_from(value).ok()?;
        if value >> self.value_bits != 0 {
            return None;
        }
        let row = self.permutation(column).backward(value);
        (row < self.rows).then_some(row)
    }

    /// The rows of `part`, at most `batch_rows` in a batch.
    ///
    /// # Panics
    /// If `batch_rows` is 0.
    pub fn generate(self, part: Part, batch_rows: usize) -> Batches {
        let schema = self.schema();
        let permutations: Vec<_> = (0..self.columns).map(|c| self.permutation(c)).collect();
        by_ranges(part.of(self.rows.into()), batch_rows, move |rows| {
            let (start, end) = (rows.start as u32, rows.end as u32);
            let column = |p: &Permutation| -> ArrayRef {
                let values = (start..end).map(|row| p.forward(row) as i32);
                Arc::new(Int32Array::from_iter_values(values))
            };
            let columns = permutations.iter().map(column).collect();
            RecordBatch::try_new(schema.clone(), columns)
                .expect("every column is made after the schema and has the range's length")
        })
    }

    fn permutation(self, column: u32) -> Permutation {
        const KEYS: Draw = Draw::named("wide.keys");
        let bits = KEYS.bits(column.into());
        Permutation {
            bits: self.value_bits,
            key: bits as u32 & mask(self.value_bits),
            factors: [bits as u32 | 1, (bits >> 32) as u32 | 1],
        }
    }
}

/// The lowest `bits` bits, 1..=31 of them.
fn mask(bits: u32) -> u32 {
    (1 << bits) - 1
}

impl Permutation {
    /// Shifting by at least half the width makes `x ^ (x >> shift)` its own inverse.
    fn shift(self) -> u32 {
        self.bits.div_ceil(2)
    }

    fn forward(self, row: u32) -> u32 {
        let mut x = row ^ self.key;
        for factor in self.factors {
            x = x.wrapping_mul(factor) & mask(self.bits);
            x ^= x >> self.shift();
        }
        x
    }

    fn backward(self, value: u32) -> u32 {
        let mut x = value;
        for factor in self.factors.into_iter().rev() {
            x ^= x >> self.shift();
            x = x.wrapping_mul(inverse(factor)) & mask(self.bits);
        }
        x ^ self.key
    }
}

/// The inverse of an odd factor modulo 2^32, by Newton's iteration: each step doubles the number
/// of right bits, of which `factor` itself, as every odd square is 1 modulo 8, has three.
fn inverse(factor: u32) -> u32 {
    debug_assert!(factor % 2 == 1);
    let mut inverse = factor;
    for _ in 0..4 {
        let error = factor.wrapping_mul(inverse);
        inverse = inverse.wrapping_mul(2_u32.wrapping_sub(error));
    }
    inverse
}

#[cfg(test)]
mod tests {
    use arrow::{array::AsArray, datatypes::Int32Type};
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn batches_hold_the_cells_and_no_column_repeats_a_value() {
        for (rows, bits) in [(1, 1), (2, 1), (1_000, 10), (1_024, 10), (1_025, 31)] {
            let wide = Wide::new(rows, 5).with_value_bits(bits);
            let batches: Vec<_> = Part::split(3).flat_map(|p| wide.generate(p, 97)).collect();
            let batch = arrow::compute::concat_batches(&wide.schema(), &batches).unwrap();
            for column in 0..5 {
                let mut values = batch
                    .column(column)
                    .as_primitive::<Int32Type>()
                    .values()
                    .to_vec();
                for (row, &value) in values.iter().enumerate() {
                    assert_eq!(value, wide.cell(row as u32, column as u32));
                }
                values.sort_unstable();
                values.dedup();
                assert_eq!(values.len(), rows as usize);
            }
        }
    }

    proptest! {
        #[test]
        fn a_value_is_found_where_it_was_put(rows in 1_u32..1 << 31, row: u32, column in 0_u32..1_000) {
            let (wide, row) = (Wide::new(rows, 1_000), row % rows);
            prop_assert_eq!(wide.row_of(wide.cell(row, column), column), Some(row));
        }

        #[test]
        fn what_is_found_is_there(rows in 1_u32..1 << 31, value: i32, column in 0_u32..1_000) {
            let wide = Wide::new(rows, 1_000);
            if let Some(row) = wide.row_of(value, column) {
                prop_assert_eq!(wide.cell(row, column), value);
            } else if value >= 0 && rows.is_power_of_two() {
                prop_assert!(value as u32 >= rows, "a full range misses {value}");
            }
        }
    }
}
