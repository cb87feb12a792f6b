//! The columns of a join key as one 64-bit number per row.
//!
//! If the values of all columns fit 64 bits together, the number is the key. Otherwise it is a hash, and rows with
//! equal hashes are [compared](JoinKeys::keep_equal).

use arrow::array::{Array, ArrayData, ArrayRef, BooleanArray, UInt32Array};
use arrow::buffer::NullBuffer;
use arrow::compute::kernels::boolean::and;
use arrow::compute::kernels::cmp::eq;
use arrow::compute::take;
use arrow::datatypes::{ArrowNativeType, DataType};
use datafusion::common::hash_utils::{RandomState, create_hashes};
use datafusion::error::Result;

use super::pairs::Pairs;

/// The hash of keys that do not fit; the table spreads its keys by its own hash.
const HASHES: RandomState = RandomState::with_seed(0x5eed);

/// How a join key becomes a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum JoinKeys {
    /// Equal numbers mean equal keys.
    Exact,
    /// Equal numbers may belong to different keys.
    Hashed,
}

impl JoinKeys {
    /// How keys of these types become numbers; `None` if a type is not supported.
    pub(super) fn of(types: &[DataType]) -> Option<Self> {
        if !types.iter().all(|ty| bits(ty).is_some() || is_hashed(ty)) {
            return None;
        }
        let bits: Option<u32> = types.iter().map(bits).sum();
        Some(match bits {
            Some(bits) if bits <= u64::BITS => JoinKeys::Exact,
            _ => JoinKeys::Hashed,
        })
    }

    /// The column itself, if its bits are the numbers.
    pub(super) fn column_of_numbers(self, columns: &[ArrayRef]) -> Option<ArrayData> {
        match columns {
            [column] if bits(column.data_type()) == Some(u64::BITS) => Some(column.to_data()),
            _ => None,
        }
    }

    /// Writes the number of each row. The number of a row with a NULL is meaningless.
    pub(super) fn numbers(self, columns: &[ArrayRef], out: &mut [u64]) -> Result<()> {
        match self {
            JoinKeys::Exact => {
                out.fill(0);
                let mut shift = 0;
                for column in columns {
                    let bits = bits(column.data_type()).unwrap_or_default();
                    let data = column.to_data();
                    match bits {
                        8 => pack::<u8>(&data, shift, out),
                        16 => pack::<u16>(&data, shift, out),
                        32 => pack::<u32>(&data, shift, out),
                        _ => pack::<u64>(&data, shift, out),
                    }
                    shift += bits;
                }
            }
            JoinKeys::Hashed => {
                create_hashes(columns, &HASHES, out)?;
            }
        }
        Ok(())
    }

    /// Drops the pairs with different keys.
    pub(super) fn keep_equal(
        self,
        pairs: &mut Pairs,
        build: &[ArrayRef],
        probe: &[ArrayRef],
    ) -> Result<()> {
        if self == JoinKeys::Exact || pairs.is_empty() {
            return Ok(());
        }
        let (build_rows, probe_rows) = pairs.indices();
        let mut equal: Option<BooleanArray> = None;
        for (build, probe) in build.iter().zip(probe) {
            let column = equal_at(build, &build_rows, probe, &probe_rows)?;
            equal = Some(match equal {
                Some(others) => and(&others, &column)?,
                None => column,
            });
        }
        if let Some(equal) = equal {
            pairs.keep(&equal);
        }
        Ok(())
    }
}

fn equal_at(
    build: &ArrayRef,
    build_rows: &UInt32Array,
    probe: &ArrayRef,
    probe_rows: &UInt32Array,
) -> Result<BooleanArray> {
    let build = take(build, build_rows, None)?;
    let probe = take(probe, probe_rows, None)?;
    Ok(eq(&build, &probe)?)
}

/// The rows that have a key; `None` if all rows have one. NULL equals nothing.
pub(super) fn rows_with_key(columns: &[ArrayRef]) -> Option<NullBuffer> {
    columns
        .iter()
        .fold(None, |nulls, column| {
            NullBuffer::union(nulls.as_ref(), column.logical_nulls().as_ref())
        })
        .filter(|nulls| nulls.null_count() > 0)
}

/// Puts the values of a column into bits `shift..` of the numbers.
fn pack<T: ArrowNativeType + Into<u64>>(data: &ArrayData, shift: u32, out: &mut [u64]) {
    for (number, value) in out.iter_mut().zip(data.buffer::<T>(0)) {
        *number |= (*value).into() << shift;
    }
}

/// The number of bits of a type whose values are equal exactly if their bits are.
fn bits(ty: &DataType) -> Option<u32> {
    use DataType::*;
    match ty {
        Int8 | UInt8 => Some(8),
        Int16 | UInt16 => Some(16),
        Int32 | UInt32 | Date32 | Time32(_) | Decimal32(..) => Some(32),
        Int64 | UInt64 | Date64 | Time64(_) | Timestamp(..) | Duration(_) | Decimal64(..) => {
            Some(64)
        }
        _ => None,
    }
}

/// The types without [`bits`] whose equal values have equal hashes. Floats are excluded: their equal values may have
/// different bits.
fn is_hashed(ty: &DataType) -> bool {
    use DataType::*;
    matches!(
        ty,
        Boolean
            | Decimal128(..)
            | Decimal256(..)
            | Utf8
            | LargeUtf8
            | Utf8View
            | Binary
            | LargeBinary
            | BinaryView
            | FixedSizeBinary(_)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    use arrow::array::{Date32Array, Int32Array, Int64Array, StringViewArray};

    #[test]
    fn keys_that_fit_64_bits_are_numbers_themselves() {
        use DataType::*;
        for (types, keys) in [
            (vec![Int64], Some(JoinKeys::Exact)),
            (vec![Int32, Date32], Some(JoinKeys::Exact)),
            (vec![Int32, Date32, Int8], Some(JoinKeys::Hashed)),
            (vec![Int32, Utf8View], Some(JoinKeys::Hashed)),
            (vec![Decimal128(12, 2)], Some(JoinKeys::Hashed)),
            (vec![Float64], None),
            (vec![Int32, Float32], None),
        ] {
            assert_eq!(JoinKeys::of(&types), keys, "{types:?}");
        }
    }

    #[test]
    fn slices_and_negative_values_keep_their_bits() {
        let wide: ArrayRef = Arc::new(Int64Array::from(vec![9, -1, i64::MIN]).slice(1, 2));
        let mut numbers = [7; 2];
        JoinKeys::Exact.numbers(&[wide], &mut numbers).unwrap();
        assert_eq!(numbers, [u64::MAX, 1 << 63]);

        let first: ArrayRef = Arc::new(Int32Array::from(vec![-1, 2]));
        let second: ArrayRef = Arc::new(Date32Array::from(vec![1, -2]));
        JoinKeys::Exact
            .numbers(&[first, second], &mut numbers)
            .unwrap();
        assert_eq!(numbers, [0x1_ffff_ffff, 0xffff_fffe_0000_0002]);
    }

    #[test]
    fn pairs_brought_together_by_a_hash_are_compared() {
        let build: ArrayRef = Arc::new(StringViewArray::from(vec!["a", "b", "b"]));
        let probe: ArrayRef = Arc::new(StringViewArray::from(vec!["b", "a"]));
        let mut pairs = Pairs::of(&[0, 1, 2, 0, 1], &[0, 0, 0, 1, 1]);
        JoinKeys::Hashed
            .keep_equal(&mut pairs, &[build], &[probe])
            .unwrap();
        assert_eq!(pairs.build(), [1, 2, 0]);
        assert_eq!(pairs.probe(), [0, 0, 1]);
    }

    #[test]
    fn a_row_has_a_key_only_if_all_of_its_columns_have_a_value() {
        let first: ArrayRef = Arc::new(Int32Array::from(vec![Some(1), None, Some(3)]));
        let second: ArrayRef = Arc::new(Int32Array::from(vec![Some(1), Some(2), None]));
        let third: ArrayRef = Arc::new(Int32Array::from(vec![1, 2, 3]));
        assert_eq!(rows_with_key(std::slice::from_ref(&third)), None);
        let nulls = rows_with_key(&[first, third, second]).unwrap();
        assert_eq!(nulls.iter().collect::<Vec<_>>(), [true, false, false]);
    }
}
