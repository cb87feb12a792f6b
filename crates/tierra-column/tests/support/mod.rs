//! Columns that are hard on encodings, made from a seed, and chunks made from them.
#![allow(dead_code, unreachable_pub)] // Each test binary uses its own part.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BooleanArray, Date32Array, Decimal128Array, Float64Array, Int32Array,
    Int64Array, StringViewArray, TimestampMicrosecondArray,
};
use arrow::compute::concat;
use tierra_column::bits::{BLOCK_LEN, Mask};
use tierra_column::{
    Chunk, ChunkPlan, ColumnReader, Dictionary, DictionaryBuilder, Encoding, LogicalType, Scratch,
};

/// SplitMix64: every test prints the seed it started from.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

pub const TYPES: [LogicalType; 10] = [
    LogicalType::Boolean,
    LogicalType::Integer,
    LogicalType::BigInt,
    LogicalType::Decimal {
        precision: 9,
        scale: 2,
    },
    LogicalType::Decimal {
        precision: 18,
        scale: 0,
    },
    LogicalType::Decimal {
        precision: 38,
        scale: 10,
    },
    LogicalType::Double,
    LogicalType::Date,
    LogicalType::Timestamp,
    LogicalType::Varchar,
];

/// Row counts around every boundary: none, one, mini-block, block.
pub const ROWS: [usize; 12] = [
    0,
    1,
    2,
    63,
    64,
    65,
    127,
    129,
    1023,
    1024,
    1025,
    3 * 1024 + 65,
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    Constant,
    Extremes,
    Outliers,
    Sorted,
    Descending,
    Alternating,
    Few,
    Random,
    /// Blocks of their own range each.
    Steps,
}

pub const SHAPES: [Shape; 9] = [
    Shape::Constant,
    Shape::Extremes,
    Shape::Outliers,
    Shape::Sorted,
    Shape::Descending,
    Shape::Alternating,
    Shape::Few,
    Shape::Random,
    Shape::Steps,
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nulls {
    No,
    Some,
    Most,
    All,
    /// Whole blocks, and the first rows.
    Blocks,
}

pub const NULLS: [Nulls; 5] = [
    Nulls::No,
    Nulls::Some,
    Nulls::Most,
    Nulls::All,
    Nulls::Blocks,
];

fn number(shape: Shape, row: usize, random: &mut Random, state: &mut i64) -> i64 {
    match shape {
        Shape::Constant => 42,
        Shape::Extremes => match random.below(6) {
            0 => i64::MIN,
            1 => i64::MAX,
            2 => i64::MIN + 1,
            3 => i64::MAX - 1,
            4 => 0,
            _ => -1,
        },
        Shape::Outliers if random.below(1000) == 0 => random.next() as i64 >> random.below(60),
        Shape::Outliers => random.below(256) as i64 - 128,
        Shape::Sorted => {
            *state += random.below(10) as i64;
            *state
        }
        Shape::Descending => {
            *state -= random.below(3) as i64;
            *state
        }
        Shape::Alternating => [-7, 1_000_000][row % 2],
        Shape::Few => [3, 1 << 40, -(1 << 50), 17, 99][random.below(5) as usize],
        Shape::Random => random.next() as i64,
        Shape::Steps => (row / BLOCK_LEN) as i64 * 100_000 - 150_000 + random.below(50) as i64,
    }
}

fn double(shape: Shape, number: i64, random: &mut Random) -> f64 {
    match shape {
        Shape::Extremes => match random.below(9) {
            0 => f64::NAN,
            1 => -f64::NAN,
            2 => f64::INFINITY,
            3 => f64::NEG_INFINITY,
            4 => 0.0,
            5 => -0.0,
            6 => f64::MIN,
            7 => f64::MAX,
            _ => f64::MIN_POSITIVE / 2.0,
        },
        Shape::Random => f64::from_bits(number as u64),
        _ => number as f64 / 8.0,
    }
}

fn string(shape: Shape, number: i64, random: &mut Random) -> String {
    match shape {
        Shape::Constant => "always the same string".to_owned(),
        Shape::Extremes => match random.below(8) {
            0 => String::new(),
            1 => "\0".to_owned(),
            2 => "a\0b".to_owned(),
            3 => "ünïcödé 東京 🦀".to_owned(),
            4 => "x".repeat(random.below(5000) as usize),
            5 => "twelve bytes".to_owned(),
            6 => "thirteen byte".to_owned(),
            _ => "\u{10ffff}".repeat(4),
        },
        Shape::Few => ["AIR", "TRUCK", "REG AIR", "delivered in person", "日本"]
            [random.below(5) as usize]
            .to_owned(),
        Shape::Alternating => ["a", "zz"][number.unsigned_abs() as usize % 2].to_owned(),
        _ => format!("Customer#{number:09}"),
    }
}

/// A column of `rows` rows.
pub fn column(ty: LogicalType, shape: Shape, nulls: Nulls, rows: usize, seed: u64) -> ArrayRef {
    let random = &mut Random(seed);
    let mut state = 0;
    let valid: Vec<bool> = (0..rows)
        .map(|row| match nulls {
            Nulls::No => true,
            Nulls::Some => random.below(5) > 0,
            Nulls::Most => random.below(50) == 0,
            Nulls::All => false,
            Nulls::Blocks => row > 10 && row / BLOCK_LEN != 1,
        })
        .collect();
    let numbers: Vec<i64> = (0..rows)
        .map(|row| number(shape, row, random, &mut state))
        .collect();
    fn keep<T>(valid: &[bool], values: impl Iterator<Item = T>) -> impl Iterator<Item = Option<T>> {
        values
            .zip(valid)
            .map(|(value, &valid)| valid.then_some(value))
    }
    let narrow = |n: i64| {
        if shape == Shape::Extremes {
            (n >> 32) as i32 | (n & 1) as i32
        } else {
            n as i32
        }
    };
    match ty {
        LogicalType::Boolean => {
            Arc::new(keep(&valid, numbers.iter().map(|n| n & 1 == 1)).collect::<BooleanArray>())
        }
        LogicalType::Integer => {
            Arc::new(keep(&valid, numbers.iter().map(|&n| narrow(n))).collect::<Int32Array>())
        }
        LogicalType::Date => {
            Arc::new(keep(&valid, numbers.iter().map(|&n| narrow(n))).collect::<Date32Array>())
        }
        LogicalType::BigInt => {
            Arc::new(keep(&valid, numbers.iter().copied()).collect::<Int64Array>())
        }
        LogicalType::Timestamp => {
            Arc::new(keep(&valid, numbers.iter().copied()).collect::<TimestampMicrosecondArray>())
        }
        LogicalType::Double => {
            let doubles: Vec<f64> = numbers.iter().map(|&n| double(shape, n, random)).collect();
            Arc::new(keep(&valid, doubles.into_iter()).collect::<Float64Array>())
        }
        LogicalType::Decimal { precision, scale } => {
            let limit = 10_i128.pow(precision.into());
            let wide = |n: i64| match (shape, precision) {
                (Shape::Extremes, _) if n == i64::MAX => limit - 1,
                (Shape::Extremes, _) if n == i64::MIN => 1 - limit,
                (Shape::Random, 19..) => i128::from(n) * i128::from(n >> 20),
                _ => i128::from(n) % limit,
            };
            Arc::new(
                keep(&valid, numbers.iter().map(|&n| wide(n)))
                    .collect::<Decimal128Array>()
                    .with_precision_and_scale(precision, scale as i8)
                    .unwrap(),
            )
        }
        LogicalType::Varchar => {
            let strings: Vec<String> = numbers.iter().map(|&n| string(shape, n, random)).collect();
            Arc::new(keep(&valid, strings.into_iter()).collect::<StringViewArray>())
        }
    }
}

/// The column cut into arrays at odd places, with an empty one among them.
pub fn pieces(column: &ArrayRef) -> Vec<ArrayRef> {
    let third = column.len() / 3;
    vec![
        column.slice(0, third),
        column.slice(third, 0),
        column.slice(third, column.len() - third),
    ]
}

/// A chunk's bytes with its dictionary.
pub struct Encoded {
    pub bytes: Vec<u8>,
    pub encoding: Encoding,
    pub dictionary: Option<Dictionary>,
}

pub fn encode(ty: LogicalType, column: &ArrayRef, encoding: Option<Encoding>) -> Encoded {
    let mut builder = (encoding.is_none_or(|encoding| encoding == Encoding::Dictionary)
        && !matches!(
            ty,
            LogicalType::Decimal {
                precision: 19..,
                ..
            }
        ))
    .then(|| DictionaryBuilder::new(ty, 7));
    let plan = ChunkPlan::new(ty, &pieces(column), encoding, builder.as_mut()).unwrap();
    assert_eq!(plan.rows(), column.len());
    // Written over anything.
    let mut bytes = vec![0xa5; plan.len_bytes()];
    plan.write(&mut bytes);
    Encoded {
        bytes,
        encoding: plan.encoding(),
        dictionary: builder.map(DictionaryBuilder::finish),
    }
}

/// The rows of all blocks that `select` leaves.
pub fn read(
    chunk: &Chunk<'_>,
    dictionary: Option<&Dictionary>,
    mut select: impl FnMut(usize) -> Mask,
) -> ArrayRef {
    let mut scratch = Scratch::new();
    let mut reader = ColumnReader::new(chunk.logical_type(), 100);
    for block in 0..chunk.blocks() {
        reader
            .append(chunk, block, &select(block), dictionary, &mut scratch)
            .unwrap();
    }
    reader.finish()
}

/// Concatenation that works for no arrays.
pub fn concatenated(ty: LogicalType, arrays: &[ArrayRef]) -> ArrayRef {
    let arrays: Vec<&dyn Array> = arrays.iter().map(|array| &**array).collect();
    if arrays.is_empty() {
        return arrow::array::new_empty_array(&ty.arrow());
    }
    concat(&arrays).unwrap()
}
