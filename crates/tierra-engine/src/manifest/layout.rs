//! The body of a manifest, version 2, and of version 1, which knew no indexes: what is written where.
//!
//! Invariant: `decode(encode(m)) == m`, and `decode` accepts nothing that the rest of the engine
//! could not live with: places lie inside their extents, ids ascend, every segment has a chunk per
//! column.

use std::collections::HashSet;
use std::sync::Arc;

use tierra_column::{Encoding, LogicalType, POSTINGS_CHUNKS_MAX};
use tierra_memory::Extent;

use super::codec::{Decoder, Encoder};
use super::{
    ChunkPlace, DictionaryEntry, LogEntry, Manifest, ManifestError, PartEntry, Place, SegmentEntry,
    TableEntry, TailEntry,
};
use crate::index_kind::IndexKind;
use crate::segment::SEGMENT_ROWS;
use crate::spec::{ColumnSpec, TableSpec};

const EXTENT_BYTES: usize = 16;
const PLACE_BYTES: usize = EXTENT_BYTES + 16;
const CHUNK_BYTES: usize = 20;
/// The least that a table takes: its fixed fields and a name of one byte.
const TABLE_BYTES: usize = 64;

pub(super) fn encode(manifest: &Manifest) -> Vec<u8> {
    let mut out = Encoder::default();
    out.u64(manifest.version);
    out.u64(manifest.next_table_id);
    out.count(manifest.tables.len());
    for table in &manifest.tables {
        encode_table(&mut out, table);
    }
    out.into_bytes()
}

/// The first version that knows indexes.
const INDEXES_SINCE: u8 = 2;

pub(super) fn decode(body: &[u8], format: u8) -> Result<Manifest, ManifestError> {
    let mut input = Decoder::new(body);
    let version = input.counter()?;
    let next_table_id = input.counter()?;
    let mut tables: Vec<Arc<TableEntry>> = Vec::new();
    for _ in 0..input.count(TABLE_BYTES)? {
        let table = decode_table(&mut input, format)?;
        if table.id >= next_table_id
            || tables
                .iter()
                .any(|other| other.id == table.id || other.spec.name == table.spec.name)
        {
            return Err(input.fault(format!(
                "table {:?} has an id or a name that is taken",
                table.spec.name
            )));
        }
        tables.push(Arc::new(table));
    }
    input.finish()?;
    Ok(Manifest {
        version,
        next_table_id,
        tables,
    })
}

fn encode_table(out: &mut Encoder, table: &TableEntry) {
    out.u64(table.id);
    encode_spec(out, &table.spec);
    out.u32(table.next_segment_id);
    out.u64(table.delete_vector_version);
    out.count(table.dictionaries.iter().flatten().count());
    for (column, dictionary) in table.dictionaries.iter().enumerate() {
        let Some(dictionary) = dictionary else {
            continue;
        };
        out.count(column);
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
            encode_extent(out, extent);
        }
        for chunk in &segment.chunks {
            out.u32(chunk.extent);
            out.u64(chunk.offset);
            out.u64(chunk.len_bytes);
        }
    }
    out.count(table.parts.len());
    for part in &table.parts {
        out.u32(part.column);
        out.u64(part.generation);
        out.count(part.segments.len());
        for segment in &part.segments {
            out.u32(*segment);
        }
        encode_extent(out, &part.extent);
    }
    out.u32(table.tail.segment_id);
    out.u64(table.tail.first_sequence);
    out.count(table.tail.logs.len());
    for log in &table.tail.logs {
        encode_extent(out, &log.extent);
        out.u64(log.epoch);
    }
}

fn decode_table(input: &mut Decoder, format: u8) -> Result<TableEntry, ManifestError> {
    let id = input.u64()?;
    let spec = decode_spec(input, format)?;
    let columns = spec.columns.len();
    let next_segment_id = input.u32()?;
    let delete_vector_version = input.u64()?;
    let mut dictionaries = vec![None; columns];
    for _ in 0..input.count(4 + 8 + PLACE_BYTES + 4)? {
        let column = input.u32()? as usize;
        let generation = input.counter()?;
        let main = decode_place(input)?;
        let deltas = input.list(PLACE_BYTES, decode_place)?;
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
    for _ in 0..input.count(12 + columns * CHUNK_BYTES)? {
        let segment = decode_segment(input, columns)?;
        let ascends = segments.last().is_none_or(|last| last.id < segment.id);
        if !ascends || segment.id >= next_segment_id {
            return Err(input.fault(format!("segment {} is out of order", segment.id)));
        }
        segments.push(Arc::new(segment));
    }
    let parts = match format >= INDEXES_SINCE {
        true => decode_parts(input, &spec, &dictionaries, &segments)?,
        false => Vec::new(),
    };
    let segment_id = input.u32()?;
    if segment_id >= next_segment_id || segments.iter().any(|segment| segment.id == segment_id) {
        return Err(input.fault(format!("the tail's segment id {segment_id} is not its own")));
    }
    let first_sequence = input.counter()?;
    let logs = input.list(EXTENT_BYTES + 8, |input| {
        Ok(LogEntry {
            extent: decode_extent(input)?,
            epoch: input.u64()?,
        })
    })?;
    let tail = TailEntry {
        segment_id,
        first_sequence,
        logs,
    };
    Ok(TableEntry {
        id,
        spec: Arc::new(spec),
        next_segment_id,
        delete_vector_version,
        dictionaries,
        segments,
        parts,
        tail,
    })
}

fn decode_segment(input: &mut Decoder, columns: usize) -> Result<SegmentEntry, ManifestError> {
    let (id, rows) = (input.u32()?, input.u32()?);
    if rows == 0 || rows as usize > SEGMENT_ROWS {
        return Err(input.fault(format!("segment {id} claims {rows} rows")));
    }
    let extents = input.list(EXTENT_BYTES, decode_extent)?;
    let mut chunks = Vec::with_capacity(columns);
    for column in 0..columns {
        let chunk = ChunkPlace {
            extent: input.u32()?,
            offset: input.u64()?,
            len_bytes: input.u64()?,
        };
        let fits = extents
            .get(chunk.extent as usize)
            .is_some_and(|extent| fits(extent, chunk.offset, chunk.len_bytes));
        if !fits {
            return Err(input.fault(format!(
                "the chunk of column {column} in segment {id} lies outside its extent"
            )));
        }
        chunks.push(chunk);
    }
    Ok(SegmentEntry {
        id,
        rows,
        extents,
        chunks,
    })
}

/// Parts of indexes that the columns have, in their dictionaries' generations, of segments that the
/// table has, each at most once a column.
fn decode_parts(
    input: &mut Decoder,
    spec: &TableSpec,
    dictionaries: &[Option<DictionaryEntry>],
    segments: &[Arc<SegmentEntry>],
) -> Result<Vec<Arc<PartEntry>>, ManifestError> {
    let mut parts = Vec::new();
    let mut covered = HashSet::new();
    for _ in 0..input.count(4 + 8 + 4 + EXTENT_BYTES)? {
        let part = PartEntry {
            column: input.u32()?,
            generation: input.counter()?,
            segments: input.list(4, Decoder::u32)?,
            extent: decode_extent(input)?,
        };
        let column = part.column as usize;
        let is_indexed = spec.columns.get(column).is_some_and(|c| c.index.is_some());
        let dictionary = dictionaries.get(column).and_then(Option::as_ref);
        if !is_indexed || dictionary.is_none_or(|known| known.generation != part.generation) {
            return Err(input.fault(format!(
                "column {column} has no place for a part of an index"
            )));
        }
        let is_there = |id: &u32| {
            segments
                .binary_search_by_key(id, |segment| segment.id)
                .is_ok()
        };
        let is_whole = !part.segments.is_empty()
            && part.segments.len() <= POSTINGS_CHUNKS_MAX
            && part.segments.is_sorted_by(|a, b| a < b)
            && part.segments.iter().all(is_there);
        if !is_whole || !part.segments.iter().all(|id| covered.insert((column, *id))) {
            return Err(input.fault(format!(
                "a part of the index of column {column} covers segments out of order, twice, or that are not there"
            )));
        }
        parts.push(Arc::new(part));
    }
    Ok(parts)
}

fn fits(extent: &Extent, offset: u64, len_bytes: u64) -> bool {
    offset
        .checked_add(len_bytes)
        .is_some_and(|end| end <= extent.len_bytes)
}

fn encode_extent(out: &mut Encoder, extent: &Extent) {
    out.u64(extent.offset);
    out.u64(extent.len_bytes);
}

fn decode_extent(input: &mut Decoder) -> Result<Extent, ManifestError> {
    Ok(Extent {
        offset: input.u64()?,
        len_bytes: input.u64()?,
    })
}

fn encode_place(out: &mut Encoder, place: &Place) {
    encode_extent(out, &place.extent);
    out.u64(place.offset);
    out.u64(place.len_bytes);
}

fn decode_place(input: &mut Decoder) -> Result<Place, ManifestError> {
    let place = Place {
        extent: decode_extent(input)?,
        offset: input.u64()?,
        len_bytes: input.u64()?,
    };
    if !fits(&place.extent, place.offset, place.len_bytes) {
        return Err(input.fault("a dictionary image lies outside its extent"));
    }
    Ok(place)
}

fn encode_spec(out: &mut Encoder, spec: &TableSpec) {
    out.text(&spec.name);
    out.count(spec.columns.len());
    for column in &spec.columns {
        out.text(&column.name);
        let (ty, precision, scale) = match column.ty {
            LogicalType::Boolean => (0, 0, 0),
            LogicalType::Integer => (1, 0, 0),
            LogicalType::BigInt => (2, 0, 0),
            LogicalType::Decimal { precision, scale } => (3, precision, scale),
            LogicalType::Double => (4, 0, 0),
            LogicalType::Date => (5, 0, 0),
            LogicalType::Timestamp => (6, 0, 0),
            LogicalType::Varchar => (7, 0, 0),
        };
        out.u8(ty);
        out.u8(precision);
        out.u8(scale);
        out.u8(u8::from(column.nullable));
        out.u8(match column.encoding {
            None => 0,
            Some(Encoding::Plain) => 1,
            Some(Encoding::Static) => 2,
            Some(Encoding::Dynamic) => 3,
            Some(Encoding::FrameOfReference) => 4,
            Some(Encoding::Delta) => 5,
            Some(Encoding::Dictionary) => 6,
        });
        out.u8(match column.near {
            None => 0,
            Some(true) => 1,
            Some(false) => 2,
        });
        out.u8(match column.index {
            None => 0,
            Some(IndexKind::Inverted) => 1,
        });
    }
    out.count(spec.primary_key.len());
    for column in &spec.primary_key {
        out.count(*column);
    }
}

fn decode_spec(input: &mut Decoder, format: u8) -> Result<TableSpec, ManifestError> {
    let name = input.text()?;
    let columns = input.list(10, |input| decode_column(input, format))?;
    let primary_key = input.list(4, |input| Ok(input.u32()? as usize))?;
    let spec = TableSpec {
        name,
        columns,
        primary_key,
    };
    spec.check()?;
    Ok(spec)
}

fn decode_column(input: &mut Decoder, format: u8) -> Result<ColumnSpec, ManifestError> {
    let name = input.text()?;
    let (ty, precision, scale) = (input.u8()?, input.u8()?, input.u8()?);
    let ty = match ty {
        0 => LogicalType::Boolean,
        1 => LogicalType::Integer,
        2 => LogicalType::BigInt,
        3 => LogicalType::Decimal { precision, scale },
        4 => LogicalType::Double,
        5 => LogicalType::Date,
        6 => LogicalType::Timestamp,
        7 => LogicalType::Varchar,
        other => return Err(input.fault(format!("column {name:?} has unknown type {other}"))),
    };
    let nullable = match input.u8()? {
        0 => false,
        1 => true,
        other => return Err(input.fault(format!("column {name:?} has nullability {other}"))),
    };
    let encoding = match input.u8()? {
        0 => None,
        1 => Some(Encoding::Plain),
        2 => Some(Encoding::Static),
        3 => Some(Encoding::Dynamic),
        4 => Some(Encoding::FrameOfReference),
        5 => Some(Encoding::Delta),
        6 => Some(Encoding::Dictionary),
        other => return Err(input.fault(format!("column {name:?} has unknown encoding {other}"))),
    };
    let near = match input.u8()? {
        0 => None,
        1 => Some(true),
        2 => Some(false),
        other => return Err(input.fault(format!("column {name:?} has unknown placement {other}"))),
    };
    let index = match format >= INDEXES_SINCE {
        true => input.u8()?,
        false => 0,
    };
    let index = match index {
        0 => None,
        1 if encoding == Some(Encoding::Dictionary) => Some(IndexKind::Inverted),
        other => return Err(input.fault(format!("column {name:?} cannot have index {other}"))),
    };
    Ok(ColumnSpec {
        name,
        ty,
        nullable,
        encoding,
        near,
        index,
    })
}
