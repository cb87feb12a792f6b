//! Logical checksums: of the values of a block, whatever its encoding. By them a replica is compared with one in another encoding,
//! and what was decoded is checked before anything is made of it.
//!
//! ```text
//! CRC32C of   rows u32 │ validity, 128 bytes │ value │ value │ ..      bit i is 1 if row i has a value
//!
//! value       ordinal u64 │ wide DECIMAL, 16 bytes │ string: bytes u32, its bytes       none for NULL
//! ```
//!
//! They are stored where a chunk has replicas in other encodings ([`ChunkPlan::with_checksums`](crate::ChunkPlan::with_checksums)): computing them takes about
//! as long as packing the values.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{Decimal128Type, ToByteSlice};
use crc32c::{crc32c, crc32c_append};

use crate::bits::BLOCK_LEN;
use crate::block::OrdinalBlock;
use crate::encoding::EncodeError;
use crate::encoding::source::{Arrays, Source};
use crate::encoding::validity::{self, BITMAP_BYTES};
use crate::logical_type::{LogicalType, Physical};

/// Bytes of a stored checksum.
pub(crate) const CHECKSUM_BYTES: usize = 4;

/// The logical checksum of each block of a chunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValueChecksums(Box<[u32]>);

impl ValueChecksums {
    /// Those of a chunk of `values`, consecutive arrays of `ty`'s arrow type.
    ///
    /// # Errors
    /// [`EncodeError`]: arrays that no chunk can be made of.
    pub fn new(ty: LogicalType, values: &[ArrayRef]) -> Result<ValueChecksums, EncodeError> {
        let source = Source::Arrays(Arrays::new(ty, values)?);
        let mut block = OrdinalBlock::new();
        let blocks = 0..source.rows().div_ceil(BLOCK_LEN);
        Ok(ValueChecksums(
            blocks.map(|at| of_block(&source, at, &mut block)).collect(),
        ))
    }

    /// As they are stored.
    pub(crate) fn of_stored(stored: &[u8]) -> ValueChecksums {
        let (stored, _) = stored.as_chunks::<CHECKSUM_BYTES>();
        ValueChecksums(stored.iter().map(|it| u32::from_le_bytes(*it)).collect())
    }

    pub(crate) fn write(&self, out: &mut [u8]) {
        for (out, checksum) in out.chunks_exact_mut(CHECKSUM_BYTES).zip(&self.0) {
            out.copy_from_slice(&checksum.to_le_bytes());
        }
    }

    /// How many there are.
    pub fn blocks(&self) -> usize {
        self.0.len()
    }

    /// Whether an array holds the values of a block.
    ///
    /// # Panics
    /// If there is no such block.
    pub fn matches(&self, block: usize, ty: LogicalType, values: &ArrayRef) -> bool {
        let of_values = ValueChecksums::new(ty, std::slice::from_ref(values));
        of_values.is_ok_and(|of_values| *of_values.0 == [self.0[block]])
    }
}

fn of_block(source: &Source, at: usize, block: &mut OrdinalBlock) -> u32 {
    let arrays = source.arrays();
    let physical = arrays.ty.physical();
    match physical {
        Physical::Ordinal => source.fill(at, block),
        Physical::Wide | Physical::Bytes => arrays.nulls(at, block),
    }
    let mut bitmap = [0; BITMAP_BYTES];
    validity::write(block, &mut bitmap);
    let mut crc = crc32c_append(crc32c(&(block.rows as u32).to_le_bytes()), &bitmap);
    match physical {
        Physical::Ordinal if !block.nulls.any() => {
            crc = crc32c_append(crc, block.values().to_byte_slice());
        }
        Physical::Ordinal => {
            let rows = block.values().iter().enumerate();
            let values = rows.filter(|(row, _)| !block.nulls.get(*row));
            let values: Vec<u64> = values.map(|(_, value)| *value).collect();
            crc = crc32c_append(crc, values.to_byte_slice());
        }
        Physical::Wide => {
            arrays.pieces(at, |array, from, len, _| {
                let array = array.as_primitive::<Decimal128Type>();
                for row in (from..from + len).filter(|row| array.is_valid(*row)) {
                    crc = crc32c_append(crc, &array.value(row).to_le_bytes());
                }
            });
        }
        Physical::Bytes => {
            arrays.pieces(at, |array, from, len, _| {
                let array = array.as_string_view();
                for row in (from..from + len).filter(|row| array.is_valid(*row)) {
                    let string = array.value(row).as_bytes();
                    crc = crc32c_append(crc, &(string.len() as u32).to_le_bytes());
                    crc = crc32c_append(crc, string);
                }
            });
        }
    }
    crc
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Int32Array, StringViewArray};

    use super::*;

    #[test]
    fn they_tell_values_nulls_and_their_order() {
        let numbers = |values: Vec<Option<i32>>| -> ArrayRef { Arc::new(Int32Array::from(values)) };
        let of = |array: &ArrayRef| {
            ValueChecksums::new(LogicalType::Integer, std::slice::from_ref(array)).unwrap()
        };
        let all = [
            numbers(vec![Some(1), Some(2), None]),
            numbers(vec![Some(2), Some(1), None]),
            numbers(vec![Some(1), None, Some(2)]),
            numbers(vec![Some(1), Some(2), Some(2)]),
            numbers(vec![Some(1), Some(2)]),
        ];
        for (at, one) in all.iter().enumerate() {
            for (other_at, other) in all.iter().enumerate() {
                assert_eq!(of(one) == of(other), at == other_at, "{at} {other_at}");
                let is_it = of(one).matches(0, LogicalType::Integer, other);
                assert_eq!(is_it, at == other_at);
            }
        }
        // What a NULL row holds is of no meaning.
        let hidden = arrow::buffer::NullBuffer::from(vec![true, true, false]);
        let hidden: ArrayRef = Arc::new(Int32Array::new(vec![1, 2, 77].into(), Some(hidden)));
        assert_eq!(of(&hidden), of(&all[0]));
        let strings = |values: Vec<&str>| -> ArrayRef { Arc::new(StringViewArray::from(values)) };
        let of = |array: ArrayRef| ValueChecksums::new(LogicalType::Varchar, &[array]).unwrap();
        assert_ne!(of(strings(vec!["ab", "c"])), of(strings(vec!["a", "bc"])));
    }

    #[test]
    fn they_do_not_depend_on_how_the_rows_come() {
        let array: ArrayRef = Arc::new(
            (0..3000)
                .map(|row| (row % 7 != 0).then_some(row))
                .collect::<Int32Array>(),
        );
        let whole =
            ValueChecksums::new(LogicalType::Integer, std::slice::from_ref(&array)).unwrap();
        assert_eq!(whole.blocks(), 3);
        let parts = [
            array.slice(0, 1),
            array.slice(1, 1500),
            array.slice(1501, 1499),
        ];
        assert_eq!(
            ValueChecksums::new(LogicalType::Integer, &parts).unwrap(),
            whole
        );
        assert!(whole.matches(1, LogicalType::Integer, &array.slice(1024, 1024)));
        assert!(!whole.matches(1, LogicalType::Integer, &array.slice(1025, 1024)));
        let mut stored = vec![0; 12];
        whole.write(&mut stored);
        assert_eq!(ValueChecksums::of_stored(&stored), whole);
    }
}
