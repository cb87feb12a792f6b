//! What every generated table has in common.

use std::ops::Range;

use arrow::{array::RecordBatch, datatypes::SchemaRef};

use crate::{Part, Scale};

/// The rows of a part, batch by batch. Every batch has the table's schema and at least one row.
pub type Batches = Box<dyn Iterator<Item = RecordBatch> + Send>;

/// One table of a benchmark's data set.
pub trait Source: Copy + Send + 'static {
    /// The table's name in SQL.
    fn name(self) -> &'static str;

    /// Its columns; none is nullable.
    fn schema(self) -> SchemaRef;

    /// The one column that identifies a row, where one does.
    fn primary_key(self) -> Option<&'static str>;

    /// How many rows `generate` yields for the whole table: exact, but for TPC-H's `lineitem`,
    /// whose lines per order are random; there it is the expected number.
    fn expected_rows(self, scale: Scale) -> u64;

    /// The rows of `part`, at most `batch_rows` in a batch.
    ///
    /// # Panics
    /// If `batch_rows` is 0.
    fn generate(self, scale: Scale, part: Part, batch_rows: usize) -> Batches;
}

/// Batches over `rows`, made by a pure function of a range of row numbers.
pub(crate) fn by_ranges(
    rows: Range<u64>,
    batch_rows: usize,
    batch: impl Fn(Range<u64>) -> RecordBatch + Send + 'static,
) -> Batches {
    assert!(batch_rows > 0, "a batch holds at least one row");
    let starts = rows.clone().step_by(batch_rows);
    Box::new(starts.map(move |start| {
        let end = rows.end.min(start.saturating_add(batch_rows as u64));
        batch(start..end)
    }))
}
