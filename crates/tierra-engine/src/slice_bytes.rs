//! The memory of an array.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::DataType;

/// Bytes of a view of a string, which has short strings in it.
const VIEW_BYTES: usize = 16;

/// Bytes of the array's slice, not of the buffers that it shares with others.
///
/// A commit of one row asks several times: what arrays of usual types take is known without taking them apart.
pub(crate) fn slice_bytes(values: &ArrayRef) -> usize {
    let rows = values.len();
    let bits = |rows: usize| rows.div_ceil(8);
    let own = match values.data_type() {
        DataType::Boolean => bits(rows),
        DataType::Utf8View => {
            // Arrow counts only the views, not the strings that they refer to.
            let strings = values.as_string_view();
            let referred = match strings.data_buffers().is_empty() {
                true => 0,
                false => strings.total_buffer_bytes_used(),
            };
            rows * VIEW_BYTES + referred
        }
        other => match other.primitive_width() {
            Some(width) => rows * width,
            None => {
                let own = values.to_data().get_slice_memory_size();
                return own.unwrap_or_else(|_| values.get_buffer_memory_size());
            }
        },
    };
    own + values.nulls().map_or(0, |_| bits(rows))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{
        BooleanArray, Decimal128Array, Int64Array, ListArray, StringArray, StringViewArray,
    };
    use arrow::datatypes::Int32Type;

    use super::*;

    #[test]
    fn bytes_are_those_that_arrow_counts_and_of_strings_those_referred_to() {
        let lists = vec![Some(vec![Some(1), None]), None, Some(vec![Some(2)])];
        let arrays: [ArrayRef; 7] = [
            Arc::new(Int64Array::from(vec![1, 2, 3])),
            Arc::new(Int64Array::from(vec![Some(1), None, Some(3)])),
            Arc::new(BooleanArray::from(vec![Some(true); 17])),
            Arc::new(BooleanArray::from(vec![Some(true), None])),
            Arc::new(Decimal128Array::from(vec![Some(1), None])),
            Arc::new(StringArray::from(vec!["a", "bc"])),
            Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(lists)),
        ];
        for array in arrays {
            for slice in [array.clone(), array.slice(1, array.len() - 1)] {
                let counted = slice.to_data().get_slice_memory_size().unwrap();
                assert_eq!(slice_bytes(&slice), counted, "{slice:?}");
            }
        }
        let long = "a string too long to be inlined";
        let strings: ArrayRef = Arc::new(StringViewArray::from(vec![Some(long), None, Some("b")]));
        assert_eq!(slice_bytes(&strings), 3 * VIEW_BYTES + 1 + long.len());
        assert_eq!(slice_bytes(&strings.slice(2, 1)), VIEW_BYTES + 1);
    }
}
