//! Rows of one INSERT that have the same key.

use std::collections::HashSet;

use arrow::array::{ArrayRef, BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;
use arrow::row::{RowConverter, SortField};
use datafusion::error::Result;

use crate::memory::Collected;

/// The first row of each key in `rows`, whose key has the columns `key`, and whether there were others.
///
/// # Errors
/// If queries may not use so much memory.
pub(crate) fn first_of_each_key(
    rows: &[RecordBatch],
    key: &[usize],
    memory: &mut Collected,
) -> Result<(Vec<RecordBatch>, bool)> {
    let Some(schema) = rows.first().map(RecordBatch::schema) else {
        return Ok((Vec::new(), false));
    };
    let fields = key.iter();
    let fields = fields.map(|column| SortField::new(schema.field(*column).data_type().clone()));
    let converter = RowConverter::new(fields.collect())?;
    let mut seen: HashSet<Box<[u8]>> = HashSet::new();
    let mut first_rows = Vec::with_capacity(rows.len());
    let mut has_others = false;
    for batch in rows {
        let columns = key.iter().map(|column| batch.column(*column).clone());
        let columns: Vec<ArrayRef> = columns.collect();
        let keys = converter.convert_columns(&columns)?;
        memory.grow(keys.size())?;
        let first: Vec<bool> = keys
            .iter()
            .map(|key| seen.insert(Box::from(key.as_ref())))
            .collect();
        if first.iter().all(|is_first| *is_first) {
            first_rows.push(batch.clone());
        } else {
            has_others = true;
            first_rows.push(filter_record_batch(batch, &BooleanArray::from(first))?);
        }
    }
    Ok((first_rows, has_others))
}
