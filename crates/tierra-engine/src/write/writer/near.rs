//! Near copies, made after segments were opened or committed in place, and given to what is read most. No request waits for a
//! copy.
//!
//! Invariant: the rows stay the same, and snapshots keep their copies.

use std::collections::BTreeMap;
use std::sync::Arc;

use tierra_memory::NearCopy;

use super::jobs::{Job, JobKind};
use crate::error::DamageError;
use crate::segment::Segment;
use crate::storage::Storage;
use crate::table::Table;
use crate::table::near_object::NearChange;
use crate::table::version::TableVersion;
use crate::tiering::objects::Object;

/// Replaces a segment by itself with near copies, if there is room and the table still has it.
pub(super) fn copy(storage: &Storage, table: &Arc<Table>, segment: u32) {
    if storage.is_closing() || !storage.near.has_room(1) {
        return;
    }
    let current = table.current();
    let Some(at) = current.segments.position(segment) else {
        return;
    };
    let mut segments = current.segments.to_vec();
    let copied =
        storage.read_validated(|| segments[at].with_near_copies(table.spec(), &storage.near));
    match copied.unwrap_or_else(|error| Err(error.into())) {
        Ok(copied) => segments[at] = copied,
        Err(error) => {
            // The far chunks are open already; reading them goes on.
            tracing::warn!(table = %table.spec().name, segment, %error, "a segment is damaged: no near copies of it were made");
            return;
        }
    }
    table.publish(TableVersion {
        segments: segments.into_iter().collect(),
        ..current.next()
    });
}

/// The job that does the same beside the writer, where values have to be encoded for it. Columns that request it come first.
pub(super) fn job(storage: &Storage, table: &Arc<Table>, segment: u32) -> Option<Job> {
    if !storage.near.has_room(1) {
        return None;
    }
    let (current, spec) = (table.current(), table.spec());
    let segment = current.segments.get(segment)?;
    let columns = (0..spec.columns.len()).filter(|column| !segment.is_placeholder(*column));
    let mut columns: Vec<usize> = columns
        .filter(|column| spec.columns[*column].near != Some(false))
        .collect();
    columns.sort_by_key(|column| spec.columns[*column].near.is_none());
    let objects = columns.iter().map(|column| Object::Chunk(segment, *column));
    let objects = objects.filter(|object| object.near().is_none());
    let objects: Vec<_> = objects.map(|object| object.name()).collect();
    (!objects.is_empty()).then(|| Job {
        table: table.clone(),
        work: JobKind::Copy { objects },
    })
}

/// Columns of a segment, each with the copy that it is to be read from.
type ChunkCopies = Vec<(usize, Option<Arc<NearCopy>>)>;

/// Makes objects of a table read from other near copies, or where they are stored. Objects that the table no longer has are
/// skipped, and their copies dropped.
pub(super) fn place(storage: &Storage, table: &Arc<Table>, changes: Vec<NearChange>) {
    let current = table.current();
    let (mut parts, mut runs) = (current.indexes.to_vec(), current.keys.runs().to_vec());
    let mut chunks: BTreeMap<u32, ChunkCopies> = BTreeMap::new();
    for NearChange { object, copy } in changes {
        match object.find(&current) {
            None => {}
            Some(Object::Chunk(segment, column)) => {
                let of_segment = chunks.entry(segment.id()).or_default();
                of_segment.push((column, copy));
            }
            Some(Object::Part(part)) => {
                let other = part.with_near(copy, &storage.calibration);
                replace(&mut parts, part, other);
            }
            Some(Object::Run(run)) => {
                let other = run.with_near(copy, &storage.calibration);
                replace(&mut runs, run, other);
            }
        }
    }
    let segment = |segment: &Arc<Segment>| match chunks.remove(&segment.id()) {
        Some(copies) => segment.with_near(table.spec(), copies),
        None => Ok(segment.clone()),
    };
    let segments = current.segments.iter().map(segment);
    let segments: Vec<Arc<Segment>> = match segments.collect::<Result<_, DamageError>>() {
        Ok(segments) => segments,
        Err(error) => {
            tracing::warn!(table = %table.spec().name, %error, "near copies stay as they are");
            return;
        }
    };
    table.publish(TableVersion {
        segments: segments.into_iter().collect(),
        indexes: parts.into(),
        keys: current.keys.with_runs(runs),
        ..current.next()
    });
}

fn replace<T>(all: &mut [Arc<T>], old: &Arc<T>, new: Arc<T>) {
    if let Some(place) = all.iter_mut().find(|one| Arc::ptr_eq(one, old)) {
        *place = new;
    }
}
