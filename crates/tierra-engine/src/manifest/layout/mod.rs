//! The layout of a manifest's body.
//!
//! Invariant: `decode(encode(m)) == m`, and `decode` accepts only what the rest of the engine can handle: places lie inside their
//! extents, ids ascend, every segment has a chunk per column, in one replica or more, every extent is known and named. Reserved
//! fields that this build does not use are rejected by name.

mod spec;
mod table;

use std::collections::{BTreeMap, HashSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use tierra_column::Encoding;

use super::codec::{Decoder, Encoder};
use super::{
    ColumnId, CopyEntry, DatabaseId, DirectoryIdentity, ExtentEntry, ExtentId, Manifest,
    ManifestError, TableEntry, TierEntry,
};
use crate::spec::TableSpec;
use crate::spec::replicas::{COPIES_MOST, PlacedReplica, ReplicaPlacement, TIERS_MOST, TierId};
use spec::{ColumnPositions, decode_encoding, encode_encoding};
use table::{decode_table, encode_table};

const EXTENT_BYTES: usize = 8;
const PLACE_BYTES: usize = EXTENT_BYTES + 16;
/// Of a chunk with one replica.
const CHUNK_BYTES: usize = 4 + 3 + 1 + (1 + 4 + 8 + 8);
/// The least size of a table: its fixed fields and a name of one byte.
const TABLE_BYTES: usize = 64;

pub(super) fn encode(manifest: &Manifest) -> Vec<u8> {
    let mut out = Encoder::default();
    out.u64(manifest.version);
    out.u64(manifest.commit);
    out.none();
    out.u128(manifest.database.0);
    out.u64(manifest.directory_identity.device);
    out.u64(manifest.directory_identity.inode);
    out.bytes(manifest.directory_identity.path.as_os_str().as_bytes());
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

/// The extents that the body may name.
struct Extents {
    known: BTreeMap<ExtentId, ExtentEntry>,
    named: HashSet<ExtentId>,
}

impl Extents {
    /// Reads the name of an extent.
    fn name(&mut self, input: &mut Decoder) -> Result<ExtentId, ManifestError> {
        let id = ExtentId(input.u64()?);
        if !self.known.contains_key(&id) {
            return Err(input.fault(format!("there is no extent {}", id.0)));
        }
        self.named.insert(id);
        Ok(id)
    }

    fn fits(&self, id: ExtentId, offset: u64, len_bytes: u64) -> bool {
        let end = offset.checked_add(len_bytes);
        let extent = self.known.get(&id);
        extent.is_some_and(|extent| end.is_some_and(|end| end <= extent.len_bytes))
    }
}

pub(super) fn decode(body: &[u8]) -> Result<Manifest, ManifestError> {
    let mut input = Decoder::new(body);
    let version = input.counter()?;
    let commit = input.counter()?;
    input.none("open transactions")?;
    let database = DatabaseId(input.u128()?);
    let directory_identity = DirectoryIdentity {
        device: input.u64()?,
        inode: input.u64()?,
        path: OsStr::from_bytes(input.bytes()?).into(),
    };
    let next_table_id = input.counter()?;
    let next_extent_id = input.counter()?;
    let last_tier_id = input.u32()?;
    let lineage = input.list(8, Decoder::u64)?;
    let tiers = decode_tiers(&mut input)?;
    let over = |tier: &TierEntry| tier.id.0 > last_tier_id;
    if tiers.is_empty() {
        return Err(input.fault("no tier holds it"));
    }
    if tiers.iter().any(over) || last_tier_id == u32::MAX {
        return Err(input.fault("a tier has a number that was not given out"));
    }
    let mut extents = Extents {
        known: decode_extents(&mut input, &tiers, next_extent_id)?,
        named: HashSet::new(),
    };
    let mut tables: Vec<Arc<TableEntry>> = Vec::new();
    for _ in 0..input.count(TABLE_BYTES)? {
        let table = decode_table(&mut input, &mut extents, &tiers)?;
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
    Ok(Manifest {
        version,
        commit,
        database,
        directory_identity,
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

fn encode_placement(out: &mut Encoder, placement: &ReplicaPlacement, ids: &[ColumnId]) {
    let placed = |out: &mut Encoder, tier: TierId, encoding| {
        out.u32(tier.0);
        encode_encoding(out, encoding);
    };
    out.count(placement.table.len());
    for tier in &placement.table {
        // The columns' own encodings.
        placed(out, *tier, None);
    }
    out.count(placement.columns.len());
    for (column, replicas) in &placement.columns {
        out.u32(ids[*column].0);
        out.count(replicas.iter().map(|replica| replica.tiers.len()).sum());
        for replica in replicas {
            for tier in &replica.tiers {
                placed(out, *tier, replica.encoding);
            }
        }
    }
}

fn decode_placement(
    input: &mut Decoder,
    tiers: &[TierEntry],
    spec: &TableSpec,
    columns: &ColumnPositions,
) -> Result<ReplicaPlacement, ManifestError> {
    type Placed = (TierId, Option<Encoding>);
    let list = |input: &mut Decoder| -> Result<Vec<Placed>, ManifestError> {
        let list = input.list(5, |input| {
            let tier = TierId(input.u32()?);
            Ok((tier, decode_encoding(input, "of a tier")?))
        })?;
        let is_possible = |(at, placed): (usize, &Placed)| {
            tiers.iter().any(|tier| tier.id == placed.0) && !list[..at].contains(placed)
        };
        match (1..=COPIES_MOST).contains(&list.len()) && list.iter().enumerate().all(is_possible) {
            true => Ok(list),
            false => Err(input.fault("a table's copies have impossible tiers")),
        }
    };
    let own = |(tier, encoding): Placed| match encoding {
        None => Ok(tier),
        Some(encoding) => Err(ManifestError::Unknown {
            what: format!("copies of a whole table with an encoding of their own, {encoding}"),
        }),
    };
    let table = list(input)?.into_iter().map(own);
    let mut placement = ReplicaPlacement {
        table: table.collect::<Result<_, _>>()?,
        columns: BTreeMap::new(),
    };
    for _ in 0..input.count(8)? {
        let column = columns.read(input)?;
        let of_column = PlacedReplica::grouped(list(input)?);
        PlacedReplica::check(&of_column, &spec.columns[column])
            .map_err(|error| input.fault(error.to_string()))?;
        if placement.columns.insert(column, of_column).is_some() {
            return Err(input.fault(format!("column {column} has tiers twice")));
        }
    }
    Ok(placement)
}
