//! Random tables: columns of every type, with values in every shape for which there is an encoding.
//!
//! A cell is a function of its column's seed and its row's number, so a table keeps its other rows when some are removed
//! ([`super::shrink`]).

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, Date32Array, Decimal128Array, Float64Array, Int32Array, Int64Array,
    RecordBatch, StringArray, TimestampMicrosecondArray,
};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};

use super::choices::Choices;
use super::sql::Dialect;
use super::value::{Type, Value};
use crate::random::Random;

/// A table.
#[derive(Clone, Debug)]
pub struct Table {
    pub(crate) name: String,
    pub(crate) columns: Vec<Column>,
    /// How many columns, the first ones, are unique together.
    pub(crate) key: usize,
    /// Whether they are declared as the primary key.
    pub(crate) keyed: bool,
    /// The numbers of its rows, in parts that are loaded one after another.
    pub(crate) parts: Vec<Vec<u64>>,
    /// For each part, whether the rows so far are then sealed into a segment.
    pub(crate) sealed: Vec<bool>,
}

/// A column.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) ty: Type,
    shape: Shape,
    seed: u64,
    /// One value in this many is NULL. With 0 there are none, and the column is NOT NULL.
    null_once_in: u64,
    encoding: Option<&'static str>,
    inverted: bool,
}

/// The distribution of values.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Shape {
    /// The row's number, divided by that: with 1, every row has a different value.
    Quotient(u64),
    /// The remainder of that division.
    Remainder(u64),
    /// That many different values.
    Few(u64),
    /// Ascending, each value that often.
    Sorted(u64),
    /// One value, except for one row in 30.
    Sparse,
    /// In a range of twice this width.
    Random(i64),
    /// The type's extremes among others; NaN and the infinities for DOUBLE.
    Extreme,
}

const WORDS: [&str; 16] = [
    "",
    "a",
    "b",
    "ab",
    "abc",
    "A",
    "B",
    "aB",
    "zebra",
    "a%b",
    "a_b",
    " a",
    "x'y",
    "long enough for a view to point elsewhere",
    "zoë",
    "日本",
];
/// An hour and a day in microseconds.
const HOUR: i128 = 3_600_000_000;
const DAY: i128 = 24 * HOUR;
/// Words of ASCII come first.
const ASCII_WORDS: u64 = 14;

impl Column {
    /// A random column of the type. If `plain`, a DOUBLE has only numbers.
    fn random(choices: &mut Choices, name: String, ty: Type, plain: bool) -> Column {
        let shape = match choices.weighted(&[5, 2, 2, 4, if plain { 0 } else { 1 }]) {
            0 => Shape::Few(1 + choices.below(12)),
            1 => Shape::Sorted(1 + choices.below(9)),
            2 => Shape::Sparse,
            3 => Shape::Random([20, 200, 10_000, 500_000][choices.index(4)]),
            _ => Shape::Extreme,
        };
        let null_once_in = choices.one_of(&[0, 10, 3, 50, 2, 1_000_000]);
        let encoding = match choices.below(3) {
            0 | 1 => None,
            _ => {
                let known: &[&str] = match ty {
                    Type::Text => &["plain", "dictionary", "front", "prefix", "fsst"],
                    Type::Dec(19.., _) => &["plain"],
                    _ => &[
                        "plain",
                        "static",
                        "dynamic",
                        "dynamic128",
                        "for",
                        "delta",
                        "rle",
                        "fastpfor",
                        "dictionary",
                        "lz4",
                        "snappy",
                    ],
                };
                Some(choices.one_of(known))
            }
        };
        let indexable =
            !matches!(ty, Type::Dec(19.., _)) && matches!(encoding, None | Some("dictionary"));
        Column {
            name,
            ty,
            shape,
            seed: choices.below(1 << 40),
            null_once_in,
            encoding,
            inverted: indexable && choices.once_in(6),
        }
    }

    /// Whether NULL is among its values.
    pub(crate) fn is_nullable(&self) -> bool {
        self.null_once_in > 0
    }

    /// The greatest magnitude of its values in units of the last digit, in quarters for DOUBLE.
    pub(crate) fn most(&self) -> u128 {
        match (self.shape, self.ty) {
            (Shape::Extreme, _) => self.ty.most(),
            (_, Type::Date) => 300_000,
            (_, Type::Timestamp) => 300_000 * DAY.unsigned_abs(),
            _ => (500_000 * self.factor().unsigned_abs()).min(self.ty.most()),
        }
    }

    /// Whether sums of its values are independent of their order: a DOUBLE only if it has small multiples of a quarter.
    pub(crate) fn is_summable(&self) -> bool {
        self.ty != Type::Double || self.shape != Shape::Extreme
    }

    /// Whether it is one of the columns of the key, whose values never repeat together.
    fn is_key(&self) -> bool {
        matches!(self.shape, Shape::Quotient(_) | Shape::Remainder(_))
    }

    /// A step in units of the last digit.
    fn factor(&self) -> i128 {
        match self.ty {
            Type::Big if self.seed.is_multiple_of(3) => 3_000_000_007,
            Type::Dec(19.., _) => 1_000_000_000_007,
            _ => 1,
        }
    }

    /// The value of a row.
    pub(crate) fn value(&self, row: u64) -> Value {
        let mut random = Random::new(self.seed.wrapping_mul(0x9e37_79b9).wrapping_add(row));
        if self.null_once_in > 0 && random.below(self.null_once_in) == 0 {
            return Value::Null;
        }
        let step: i64 = match self.shape {
            Shape::Quotient(divisor) => (row / divisor) as i64,
            Shape::Remainder(divisor) => (row % divisor) as i64,
            Shape::Few(count) => random.below(count) as i64 - (count / 3) as i64,
            Shape::Sorted(repeats) => (row / repeats) as i64 % 500_000,
            Shape::Sparse if random.below(30) > 0 => 7,
            Shape::Sparse => random.below(40) as i64 - 20,
            Shape::Random(range) => random.below(2 * range as u64) as i64 - range,
            Shape::Extreme if random.below(12) == 0 => return self.extreme(&mut random),
            Shape::Extreme => random.below(40) as i64 - 20,
        };
        self.value_of(step)
    }

    /// Number `step` of the type's values.
    fn value_of(&self, step: i64) -> Value {
        let number = i128::from(step) * self.factor();
        match self.ty {
            Type::Bool => Value::Bool(step & 1 == 1),
            Type::Dec(..) => Value::Number(number % (self.ty.most() as i128 + 1)),
            Type::Int | Type::Big => Value::Number(number),
            Type::Double => Value::Double(step as f64 / 4.0),
            Type::Date if self.is_key() => Value::Number(number),
            Type::Date => Value::Number(10_000 + number % 30_000),
            Type::Timestamp => {
                let unit = [1, HOUR, DAY][self.seed as usize % 3];
                // Around 1970, and centuries before, not at midnight.
                let start = [0, -30_000 * DAY + 1, -200_000 * DAY - 7 * HOUR];
                let start = start[(self.seed / 3) as usize % 3];
                let number = if self.is_key() {
                    number
                } else {
                    number % 20_000
                };
                Value::Number(start + number * unit)
            }
            Type::Text => Value::Text(match self.seed % 4 {
                0 => WORDS[step.unsigned_abs() as usize % WORDS.len()].to_owned(),
                1 => format!("the same beginning {step}"),
                2 => WORDS[(step.unsigned_abs() % ASCII_WORDS) as usize].to_owned(),
                _ => format!("{step:x}"),
            }),
        }
    }

    fn extreme(&self, random: &mut Random) -> Value {
        let low = random.below(2) == 0;
        match self.ty {
            Type::Int => Value::Number(i128::from(if low { i32::MIN } else { i32::MAX })),
            Type::Big => Value::Number(i128::from(if low { i64::MIN } else { i64::MAX })),
            Type::Dec(..) => {
                let most = self.ty.most() as i128;
                Value::Number(if low { -most } else { most })
            }
            Type::Double => Value::Double(
                [
                    f64::NAN,
                    f64::INFINITY,
                    f64::NEG_INFINITY,
                    -0.0,
                    1e300,
                    -1e-300,
                ][random.below(6) as usize],
            ),
            Type::Date => Value::Number(if low { -719_162 } else { 2_932_896 }),
            Type::Timestamp => Value::Number(if low {
                -719_162 * DAY
            } else {
                2_932_896 * DAY + 1
            }),
            Type::Bool | Type::Text => self.value_of(0),
        }
    }

    /// A value that it probably has.
    pub(crate) fn likely(&self, choices: &mut Choices) -> Value {
        // The first hundred rows of a column have most of what shapes of few values have.
        match self.value(choices.below(100)) {
            Value::Null => self.value_of(0),
            value => value,
        }
    }

    fn data_type(&self) -> DataType {
        match self.ty {
            Type::Bool => DataType::Boolean,
            Type::Int => DataType::Int32,
            Type::Big => DataType::Int64,
            Type::Dec(precision, scale) => DataType::Decimal128(precision, scale as i8),
            Type::Double => DataType::Float64,
            Type::Date => DataType::Date32,
            Type::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, None),
            Type::Text => DataType::Utf8,
        }
    }

    fn array(&self, rows: &[u64]) -> ArrayRef {
        let numbers = || {
            rows.iter().map(|row| match self.value(*row) {
                Value::Number(number) => Some(number),
                _ => None,
            })
        };
        match self.ty {
            Type::Bool => {
                Arc::new(BooleanArray::from_iter(rows.iter().map(
                    |row| match self.value(*row) {
                        Value::Bool(bit) => Some(bit),
                        _ => None,
                    },
                )))
            }
            Type::Int => Arc::new(Int32Array::from_iter(
                numbers().map(|n| n.map(|n| n as i32)),
            )),
            Type::Big => Arc::new(Int64Array::from_iter(
                numbers().map(|n| n.map(|n| n as i64)),
            )),
            Type::Dec(..) => {
                Arc::new(Decimal128Array::from_iter(numbers()).with_data_type(self.data_type()))
            }
            Type::Date => Arc::new(Date32Array::from_iter(
                numbers().map(|n| n.map(|n| n as i32)),
            )),
            Type::Timestamp => Arc::new(TimestampMicrosecondArray::from_iter(
                numbers().map(|n| n.map(|n| n as i64)),
            )),
            Type::Double => {
                Arc::new(Float64Array::from_iter(rows.iter().map(
                    |row| match self.value(*row) {
                        Value::Double(x) => Some(x),
                        _ => None,
                    },
                )))
            }
            Type::Text => {
                Arc::new(StringArray::from_iter(rows.iter().map(
                    |row| match self.value(*row) {
                        Value::Text(text) => Some(text),
                        _ => None,
                    },
                )))
            }
        }
    }
}

impl Table {
    /// Two to four tables: of up to 60 rows, or the first of 200,000 to 260,000 and the others of up to 3,000.
    pub(crate) fn set(choices: &mut Choices, large: bool, sqlite: bool) -> Vec<Table> {
        let count = 2 + choices.index(3);
        (0..count)
            .map(|number| {
                let rows = match (large, number) {
                    (true, 0) => 200_001 + choices.below(60_000),
                    (true, _) => choices.below(3_000),
                    (false, _) => [8, 0, 1, 20, 60][choices.weighted(&[6, 1, 1, 6, 6])],
                };
                Table::random(choices, format!("t{number}"), rows, sqlite)
            })
            .collect()
    }

    fn random(choices: &mut Choices, name: String, rows: u64, sqlite: bool) -> Table {
        let divisor = choices.one_of(&[0, 0, 0, 2, 7, 1_000]);
        let shapes = match divisor {
            0 => vec![Shape::Quotient(1)],
            divisor => vec![Shape::Quotient(divisor), Shape::Remainder(divisor)],
        };
        let key = shapes.len();
        let mut columns = Vec::new();
        for (shape, name) in shapes.into_iter().zip(["id", "id2"]) {
            let types = [
                Type::Big,
                Type::Int,
                Type::Timestamp,
                Type::Text,
                Type::Date,
            ];
            let ty = types[choices.weighted(&[4, 2, 3, 2, 2])];
            let mut column = Column::random(choices, name.to_owned(), ty, true);
            column.shape = shape;
            column.null_once_in = 0;
            if ty == Type::Text {
                column.seed = column.seed / 4 * 4 + 3;
            }
            columns.push(column);
        }
        for number in 0..2 + choices.index(5) {
            let ty = match choices.weighted(&[4, 3, 2, 3, 3, 2, 2, 4]) {
                0 => Type::Int,
                1 => Type::Big,
                2 => Type::Bool,
                // A DECIMAL has to fit into 64 bits of SQLite's.
                3 if sqlite => Type::Dec(choices.one_of(&[5, 9, 12]), 2),
                3 => choices.one_of(&[
                    Type::Dec(8, 2),
                    Type::Dec(5, 0),
                    Type::Dec(18, 4),
                    Type::Dec(30, 6),
                    Type::Dec(38, 3),
                ]),
                4 => Type::Double,
                5 => Type::Date,
                6 => Type::Timestamp,
                _ => Type::Text,
            };
            columns.push(Column::random(choices, format!("c{number}"), ty, sqlite));
        }
        let mut parts = vec![(0..rows).collect::<Vec<u64>>()];
        for _ in 0..choices.below(3) {
            let last = parts.last_mut().expect("there is one");
            let rest = last.split_off(choices.index(last.len() + 1));
            parts.push(rest);
        }
        let sealed = parts.iter().map(|_| choices.below(2) == 1).collect();
        Table {
            name,
            columns,
            key,
            keyed: choices.below(2) == 1,
            parts,
            sealed,
        }
    }

    /// Its rows.
    pub(crate) fn rows(&self) -> usize {
        self.parts.iter().map(Vec::len).sum()
    }

    /// Removes rows from that one on; empty parts stay.
    pub(crate) fn take_away(&mut self, from: usize, count: usize) {
        let mut number = 0;
        for part in &mut self.parts {
            part.retain(|_| {
                number += 1;
                !(from..from + count).contains(&(number - 1))
            });
        }
    }

    /// The statement that creates it.
    pub fn create(&self, dialect: Dialect) -> String {
        let columns = self.columns.iter().enumerate().map(|(number, column)| {
            let null = match (
                column.is_nullable(),
                self.keyed && self.key == 1 && number == 0,
            ) {
                (_, true) => " PRIMARY KEY",
                (false, _) => " NOT NULL",
                _ => "",
            };
            format!("{} {}{null}", column.name, column.ty.name(dialect))
        });
        let mut columns = columns.collect::<Vec<_>>();
        if self.keyed && self.key > 1 {
            let names = self.columns[..self.key].iter();
            let names: Vec<&str> = names.map(|column| column.name.as_str()).collect();
            columns.push(format!("PRIMARY KEY ({})", names.join(", ")));
        }
        let columns = columns.join(", ");
        let mut options = Vec::new();
        for column in &self.columns {
            if let Some(encoding) = column.encoding {
                options.push(format!("'{}.encoding' = '{encoding}'", column.name));
            }
            if column.inverted {
                options.push(format!("'{}.index' = 'inverted'", column.name));
            }
        }
        let with = match dialect {
            Dialect::Tierra if !options.is_empty() => format!(" WITH ({})", options.join(", ")),
            _ => String::new(),
        };
        format!("CREATE TABLE {} ({columns}){with}", self.name)
    }

    /// The statements that fill it, for a report, or for an engine that does not read files.
    pub fn inserts(&self, dialect: Dialect) -> Vec<String> {
        let row = |row: &u64| {
            let values = self
                .columns
                .iter()
                .map(|column| column.value(*row).literal(column.ty, dialect));
            format!("({})", values.collect::<Vec<_>>().join(", "))
        };
        let chunks = self.parts.iter().flat_map(|part| part.chunks(500));
        chunks
            .map(|rows| {
                let rows: Vec<String> = rows.iter().map(row).collect();
                format!("INSERT INTO {} VALUES\n  {}", self.name, rows.join(",\n  "))
            })
            .collect()
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn schema(&self) -> SchemaRef {
        let fields = self
            .columns
            .iter()
            .map(|column| Field::new(&column.name, column.data_type(), column.is_nullable()));
        Arc::new(Schema::new(fields.collect::<Vec<_>>()))
    }

    /// One part as a batch.
    pub(crate) fn batch(&self, part: &[u64]) -> RecordBatch {
        let columns = self
            .columns
            .iter()
            .map(|column| column.array(part))
            .collect();
        RecordBatch::try_new(self.schema(), columns).expect("columns of one length, as declared")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_does_not_depend_on_the_others() {
        let mut table = Table::set(&mut Choices::seeded(3), false, false).remove(0);
        table.parts = vec![(0..20).collect()];
        let whole = table.batch(&table.parts[0]);
        assert_eq!(table.batch(&[5, 6]), whole.slice(5, 2));
    }

    #[test]
    fn keys_have_one_column_or_two_and_times_lie_before_1970_too() {
        let mut seen = std::collections::BTreeSet::new();
        for seed in 0..200 {
            for table in Table::set(&mut Choices::seeded(seed), false, false) {
                seen.insert((table.keyed, table.key, format!("{:?}", table.columns[0].ty)));
                let times = table
                    .columns
                    .iter()
                    .filter(|column| column.ty == Type::Timestamp);
                for time in times {
                    if let Value::Number(micros) = time.value(1) {
                        seen.insert((micros < 0, 0, "TIMESTAMP".to_owned()));
                    }
                }
            }
        }
        let has = |keyed, key, ty: &str| seen.contains(&(keyed, key, ty.to_owned()));
        for ty in ["Int", "Big", "Text", "Date", "Timestamp"] {
            assert!(
                has(true, 1, ty) && has(true, 2, ty) && has(false, 2, ty),
                "{seen:?}"
            );
        }
        assert!(has(true, 0, "TIMESTAMP") && has(false, 0, "TIMESTAMP"));
    }

    #[test]
    fn keys_never_repeat() {
        for seed in 0..20 {
            for table in Table::set(&mut Choices::seeded(seed), false, seed % 2 == 0) {
                let mut keys: Vec<String> = (0..1_000)
                    .map(|row| {
                        let key = table.columns[..table.key].iter();
                        format!(
                            "{:?}",
                            key.map(|column| column.value(row)).collect::<Vec<_>>()
                        )
                    })
                    .collect();
                keys.sort();
                keys.dedup();
                assert_eq!(keys.len(), 1_000);
            }
        }
    }
}
