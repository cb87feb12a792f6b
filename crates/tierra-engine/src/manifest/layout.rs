//! The body of a manifest, version 4, and of versions 1, which knew no indexes, 2, whose extents have
//! one copy each and are named by its place, and 3, which knew no runs of keys: what is written where.
//!
//! Invariant: `decode(encode(m)) == m`, and `decode` accepts nothing that the rest of the engine
//! could not live with: places lie inside their extents, ids ascend, every segment has a chunk per
//! column, every extent is known and named.

mod spec;
mod table;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use super::codec::{Decoder, Encoder};
use super::{CopyEntry, ExtentEntry, ExtentId, Manifest, ManifestError, TableEntry, TierEntry};
use crate::tiers::{COPIES_MOST, Homes, TIERS_MOST, TierId};
use table::{decode_table, encode_table};

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
