//! Encodes rows as a segment: plans every column, allocates its space, writes it and makes it durable, on all threads.
//!
//! Neighbouring columns are encoded together into one extent, so that a table of 1,000 columns does not need 1,000 extents a
//! segment. Such a group is also a thread's unit of work.
//!
//! Invariant: nothing that is encoded here is visible, and a failure leaves nothing: an unpublished extent is freed with its last
//! reference.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tierra_column::{ChunkPlan, Encoding};
use tierra_memory::LINE_BYTES;

use crate::error::StorageError;
use crate::manifest::SEGMENT_ROWS;
use crate::manifest::{ChunkPlace, SegmentEntry};
use crate::segment::Segment;
use crate::storage::extent::{OwnedExtent, Owner};
use crate::table::Table;
use crate::table::requests::EncodedSegment;
use crate::write::column_source::ColumnSource;

/// A group is closed when its unpacked columns have this many bytes, or fewer if that keeps all threads busy.
const GROUP_MOST_BYTES: u64 = 16 << 20;
const GROUP_LEAST_BYTES: u64 = 1 << 20;

/// The columns `columns`, side by side in one extent.
struct Group {
    columns: Range<usize>,
    extent: Arc<OwnedExtent>,
    places: Vec<Range<usize>>,
    encodings: Vec<Encoding>,
}

/// A segment whose groups are being encoded.
struct Open {
    id: u32,
    rows: Range<u64>,
    groups: usize,
    done: Mutex<Vec<Group>>,
}

/// A thread's unit of work: a group of columns of a numbered segment.
struct Task {
    segment: usize,
    columns: Range<usize>,
}

/// Encodes all rows of `source` as segments, on all threads. Calls `each` with every complete segment and its rows, one call at a
/// time, in the order of the rows. `new_id` numbers the segments. Stops early, with [`StorageError::Closed`], once `cancelled` is
/// set.
pub(crate) fn encode_segments<S>(
    table: &Table,
    source: &S,
    new_id: impl Fn() -> Result<u32, StorageError>,
    cancelled: &AtomicBool,
    each: impl FnMut(&EncodedSegment, Range<u64>) -> Result<(), S::Error> + Send,
) -> Result<Vec<EncodedSegment>, S::Error>
where
    S: ColumnSource,
    S::Error: From<StorageError>,
{
    let threads = table.storage().threads.get();
    let mut open = Vec::new();
    let mut tasks = Vec::new();
    for start in (0..source.rows()).step_by(SEGMENT_ROWS) {
        let rows = start..source.rows().min(start + SEGMENT_ROWS as u64);
        let groups = group_columns(table, threads, |column| source.bytes(column, rows.clone()));
        let segment = open.len();
        open.push(Open {
            id: new_id()?,
            rows,
            groups: groups.len(),
            done: Mutex::default(),
        });
        tasks.extend(groups.into_iter().map(|columns| Task { segment, columns }));
    }
    let whole: Mutex<Vec<(usize, EncodedSegment)>> = Mutex::default();
    let each = Mutex::new(each);
    let run = |task: &Task| -> Result<(), S::Error> {
        let segment = &open[task.segment];
        let group = encode_group(table, source, &segment.rows, task.columns.clone())?;
        let groups = {
            let mut done = lock(&segment.done);
            done.push(group);
            if done.len() < segment.groups {
                return Ok(());
            }
            std::mem::take(&mut *done)
        };
        let encoded = assemble(table, segment, groups)?;
        lock(&each)(&encoded, segment.rows.clone())?;
        lock(&whole).push((task.segment, encoded));
        Ok(())
    };
    let next = AtomicUsize::new(0);
    let failed: Mutex<Option<S::Error>> = Mutex::default();
    let stop = AtomicBool::new(false);
    let work = || {
        while !stop.load(Ordering::Relaxed) && !cancelled.load(Ordering::Relaxed) {
            let Some(task) = tasks.get(next.fetch_add(1, Ordering::Relaxed)) else {
                break;
            };
            if let Err(error) = run(task) {
                stop.store(true, Ordering::Relaxed);
                lock(&failed).get_or_insert(error);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.min(tasks.len()) {
            scope.spawn(work);
        }
        work();
    });
    if let Some(error) = failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err(error);
    }
    let mut whole = whole.into_inner().unwrap_or_else(PoisonError::into_inner);
    if whole.len() < open.len() {
        return Err(StorageError::Closed.into());
    }
    whole.sort_unstable_by_key(|(at, _)| *at);
    Ok(whole.into_iter().map(|(_, segment)| segment).collect())
}

// The values behind these locks are pushed to or taken whole: a panic leaves none half changed.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn assemble(
    table: &Table,
    open: &Open,
    mut groups: Vec<Group>,
) -> Result<EncodedSegment, StorageError> {
    groups.sort_unstable_by_key(|group| group.columns.start);
    let mut chunks = Vec::with_capacity(table.spec().columns.len());
    let mut encodings = Vec::with_capacity(chunks.capacity());
    for (extent, group) in groups.iter().enumerate() {
        let places = group.places.iter().zip(&group.encodings);
        chunks.extend(places.map(|(place, encoding)| ChunkPlace {
            extent: extent as u32,
            offset: place.start as u64,
            len_bytes: place.len() as u64,
            encoding: *encoding,
        }));
        encodings.extend_from_slice(&group.encodings);
    }
    let extents: Vec<_> = groups.into_iter().map(|group| group.extent).collect();
    let entry = SegmentEntry {
        id: open.id,
        rows: (open.rows.end - open.rows.start) as u32,
        extents: extents.iter().map(|extent| extent.id()).collect(),
        chunks,
    };
    let segment = Segment::written(Arc::new(entry), extents, table.spec())?;
    Ok(EncodedSegment { segment, encodings })
}

/// Groups neighbours that share an extent: the same placement, the same replica placement, and small together.
fn group_columns(
    table: &Table,
    threads: usize,
    bytes_of: impl Fn(usize) -> u64,
) -> Vec<Range<usize>> {
    let (columns, placement) = (&table.spec().columns, table.placement());
    let bytes: Vec<u64> = (0..columns.len()).map(bytes_of).collect();
    // Four groups a thread balance columns that take longer than others.
    let target = bytes.iter().sum::<u64>() / (4 * threads as u64);
    let target = target.clamp(GROUP_LEAST_BYTES, GROUP_MOST_BYTES);
    let mut groups = Vec::new();
    let (mut start, mut taken) = (0, 0);
    for column in 0..columns.len() {
        let alike = columns[column].near == columns[start].near
            && placement.of_column(column) == placement.of_column(start);
        if column > start && (!alike || taken + bytes[column] > target) {
            groups.push(start..column);
            (start, taken) = (column, 0);
        }
        taken += bytes[column];
    }
    groups.push(start..columns.len());
    groups
}

fn encode_group<S>(
    table: &Table,
    source: &S,
    rows: &Range<u64>,
    columns: Range<usize>,
) -> Result<Group, S::Error>
where
    S: ColumnSource,
    S::Error: From<StorageError>,
{
    let mut plans: Vec<ChunkPlan> = Vec::with_capacity(columns.len());
    let mut places = Vec::with_capacity(columns.len());
    let mut end = 0;
    for column in columns.clone() {
        let values = source.read(column, rows.clone())?;
        let spec = &table.spec().columns[column];
        let plan = table
            .dictionaries()
            .plan(column, spec, &values)
            .map_err(|source| StorageError::Encode {
                column: spec.name.clone(),
                source,
            })?;
        places.push(end..end + plan.len_bytes());
        // Chunks are aligned to cache lines.
        end = (end + plan.len_bytes()).next_multiple_of(LINE_BYTES);
        plans.push(plan);
    }
    let extent = write_group(table, &columns, &plans, &places, end)?;
    let encodings = plans.iter().map(ChunkPlan::encoding).collect();
    Ok(Group {
        columns,
        extent,
        places,
        encodings,
    })
}

/// Writes planned chunks of columns with the same tiers to their places in a new extent of `len_bytes`.
fn write_group(
    table: &Table,
    columns: &Range<usize>,
    plans: &[ChunkPlan],
    places: &[Range<usize>],
    len_bytes: usize,
) -> Result<Arc<OwnedExtent>, StorageError> {
    let placement = table.placement();
    let placement = placement.of_column(columns.start);
    let owner = Owner::Segment(table.id());
    let mut writer = table
        .storage()
        .allocate(placement, len_bytes as u64, owner)?;
    let mut written = 0;
    for (plan, place) in plans.iter().zip(places) {
        // The extent's checksum covers the gaps between chunks, so they are filled with zeros.
        writer[written..place.start].fill(0);
        plan.write(&mut writer[place.clone()]);
        written = place.end;
        writer.copy_up_to(written);
    }
    writer[written..].fill(0);
    Ok(writer.finish()?)
}
