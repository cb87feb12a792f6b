//! Normalized keys: a key's ordinal if it has one, otherwise a hash.
//!
//! Invariant: equal keys have equal normalized keys.

use std::hash::Hasher;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{Decimal128Type, Float64Type, Int32Type, Int64Type};
use tierra_column::{Cell, LogicalType, Physical, ordinal};

use crate::cells::cell_of;

/// The normalized keys of a column's values. Those of NULLs are meaningless.
pub(super) fn normalize_column(ty: LogicalType, values: &ArrayRef) -> Vec<u64> {
    match ty {
        LogicalType::Integer => values
            .as_primitive::<Int32Type>()
            .values()
            .iter()
            .map(|v| ordinal::of_i32(*v))
            .collect(),
        LogicalType::BigInt => values
            .as_primitive::<Int64Type>()
            .values()
            .iter()
            .map(|v| ordinal::of_i64(*v))
            .collect(),
        LogicalType::Double => values
            .as_primitive::<Float64Type>()
            .values()
            .iter()
            .map(|v| ordinal::of_f64(*v))
            .collect(),
        LogicalType::Decimal { .. } if ty.physical() == Physical::Wide => {
            let values = values.as_primitive::<Decimal128Type>().values().iter();
            values
                .map(|value| mix(*value as u64, (*value >> 64) as u64))
                .collect()
        }
        LogicalType::Varchar => {
            let hash = |text: &str| {
                let mut hasher = std::hash::DefaultHasher::new();
                hasher.write(text.as_bytes());
                hasher.finish()
            };
            values
                .as_string_view()
                .iter()
                .map(|text| hash(text.unwrap_or_default()))
                .collect()
        }
        LogicalType::Boolean
        | LogicalType::Date
        | LogicalType::Timestamp
        | LogicalType::Decimal { .. } => {
            let normalized_key = |row| match cell_of(ty, values, row) {
                Cell::Ordinal(ordinal) => ordinal,
                _ => 0,
            };
            (0..values.len()).map(normalized_key).collect()
        }
    }
}

/// Combines two normalized keys: multiply and fold, as the index itself spreads keys.
pub(super) fn mix(first: u64, second: u64) -> u64 {
    let product =
        u128::from(first ^ 0x9e37_79b9_7f4a_7c15) * u128::from(second ^ 0xd6e8_feb8_6659_fd93);
    (product as u64) ^ (product >> 64) as u64 ^ first.rotate_left(32)
}
