//! The body of a manifest, version 4, and of versions 1, which knew no indexes, 2, whose extents have
//! one copy each and are named by its place, and 3, which knew no runs of keys: what is written where.
//!
//! Invariant: `decode(encode(m)) == m`, and `decode` accepts nothing that the rest of the engine
//! could not live with: places lie inside their extents, ids ascend, every segment has a chunk per
//! column, every extent is known and named.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use tierra_column::{Encoding, LogicalType, POSTINGS_CHUNKS_MAX};

use super::codec::{Decoder, Encoder};
use super::{
    ChunkPlace, CopyEntry, DictionaryEntry, ExtentEntry, ExtentId, LogEntry, Manifest,
    ManifestError, PartEntry, Place, RunEntry, SegmentEntry, TableEntry, TailEntry, TierEntry,
};
use crate::index_kind::IndexKind;
use crate::segment::SEGMENT_ROWS;
use crate::spec::{ColumnSpec, TableSpec};
use crate::tiers::{COPIES_MOST, Homes, TIERS_MOST, TierId};

/// The least that the name of an extent takes, in any version.
const EXTENT_BYTES: usize = 8;
const PLACE_BYTES: usize = EXTENT_BYTES + 16;
const CHUNK_BYTES: usize = 20;
/// The least that a table takes: its fixed fields and a name of one byte.
const TABLE_BYTES: usize = 64;

pub(super) fn encode(manifest: &Manifest) -> Vec<u8> {
    let mut out = Encoder::default();
    out.u64(manifest.version);
    out.u64(manifest.next_table_id);
    out.u64(manifest.next_extent_id);
    out.u32(manifest.last_tier_id);
    out.count(manifest.lineage.len());
    manifest.lineage.iter().for_each(|mark| out.u64(*mark));
    out.count(manifest.tiers.len());
    for tier in &manifest.tiers {
        out.u32(tier.id.0);
        out.text(&tier.name);
        out.u64(tier.pool_id);
        out.u8(u8::from(tier.present));
    }
    out.count(manifest.extents.len());
    for (id, extent) in &manifest.extents {
        out.u64(id.0);
        out.u64(extent.len_bytes);
        out.count(extent.copies.len());
        for copy in &extent.copies {
            out.u32(copy.tier.0);
            out.u64(copy.offset);
        }
    }
    out.count(manifest.tables.len());
    for table in &manifest.tables {
        encode_table(&mut out, table);
    }
    out.into_bytes()
}

/// The first version that knows indexes.
const INDEXES_SINCE: u8 = 2;
/// The first version that knows tiers and copies.
const COPIES_SINCE: u8 = 3;
/// The first version that knows runs of keys.
const RUNS_SINCE: u8 = 4;

/// The extents that the body may name.
struct Extents {
    format: u8,
    known: BTreeMap<ExtentId, ExtentEntry>,
    named: HashSet<ExtentId>,
    /// Versions 1 and 2: extents in the order in which they are named first.
    by_place: HashMap<(u64, u64), ExtentId>,
}

impl Extents {
    /// Reads the name of an extent.
    fn name(&mut self, input: &mut Decoder) -> Result<ExtentId, ManifestError> {
        if self.format >= COPIES_SINCE {
            let id = ExtentId(input.u64()?);
            if !self.known.contains_key(&id) {
                return Err(input.fault(format!("there is no extent {}", id.0)));
            }
            self.named.insert(id);
            return Ok(id);
        }
        let (offset, len_bytes) = (input.u64()?, input.u64()?);
        let next = ExtentId(self.by_place.len() as u64);
        let id = *self.by_place.entry((offset, len_bytes)).or_insert(next);
        let copies = vec![CopyEntry {
            tier: TierId::FIRST,
            offset,
        }];
        self.known
            .entry(id)
            .or_insert(ExtentEntry { len_bytes, copies });
        self.named.insert(id);
        Ok(id)
    }

    fn fits(&self, id: ExtentId, offset: u64, len_bytes: u64) -> bool {
        let end = offset.checked_add(len_bytes);
        let extent = self.known.get(&id);
        extent.is_some_and(|extent| end.is_some_and(|end| end <= extent.len_bytes))
    }
}

pub(super) fn decode(body: &[u8], format: u8) -> Result<Manifest, ManifestError> {
    let mut input = Decoder::new(body);
    let version = input.counter()?;
    let next_table_id = input.counter()?;
    let (mut next_extent_id, mut last_tier_id) = (0, 0);
    let (mut lineage, mut tiers) = (Vec::new(), Vec::new());
    let mut known = BTreeMap::new();
    if format >= COPIES_SINCE {
        next_extent_id = input.counter()?;
        last_tier_id = input.u32()?;
        lineage = input.list(8, Decoder::u64)?;
        tiers = decode_tiers(&mut input)?;
        let over = |tier: &TierEntry| tier.id.0 > last_tier_id;
        if tiers.iter().any(over) || last_tier_id == u32::MAX {
            return Err(input.fault("a tier has a number that was not given out"));
        }
        known = decode_extents(&mut input, &tiers, next_extent_id)?;
    }
    let mut extents = Extents {
        format,
        known,
        named: HashSet::new(),
        by_place: HashMap::new(),
    };
    let mut tables: Vec<Arc<TableEntry>> = Vec::new();
    for _ in 0..input.count(TABLE_BYTES)? {
        let table = decode_table(&mut input, format, &mut extents, &tiers)?;
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
    if let Some(id) = extents.known.keys().find(|id| !extents.named.contains(id)) {
        return Err(input.fault(format!("nothing names extent {}", id.0)));
    }
    input.finish()?;
    if format < COPIES_SINCE {
        next_extent_id = extents.known.len() as u64;
    }
    Ok(Manifest {
        version,
        next_table_id,
        next_extent_id,
        last_tier_id,
        lineage,
        tiers,
        extents: extents.known,
        tables,
    })
}

fn decode_tiers(input: &mut Decoder) -> Result<Vec<TierEntry>, ManifestError> {
    let mut tiers: Vec<TierEntry> = Vec::new();
    for _ in 0..input.count(4 + 4 + 8 + 1)? {
        let id = TierId(input.u32()?);
        let name = input.text()?;
        let pool_id = input.u64()?;
        let present = match input.u8()? {
            0 => false,
            1 => true,
            other => return Err(input.fault(format!("tier {name:?} has presence {other}"))),
        };
        let clash =
            |other: &TierEntry| other.id >= id || other.name == name || other.pool_id == pool_id;
        if name.is_empty() || tiers.len() == TIERS_MOST || tiers.iter().any(clash) {
            return Err(input.fault(format!("tier {name:?} cannot be one")));
        }
        tiers.push(TierEntry {
            id,
            name,
            pool_id,
            present,
        });
    }
    Ok(tiers)
}

fn decode_extents(
    input: &mut Decoder,
    tiers: &[TierEntry],
    next_id: u64,
) -> Result<BTreeMap<ExtentId, ExtentEntry>, ManifestError> {
    let mut extents = BTreeMap::new();
    for _ in 0..input.count(8 + 8 + 4 + 12)? {
        let id = ExtentId(input.u64()?);
        let len_bytes = input.u64()?;
        let copies = input.list(12, |input| {
            Ok(CopyEntry {
                tier: TierId(input.u32()?),
                offset: input.u64()?,
            })
        })?;
        let is_possible = |(at, copy): (usize, &CopyEntry)| {
            tiers.iter().any(|tier| tier.id == copy.tier)
                && copies[..at].iter().all(|other| other.tier != copy.tier)
        };
        let last = extents.last_key_value().map(|(id, _)| *id);
        if !(1..=COPIES_MOST).contains(&copies.len())
            || !copies.iter().enumerate().all(is_possible)
            || id.0 >= next_id
            || last.is_some_and(|last| last >= id)
        {
            return Err(input.fault(format!("extent {} has impossible copies", id.0)));
        }
        extents.insert(id, ExtentEntry { len_bytes, copies });
    }
    Ok(extents)
}

fn encode_homes(out: &mut Encoder, homes: &Homes) {
    let tiers = |out: &mut Encoder, tiers: &[TierId]| {
        out.count(tiers.len());
        tiers.iter().for_each(|tier| out.u32(tier.0));
    };
    tiers(out, &homes.table);
    out.count(homes.columns.len());
    for (column, of_column) in &homes.columns {
        out.count(*column);
        tiers(out, of_column);
    }
}

fn decode_homes(
    input: &mut Decoder,
    tiers: &[TierEntry],
    columns: usize,
) -> Result<Homes, ManifestError> {
    let list = |input: &mut Decoder| -> Result<Vec<TierId>, ManifestError> {
        let list = input.list(4, |input| input.u32().map(TierId))?;
        let is_possible = |(at, id): (usize, &TierId)| {
            tiers.iter().any(|tier| tier.id == *id) && !list[..at].contains(id)
        };
        match (1..=COPIES_MOST).contains(&list.len()) && list.iter().enumerate().all(is_possible) {
            true => Ok(list),
            false => Err(input.fault("a table's copies have impossible tiers")),
        }
    };
    let mut homes = Homes {
        table: list(input)?,
        columns: BTreeMap::new(),
    };
    for _ in 0..input.count(8)? {
        let column = input.u32()? as usize;
        let of_column = list(input)?;
        if column >= columns || homes.columns.insert(column, of_column).is_some() {
            return Err(input.fault(format!("column {column} has no place for tiers")));
        }
    }
    Ok(homes)
}

fn encode_table(out: &mut Encoder, table: &TableEntry) {
    out.u64(table.id);
    encode_spec(out, &table.spec);
    encode_homes(out, &table.homes);
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
            out.u64(extent.0);
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
    out.count(table.tail.logs.len());
    for log in &table.tail.logs {
        out.u64(log.extent.0);
        out.u64(log.epoch);
    }
}

fn decode_table(
    input: &mut Decoder,
    format: u8,
    extents: &mut Extents,
    tiers: &[TierEntry],
) -> Result<TableEntry, ManifestError> {
    let id = input.u64()?;
    let spec = decode_spec(input, format)?;
    let columns = spec.columns.len();
    let homes = match format >= COPIES_SINCE {
        true => decode_homes(input, tiers, columns)?,
        false => Homes::default(),
    };
    let next_segment_id = input.u32()?;
    let delete_vector_version = input.u64()?;
    let mut dictionaries = vec![None; columns];
    for _ in 0..input.count(4 + 8 + PLACE_BYTES + 4)? {
        let column = input.u32()? as usize;
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
    for _ in 0..input.count(12 + columns * CHUNK_BYTES)? {
        let segment = decode_segment(input, columns, extents)?;
        let ascends = segments.last().is_none_or(|last| last.id < segment.id);
        if !ascends || segment.id >= next_segment_id {
            return Err(input.fault(format!("segment {} is out of order", segment.id)));
        }
        segments.push(Arc::new(segment));
    }
    let parts = match format >= INDEXES_SINCE {
        true => decode_parts(input, &spec, &dictionaries, &segments, extents)?,
        false => Vec::new(),
    };
    let runs = match format >= RUNS_SINCE {
        true => decode_runs(input, &spec, &segments, extents)?,
        false => Vec::new(),
    };
    let segment_id = input.u32()?;
    if segment_id >= next_segment_id || segments.iter().any(|segment| segment.id == segment_id) {
        return Err(input.fault(format!("the tail's segment id {segment_id} is not its own")));
    }
    let first_sequence = input.counter()?;
    let logs = input.list(EXTENT_BYTES + 8, |input| {
        Ok(LogEntry {
            extent: extents.name(input)?,
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
        homes,
        next_segment_id,
        delete_vector_version,
        dictionaries,
        segments,
        parts,
        runs,
        tail,
    })
}

fn decode_segment(
    input: &mut Decoder,
    columns: usize,
    known: &mut Extents,
) -> Result<SegmentEntry, ManifestError> {
    let (id, rows) = (input.u32()?, input.u32()?);
    if rows == 0 || rows as usize > SEGMENT_ROWS {
        return Err(input.fault(format!("segment {id} claims {rows} rows")));
    }
    let extents = input.list(EXTENT_BYTES, |input| known.name(input))?;
    let mut chunks = Vec::with_capacity(columns);
    for column in 0..columns {
        let chunk = ChunkPlace {
            extent: input.u32()?,
            offset: input.u64()?,
            len_bytes: input.u64()?,
        };
        let fits = extents
            .get(chunk.extent as usize)
            .is_some_and(|extent| known.fits(*extent, chunk.offset, chunk.len_bytes));
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
    extents: &mut Extents,
) -> Result<Vec<Arc<PartEntry>>, ManifestError> {
    let mut parts = Vec::new();
    let mut covered = HashSet::new();
    for _ in 0..input.count(4 + 8 + 4 + EXTENT_BYTES)? {
        let part = PartEntry {
            column: input.u32()?,
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

/// Runs of a table with a key, of segments that the table has, each at most once.
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

fn encode_place(out: &mut Encoder, place: &Place) {
    out.u64(place.extent.0);
    out.u64(place.offset);
    out.u64(place.len_bytes);
}

fn decode_place(input: &mut Decoder, extents: &mut Extents) -> Result<Place, ManifestError> {
    let place = Place {
        extent: extents.name(input)?,
        offset: input.u64()?,
        len_bytes: input.u64()?,
    };
    if !extents.fits(place.extent, place.offset, place.len_bytes) {
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
