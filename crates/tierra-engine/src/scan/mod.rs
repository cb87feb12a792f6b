//! Scans: filters on packed codes first, then only surviving rows of wanted columns.
//!
//! A [`Scan`] is shared by all threads of a query; each takes a [`ScanCursor`] and asks it for
//! batches. Work is handed out in morsels, runs of blocks of one segment or one batch of the tail,
//! by an atomic counter, so that threads end at about the same time whatever the filters leave.
//!
//! Invariant: every row of the snapshot belongs to exactly one morsel, and every morsel is taken
//! by exactly one cursor.

mod candidates;
mod codes;
mod costs;
mod counting;
mod cursor;
mod filters;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use tierra_column::Filter;
use tierra_interleave::Scheduling;

pub use cursor::ScanCursor;

use crate::snapshot::Snapshot;
use codes::{LaterCodes, SharedCodes};

/// Blocks of a morsel: 16,384 rows are long enough to make the counter cheap and short enough to
/// keep eight threads busy on 100,000 rows.
const MORSEL_BLOCKS: usize = 16;

/// What a scan returns of which rows.
#[derive(Clone, Debug)]
pub struct ScanSpec {
    /// Columns of the result, in its order; none if only the number of rows matters.
    pub projection: Vec<usize>,
    /// Conditions that every returned row meets, each on one column.
    pub filters: Vec<(usize, Filter)>,
    /// Rows of a batch, about: up to a block more.
    pub batch_rows: usize,
    /// How the values of an IN-list are looked up in a column's dictionary.
    pub execution: Scheduling,
}

/// Whether a scan asks inverted indexes; what it returns does not depend on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IndexUse {
    /// Where that is estimated to cost less than testing rows.
    #[default]
    WhereCheaper,
    /// Wherever there is one, to compare.
    Always,
    /// Not at all, to compare.
    Never,
}

/// What a cursor has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScanCounters {
    /// Blocks of which bytes were read; a block has 1,024 rows of one column.
    pub blocks_read: u64,
    /// Blocks of wanted columns that were not read, because minima, maxima, an index or other columns
    /// ruled all of their rows out, or because an index knew them.
    pub blocks_skipped: u64,
    /// Blocks of which values were unpacked.
    pub blocks_decoded: u64,
    /// Rows of the tail that were looked at.
    pub tail_rows: u64,
    /// Bytes of those blocks and rows read from near memory.
    pub bytes_near: u64,
    /// Bytes read from far memory.
    pub bytes_far: u64,
    /// Rows returned.
    pub rows: u64,
    /// Values looked up in dictionaries, once per scan however many segments it has.
    pub lookups: u64,
    /// Lookups in inverted indexes: of each code in each part, and of the rows it lists.
    pub index_lookups: u64,
    /// How often a lookup gave way to another: none where they run plain.
    pub suspensions: u64,
}

impl std::ops::AddAssign for ScanCounters {
    fn add_assign(&mut self, other: Self) {
        self.blocks_read += other.blocks_read;
        self.blocks_skipped += other.blocks_skipped;
        self.blocks_decoded += other.blocks_decoded;
        self.tail_rows += other.tail_rows;
        self.bytes_near += other.bytes_near;
        self.bytes_far += other.bytes_far;
        self.rows += other.rows;
        self.lookups += other.lookups;
        self.index_lookups += other.index_lookups;
        self.suspensions += other.suspensions;
    }
}

/// Work that one cursor does at a stretch.
#[derive(Clone, Copy, Debug)]
enum Morsel {
    Blocks {
        segment: usize,
        first: usize,
        end: usize,
    },
    Tail {
        batch: usize,
    },
}

/// The column of row ids that [`Snapshot::scan_with_row_ids`] adds.
pub fn row_id_field() -> FieldRef {
    Arc::new(Field::new("row id", DataType::UInt64, false))
}

/// A scan of one snapshot.
#[derive(Debug)]
pub struct Scan {
    snapshot: Snapshot,
    spec: ScanSpec,
    /// Whether the last column of a batch tells the rows' ids.
    row_ids: bool,
    index_use: IndexUse,
    /// Threads that have asked for a cursor.
    cursors: AtomicUsize,
    /// By filter of the specification.
    codes: Vec<Arc<SharedCodes>>,
    /// Of conditions that cursors were told of later.
    later: LaterCodes,
    schema: SchemaRef,
    /// Those of the segments, then those of the tail.
    morsels: Vec<Morsel>,
    /// How many are of segments.
    block_morsels: usize,
    /// By segment: its first morsel.
    first_morsels: Vec<usize>,
    next: AtomicUsize,
}

impl Scan {
    pub(crate) fn new(
        snapshot: Snapshot,
        spec: ScanSpec,
        row_ids: bool,
        index_use: IndexUse,
    ) -> Arc<Self> {
        let table = snapshot.table().schema();
        let filtered = spec.filters.iter().map(|(column, _)| *column);
        for column in spec.projection.iter().copied().chain(filtered) {
            assert!(
                column < table.fields().len(),
                "a scan names column {column} of {}",
                table.fields().len()
            );
        }
        let mut fields: Vec<_> = spec
            .projection
            .iter()
            .map(|column| table.fields()[*column].clone())
            .collect();
        if row_ids {
            fields.push(row_id_field());
        }
        let mut morsels = Vec::new();
        let mut first_morsels = Vec::with_capacity(snapshot.segments().len());
        for (segment, blocks) in snapshot
            .segments()
            .iter()
            .map(|segment| segment.blocks())
            .enumerate()
        {
            first_morsels.push(morsels.len());
            morsels.extend(
                (0..blocks)
                    .step_by(MORSEL_BLOCKS)
                    .map(|first| Morsel::Blocks {
                        segment,
                        first,
                        end: (first + MORSEL_BLOCKS).min(blocks),
                    }),
            );
        }
        let block_morsels = morsels.len();
        morsels.extend(
            (0..snapshot.version().tail.batches().len()).map(|batch| Morsel::Tail { batch }),
        );
        let schema = Arc::new(Schema::new(fields));
        Arc::new(Self {
            codes: spec.filters.iter().map(|_| Arc::default()).collect(),
            snapshot,
            spec,
            row_ids,
            index_use,
            cursors: AtomicUsize::new(0),
            schema,
            morsels,
            block_morsels,
            first_morsels,
            later: LaterCodes::default(),
            next: AtomicUsize::new(0),
        })
    }

    /// The schema of the batches.
    pub fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    /// The snapshot that is scanned.
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// A cursor for one thread.
    pub fn cursor(self: &Arc<Self>) -> ScanCursor {
        // Relaxed, here and below: an estimate.
        self.cursors.fetch_add(1, Ordering::Relaxed);
        ScanCursor::new(self.clone())
    }

    /// How many threads share the work, about.
    fn threads(&self) -> u64 {
        self.cursors.load(Ordering::Relaxed).max(1) as u64
    }

    /// The part of the morsels that nobody has taken, from 0 to 1.
    fn left(&self) -> f64 {
        // Relaxed: an estimate.
        let taken = self.next.load(Ordering::Relaxed).min(self.morsels.len());
        (self.morsels.len() - taken) as f64 / self.morsels.len().max(1) as f64
    }

    /// Whether there are blocks that nobody has taken.
    fn has_blocks(&self) -> bool {
        // Relaxed: the counter only grows, so that what it denies stays denied.
        self.next.load(Ordering::Relaxed) < self.block_morsels
    }

    /// Takes the next morsel.
    fn take(&self) -> Option<Morsel> {
        // Relaxed: the counter alone decides who takes what; the rows were published long before.
        self.morsels
            .get(self.next.fetch_add(1, Ordering::Relaxed))
            .copied()
    }
}
