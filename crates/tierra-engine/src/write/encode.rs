//! Encodes rows as a segment: plans every column, allocates its space, writes it and makes it durable, on all threads.
//!
//! Neighbouring columns are encoded together into one extent, so that a table of 1,000 columns does not need 1,000 extents a
//! segment; their further replicas likewise, into one extent each. Such a group is also a thread's unit of work: it reads the
//! values once, and encodes all replicas of them.
//!
//! Invariant: nothing that is encoded here is visible, and a failure leaves nothing: an unpublished extent is freed with its last
//! reference.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow::array::ArrayRef;
use tierra_column::{ChunkPlan, EncodeError, Encoding, ValueChecksums};
use tierra_memory::LINE_BYTES;

use crate::error::StorageError;
use crate::manifest::SEGMENT_ROWS;
use crate::manifest::{ChunkPlace, FurtherReplica, SegmentEntry};
use crate::segment::Segment;
use crate::spec::ColumnSpec;
use crate::spec::replicas::{ReplicaPlacement, TierId};
use crate::storage::Storage;
use crate::storage::extent::{OwnedExtent, Owner};
use crate::table::Table;
use crate::table::requests::EncodedSegment;
use crate::write::column_source::ColumnSource;

/// A group is closed when its unpacked columns have this many bytes, or fewer if that keeps all threads busy.
const GROUP_MOST_BYTES: u64 = 16 << 20;
const GROUP_LEAST_BYTES: u64 = 1 << 20;

/// The columns `columns`, in each of their replicas.
struct Group {
    columns: Range<usize>,
    /// The first replicas come first.
    replicas: Vec<GroupReplica>,
}

/// A replica of each column of a group, side by side in one extent.
struct GroupReplica {
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
    // The same for all groups, even if it changes meanwhile.
    let placement = &*table.placement();
    let mut open = Vec::new();
    let mut tasks = Vec::new();
    for start in (0..source.rows()).step_by(SEGMENT_ROWS) {
        let rows = start..source.rows().min(start + SEGMENT_ROWS as u64);
        let bytes_of = |column| source.bytes(column, rows.clone());
        let groups = group_columns(table, placement, threads, bytes_of);
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
        let columns = task.columns.clone();
        let group = encode_group(table, placement, source, &segment.rows, columns)?;
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
    let (mut further, mut extents) = (Vec::new(), Vec::new());
    for Group { columns, replicas } in groups {
        for (number, replica) in replicas.into_iter().enumerate() {
            let extent = extents.len() as u32;
            let places = replica.places.iter().zip(&replica.encodings);
            let places = places.map(|(place, encoding)| ChunkPlace {
                extent,
                offset: place.start as u64,
                len_bytes: place.len() as u64,
                encoding: *encoding,
            });
            if number == 0 {
                chunks.extend(places);
                encodings.extend_from_slice(&replica.encodings);
            } else {
                let places = (columns.start as u32..).zip(places);
                further.extend(places.map(|(column, place)| FurtherReplica { column, place }));
            }
            extents.push(replica.extent);
        }
    }
    further.sort_by_key(|replica| replica.column);
    let entry = SegmentEntry {
        id: open.id,
        rows: (open.rows.end - open.rows.start) as u32,
        extents: extents.iter().map(|extent| extent.id()).collect(),
        chunks,
        further,
    };
    let segment = Segment::written(Arc::new(entry), extents, table.spec())?;
    Ok(EncodedSegment { segment, encodings })
}

/// Groups neighbours that share extents: the same placement, the same replica placement, and small together.
fn group_columns(
    table: &Table,
    placement: &ReplicaPlacement,
    threads: usize,
    bytes_of: impl Fn(usize) -> u64,
) -> Vec<Range<usize>> {
    let columns = &table.spec().columns;
    let bytes: Vec<u64> = (0..columns.len()).map(bytes_of).collect();
    // Four groups a thread balance columns that take longer than others.
    let target = bytes.iter().sum::<u64>() / (4 * threads as u64);
    let target = target.clamp(GROUP_LEAST_BYTES, GROUP_MOST_BYTES);
    let mut groups = Vec::new();
    let (mut start, mut taken) = (0, 0);
    for column in 0..columns.len() {
        let alike =
            columns[column].near == columns[start].near && placement.are_alike(column, start);
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
    placement: &ReplicaPlacement,
    source: &S,
    rows: &Range<u64>,
    columns: Range<usize>,
) -> Result<Group, S::Error>
where
    S: ColumnSource,
    S::Error: From<StorageError>,
{
    let of_group = placement.replicas(columns.start).map(|(_, tiers)| tiers);
    let of_group: Vec<&[TierId]> = of_group.collect();
    let mut plans: Vec<Vec<ChunkPlan>> = of_group.iter().map(|_| Vec::new()).collect();
    for column in columns.clone() {
        let values = source.read(column, rows.clone())?;
        let of_column = plan_replicas(table, placement, column, &values)?;
        let all = plans.iter_mut().zip(of_column);
        all.for_each(|(plans, plan)| plans.push(plan));
    }
    let owner = Owner::Segment(table.id());
    let replicas = of_group.into_iter().zip(&plans).map(|(tiers, plans)| {
        let plans: Vec<&ChunkPlan> = plans.iter().collect();
        let (extent, places) = write_chunks(table.storage(), tiers, owner, &plans)?;
        Ok(GroupReplica {
            extent,
            places,
            encodings: plans.iter().map(|plan| plan.encoding()).collect(),
        })
    });
    let replicas = replicas.collect::<Result<Vec<_>, StorageError>>()?;
    Ok(Group { columns, replicas })
}

/// Plans a chunk in each of its replicas.
fn plan_replicas(
    table: &Table,
    placement: &ReplicaPlacement,
    column: usize,
    values: &[ArrayRef],
) -> Result<Vec<ChunkPlan>, StorageError> {
    let spec = &table.spec().columns[column];
    let encodings = placement.replicas(column).map(|(encoding, _)| encoding);
    let encodings: Vec<Option<Encoding>> = encodings.collect();
    let failed = |source| StorageError::Encode {
        column: spec.name.clone(),
        source,
    };
    let (first, further) = encodings.split_first().expect("a column has a replica");
    let dictionaries = table.dictionaries();
    let plan = dictionaries.plan(column, spec, first.or(spec.encoding), values);
    let plan = plan.map_err(failed)?;
    if further.is_empty() {
        return Ok(vec![plan]);
    }
    let checksums = ValueChecksums::new(spec.ty, values).map_err(failed)?;
    let further = further.iter().map(|encoding| {
        let plan = plan_further(spec, *encoding, values);
        plan.map(|plan| plan.with_checksums(&checksums))
    });
    let all = std::iter::once(Ok(plan.with_checksums(&checksums))).chain(further);
    all.collect::<Result<_, _>>().map_err(failed)
}

/// Plans a replica beyond the first, which holds no codes of a dictionary.
pub(crate) fn plan_further(
    spec: &ColumnSpec,
    encoding: Option<Encoding>,
    values: &[ArrayRef],
) -> Result<ChunkPlan, EncodeError> {
    ChunkPlan::new(spec.ty, values, encoding, None)
}

/// Writes planned chunks one after the other into a new extent in these tiers. Returns it and the places of the chunks.
pub(crate) fn write_chunks(
    storage: &Storage,
    tiers: &[TierId],
    owner: Owner,
    plans: &[&ChunkPlan],
) -> Result<(Arc<OwnedExtent>, Vec<Range<usize>>), StorageError> {
    let lens = plans.iter().map(|plan| plan.len_bytes());
    write_side_by_side(storage, tiers, owner, lens, |at, out| plans[at].write(out))
}

/// Writes chunks of these lengths one after the other into a new extent in these tiers. Returns it and the places of the chunks.
pub(crate) fn write_side_by_side(
    storage: &Storage,
    tiers: &[TierId],
    owner: Owner,
    lens: impl Iterator<Item = usize>,
    write: impl Fn(usize, &mut [u8]),
) -> Result<(Arc<OwnedExtent>, Vec<Range<usize>>), StorageError> {
    let mut len_bytes = 0;
    let places = lens.map(|len| {
        let start = len_bytes;
        // Chunks are aligned to cache lines.
        len_bytes = (start + len).next_multiple_of(LINE_BYTES);
        start..start + len
    });
    let places: Vec<Range<usize>> = places.collect();
    let mut writer = storage.allocate(tiers, len_bytes as u64, owner)?;
    let mut written = 0;
    for (at, place) in places.iter().enumerate() {
        // The extent's checksum covers the gaps between chunks, so they are filled with zeros.
        writer[written..place.start].fill(0);
        write(at, &mut writer[place.clone()]);
        written = place.end;
        writer.copy_up_to(written);
    }
    writer[written..].fill(0);
    Ok((writer.finish()?, places))
}
