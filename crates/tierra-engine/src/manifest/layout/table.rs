//! A table in the body of a manifest: its segments, dictionaries, tail, parts of indexes and runs of keys.
//!
//! Invariant: decoded entries are consistent: ids ascend, each segment has a chunk per column, and parts and runs cover existing
//! segments, in the generations of the columns.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use tierra_column::POSTINGS_CHUNKS_MAX;

use super::spec::{
    ColumnPositions, decode_encoding, decode_spec, decode_type, encode_encoding, encode_spec,
};
use super::{CHUNK_BYTES, EXTENT_BYTES, Extents, PLACE_BYTES, decode_placement, encode_placement};
use crate::manifest::SEGMENT_ROWS;
use crate::manifest::codec::{Decoder, Encoder};
use crate::manifest::{
    ChunkPlace, DeletedEntry, DictionaryEntry, FurtherReplica, LogEntry, ManifestError, PartEntry,
    RunEntry, SegmentEntry, StoredRange, TableEntry, TailEntry, TierEntry,
};
use crate::spec::TableSpec;
use crate::spec::replicas::REPLICAS_MOST;

pub(super) fn encode_table(out: &mut Encoder, table: &TableEntry) {
    out.u64(table.id);
    encode_spec(out, table);
    encode_placement(out, &table.placement, &table.column_ids);
    out.u32(table.next_segment_id);
    out.count(table.dictionaries.iter().flatten().count());
    for (column, dictionary) in table.dictionaries.iter().enumerate() {
        let Some(dictionary) = dictionary else {
            continue;
        };
        out.u32(table.column_ids[column].0);
        out.u64(dictionary.generation);
        encode_place(out, &dictionary.main);
        out.count(dictionary.deltas.len());
        for delta in &dictionary.deltas {
            encode_place(out, delta);
        }
    }
    out.count(table.segments.len());
    for segment in &table.segments {
        out.u32(segment.id);
        out.u32(segment.rows);
        out.count(segment.extents.len());
        for extent in &segment.extents {
            out.u64(extent.0);
        }
        match table.deleted.get(&segment.id) {
            None => out.u8(0),
            Some(deleted) => {
                out.u8(1);
                out.u32(deleted.rows);
                out.u64(deleted.commit);
                encode_place(out, &deleted.place);
            }
        }
        out.count(segment.chunks.len());
        for column in 0..segment.chunks.len() {
            out.u32(table.column_ids[column].0);
            let ty = table.spec.columns[column].ty;
            ty.tag().into_iter().for_each(|byte| out.u8(byte));
            out.u8(segment.replicas(column).count() as u8);
            for place in segment.replicas(column) {
                encode_encoding(out, Some(place.encoding));
                out.u32(place.extent);
                out.u64(place.offset);
                out.u64(place.len_bytes);
            }
        }
    }
    out.count(table.parts.len());
    for part in &table.parts {
        out.u32(table.column_ids[part.column as usize].0);
        out.u64(part.generation);
        out.count(part.segments.len());
        for segment in &part.segments {
            out.u32(*segment);
        }
        out.u64(part.extent.0);
    }
    out.count(table.runs.len());
    for run in &table.runs {
        out.count(run.segments.len());
        for segment in &run.segments {
            out.u32(*segment);
        }
        out.u64(run.extent.0);
    }
    out.u32(table.tail.segment_id);
    out.u64(table.tail.first_sequence);
    out.u64(table.tail.reached);
    out.count(table.tail.logs.len());
    for log in &table.tail.logs {
        out.u64(log.extent.0);
        out.u64(log.epoch);
    }
}

pub(super) fn decode_table(
    input: &mut Decoder,
    extents: &mut Extents,
    tiers: &[TierEntry],
) -> Result<TableEntry, ManifestError> {
    let id = input.u64()?;
    let ((spec, column_ids, next_column_id), columns) = decode_spec(input)?;
    let placement = decode_placement(input, tiers, &spec, &columns)?;
    let next_segment_id = input.u32()?;
    let mut dictionaries = vec![None; spec.columns.len()];
    for _ in 0..input.count(4 + 8 + PLACE_BYTES + 4)? {
        let column = columns.read(input)?;
        let generation = input.counter()?;
        let main = decode_place(input, extents)?;
        let deltas = input.list(PLACE_BYTES, |input| decode_place(input, extents))?;
        match dictionaries.get_mut(column) {
            Some(slot @ None) => {
                *slot = Some(DictionaryEntry {
                    generation,
                    main,
                    deltas,
                })
            }
            _ => return Err(input.fault(format!("column {column} has no place for a dictionary"))),
        }
    }
    let mut segments: Vec<Arc<SegmentEntry>> = Vec::new();
    let mut deleted = BTreeMap::new();
    for _ in 0..input.count(17 + spec.columns.len() * CHUNK_BYTES)? {
        let (segment, of_segment) = decode_segment(input, &spec, &columns, extents)?;
        deleted.extend(of_segment.map(|of_segment| (segment.id, of_segment)));
        let ascends = segments.last().is_none_or(|last| last.id < segment.id);
        if !ascends || segment.id >= next_segment_id {
            return Err(input.fault(format!("segment {} is out of order", segment.id)));
        }
        segments.push(Arc::new(segment));
    }
    let parts = decode_parts(input, &spec, &columns, &dictionaries, &segments, extents)?;
    let runs = decode_runs(input, &spec, &segments, extents)?;
    let segment_id = input.u32()?;
    if segment_id >= next_segment_id || segments.iter().any(|segment| segment.id == segment_id) {
        return Err(input.fault(format!("the tail's segment id {segment_id} is not its own")));
    }
    let first_sequence = input.counter()?;
    let reached = input.counter()?;
    if reached < first_sequence {
        return Err(input.fault(format!(
            "the log reached record {reached} and begins with {first_sequence}"
        )));
    }
    let logs = input.list(EXTENT_BYTES + 8, |input| {
        Ok(LogEntry {
            extent: extents.name(input)?,
            epoch: input.u64()?,
        })
    })?;
    let tail = TailEntry {
        segment_id,
        first_sequence,
        reached,
        logs,
    };
    Ok(TableEntry {
        id,
        spec: Arc::new(spec),
        column_ids,
        next_column_id,
        placement,
        next_segment_id,
        dictionaries,
        segments,
        deleted,
        parts,
        runs,
        tail,
    })
}

fn decode_segment(
    input: &mut Decoder,
    spec: &TableSpec,
    columns: &ColumnPositions,
    known: &mut Extents,
) -> Result<(SegmentEntry, Option<DeletedEntry>), ManifestError> {
    let (id, rows) = (input.u32()?, input.u32()?);
    if rows == 0 || rows as usize > SEGMENT_ROWS {
        return Err(input.fault(format!("segment {id} claims {rows} rows")));
    }
    let extents = input.list(EXTENT_BYTES, |input| known.name(input))?;
    let deleted = decode_deleted(input, id, rows, known)?;
    let (mut chunks, mut further) = (vec![None; spec.columns.len()], Vec::new());
    for _ in 0..input.count(CHUNK_BYTES)? {
        let column = columns.read(input)?;
        let name = &spec.columns[column].name;
        for (number, place) in decode_chunk(input, spec, column)?.into_iter().enumerate() {
            let fits = extents
                .get(place.extent as usize)
                .is_some_and(|extent| known.fits(*extent, place.offset, place.len_bytes));
            if !fits {
                return Err(input.fault(format!(
                    "the chunk of column {name:?} in segment {id} lies outside its extent"
                )));
            }
            if number > 0 {
                further.push(FurtherReplica {
                    column: column as u32,
                    place,
                });
            } else if chunks[column].replace(place).is_some() {
                return Err(input.fault(format!("segment {id} has two chunks of column {name:?}")));
            }
        }
    }
    further.sort_by_key(|it| it.column);
    if let Some(column) = chunks.iter().position(Option::is_none) {
        return Err(ManifestError::Unknown {
            what: format!(
                "a segment, {id}, that is older than column {:?}",
                spec.columns[column].name
            ),
        });
    }
    let segment = SegmentEntry {
        id,
        rows,
        extents,
        chunks: chunks.into_iter().flatten().collect(),
        further,
    };
    Ok((segment, deleted))
}

/// The deleted rows of a segment, if it has any.
fn decode_deleted(
    input: &mut Decoder,
    id: u32,
    rows: u32,
    extents: &mut Extents,
) -> Result<Option<DeletedEntry>, ManifestError> {
    match input.u8()? {
        0 => return Ok(None),
        1 => {}
        other => {
            let what = format!("deleted rows of segment {id} in form {other}");
            return Err(ManifestError::Unknown { what });
        }
    }
    let deleted = DeletedEntry {
        rows: input.u32()?,
        commit: input.counter()?,
        place: decode_place(input, extents)?,
    };
    if deleted.rows == 0 || deleted.rows > rows {
        let deleted = deleted.rows;
        return Err(input.fault(format!(
            "segment {id} has {rows} rows, of which {deleted} are deleted"
        )));
    }
    Ok(Some(deleted))
}

/// The replicas of a chunk of its column's type, the first one first.
fn decode_chunk(
    input: &mut Decoder,
    spec: &TableSpec,
    column: usize,
) -> Result<Vec<ChunkPlace>, ManifestError> {
    let unknown = |what: String| ManifestError::Unknown { what };
    let column = &spec.columns[column];
    let name = &column.name;
    let ty = decode_type(input, name)?;
    if ty != column.ty {
        return Err(unknown(format!(
            "a chunk of column {name:?} that was written as {ty} before the column became {}",
            column.ty
        )));
    }
    let count = usize::from(input.u8()?);
    // While a placement changes, a chunk has the replicas of both.
    if !(1..=REPLICAS_MOST).contains(&count) {
        let what = format!("a chunk of column {name:?} has {count} replicas");
        return Err(input.fault(what));
    }
    let mut places = Vec::with_capacity(count);
    for number in 0..count {
        let encoding = decode_encoding(input, name)?.filter(|encoding| encoding.supports(ty));
        let encoding = encoding.ok_or_else(|| {
            input.fault(format!(
                "a chunk of column {name:?} has an encoding that {ty} cannot have"
            ))
        })?;
        if number > 0 && encoding.uses_dictionary() {
            return Err(input.fault(format!(
                "a further replica of a chunk of column {name:?} holds codes of a dictionary"
            )));
        }
        places.push(ChunkPlace {
            extent: input.u32()?,
            offset: input.u64()?,
            len_bytes: input.u64()?,
            encoding,
        });
    }
    Ok(places)
}

/// Parts of indexes that the columns have, in the generations of their dictionaries, covering segments of the table, each at most
/// once per column.
fn decode_parts(
    input: &mut Decoder,
    spec: &TableSpec,
    columns: &ColumnPositions,
    dictionaries: &[Option<DictionaryEntry>],
    segments: &[Arc<SegmentEntry>],
    extents: &mut Extents,
) -> Result<Vec<Arc<PartEntry>>, ManifestError> {
    let mut parts = Vec::new();
    let mut covered = HashSet::new();
    for _ in 0..input.count(4 + 8 + 4 + EXTENT_BYTES)? {
        let part = PartEntry {
            column: columns.read(input)? as u32,
            generation: input.counter()?,
            segments: input.list(4, Decoder::u32)?,
            extent: extents.name(input)?,
        };
        let column = part.column as usize;
        let is_indexed = spec.columns.get(column).is_some_and(|c| c.index.is_some());
        let dictionary = dictionaries.get(column).and_then(Option::as_ref);
        if !is_indexed || dictionary.is_none_or(|known| known.generation != part.generation) {
            return Err(input.fault(format!(
                "column {column} has no place for a part of an index"
            )));
        }
        let is_whole =
            part.segments.len() <= POSTINGS_CHUNKS_MAX && are_segments(&part.segments, segments);
        if !is_whole || !part.segments.iter().all(|id| covered.insert((column, *id))) {
            return Err(input.fault(format!(
                "a part of the index of column {column} covers segments out of order, twice, or that are not there"
            )));
        }
        parts.push(Arc::new(part));
    }
    Ok(parts)
}

/// Runs of a table with a key, covering segments of the table, each at most once.
fn decode_runs(
    input: &mut Decoder,
    spec: &TableSpec,
    segments: &[Arc<SegmentEntry>],
    extents: &mut Extents,
) -> Result<Vec<Arc<RunEntry>>, ManifestError> {
    let mut covered = HashSet::new();
    let runs = input.list(4 + EXTENT_BYTES, |input| {
        let run = RunEntry {
            segments: input.list(4, Decoder::u32)?,
            extent: extents.name(input)?,
        };
        let is_whole = are_segments(&run.segments, segments);
        if !is_whole || !run.segments.iter().all(|id| covered.insert(*id)) {
            return Err(input.fault(
                "a part of the index of keys covers segments out of order, twice, or that are not there",
            ));
        }
        Ok(Arc::new(run))
    })?;
    match spec.primary_key.is_empty() && !runs.is_empty() {
        false => Ok(runs),
        true => Err(input.fault("a table without a key has no place for an index of keys")),
    }
}

/// Whether these are ids of segments, at least one, ascending.
fn are_segments(ids: &[u32], segments: &[Arc<SegmentEntry>]) -> bool {
    let is_there = |id: &u32| {
        let found = segments.binary_search_by_key(id, |segment| segment.id);
        found.is_ok()
    };
    !ids.is_empty() && ids.is_sorted_by(|a, b| a < b) && ids.iter().all(is_there)
}

fn encode_place(out: &mut Encoder, place: &StoredRange) {
    out.u64(place.extent.0);
    out.u64(place.offset);
    out.u64(place.len_bytes);
}

fn decode_place(input: &mut Decoder, extents: &mut Extents) -> Result<StoredRange, ManifestError> {
    let place = StoredRange {
        extent: extents.name(input)?,
        offset: input.u64()?,
        len_bytes: input.u64()?,
    };
    if !extents.fits(place.extent, place.offset, place.len_bytes) {
        return Err(
            input.fault("a dictionary piece, or a bitmap of deleted rows, lies outside its extent")
        );
    }
    Ok(place)
}
