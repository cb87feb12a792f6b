//! The memory of an array.

use arrow::array::{Array, ArrayRef, AsArray, StringViewArray};

/// Bytes of the array's slice, not of the buffers that it shares with others.
pub(crate) fn slice_bytes(values: &ArrayRef) -> usize {
    // Arrow counts only the views, not the strings that they refer to.
    let referring = values.as_string_view_opt();
    let referring = referring.filter(|strings| !strings.data_buffers().is_empty());
    let referred = referring.map_or(0, StringViewArray::total_buffer_bytes_used);
    let own = values.to_data().get_slice_memory_size();
    referred + own.unwrap_or_else(|_| values.get_buffer_memory_size())
}
