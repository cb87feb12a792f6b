//! Finds what a table lacks in all copies. That part is withheld, and everything else is opened.
//!
//! Invariant: a part of a table is either whole or withheld with a reason. A table that may lack rows is withheld as a whole: no
//! answer has fewer rows than were committed.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;

use tierra_memory::Extent;

use super::owners::{check_owner, owner_in};
use crate::error::{DamageError, UnavailableError};
use crate::manifest::{
    ChunkPlace, CopyEntry, ExtentEntry, ExtentId, PartEntry, ReplicaNumber, RunEntry, SegmentEntry,
    TableEntry,
};
use crate::spec::TableSpec;
use crate::spec::replicas::TierId;
use crate::storage::extent::OwnedExtent;
use crate::storage::tiers::Tiers;
use crate::table::Missing;

/// Columns whose dictionaries cannot be read, with the reasons: chunks that hold their codes are withheld.
pub(super) type Withheld = BTreeMap<usize, UnavailableError>;

/// The part of a table that cannot be read because extents are in missing tiers or damaged in all copies. Parts of indexes do not
/// count: they can be built again. Nor do replicas of chunks that have others.
pub(super) fn of_table(
    dir: &Path,
    table: &TableEntry,
    tiers: &Tiers,
    extents: &BTreeMap<ExtentId, ExtentEntry>,
    is_held: impl Fn(ExtentId) -> bool,
) -> Option<Missing> {
    let is_index = |id: &ExtentId| {
        table.parts.iter().any(|part| part.extent == *id)
            || table.runs.iter().any(|run| run.extent == *id)
    };
    let segments = table.segments.iter();
    let chunks: BTreeSet<ExtentId> = segments.clone().flat_map(|it| it.extents.clone()).collect();
    let gone = table.extents().filter(|id| !chunks.contains(id));
    let gone = gone.filter(|id| !is_held(*id) && !is_index(id));
    let gone = gone.chain(segments.flat_map(|segment| lost_in(segment, &is_held)));
    let gone: BTreeSet<ExtentId> = gone.collect();
    let first = gone.first()?;
    let why = match missing_tiers(&gone, tiers, extents) {
        Some(missing) => UnavailableError::Missing {
            table: table.spec.name.clone(),
            column: None,
            missing,
        },
        None => damaged(
            dir,
            &table.spec,
            &lost_extent(table, &extents[first], tiers, *first),
        ),
    };
    let columns = 0..table.spec.columns.len();
    let withheld = columns.filter(|column| {
        let mut pieces = pieces(table, *column);
        pieces.any(|piece| gone.contains(&piece))
    });
    let withheld = withheld.map(|column| (column, why.clone())).collect();
    let logs = &table.tail.logs;
    let has_log = logs.iter().all(|log| !gone.contains(&log.extent));
    // Without its bitmap, the deleted rows of a segment would come back.
    let mut deleted = table.deleted.values();
    let has_deleted = deleted.all(|deleted| !gone.contains(&deleted.place.extent));
    // Not what is gone: an extent without a copy is not, if its columns have another replica, which may be withheld.
    match has_log && has_deleted && has_columns(table, &withheld, &is_held) {
        true => Some(Missing::Columns(why)),
        false => Some(Missing::Rows(why)),
    }
}

/// The extents of chunks that have no replica in an extent that is held.
fn lost_in(segment: &SegmentEntry, is_held: &impl Fn(ExtentId) -> bool) -> BTreeSet<ExtentId> {
    let mut lost = BTreeSet::new();
    for column in 0..segment.chunks.len() {
        let extents = segment.replicas(column);
        let extents = extents.map(|place| segment.extents[place.extent as usize]);
        let extents: Vec<ExtentId> = extents.collect();
        if !extents.iter().any(|id| is_held(*id)) {
            lost.extend(extents);
        }
    }
    lost
}

/// The extents with pieces of a column's dictionary.
fn pieces(table: &TableEntry, column: usize) -> impl Iterator<Item = ExtentId> {
    let dictionary = table.dictionaries[column].iter();
    let places = dictionary
        .flat_map(|dictionary| std::iter::once(&dictionary.main).chain(&dictionary.deltas));
    places.map(|place| place.extent)
}

/// Whether each segment has a readable column: only a segment without any counts as missing.
pub(super) fn has_columns(
    table: &TableEntry,
    withheld: &Withheld,
    is_there: impl Fn(ExtentId) -> bool,
) -> bool {
    let is_left = |(replica, place): (ReplicaNumber, &ChunkPlace), segment: &SegmentEntry| {
        is_there(segment.extents[place.extent as usize])
            && !(withheld.contains_key(&replica.column) && place.encoding.uses_dictionary())
    };
    let mut segments = table.segments.iter();
    segments.all(|segment| {
        let mut replicas = segment.all_replicas();
        replicas.any(|replica| is_left(replica, segment))
    })
}

/// The error for reads that need the damaged data.
pub(super) fn damaged(
    dir: &Path,
    spec: &TableSpec,
    what: &dyn std::fmt::Display,
) -> UnavailableError {
    UnavailableError::Damaged {
        table: spec.name.clone(),
        column: None,
        what: format!(
            "{what}; `tierra salvage {} OUT` copies what can be read into a new database",
            dir.display()
        ),
    }
}

/// The missing tiers, each with what was found instead, if all lost extents lie only in missing tiers.
fn missing_tiers(
    gone: &BTreeSet<ExtentId>,
    tiers: &Tiers,
    extents: &BTreeMap<ExtentId, ExtentEntry>,
) -> Option<String> {
    let mut missing: BTreeSet<TierId> = BTreeSet::new();
    for id in gone {
        for copy in &extents[id].copies {
            // A copy in a present tier is damaged: then the cause is not a missing tier.
            missing.insert(tiers.missing.iter().find(|tier| tier.id == copy.tier)?.id);
        }
    }
    let named = tiers
        .missing
        .iter()
        .filter(|tier| missing.contains(&tier.id));
    let named: Vec<_> = named
        .map(|tier| format!("{:?} ({})", tier.name, tier.why))
        .collect();
    (!named.is_empty()).then(|| named.join(", "))
}

/// Why no copy of an extent can be read: the fault of a copy in a present tier, or that there is no copy.
fn lost_extent(
    table: &TableEntry,
    entry: &ExtentEntry,
    tiers: &Tiers,
    id: ExtentId,
) -> DamageError {
    let extent = |copy: &CopyEntry| Extent {
        offset: copy.offset,
        len_bytes: entry.len_bytes,
    };
    let owner = owner_in(table, id);
    let mut faults = entry.copies.iter().rev().filter_map(|copy| {
        let tier = tiers.get(copy.tier)?;
        check_owner(&tier.pool, extent(copy), owner?).err()
    });
    faults
        .next()
        .unwrap_or(DamageError::NoCopy { extent: id.0 })
}

/// Removes parts of indexes and runs without a copy from the manifest that was read.
pub(super) fn forget_lost_parts(
    held: &HashMap<ExtentId, &OwnedExtent>,
    table: &mut Arc<TableEntry>,
) {
    let is_lost = |part: &Arc<PartEntry>| !held.contains_key(&part.extent);
    let is_lost_run = |run: &Arc<RunEntry>| !held.contains_key(&run.extent);
    if !table.parts.iter().any(is_lost) && !table.runs.iter().any(is_lost_run) {
        return;
    }
    let table = Arc::make_mut(table);
    let spec = table.spec.clone();
    table.parts.retain(|part| {
        let lost = is_lost(part);
        if lost {
            warn_of_part(&spec, part, &"it has no copy");
        }
        !lost
    });
    table.runs.retain(|run| {
        let lost = is_lost_run(run);
        if lost {
            warn_of_run(&spec, &"it has no copy");
        }
        !lost
    });
}

pub(super) fn warn_of_run(spec: &TableSpec, error: &dyn std::fmt::Display) {
    tracing::warn!(
        table = spec.name,
        %error,
        "a part of the index of keys is damaged: it is built again"
    );
}

pub(super) fn warn_of_part(spec: &TableSpec, part: &PartEntry, error: &dyn std::fmt::Display) {
    let column = &spec.columns[part.column as usize].name;
    tracing::warn!(
        table = spec.name,
        column,
        %error,
        "a part of an index is damaged: it is built again"
    );
}

#[cfg(test)]
mod tests {
    use tierra_column::{Encoding, LogicalType};

    use super::*;
    use crate::manifest::{ColumnId, DictionaryEntry, FurtherReplica, StoredRange, TailEntry};
    use crate::spec::ColumnSpec;
    use crate::spec::replicas::ReplicaPlacement;
    use crate::storage::tiers::MissingTier;

    const AWAY: TierId = TierId(1);

    fn place(extent: u32, encoding: Encoding) -> ChunkPlace {
        ChunkPlace {
            extent,
            offset: 0,
            len_bytes: 64,
            encoding,
        }
    }

    /// Codes in extent 1, the dictionary in extent 3, and the same strings in extent 2.
    fn table() -> TableEntry {
        let segment = SegmentEntry {
            id: 1,
            rows: 5,
            extents: [1, 2].map(ExtentId).to_vec(),
            chunks: vec![place(0, Encoding::Dictionary)],
            further: vec![FurtherReplica {
                column: 0,
                place: place(1, Encoding::Fsst),
            }],
        };
        let dictionary = DictionaryEntry {
            generation: 1,
            main: StoredRange {
                extent: ExtentId(3),
                offset: 0,
                len_bytes: 64,
            },
            deltas: Vec::new(),
        };
        TableEntry {
            id: 2,
            spec: Arc::new(TableSpec {
                name: "t".to_owned(),
                columns: vec![ColumnSpec::new("c", LogicalType::Varchar)],
                primary_key: Vec::new(),
            }),
            column_ids: vec![ColumnId(0)],
            next_column_id: ColumnId(1),
            placement: ReplicaPlacement::default(),
            next_segment_id: 2,
            dictionaries: vec![Some(dictionary)],
            segments: vec![Arc::new(segment)],
            deleted: BTreeMap::new(),
            parts: Vec::new(),
            runs: Vec::new(),
            tail: TailEntry::default(),
        }
    }

    /// What is missing if only these extents have a copy.
    fn missing(held: &[u64]) -> Option<Missing> {
        let mut tiers = Tiers::default();
        tiers.missing.push(MissingTier {
            id: AWAY,
            name: "b".into(),
            pool_id: 7,
            why: "it is away".into(),
        });
        let entry = ExtentEntry {
            len_bytes: 64,
            copies: vec![CopyEntry {
                tier: AWAY,
                offset: 4096,
            }],
        };
        let extents = (1..=3).map(|id| (ExtentId(id), entry.clone())).collect();
        of_table(Path::new("db"), &table(), &tiers, &extents, |id| {
            held.contains(&id.0)
        })
    }

    #[test]
    fn codes_alone_are_no_rows() {
        assert!(missing(&[1, 2, 3]).is_none());
        assert!(missing(&[2, 3]).is_none() && missing(&[1, 3]).is_none());
        // The strings can be read, and the codes cannot.
        assert!(matches!(missing(&[1, 2]), Some(Missing::Columns(_))));
        assert!(matches!(missing(&[2]), Some(Missing::Columns(_))));
        // Neither can be read.
        assert!(matches!(missing(&[1]), Some(Missing::Rows(_))));
        assert!(matches!(missing(&[3]), Some(Missing::Rows(_))));
    }
}
