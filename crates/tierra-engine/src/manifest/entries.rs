//! What a manifest names.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use tierra_column::Encoding;

use crate::spec::TableSpec;
use crate::spec::replicas::{ReplicaPlacement, TierId};

/// Rows a segment has at most.
pub const SEGMENT_ROWS: usize = 1 << 20;

/// The number of an extent, whatever copies it has and wherever they lie. Never reused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ExtentId(pub(crate) u64);

/// By which a database is known, wherever its directory lies. A copy that is adopted gets another one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DatabaseId(pub(crate) u128);

impl DatabaseId {
    /// One that no other database has.
    pub(crate) fn random() -> DatabaseId {
        DatabaseId(u128::from(lineage_mark()) << 64 | u128::from(lineage_mark()))
    }
}

/// The directory that pools outside of it belong to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct HomeDirectory {
    pub(crate) device: u64,
    pub(crate) inode: u64,
    /// What it was called when that was written down, for messages: directories are renamed.
    pub(crate) path: PathBuf,
}

/// Stays a column's whatever becomes of the others. Never another's of the same table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ColumnId(pub(crate) u32);

/// Every table, as of one commit.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Manifest {
    /// Counts publications.
    pub(crate) version: u64,
    /// The last commit that it includes. What logs have beyond it bears greater numbers, without a gap.
    pub(crate) commit: u64,
    pub(crate) database: DatabaseId,
    pub(crate) home: HomeDirectory,
    /// Never reused, so that an extent's owner stays unambiguous.
    pub(crate) next_table_id: u64,
    pub(crate) next_extent_id: u64,
    /// The highest number that a tier ever had.
    pub(crate) last_tier_id: u32,
    /// A random number for each time when the database went on without some of its tiers. Of two
    /// manifests of one database one continues the other only if its list begins with the other's.
    pub(crate) lineage: Vec<u64>,
    pub(crate) tiers: Vec<TierEntry>,
    /// All that the tables name, and nothing else.
    pub(crate) extents: BTreeMap<ExtentId, ExtentEntry>,
    pub(crate) tables: Vec<Arc<TableEntry>>,
}

/// A tier that may hold copies.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TierEntry {
    pub(crate) id: TierId,
    /// Unique in the database.
    pub(crate) name: String,
    /// By which its pool is known, wherever it lies.
    pub(crate) pool_id: u64,
    /// Whether it was there when this manifest was published.
    pub(crate) present: bool,
}

/// An extent and where it lies.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ExtentEntry {
    pub(crate) len_bytes: u64,
    /// At most one a tier; at least one.
    pub(crate) copies: Vec<CopyEntry>,
}

/// One copy of an extent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct CopyEntry {
    pub(crate) tier: TierId,
    /// Of its payload in the tier's pool.
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
    /// Smallest column id that was never given out.
    pub(crate) next_column_id: ColumnId,
    /// The tiers that its extents should have copies in.
    pub(crate) placement: ReplicaPlacement,
    /// Smallest segment id that was never given out.
    pub(crate) next_segment_id: u32,
    /// One per column; `None` where no chunk of the column uses a dictionary.
    pub(crate) dictionaries: Vec<Option<DictionaryEntry>>,
    /// In ascending order of their ids.
    pub(crate) segments: Vec<Arc<SegmentEntry>>,
    /// Of inverted indexes; those of one column in the order in which they were made.
    pub(crate) parts: Vec<Arc<PartEntry>>,
    /// Of the primary key's index, in the order in which they were made.
    pub(crate) runs: Vec<Arc<RunEntry>>,
    pub(crate) tail: TailEntry,
}

/// The durable image of one dictionary generation.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DictionaryEntry {
    pub(crate) generation: u64,
    pub(crate) main: StoredRange,
    /// Values that arrived since, in order.
    pub(crate) deltas: Vec<StoredRange>,
}

/// The chunks of all columns that cover the same rows.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SegmentEntry {
    pub(crate) id: u32,
    pub(crate) rows: u32,
    /// Several chunks share an extent.
    pub(crate) extents: Vec<ExtentId>,
    /// One per column.
    pub(crate) chunks: Vec<ChunkPlace>,
}

/// A chunk's bytes: a range of one of its segment's extents.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ChunkPlace {
    /// Index into [`SegmentEntry::extents`].
    pub(crate) extent: u32,
    pub(crate) offset: u64,
    pub(crate) len_bytes: u64,
    /// As the chunk's descriptor says, too.
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

/// Where a table's newest rows are logged.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct TailEntry {
    /// The id that the tail takes when it is sealed; its rows carry it already.
    pub(crate) segment_id: u32,
    /// Sequence number of the first record of the first extent.
    pub(crate) first_sequence: u64,
    /// Of the record that came next when the manifest was published: all before it were acknowledged.
    pub(crate) reached: u64,
    /// In the order in which they were filled.
    pub(crate) logs: Vec<LogEntry>,
}

/// One extent of a tail's log.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct LogEntry {
    pub(crate) extent: ExtentId,
    /// Distinguishes this use of the space from every earlier one.
    pub(crate) epoch: u64,
}

impl Manifest {
    /// Whether `before` is this one, or one that led to it.
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
    /// Every extent of the table; one that several chunks share comes several times.
    pub(crate) fn extents(&self) -> impl Iterator<Item = ExtentId> + '_ {
        let dictionaries = self.dictionaries.iter().flatten();
        let images = dictionaries
            .flat_map(|dictionary| std::iter::once(&dictionary.main).chain(&dictionary.deltas));
        let segments = self
            .segments
            .iter()
            .flat_map(|segment| segment.extents.iter().copied());
        images
            .map(|place| place.extent)
            .chain(segments)
            .chain(self.parts.iter().map(|part| part.extent))
            .chain(self.runs.iter().map(|run| run.extent))
            .chain(self.tail.logs.iter().map(|log| log.extent))
    }
}
