//! The state of each table's copies: the rows of `tierra_replicas`.

use std::sync::Arc;

use crate::error::StorageError;
use crate::manifest::{ExtentId, TableEntry};
use crate::spec::replicas::{ReplicaPlacement, TierId};
use crate::storage::Storage;
use crate::storage::extent::OwnedExtent;
use crate::table::catalog::Catalog;
use crate::table::requests::{Request, Requests, TableExtents};

/// A tier's copies of a table, or of a column with a placement of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyInfo {
    /// The table.
    pub table: String,
    /// The column; `None`: all columns without a placement of their own.
    pub column: Option<String>,
    /// The copy's number; 1 is the master.
    pub number: u64,
    /// The tier's name.
    pub tier: String,
    /// Whether the tier is missing.
    pub is_missing: bool,
    /// Extents that have a copy in the tier.
    pub extents: u64,
    /// Bytes of these extents.
    pub bytes: u64,
    /// Whether all extents have a copy there; if not, the others are being made, or wait for a tier.
    pub is_complete: bool,
}

/// The copies of all tables, ordered by table name and then as placed.
pub(crate) fn list(
    storage: &Storage,
    requests: &Requests,
    catalog: &Catalog,
) -> Result<Vec<CopyInfo>, StorageError> {
    let (tables, tiers) = (
        requests.ask(|reply| Request::Extents { reply })?,
        storage.tiers(),
    );
    let mut all = Vec::new();
    for table in catalog.tables() {
        let placement = table.placement();
        let stored = tables.iter().find(|stored| stored.entry.id == table.id());
        let own = placement
            .columns
            .iter()
            .map(|(column, ids)| (Some(*column), ids));
        for (column, ids) in std::iter::once((None, &placement.table)).chain(own) {
            let wanted = stored.map(|stored| extents_of(&stored.entry, &placement, column));
            for (number, id) in (1..).zip(ids) {
                let there = copies_in(stored, wanted.as_deref().unwrap_or_default(), *id);
                let is_missing = tiers.get(*id).is_none();
                all.push(CopyInfo {
                    table: table.spec().name.clone(),
                    column: column.map(|column| table.spec().columns[column].name.clone()),
                    number,
                    tier: tiers.name(*id).to_owned(),
                    is_missing,
                    extents: there.len() as u64,
                    bytes: there.iter().map(|extent| extent.len_bytes()).sum(),
                    is_complete: !is_missing
                        && wanted.as_ref().is_none_or(|all| all.len() == there.len()),
                });
            }
        }
    }
    Ok(all)
}

/// Those of the extents that have a copy in a tier, present or missing.
fn copies_in<'a>(
    stored: Option<&'a TableExtents>,
    wanted: &[ExtentId],
    tier: TierId,
) -> Vec<&'a Arc<OwnedExtent>> {
    let held = stored.map_or(&[][..], |stored| &stored.extents).iter();
    let is_in = |extent: &&Arc<OwnedExtent>| {
        extent.copies().iter().any(|copy| copy.tier() == tier)
            || extent.elsewhere().iter().any(|copy| copy.tier == tier)
    };
    held.filter(|extent| wanted.contains(&extent.id()))
        .filter(is_in)
        .collect()
}

/// The extents of a column with a placement of its own, or of everything else.
fn extents_of(
    entry: &TableEntry,
    placement: &ReplicaPlacement,
    column: Option<usize>,
) -> Vec<ExtentId> {
    let is_its = |other: usize| match column {
        Some(column) => column == other,
        None => !placement.columns.contains_key(&other),
    };
    let mut all = Vec::new();
    for segment in &entry.segments {
        let chunks = segment.chunks.iter().enumerate();
        let chunks = chunks.filter(|(other, _)| is_its(*other));
        all.extend(chunks.map(|(_, chunk)| segment.extents[chunk.extent as usize]));
    }
    let parts = entry.parts.iter();
    let parts = parts.filter(|part| is_its(part.column as usize));
    all.extend(parts.map(|part| part.extent));
    let runs = entry.runs.iter();
    let runs = runs.filter(|_| is_its(entry.spec.primary_key[0]));
    all.extend(runs.map(|run| run.extent));
    if column.is_none() {
        all.extend(entry.tail.logs.iter().map(|log| log.extent));
        let pieces = entry.dictionaries.iter().flatten();
        let pieces = pieces.flat_map(|known| std::iter::once(&known.main).chain(&known.deltas));
        all.extend(pieces.map(|piece| piece.extent));
    }
    all.sort_unstable();
    all.dedup();
    all
}
