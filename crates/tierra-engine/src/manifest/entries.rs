//! The entries of a manifest.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use tierra_column::{CHUNK_ROWS, Encoding};

use super::replicas::FurtherReplica;
use crate::spec::TableSpec;
use crate::spec::replicas::{ReplicaPlacement, TierId};

/// The most rows of a segment: each column of it is one chunk.
pub const SEGMENT_ROWS: usize = CHUNK_ROWS;

/// The number of an extent, independent of its copies and their places. Never reused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ExtentId(pub(crate) u64);

/// Identifies a database independent of its directory's path. A copy that is adopted gets another one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DatabaseId(pub(crate) u128);

impl DatabaseId {
    /// A random id, different from all others.
    pub(crate) fn random() -> DatabaseId {
        DatabaseId(u128::from(lineage_mark()) << 64 | u128::from(lineage_mark()))
    }
}

/// The directory that pools outside of it belong to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DirectoryIdentity {
    pub(crate) device: u64,
    pub(crate) inode: u64,
    /// Its path when this was written, for messages: directories are renamed.
    pub(crate) path: PathBuf,
}

/// Identifies a column even if others are added or dropped. Unique in the table, never reused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ColumnId(pub(crate) u32);

/// Every table, as of one commit.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Manifest {
    /// Counts publications.
    pub(crate) version: u64,
    /// The last commit that it includes. Commits in logs beyond it have greater numbers, without a gap.
    pub(crate) commit: u64,
    pub(crate) database: DatabaseId,
    pub(crate) directory_identity: DirectoryIdentity,
    /// Never reused, so that an extent's owner stays unambiguous.
    pub(crate) next_table_id: u64,
    pub(crate) next_extent_id: u64,
    /// The highest tier number ever used.
    pub(crate) last_tier_id: u32,
    /// A random number for each time when the database continued without some of its tiers. Of two manifests of a database, one
    /// continues the other only if its list begins with the other's.
    pub(crate) lineage: Vec<u64>,
    pub(crate) tiers: Vec<TierEntry>,
    /// Exactly the extents that the tables name.
    pub(crate) extents: BTreeMap<ExtentId, ExtentEntry>,
    pub(crate) tables: Vec<Arc<TableEntry>>,
}

/// A tier that may hold copies.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TierEntry {
    pub(crate) id: TierId,
    /// Unique in the database.
    pub(crate) name: String,
    /// Identifies its pool independent of the path.
    pub(crate) pool_id: u64,
    /// Whether it was present when this manifest was published.
    pub(crate) present: bool,
}

/// An extent and its copies.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ExtentEntry {
    pub(crate) len_bytes: u64,
    /// At least one; at most one per tier.
    pub(crate) copies: Vec<CopyEntry>,
}

/// One copy of an extent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct CopyEntry {
    pub(crate) tier: TierId,
    /// Offset of its payload in the tier's pool.
    pub(crate) offset: u64,
}

/// A new random number for [`Manifest::lineage`].
pub(crate) fn lineage_mark() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one((std::process::id(), std::time::SystemTime::now()))
}

/// One table.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TableEntry {
    pub(crate) id: u64,
    pub(crate) spec: Arc<TableSpec>,
    /// Of the specification's columns, in its order.
    pub(crate) column_ids: Vec<ColumnId>,
    /// Smallest column id that was never used.
    pub(crate) next_column_id: ColumnId,
    /// The tiers in which its extents should have copies.
    pub(crate) placement: ReplicaPlacement,
    /// Smallest segment id that was never used.
    pub(crate) next_segment_id: u32,
    /// One per column; `None` if no chunk of the column uses a dictionary.
    pub(crate) dictionaries: Vec<Option<DictionaryEntry>>,
    /// Ordered by id.
    pub(crate) segments: Vec<Arc<SegmentEntry>>,
    /// By segment: its deleted rows, if it has any; those of commits that are only in the log come on top.
    pub(crate) deleted: BTreeMap<u32, DeletedEntry>,
    /// Of inverted indexes; those of one column in the order in which they were made.
    pub(crate) parts: Vec<Arc<PartEntry>>,
    /// Of the primary key's index, in the order in which they were made.
    pub(crate) runs: Vec<Arc<RunEntry>>,
    pub(crate) tail: TailEntry,
}

/// The durable pieces of one dictionary generation.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DictionaryEntry {
    pub(crate) generation: u64,
    pub(crate) main: StoredRange,
    /// Values added since, in order.
    pub(crate) deltas: Vec<StoredRange>,
}

/// The chunks of all columns that cover the same rows.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SegmentEntry {
    pub(crate) id: u32,
    pub(crate) rows: u32,
    /// Several chunks share an extent.
    pub(crate) extents: Vec<ExtentId>,
    /// One per column: the first replica of its chunk.
    pub(crate) chunks: Vec<ChunkPlace>,
    /// Replicas in further encodings, ordered by column.
    pub(crate) further: Vec<FurtherReplica>,
}

/// The deleted rows of a segment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct DeletedEntry {
    /// How many.
    pub(crate) rows: u32,
    /// Those of all commits up to this one. Log records of these commits delete nothing more here.
    pub(crate) commit: u64,
    /// Their bitmap.
    pub(crate) place: StoredRange,
}

/// A chunk's bytes: a range of one of its segment's extents.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ChunkPlace {
    /// Index into [`SegmentEntry::extents`].
    pub(crate) extent: u32,
    pub(crate) offset: u64,
    pub(crate) len_bytes: u64,
    /// As in the chunk's header.
    pub(crate) encoding: Encoding,
}

/// A range of bytes in an extent that others may share.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct StoredRange {
    pub(crate) extent: ExtentId,
    pub(crate) offset: u64,
    pub(crate) len_bytes: u64,
}

/// A part of a column's inverted index.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PartEntry {
    pub(crate) column: u32,
    /// Of the column's dictionary.
    pub(crate) generation: u64,
    /// Ids of the segments that it covers, ascending: its chunks, in their order.
    pub(crate) segments: Vec<u32>,
    pub(crate) extent: ExtentId,
}

/// A run of keys, with their rows.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RunEntry {
    /// Ids of the segments that it covers, ascending.
    pub(crate) segments: Vec<u32>,
    pub(crate) extent: ExtentId,
}

/// The log of a table's newest rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct TailEntry {
    /// The id of the segment that the tail becomes; its rows have it already.
    pub(crate) segment_id: u32,
    /// Sequence number of the first record of the first extent.
    pub(crate) first_sequence: u64,
    /// Sequence number of the next record when the manifest was published: all before it were acknowledged.
    pub(crate) reached: u64,
    /// In the order in which they were filled.
    pub(crate) logs: Vec<LogEntry>,
}

/// One extent of a tail's log.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct LogEntry {
    pub(crate) extent: ExtentId,
    /// Distinguishes this use of the space from all earlier ones.
    pub(crate) epoch: u64,
}

impl Manifest {
    /// Whether `before` is this manifest or one that led to it.
    pub(crate) fn continues(&self, before: &Manifest) -> bool {
        self.version >= before.version && self.lineage.starts_with(&before.lineage)
    }

    /// Every extent that a table names.
    pub(crate) fn named(&self) -> BTreeSet<ExtentId> {
        self.tables
            .iter()
            .flat_map(|table| table.extents())
            .collect()
    }
}

impl TableEntry {
    /// Every extent of the table; an extent that several chunks share comes several times.
    pub(crate) fn extents(&self) -> impl Iterator<Item = ExtentId> + '_ {
        let dictionaries = self.dictionaries.iter().flatten();
        let pieces = dictionaries
            .flat_map(|dictionary| std::iter::once(&dictionary.main).chain(&dictionary.deltas));
        let segments = self
            .segments
            .iter()
            .flat_map(|segment| segment.extents.iter().copied());
        pieces
            .map(|place| place.extent)
            .chain(segments)
            .chain(self.deleted.values().map(|deleted| deleted.place.extent))
            .chain(self.parts.iter().map(|part| part.extent))
            .chain(self.runs.iter().map(|run| run.extent))
            .chain(self.tail.logs.iter().map(|log| log.extent))
    }
}
