//! A table's newest rows: logged in far memory, unpacked in near memory.
//!
//! Invariant: a [`Tail`] is immutable; an append makes a new one that shares all but the newest batches. Merging batches keeps
//! the positions of rows, so a row's id survives merging and sealing.

mod header;
mod log;
mod payload;
mod record;
mod replay;
pub(crate) mod statistics;

use std::sync::{Arc, OnceLock};

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, MutableArrayData, PrimitiveArray,
    RecordBatch, StringViewArray, downcast_primitive_array, make_array,
};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer, ScalarBuffer};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, SchemaRef};
use arrow::error::ArrowError;
use tierra_column::{DistinctSketch, LogicalType};

pub(crate) use log::LogEnd;
pub(crate) use log::{Commit, TailLog};
pub(crate) use payload::{decode, encode};
pub(crate) use record::{Participant, Record, read_payload};
pub(crate) use replay::{LogRepair, Logged, Named, Replayed, later, repair, replay};

use crate::tail::statistics::ColumnStatistics;

/// This many neighbours of similar size become one batch: 10,000 single rows end up in fewer than 40 batches, and each row is
/// copied at most once per level.
const MERGE_FANOUT: usize = 8;
/// Batches of this many rows scan at full speed: they are not merged further.
const MERGED_ROWS: usize = 1 << 16;

/// Consecutive rows in arrow form.
#[derive(Debug)]
pub(crate) struct TailBatch {
    pub(crate) rows: RecordBatch,
    /// Position of its first row in the tail.
    pub(crate) first_row: u32,
    statistics: OnceLock<Vec<ColumnStatistics>>,
    /// By column.
    sketches: Box<[OnceLock<Option<DistinctSketch>>]>,
}

impl TailBatch {
    fn new(rows: RecordBatch, first_row: u32) -> Arc<Self> {
        let sketches = std::iter::repeat_with(OnceLock::new);
        Arc::new(Self {
            sketches: sketches.take(rows.num_columns()).collect(),
            rows,
            first_row,
            statistics: OnceLock::new(),
        })
    }

    /// Minimum, maximum and number of NULLs of each column; computed once.
    pub(crate) fn statistics(&self) -> &[ColumnStatistics] {
        self.statistics.get_or_init(|| {
            self.rows
                .columns()
                .iter()
                .map(ColumnStatistics::of_array)
                .collect()
        })
    }

    /// The sketch of a column's distinct values; computed when it is first asked for. `None` where a chunk of so few rows would
    /// have none.
    pub(crate) fn distinct_sketch(
        &self,
        column: usize,
        ty: LogicalType,
    ) -> Option<&DistinctSketch> {
        let sketch = || DistinctSketch::of_column(ty, self.rows.column(column));
        self.sketches[column].get_or_init(sketch).as_ref()
    }
}

/// The rows of a tail as of one append.
#[derive(Clone, Debug)]
pub(crate) struct Tail {
    /// The id that its rows carry, and that of its future segment.
    pub(crate) segment_id: u32,
    batches: Arc<[Arc<TailBatch>]>,
    rows: u32,
    /// Bytes logged for these rows.
    bytes: u64,
}

impl Tail {
    /// A tail without rows.
    pub(crate) fn empty(segment_id: u32) -> Self {
        Self {
            segment_id,
            batches: Arc::new([]),
            rows: 0,
            bytes: 0,
        }
    }

    pub(crate) fn rows(&self) -> u32 {
        self.rows
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn batches(&self) -> &[Arc<TailBatch>] {
        &self.batches
    }

    /// The batch that holds the row at `position`, and the row's place in it.
    pub(crate) fn locate(&self, position: u32) -> Option<(&RecordBatch, usize)> {
        let after = self
            .batches
            .partition_point(|batch| batch.first_row <= position);
        let batch = self.batches.get(after.checked_sub(1)?)?;
        let row = (position - batch.first_row) as usize;
        (row < batch.rows.num_rows()).then_some((&batch.rows, row))
    }

    /// The tail after a record of this size that appends no rows.
    pub(crate) fn logged(&self, logged_bytes: u64) -> Self {
        Self {
            bytes: self.bytes + logged_bytes,
            ..self.clone()
        }
    }

    /// The tail with `rows` appended; `logged_bytes` is the size of their record.
    pub(crate) fn push(&self, rows: RecordBatch, logged_bytes: u64) -> Result<Self, ArrowError> {
        if rows.num_rows() == 0 {
            return Ok(self.logged(logged_bytes));
        }
        let total = self.rows + rows.num_rows() as u32;
        let mut batches = self.batches.to_vec();
        batches.push(TailBatch::new(rows, self.rows));
        while let Some(first) = mergeable(&batches) {
            let run = &batches[first..];
            let merged = concat_batches(
                run[0].rows.schema_ref(),
                run.iter().map(|batch| &batch.rows),
            )?;
            let merged = TailBatch::new(compact(&merged)?, run[0].first_row);
            batches.truncate(first);
            batches.push(merged);
        }
        let (segment_id, bytes) = (self.segment_id, self.bytes + logged_bytes);
        Ok(Self {
            segment_id,
            batches: batches.into(),
            rows: total,
            bytes,
        })
    }
}

/// The start of the newest batches that should become one.
fn mergeable(batches: &[Arc<TailBatch>]) -> Option<usize> {
    let level = |batch: &Arc<TailBatch>| batch.rows.num_rows().ilog(MERGE_FANOUT);
    let newest = level(batches.last()?);
    let mut first = batches.len();
    let mut rows = 0;
    while first > 0 && level(&batches[first - 1]) <= newest {
        rows += batches[first - 1].rows.num_rows();
        if rows > MERGED_ROWS {
            break;
        }
        first -= 1;
    }
    (batches.len() - first >= MERGE_FANOUT).then_some(first)
}

/// The same rows without unreferenced string buffers.
pub(crate) fn compact(rows: &RecordBatch) -> Result<RecordBatch, ArrowError> {
    let compact_column = |values: &ArrayRef| match values.data_type() {
        DataType::Utf8View if !values.as_string_view().data_buffers().is_empty() => {
            Arc::new(values.as_string_view().gc()) as ArrayRef
        }
        _ => values.clone(),
    };
    let columns = rows.columns().iter().map(compact_column).collect();
    RecordBatch::try_new(rows.schema(), columns)
}

/// All rows of several batches as one batch in memory of its own. That of the caller may change, be unmapped, and be much more
/// than these rows.
pub(crate) fn owned(
    schema: &SchemaRef,
    batches: &[RecordBatch],
) -> Result<RecordBatch, ArrowError> {
    match batches {
        [one] => {
            let columns = one.columns().iter().map(owned_column);
            RecordBatch::try_new(schema.clone(), columns.collect::<Result<_, _>>()?)
        }
        _ => compact(&concat_batches(schema, batches)?),
    }
}

/// Most commits have one row, for which [`MutableArrayData`] would take longer than everything else.
fn owned_column(values: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    let bits = |bits: &BooleanBuffer| {
        let bytes = Buffer::from(bits.sliced().as_slice());
        BooleanBuffer::new(bytes, 0, bits.len())
    };
    let nulls = values
        .nulls()
        .map(|nulls| NullBuffer::new(bits(nulls.inner())));
    if let Some(strings) = values.as_string_view_opt() {
        let views = ScalarBuffer::from(strings.views().to_vec());
        let strings = StringViewArray::try_new(views, strings.data_buffers().to_vec(), nulls)?;
        return Ok(Arc::new(strings.gc()));
    }
    if let Some(booleans) = values.as_boolean_opt() {
        return Ok(Arc::new(BooleanArray::new(bits(booleans.values()), nulls)));
    }
    downcast_primitive_array!(
        values => Ok(owned_numbers(values, nulls)),
        _ => {
            let data = values.to_data();
            let mut copied = MutableArrayData::new(vec![&data], false, data.len());
            copied.try_extend(0, 0, data.len())?;
            Ok(make_array(copied.freeze()))
        }
    )
}

fn owned_numbers<T: ArrowPrimitiveType>(
    values: &PrimitiveArray<T>,
    nulls: Option<NullBuffer>,
) -> ArrayRef {
    let copied = ScalarBuffer::from(values.values().to_vec());
    let copied = PrimitiveArray::<T>::new(copied, nulls);
    // Of a decimal's digits, or a time zone, the kind of array says nothing.
    Arc::new(copied.with_data_type(values.data_type().clone()))
}

#[cfg(test)]
mod tests {
    use arrow::array::{
        ArrayData, Date32Array, Decimal128Array, Float64Array, Int32Array, Int64Array, ListArray,
        TimestampMicrosecondArray,
    };
    use arrow::datatypes::{Field, Int32Type, Schema};

    use super::*;

    fn row(value: i32) -> RecordBatch {
        let schema = Schema::new(vec![
            Field::new("n", DataType::Int32, false),
            Field::new("s", DataType::Utf8View, true),
        ]);
        let text = format!("a string too long to be inlined, number {value}");
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int32Array::from(vec![value])),
            Arc::new(StringViewArray::from(vec![text.as_str()])),
        ];
        RecordBatch::try_new(Arc::new(schema), columns).unwrap()
    }

    /// Where the buffers of an array lie, with those of its children.
    fn places(data: &ArrayData) -> Vec<std::ops::Range<usize>> {
        let nulls = data.nulls().map(|nulls| nulls.buffer());
        let own = data.buffers().iter().chain(nulls);
        let own = own.map(|buffer| {
            let start = buffer.data_ptr().addr().get();
            start..start + buffer.capacity()
        });
        own.chain(data.child_data().iter().flat_map(places))
            .collect()
    }

    #[test]
    fn owned_rows_share_no_memory() {
        let long = "longer than what a view holds by itself".repeat(3);
        let texts = [Some("short"), None, Some(&*long), Some(""), Some("x")];
        let inline = [Some("a"), None, Some("b"), Some("c"), Some("twelve bytes")];
        let numbers = [Some(1), None, Some(3), Some(4), Some(5)];
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int32Array::from(vec![1, 2, 3, 4, 5])),
            Arc::new(Int64Array::from_iter(numbers)),
            Arc::new(Float64Array::from_iter(
                numbers.map(|n| n.map(|n| n as f64)),
            )),
            Arc::new(
                Decimal128Array::from_iter(numbers.map(|n| n.map(i128::from)))
                    .with_precision_and_scale(20, 4)
                    .unwrap(),
            ),
            Arc::new(Date32Array::from_iter(numbers.map(|n| n.map(|n| n as i32)))),
            Arc::new(TimestampMicrosecondArray::from_iter(numbers)),
            Arc::new(BooleanArray::from(vec![
                Some(true),
                None,
                Some(false),
                Some(true),
                Some(true),
            ])),
            Arc::new(StringViewArray::from_iter(texts)),
            Arc::new(StringViewArray::from_iter(inline)),
            Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(
                numbers.map(|n| n.map(|n| vec![Some(n as i32), None])),
            )),
        ];
        let fields = columns.iter().enumerate();
        let fields = fields
            .map(|(place, column)| Field::new(place.to_string(), column.data_type().clone(), true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let rows = RecordBatch::try_new(schema.clone(), columns).unwrap();
        for part in [rows.clone(), rows.slice(1, 3), rows.slice(4, 0)] {
            for batches in [vec![part.clone()], vec![part.clone(), part.clone()]] {
                let owned = owned(&schema, &batches).unwrap();
                assert_eq!(owned, concat_batches(&schema, &batches).unwrap());
                for (owned, given) in owned.columns().iter().zip(rows.columns()) {
                    let given = places(&given.to_data());
                    for place in places(&owned.to_data()) {
                        let is_shared = given
                            .iter()
                            .any(|other| place.start < other.end && other.start < place.end);
                        assert!(!is_shared, "{}", owned.data_type());
                    }
                }
            }
        }
    }

    #[test]
    fn ten_thousand_single_rows_stay_few_batches_in_order() {
        let mut tail = Tail::empty(0);
        for value in 0..10_000 {
            tail = tail.push(row(value), 64).unwrap();
        }
        assert_eq!(tail.rows(), 10_000);
        assert!(
            tail.batches().len() < 40,
            "{} batches",
            tail.batches().len()
        );
        for position in [0, 1, 7, 8, 63, 64, 4_095, 4_096, 9_998, 9_999] {
            let (batch, at) = tail.locate(position).unwrap();
            assert_eq!(
                batch.column(0).as_primitive::<Int32Type>().value(at),
                position as i32
            );
        }
        assert!(tail.locate(10_000).is_none());
        // One string buffer per merged batch, not one per row.
        let buffers =
            |batch: &Arc<TailBatch>| batch.rows.column(1).as_string_view().data_buffers().len();
        assert!(tail.batches().iter().map(buffers).sum::<usize>() < 80);
    }
}
