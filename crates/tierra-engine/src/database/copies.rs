//! The state of each table's copies: the rows of `tierra_replicas`.

use std::sync::Arc;

use tierra_column::Encoding;

use crate::error::StorageError;
use crate::manifest::{ExtentId, TableEntry};
use crate::spec::replicas::{ReplicaPlacement, TierId};
use crate::storage::Storage;
use crate::storage::extent::OwnedExtent;
use crate::table::catalog::Catalog;
use crate::table::requests::{Request, Requests, TableExtents};
use crate::table::version::TableVersion;

/// A tier's copies of a table, or of a column with a placement of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyInfo {
    /// The table.
    pub table: String,
    /// The column; `None`: all columns without a placement of their own.
    pub column: Option<String>,
    /// The encoding in which the column's chunks should be there; `None`: their own.
    pub encoding: Option<Encoding>,
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
    /// Whether all extents have a copy there, and all chunks have the replica; if not, the others are being made, or wait for a
    /// tier.
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
        let (placement, current) = (table.placement(), table.current());
        let stored = tables.iter().find(|stored| stored.entry.id == table.id());
        let columns = std::iter::once(None).chain(placement.columns.keys().map(|at| Some(*at)));
        for column in columns {
            let mut numbers = 1..;
            for placed in placed(&placement, column) {
                let entry = stored.map(|stored| &stored.entry);
                let wanted = entry.map(|entry| extents_of(entry, &current, &placement, &placed));
                let extents = wanted.as_ref().map_or(&[][..], |wanted| &wanted.extents);
                for (id, number) in placed.tiers.iter().zip(&mut numbers) {
                    let there = copies_in(stored, extents, *id);
                    let is_missing = tiers.get(*id).is_none();
                    let is_whole = wanted.as_ref().is_none_or(|wanted| wanted.is_whole);
                    all.push(CopyInfo {
                        table: table.spec().name.clone(),
                        column: column.map(|column| table.spec().columns[column].name.clone()),
                        encoding: placed.encoding,
                        number,
                        tier: tiers.name(*id).to_owned(),
                        is_missing,
                        extents: there.len() as u64,
                        bytes: there.iter().map(|extent| extent.len_bytes()).sum(),
                        is_complete: !is_missing && is_whole && extents.len() == there.len(),
                    });
                }
            }
        }
    }
    Ok(all)
}

/// A replica of a column with a placement of its own, or what all other columns have.
struct Placed<'a> {
    /// The column, and the number of the replica.
    which: Option<(usize, usize)>,
    encoding: Option<Encoding>,
    tiers: &'a [TierId],
}

fn placed(placement: &ReplicaPlacement, column: Option<usize>) -> Vec<Placed<'_>> {
    let Some(column) = column else {
        return vec![Placed {
            which: None,
            encoding: None,
            tiers: &placement.table,
        }];
    };
    let replicas = placement.replicas(column).enumerate();
    let replicas = replicas.map(|(number, (encoding, tiers))| Placed {
        which: Some((column, number)),
        encoding,
        tiers,
    });
    replicas.collect()
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

/// What is stored of a replica.
struct Wanted {
    extents: Vec<ExtentId>,
    /// Whether all chunks have it.
    is_whole: bool,
}

/// The extents of a replica of a column with a placement of its own, with those of its indexes, or of everything else.
fn extents_of(
    entry: &TableEntry,
    current: &TableVersion,
    placement: &ReplicaPlacement,
    placed: &Placed<'_>,
) -> Wanted {
    let is_its = |other: usize| match placed.which {
        Some((column, _)) => column == other,
        None => !placement.columns.contains_key(&other),
    };
    let (mut all, mut is_whole) = (Vec::new(), true);
    for segment in &entry.segments {
        for column in (0..segment.chunks.len()).filter(|column| is_its(*column)) {
            let number = placed.which.map_or(0, |(_, number)| number);
            let stored: Vec<_> = segment.replicas(column).collect();
            let open = current.segments.get(segment.id);
            let found = match open.filter(|open| open.entry() == segment) {
                Some(open) => {
                    let all: Vec<usize> = (0..stored.len()).collect();
                    open.matched(placement, column, &all)[number]
                }
                // It is published meanwhile, or withheld.
                None => {
                    let encodings = stored.iter().map(|place| place.encoding);
                    placement.matched(column, &encodings.collect::<Vec<_>>())[number]
                }
            };
            is_whole &= found.is_some();
            all.extend(found.map(|at| segment.extents[stored[at].extent as usize]));
        }
    }
    let parts = entry.parts.iter();
    let parts = parts.filter(|part| is_its(part.column as usize));
    all.extend(parts.map(|part| part.extent));
    let runs = entry.runs.iter();
    let runs = runs.filter(|_| is_its(entry.spec.primary_key[0]));
    all.extend(runs.map(|run| run.extent));
    if placed.which.is_none() {
        all.extend(entry.tail.logs.iter().map(|log| log.extent));
        let pieces = entry.dictionaries.iter().flatten();
        let pieces = pieces.flat_map(|known| std::iter::once(&known.main).chain(&known.deltas));
        all.extend(pieces.map(|piece| piece.extent));
    }
    all.sort_unstable();
    all.dedup();
    Wanted {
        extents: all,
        is_whole,
    }
}
