//! Rows become a segment: every column planned, given space, written and made durable, on all
//! threads.
//!
//! Neighbouring columns are encoded together into one extent, so that a table of 1,000 columns does
//! not need 1,000 extents a segment. A group is also the unit of work of a thread.
//!
//! Invariant: nothing that is encoded here is visible, or outlives a failure: extents that nobody
//! publishes are given back when the last holder drops them.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::{Array, ArrayRef, RecordBatch};
use tierra_column::{ChunkPlan, Encoding};

use crate::error::StorageError;
use crate::manifest::{ChunkPlace, SegmentEntry};
use crate::segment::Segment;
use crate::space::{OwnedExtent, Owner};
use crate::storage::Storage;
use crate::table::Table;

/// Chunks start on a line.
const LINE: usize = 64;
/// A group is closed when its unpacked columns have this many bytes, or fewer if that keeps all
/// threads busy.
const GROUP_MOST_BYTES: usize = 16 << 20;
const GROUP_LEAST_BYTES: usize = 1 << 20;

/// A segment that is durable but not yet published.
#[derive(Debug)]
pub(crate) struct EncodedSegment {
    pub(crate) segment: Arc<Segment>,
    /// By column.
    pub(crate) encodings: Vec<Encoding>,
}

/// Columns `columns`, side by side in one extent.
struct Group {
    columns: Range<usize>,
    extent: Arc<OwnedExtent>,
    places: Vec<Range<usize>>,
    encodings: Vec<Encoding>,
}

/// Encodes `batches` as segment `id`; they hold at most [`crate::SEGMENT_ROWS`] rows in the
/// table's schema. Stops
/// early, with [`StorageError::Closed`], once `cancelled` is set.
pub(crate) fn encode_segment(
    table: &Table,
    id: u32,
    batches: &[RecordBatch],
    cancelled: &AtomicBool,
) -> Result<EncodedSegment, StorageError> {
    let storage = table.storage();
    let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
    let groups = group_columns(table, batches, storage.threads.get());
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<Group>> = Mutex::new(Vec::with_capacity(groups.len()));
    let failed: Mutex<Option<StorageError>> = Mutex::new(None);
    let stop = AtomicBool::new(false);
    let work = || {
        while !stop.load(Ordering::Relaxed) && !cancelled.load(Ordering::Relaxed) {
            let Some(columns) = groups.get(next.fetch_add(1, Ordering::Relaxed)) else {
                break;
            };
            match encode_group(table, storage, batches, columns.clone()) {
                Ok(group) => done
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(group),
                Err(error) => {
                    stop.store(true, Ordering::Relaxed);
                    failed
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .get_or_insert(error);
                }
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..storage.threads.get().min(groups.len()) {
            scope.spawn(work);
        }
        work();
    });
    if let Some(error) = failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err(error);
    }
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    if done.len() < groups.len() {
        return Err(StorageError::Closed);
    }
    done.sort_unstable_by_key(|group| group.columns.start);
    assemble(table, id, rows, done)
}

fn assemble(
    table: &Table,
    id: u32,
    rows: usize,
    groups: Vec<Group>,
) -> Result<EncodedSegment, StorageError> {
    let mut chunks = Vec::with_capacity(table.spec().columns.len());
    let mut encodings = Vec::with_capacity(chunks.capacity());
    for (extent, group) in groups.iter().enumerate() {
        chunks.extend(group.places.iter().map(|place| ChunkPlace {
            extent: extent as u32,
            offset: place.start as u64,
            len_bytes: place.len() as u64,
        }));
        encodings.extend_from_slice(&group.encodings);
    }
    let extents: Vec<_> = groups.into_iter().map(|group| group.extent).collect();
    let entry = SegmentEntry {
        id,
        rows: rows as u32,
        extents: extents.iter().map(|extent| extent.extent()).collect(),
        chunks,
    };
    let budget = &table.storage().budget;
    let segment = Segment::written(Arc::new(entry), extents, table.spec(), budget)?;
    Ok(EncodedSegment { segment, encodings })
}

/// Neighbours that share an extent: they wish for the same placement and are small together.
fn group_columns(table: &Table, batches: &[RecordBatch], threads: usize) -> Vec<Range<usize>> {
    let columns = &table.spec().columns;
    let bytes_of = |column: usize| -> usize {
        batches
            .iter()
            .map(|batch| slice_bytes(batch.column(column)))
            .sum()
    };
    let bytes: Vec<usize> = (0..columns.len()).map(bytes_of).collect();
    // Four groups a thread even out columns that take longer than others.
    let target = bytes.iter().sum::<usize>() / (4 * threads);
    let target = target.clamp(GROUP_LEAST_BYTES, GROUP_MOST_BYTES);
    let mut groups = Vec::new();
    let (mut start, mut taken) = (0, 0);
    for column in 0..columns.len() {
        let alike = columns[column].near == columns[start].near;
        if column > start && (!alike || taken + bytes[column] > target) {
            groups.push(start..column);
            (start, taken) = (column, 0);
        }
        taken += bytes[column];
    }
    groups.push(start..columns.len());
    groups
}

/// Bytes of the slice that an array is, not of the buffers that it shares with others.
pub(crate) fn slice_bytes(values: &ArrayRef) -> usize {
    values
        .to_data()
        .get_slice_memory_size()
        .unwrap_or_else(|_| values.get_buffer_memory_size())
}

fn encode_group(
    table: &Table,
    storage: &Storage,
    batches: &[RecordBatch],
    columns: Range<usize>,
) -> Result<Group, StorageError> {
    let mut plans: Vec<ChunkPlan> = Vec::with_capacity(columns.len());
    let mut places = Vec::with_capacity(columns.len());
    let mut end = 0;
    for column in columns.clone() {
        let values: Vec<ArrayRef> = batches
            .iter()
            .map(|batch| batch.column(column).clone())
            .collect();
        let spec = &table.spec().columns[column];
        let plan = table
            .dictionaries()
            .plan(column, spec, &values)
            .map_err(|source| StorageError::Encode {
                column: spec.name.clone(),
                source,
            })?;
        places.push(end..end + plan.len_bytes());
        end = (end + plan.len_bytes()).next_multiple_of(LINE);
        plans.push(plan);
    }
    let mut writer = storage
        .pool
        .allocate(end as u64, Owner::Segment(table.id()).tag())?;
    let mut written = 0;
    for (plan, place) in plans.iter().zip(&places) {
        // The gaps between chunks are covered by the extent's checksum: they hold zeros.
        writer[written..place.start].fill(0);
        plan.write(&mut writer[place.clone()]);
        written = place.end;
    }
    writer[written..].fill(0);
    let extent = OwnedExtent::finish(&storage.pool, writer)?;
    let encodings = plans.iter().map(ChunkPlan::encoding).collect();
    Ok(Group {
        columns,
        extent,
        places,
        encodings,
    })
}
