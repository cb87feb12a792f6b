//! Arrow arrays over a buffer of values.
//!
//! A row of 1,000 columns has 1,000 of them, each an allocation and a reference count, so the remaining cost is kept small: an
//! array of one INTEGER takes 11 ns (Zen 5).

use std::hint::black_box;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, PrimitiveArray, StringViewArray};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer, ScalarBuffer};
use arrow::datatypes::{
    ArrowPrimitiveType, Date32Type, Decimal128Type, Float64Type, Int32Type, Int64Type,
    TimestampMicrosecondType,
};
use arrow::error::ArrowError;
use tierra_column::LogicalType;

use super::projection::CellPlace;
use super::width_bytes;

/// An array of `len` values for each of `places`. `nulls` are column and row of each NULL, in order.
///
/// # Errors
/// [`ArrowError`] if a string is not UTF-8.
pub(super) fn all(
    places: &[CellPlace],
    len: usize,
    values: &Buffer,
    texts: &Arc<[Buffer]>,
    mut nulls: &[(u32, u32)],
) -> Result<Vec<ArrayRef>, ArrowError> {
    let mut arrays = Vec::with_capacity(places.len());
    for (at, CellPlace { ty, offset_bytes }) in places.iter().enumerate() {
        let values = Values {
            all: values,
            offset_bytes: offset_bytes * len,
            len_bytes: len * width_bytes(*ty),
        };
        let has_nulls = nulls
            .first()
            .is_some_and(|(column, _)| *column as usize == at);
        arrays.push(match has_nulls {
            true => array(*ty, values, texts, Some(take_nulls(&mut nulls, len)))?,
            false => match ty {
                LogicalType::Integer => without_nulls::<Int32Type>(values),
                LogicalType::Date => without_nulls::<Date32Type>(values),
                LogicalType::BigInt => without_nulls::<Int64Type>(values),
                LogicalType::Timestamp => without_nulls::<TimestampMicrosecondType>(values),
                LogicalType::Double => without_nulls::<Float64Type>(values),
                _ => array(*ty, values, texts, None)?,
            },
        });
    }
    Ok(arrays)
}

/// The values of one column.
#[derive(Clone, Copy)]
struct Values<'a> {
    all: &'a Buffer,
    offset_bytes: usize,
    len_bytes: usize,
}

impl Values<'_> {
    #[inline(always)]
    fn buffer(self) -> Buffer {
        self.all
            .slice_with_length(self.offset_bytes, self.len_bytes)
    }
}

/// Takes the validity of the column that the first listed NULL belongs to; leaves the NULLs of later columns.
fn take_nulls(nulls: &mut &[(u32, u32)], len: usize) -> NullBuffer {
    let of_column = nulls.partition_point(|(column, _)| *column == nulls[0].0);
    let (mine, rest) = nulls.split_at(of_column);
    *nulls = rest;
    let mut valid = vec![true; len];
    for (_, row) in mine {
        valid[*row as usize] = false;
    }
    NullBuffer::from(valid)
}

/// An array of any type, checked by arrow.
#[inline(never)]
fn array(
    ty: LogicalType,
    values: Values<'_>,
    texts: &Arc<[Buffer]>,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef, ArrowError> {
    fn primitive<T: ArrowPrimitiveType>(values: Buffer, nulls: Option<NullBuffer>) -> ArrayRef {
        Arc::new(PrimitiveArray::<T>::new(ScalarBuffer::from(values), nulls))
    }
    let values = values.buffer();
    Ok(match ty {
        LogicalType::Integer => primitive::<Int32Type>(values, nulls),
        LogicalType::Date => primitive::<Date32Type>(values, nulls),
        LogicalType::BigInt => primitive::<Int64Type>(values, nulls),
        LogicalType::Timestamp => primitive::<TimestampMicrosecondType>(values, nulls),
        LogicalType::Double => primitive::<Float64Type>(values, nulls),
        LogicalType::Decimal { .. } => {
            let decimals = PrimitiveArray::<Decimal128Type>::new(ScalarBuffer::from(values), nulls);
            Arc::new(decimals.with_data_type(ty.arrow()))
        }
        LogicalType::Boolean => {
            let bits = BooleanBuffer::collect_bool(values.len(), |row| values[row] == 1);
            Arc::new(BooleanArray::new(bits, nulls))
        }
        LogicalType::Varchar => {
            let views = ScalarBuffer::from(values);
            Arc::new(StringViewArray::try_new(views, texts.clone(), nulls)?)
        }
    })
}

/// An array without NULLs, made without arrow's checks, which it does not need, and without its moves. Arrow's functions return a
/// value in memory, written word by word. The compiler moves it two words at a time; such a read waits until the written words
/// have reached the cache. 1,000 arrays took 17 us with these waits, and take 11 without.
#[inline(never)]
fn without_nulls<T: ArrowPrimitiveType>(values: Values<'_>) -> ArrayRef {
    type Words = [*const u8; 3];
    const { assert!(size_of::<Buffer>() == size_of::<Words>()) };
    // SAFETY: the same size as a buffer, which consists of two pointers and a length: none of its bytes is padding.
    let words = unsafe { std::mem::transmute::<Buffer, Words>(values.buffer()) };
    // Allocated before the array is made, so that the array is made in place.
    let array = Arc::<PrimitiveArray<T>>::new_uninit();
    // SAFETY: these are the bytes of the buffer that was just taken apart, and there is no other copy: this is a move.
    let values = unsafe { std::mem::transmute::<Words, Buffer>(words.map(black_box)) };
    assert!(values.as_ptr().cast::<T::Native>().is_aligned());
    let place = Arc::as_ptr(&array).cast_mut().cast::<PrimitiveArray<T>>();
    // SAFETY: nothing else refers to the allocation, and the array is valid: its buffer is aligned for the type, as was just
    // checked, and it has no NULLs whose number could differ from that of the values.
    unsafe {
        let values = ScalarBuffer::new_unchecked(values);
        place.write(PrimitiveArray::new_unchecked(values, None));
        array.assume_init()
    }
}
