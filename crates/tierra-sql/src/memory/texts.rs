//! Strings that use a small part of the buffers they hold.
//!
//! A string column of Arrow is a list of views into buffers. Taking rows copies the views and references every buffer of
//! every batch that the rows came from. A sort takes each output batch from all of its input, so every operator above
//! references, holds and counts the buffers again for each batch: 8 million rows of 24 bytes came to 12 GiB. So strings are
//! copied together before and after a sort.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::array::{GenericByteViewArray, types::ByteViewType};
use datafusion::error::Result;

/// Columns with at most this many buffers are not checked further.
const FEW_BUFFERS: usize = 2;
/// Rows per buffer, if there are more buffers.
const ROWS_OF_A_BUFFER: usize = 256;
/// Strings that use less than one part in this many of their buffers are copied.
const LEAST_PART: usize = 2;

/// The same rows. If a column's strings are in many buffers, or use a small part of them, they are copied to one buffer.
/// Strings that rows share stay shared if their copies would take more than the buffers.
pub(crate) fn with_compact_strings(batch: RecordBatch) -> Result<RecordBatch> {
    let mut copied = Vec::new();
    for (index, column) in batch.columns().iter().enumerate() {
        let compact = if let Some(texts) = column.as_string_view_opt() {
            compact(texts).map(|texts| Arc::new(texts) as ArrayRef)
        } else if let Some(bytes) = column.as_binary_view_opt() {
            compact(bytes).map(|bytes| Arc::new(bytes) as ArrayRef)
        } else {
            None
        };
        copied.extend(compact.map(|column| (index, column)));
    }
    if copied.is_empty() {
        return Ok(batch);
    }
    let mut columns = batch.columns().to_vec();
    for (index, column) in copied {
        columns[index] = column;
    }
    Ok(RecordBatch::try_new(batch.schema(), columns)?)
}

fn compact<T: ByteViewType + ?Sized>(
    values: &GenericByteViewArray<T>,
) -> Option<GenericByteViewArray<T>> {
    let buffers = values.data_buffers();
    let are_many = buffers.len() > FEW_BUFFERS + values.len() / ROWS_OF_A_BUFFER;
    let held: usize = buffers.iter().map(|buffer| buffer.len()).sum();
    let copied = values.total_buffer_bytes_used();
    let are_worth_it = match are_many {
        true => copied <= held,
        false => copied < held / LEAST_PART,
    };
    are_worth_it.then(|| values.gc())
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Int64Array, StringViewArray, UInt32Array};
    use arrow::compute::{concat_batches, take_record_batch};

    fn batch(from: i64, rows: i64) -> RecordBatch {
        let texts =
            (from..from + rows).map(|n| (n % 7 != 0).then(|| format!("a text that is long {n}")));
        let texts = StringViewArray::from_iter(texts);
        let numbers = Int64Array::from_iter(from..from + rows);
        let columns: [(_, ArrayRef); 2] = [("t", Arc::new(texts)), ("n", Arc::new(numbers))];
        RecordBatch::try_from_iter(columns).unwrap()
    }

    fn buffers(batch: &RecordBatch) -> usize {
        batch.column(0).as_string_view().data_buffers().len()
    }

    #[test]
    fn texts_of_many_buffers_and_of_a_small_part_come_to_lie_in_one() {
        let batches: Vec<_> = (0..100).map(|n| batch(100 * n, 100)).collect();
        let all = concat_batches(&batches[0].schema(), &batches).unwrap();
        assert!(buffers(&all) >= 100);
        let few = take_record_batch(&all, &UInt32Array::from(vec![9_999, 3, 0, 5_000])).unwrap();
        for spread in [all, few, batch(0, 1000).slice(10, 20)] {
            let compact = with_compact_strings(spread.clone()).unwrap();
            assert_eq!(compact, spread);
            let texts = compact.column(0).as_string_view();
            let held: Vec<usize> = texts.data_buffers().iter().map(|one| one.len()).collect();
            assert_eq!(held, [texts.total_buffer_bytes_used()]);
        }
    }

    #[test]
    fn a_text_that_rows_share_is_not_copied_for_each() {
        let batches: Vec<_> = (0..100).map(|n| batch(100 * n, 100)).collect();
        let all = concat_batches(&batches[0].schema(), &batches).unwrap();
        let shared = take_record_batch(&all, &UInt32Array::from(vec![1; 20_000])).unwrap();
        assert!(buffers(&shared) > FEW_BUFFERS + shared.num_rows() / ROWS_OF_A_BUFFER);
        let same = with_compact_strings(shared.clone()).unwrap();
        assert_eq!(buffers(&same), buffers(&shared));
    }

    #[test]
    fn texts_that_lie_close_stay_where_they_are() {
        let whole = batch(0, 1000);
        let same = with_compact_strings(whole.clone()).unwrap();
        let at = |batch: &RecordBatch| batch.column(0).as_string_view().data_buffers()[0].as_ptr();
        assert_eq!(at(&whole), at(&same));
        let empty = with_compact_strings(whole.slice(0, 0)).unwrap();
        assert_eq!(empty.num_rows(), 0);
    }
}
