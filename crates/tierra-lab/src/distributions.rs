//! Twelve named distributions of values, on which encodings are compared, and columns drawn at random.
//!
//! They cover the cases for which encodings exist, and those in which a wrong choice is expensive: narrow and wide, with and
//! without outliers, sorted, offset, skewed, in runs, mostly NULL, few and many texts. The second and third are those of the
//! replication thesis's read micro-benchmarks.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, Decimal128Array, Int32Array, Int64Array, StringViewArray, TimestampMicrosecondArray,
};
use tierra_column::LogicalType;

use crate::random::Random;

/// A named distribution of one type's values.
#[derive(Clone, Copy, Debug)]
pub struct Distribution {
    /// Its name in results.
    pub name: &'static str,
    /// The type of its values.
    pub ty: LogicalType,
    /// Makes that many values.
    pub values: fn(usize, &mut Random) -> ArrayRef,
}

/// Digits of the prices.
const PRICE: (u8, u8) = (15, 2);
/// When the first event happened: in 2023.
const START_US: i64 = 1_700_000_000_000_000;

/// All twelve.
pub const ALL: [Distribution; 12] = [
    Distribution {
        name: "8-bit",
        ty: LogicalType::Integer,
        values: |n, random| integers(n, || random.below(1 << 8)),
    },
    Distribution {
        name: "32-bit",
        ty: LogicalType::BigInt,
        values: |n, random| bigints(n, || random.below(1 << 32) as i64),
    },
    Distribution {
        name: "8-bit, 0.1 % 32-bit",
        ty: LogicalType::BigInt,
        values: |n, random| {
            bigints(n, || {
                let bits = if random.below(1_000) == 0 { 32 } else { 8 };
                random.below(1 << bits) as i64
            })
        },
    },
    Distribution {
        name: "row numbers",
        ty: LogicalType::BigInt,
        values: |n, _| Arc::new(Int64Array::from_iter_values(0..n as i64)),
    },
    Distribution {
        name: "event times",
        ty: LogicalType::Timestamp,
        values: event_times,
    },
    Distribution {
        name: "10-bit on a base",
        ty: LogicalType::BigInt,
        values: |n, random| bigints(n, || 1_000_000_000_000 + random.below(1 << 10) as i64),
    },
    Distribution {
        name: "prices",
        ty: LogicalType::Decimal {
            precision: PRICE.0,
            scale: PRICE.1,
        },
        values: prices,
    },
    Distribution {
        name: "100 wide values",
        ty: LogicalType::BigInt,
        values: few_wide,
    },
    Distribution {
        name: "runs",
        ty: LogicalType::Integer,
        values: runs,
    },
    Distribution {
        name: "90 % NULL",
        ty: LogicalType::Integer,
        values: |n, random| {
            let value = |_| (random.below(10) == 0).then(|| random.below(1 << 16) as i32);
            Arc::new((0..n).map(value).collect::<Int32Array>())
        },
    },
    Distribution {
        name: "250 cities",
        ty: LogicalType::Varchar,
        values: |n, random| {
            let city = |_| format!("CITY OF {:03}", random.below(250));
            Arc::new(StringViewArray::from_iter_values((0..n).map(city)))
        },
    },
    Distribution {
        name: "unique texts",
        ty: LogicalType::Varchar,
        values: |n, random| {
            let text = |row| {
                format!(
                    "order {row} is {:0>1$x}",
                    random.bits() >> 32,
                    4 + random.below(30) as usize
                )
            };
            Arc::new(StringViewArray::from_iter_values((0..n).map(text)))
        },
    },
];

/// A random column of BIGINT: how wide its values are, how many differ, whether they grow, lie in runs, or are NULL,
/// and where in the column that changes, is all drawn.
pub fn drawn(n: usize, random: &mut Random) -> ArrayRef {
    let changes_at = match random.below(3) {
        0 => random.below(n.max(1) as u64) as usize,
        _ => n,
    };
    let (first, second) = (Drawn::new(random), Drawn::new(random));
    let mut values = first.values(changes_at, random);
    values.extend(second.values(n - changes_at, random));
    Arc::new(Int64Array::from(values))
}

/// How a part of a drawn column is made.
struct Drawn {
    base: i64,
    bits: u64,
    /// One value in so many is wide.
    outliers: Option<u64>,
    /// The values that there are, if they are few.
    few: Option<Vec<i64>>,
    /// One value in so many differs from the one before.
    run: u64,
    /// One value in so many is NULL.
    nulls: Option<u64>,
    grows: bool,
}

impl Drawn {
    fn new(random: &mut Random) -> Drawn {
        let one_in = |random: &mut Random, most_bits: u64| 1 << random.below(most_bits);
        let bits = 1 + random.below(40);
        let has = |random: &mut Random| random.below(3) == 0;
        Drawn {
            base: if has(random) {
                random.below(1 << 50) as i64
            } else {
                0
            },
            bits,
            outliers: has(random).then(|| 4 * one_in(random, 12)),
            few: has(random).then(|| {
                let most = one_in(random, 17);
                let values = 1 + random.below(most);
                (0..values)
                    .map(|_| random.below(1 << bits) as i64)
                    .collect()
            }),
            run: if has(random) { one_in(random, 12) } else { 1 },
            nulls: has(random).then(|| 1 + one_in(random, 8)),
            grows: has(random),
        }
    }

    fn values(&self, n: usize, random: &mut Random) -> Vec<Option<i64>> {
        let (mut last, mut sum) = (0, 0_i64);
        let value = |_| {
            if random.below(self.run) == 0 {
                last = match (&self.few, self.outliers) {
                    (_, Some(one_in)) if random.below(one_in) == 0 => random.below(1 << 50) as i64,
                    (Some(few), _) => few[random.below(few.len() as u64) as usize],
                    (None, _) => random.below(1 << self.bits) as i64,
                };
            }
            // As steps, values are short, so that their sum stays far from the end of the type.
            sum = sum.wrapping_add(last & 0xff_ffff);
            let value = self.base.wrapping_add(if self.grows { sum } else { last });
            let is_null = self.nulls.is_some_and(|one_in| random.below(one_in) == 0);
            (!is_null).then_some(value)
        };
        (0..n).map(value).collect()
    }
}

fn integers(n: usize, mut value: impl FnMut() -> u64) -> ArrayRef {
    Arc::new(Int32Array::from_iter_values((0..n).map(|_| value() as i32)))
}

fn bigints(n: usize, mut value: impl FnMut() -> i64) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values((0..n).map(|_| value())))
}

/// A millisecond between events on average, never backwards.
fn event_times(n: usize, random: &mut Random) -> ArrayRef {
    let mut now_us = START_US;
    Arc::new(TimestampMicrosecondArray::from_iter_values((0..n).map(
        |_| {
            now_us += random.below(2_000) as i64;
            now_us
        },
    )))
}

/// Log-normal around 100.00: many small values and a long tail.
fn prices(n: usize, random: &mut Random) -> ArrayRef {
    let cents = (0..n).map(|_| {
        // The sum of twelve uniform numbers is close enough to a normal one for a price.
        let normal: f64 = (0..12).map(|_| random.fraction()).sum::<f64>() - 6.0;
        (10_000.0 * (0.8 * normal).exp()) as i128
    });
    let cents =
        Decimal128Array::from_iter_values(cents).with_precision_and_scale(PRICE.0, PRICE.1 as i8);
    Arc::new(cents.expect("prices stay far below 10^13"))
}

fn few_wide(n: usize, random: &mut Random) -> ArrayRef {
    let wide: Vec<i64> = (0..100).map(|_| (random.bits() >> 1) as i64).collect();
    bigints(n, || wide[random.below(100) as usize])
}

/// Runs of 100 equal values on average, each one above or below the last.
fn runs(n: usize, random: &mut Random) -> ArrayRef {
    let mut value = 1_000;
    integers(n, || {
        if random.below(100) == 0 {
            value = (value + random.below(9)).saturating_sub(4);
        }
        value
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::Array;

    #[test]
    fn twelve_names_of_their_declared_types_always_the_same() {
        for (place, one) in ALL.iter().enumerate() {
            assert!(ALL[..place].iter().all(|other| other.name != one.name));
            let values = (one.values)(3_000, &mut Random::new(7));
            assert_eq!(
                (values.len(), values.data_type()),
                (3_000, &one.ty.arrow()),
                "{}",
                one.name
            );
            assert_eq!(
                &values,
                &(one.values)(3_000, &mut Random::new(7)),
                "{}",
                one.name
            );
            assert_eq!(
                values.null_count() > 0,
                one.name == "90 % NULL",
                "{}",
                one.name
            );
        }
    }
}
