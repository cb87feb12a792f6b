//! Makes one segment of the rows that are left in others: of segments with many deleted rows, and of small ones.
//!
//! A background thread reads the rows of immutable segments and writes a new one, with the keys of its rows, and runs without the
//! rows that go. The writer publishes that, or drops it if the table has changed too much. Rows get new numbers.
//!
//! Invariant: the new segment has exactly the rows that were left when the work began, in their order. What is deleted meanwhile
//! is told by its number then ([`CompactStep::moved_segments`]).

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::ArrayRef;
use tierra_column::bits::{BLOCK_LEN, Mask};
use tierra_column::{ColumnReader, Scratch};

use super::run_step::RunError;
use crate::deleted::numbering::MovedSegment;
use crate::error::{ScanError, StorageError};
use crate::index::key::{Entry, KeyRun, MergeError, merge_without, store_run};
use crate::manifest::SEGMENT_ROWS;
use crate::manifest::row_id::RowId;
use crate::segment::Segment;
use crate::spec::replicas::TierId;
use crate::storage::Storage;
use crate::table::Table;
use crate::table::load_merge_lock::LoadPass;
use crate::table::requests::EncodedSegment;
use crate::table::version::TableVersion;
use crate::write::column_source::ColumnSource;
use crate::write::encode::encode_segments;

/// A segment is rewritten if more than one of so many rows is deleted.
const DELETED_ONE_IN: usize = 4;
/// Segments of at most this many rows are small.
const SMALL_ROWS_MOST: usize = SEGMENT_ROWS / 16;
/// As many small segments are joined.
const SMALL_SEGMENTS_LEAST: usize = 64;

/// Segments to be compacted.
pub(super) struct CompactStep {
    /// The version that has them.
    version: Arc<TableVersion>,
    pub(super) segments: Vec<Arc<Segment>>,
    /// Runs that list rows of these.
    runs: Vec<Arc<KeyRun>>,
    /// The tiers of runs.
    tier_ids: Vec<TierId>,
    /// The new segment's codes belong to the current dictionaries until it is published.
    pass: Mutex<Option<LoadPass>>,
}

/// What was made of them.
pub(super) struct Compacted {
    /// None if no row was left.
    pub(super) segment: Option<EncodedSegment>,
    /// Runs that go, each with what takes its place.
    pub(super) replaced: Vec<(Arc<KeyRun>, Option<Arc<KeyRun>>)>,
    /// The run of the new segment.
    pub(super) run: Option<Arc<KeyRun>>,
}

impl CompactStep {
    /// The segments to be compacted next; `None` if none are worth it, or a merge of dictionaries is under way.
    pub(super) fn next(
        version: Arc<TableVersion>,
        table: &Table,
        is_readable: impl Fn(&Segment) -> bool,
    ) -> Option<Self> {
        let near = version.keys.near.get();
        let levels = || near.iter().flat_map(|near| &near.levels);
        let runs = version.keys.runs();
        let has_key = table.key().is_some();
        // Then its keys are in runs alone, which this step replaces.
        let is_listed = |id: u32| {
            !has_key
                || runs.iter().any(|run| run.covers(id) && !run.is_given_up())
                    && !levels().any(|level| level.segments.contains(&id))
        };
        let can_move = |segment: &&Arc<Segment>| {
            segment.has_no_placeholder() && is_readable(segment) && is_listed(segment.id())
        };
        let is_worn = |segment: &Segment| is_worn(&version, segment);
        let is_small = |segment: &Segment| version.rows_of(segment) <= SMALL_ROWS_MOST;
        let movable = || version.segments.iter().filter(can_move);
        let small = movable().filter(|segment| is_small(segment)).count();
        let joins = small >= SMALL_SEGMENTS_LEAST;
        if !joins && !version.segments.iter().any(|segment| is_worn(segment)) {
            return None;
        }
        let mut rows = 0;
        let chosen = movable().filter(|segment| is_worn(segment) || joins && is_small(segment));
        let chosen = chosen.take_while(|segment| {
            rows += version.rows_of(segment);
            rows <= SEGMENT_ROWS
        });
        let segments: Vec<_> = chosen.cloned().collect();
        if segments.is_empty() {
            return None;
        }
        let lists = |run: &&Arc<KeyRun>| segments.iter().any(|segment| run.covers(segment.id()));
        let runs: Vec<_> = runs.iter().filter(lists).cloned().collect();
        if runs.iter().any(|run| run.is_given_up()) {
            return None;
        }
        let pass = table.load_merge_lock().try_enter_load()?;
        Some(Self {
            tier_ids: table.key_tiers(),
            version,
            segments,
            runs,
            pass: Mutex::new(Some(pass)),
        })
    }

    /// What keeps merges of dictionaries out; once.
    pub(super) fn take_pass(&self) -> Option<LoadPass> {
        // It is taken whole.
        self.pass
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }

    /// Whether a segment is one of those that go.
    pub(super) fn moves(&self, id: u32) -> bool {
        self.segments.iter().any(|segment| segment.id() == id)
    }

    /// Does the work, on any thread.
    pub(super) fn run(&self, storage: &Arc<Storage>, table: &Table) -> Result<Compacted, RunError> {
        table.check_alive()?;
        let mut id = None;
        let new_id = || table.new_segment_id();
        let source = LeftRows {
            step: self,
            storage,
            table,
        };
        let encoded = encode_segments(table, &source, new_id, storage.closing(), |encoded, _| {
            id = Some(encoded.segment.id());
            Ok(())
        })?;
        let segment = encoded.into_iter().next();
        let keys = match (&segment, table.key()) {
            (Some(encoded), Some(key)) => {
                let arrays = key.columns().iter().map(|column| source.column(*column));
                let arrays = arrays.collect::<Result<Vec<ArrayRef>, StorageError>>()?;
                let first = RowId::new(encoded.segment.id(), 0).get();
                let keys = key.normalize(&arrays.iter().collect::<Vec<_>>());
                let mut entries: Vec<Entry> = keys.into_iter().zip(first..).collect();
                entries.sort_unstable();
                entries
            }
            _ => Vec::new(),
        };
        let store = |segments: Vec<u32>, built| {
            store_run(storage, table.id(), &self.tier_ids, segments, built)
        };
        let built = |runs: &[Arc<KeyRun>], entries: &[Entry]| {
            let goes = |row: u64| {
                let segment = u32::try_from(RowId::from_number(row).segment());
                segment.is_ok_and(|segment| self.moves(segment))
            };
            let built = || merge_without(runs, entries, goes, storage.closing());
            storage.read_validated(built)?.map_err(|error| match error {
                MergeError::Damaged(run, error) => RunError::Damaged(run, error),
                MergeError::Interrupted => StorageError::Closed.into(),
            })
        };
        let mut replaced = Vec::with_capacity(self.runs.len());
        for run in &self.runs {
            let left = run.entry().segments.iter().copied();
            let left: Vec<u32> = left.filter(|id| !self.moves(*id)).collect();
            let next = match left.is_empty() {
                true => None,
                false => Some(store(left, built(std::slice::from_ref(run), &[])?)?),
            };
            replaced.push((run.clone(), next));
        }
        let run = match id.filter(|_| !keys.is_empty()) {
            Some(id) => Some(store(vec![id], built(&[], &keys)?)?),
            None => None,
        };
        Ok(Compacted {
            segment,
            replaced,
            run,
        })
    }

    /// The segments that go, and where their rows begin in the new one.
    pub(super) fn moved_segments(&self) -> Vec<MovedSegment> {
        let mut next = 0;
        let segments = self.segments.iter().map(|segment| {
            let first = next;
            next += self.version.rows_of(segment) as u32;
            MovedSegment {
                id: segment.id(),
                first,
                gone: self.version.deletions.of(segment.id()).cloned(),
            }
        });
        segments.collect()
    }
}

/// Whether a segment has so many deleted rows that it is to be rewritten.
pub(super) fn is_worn(version: &TableVersion, segment: &Segment) -> bool {
    version.deletions.count_of(segment.id()) * DELETED_ONE_IN > segment.rows()
}

/// The rows of the segments that are left, column by column.
struct LeftRows<'a> {
    step: &'a CompactStep,
    storage: &'a Storage,
    table: &'a Table,
}

impl LeftRows<'_> {
    fn column(&self, column: usize) -> Result<ArrayRef, StorageError> {
        Ok(self.storage.read_validated(|| self.column_once(column))??)
    }

    fn column_once(&self, column: usize) -> Result<ArrayRef, ScanError> {
        let (spec, version) = (self.table.spec(), &self.step.version);
        let mut reader = ColumnReader::new(spec.columns[column].ty, self.rows() as usize);
        let mut scratch = Scratch::new();
        for segment in &self.step.segments {
            segment.verify_column(spec, column)?;
            let deleted = version.deletions.of(segment.id());
            for block in 0..segment.blocks() {
                let mut left = Mask::first(segment.block_rows(block));
                if let Some(deleted) = deleted.and_then(|deleted| deleted.block(block)) {
                    left.and_not(deleted);
                }
                if !left.any() {
                    continue;
                }
                let (chunk, dictionary) = (segment.chunk(column), version.dictionary(column));
                let appended = reader.append(chunk, block, &left, dictionary, &mut scratch);
                appended
                    .map_err(|source| segment.damaged(spec, column, block * BLOCK_LEN, source))?;
            }
        }
        Ok(reader.finish())
    }
}

impl ColumnSource for LeftRows<'_> {
    type Error = StorageError;

    fn rows(&self) -> u64 {
        let segments = self.step.segments.iter();
        let rows = segments.map(|segment| self.step.version.rows_of(segment) as u64);
        rows.sum()
    }

    fn bytes(&self, column: usize, _rows: Range<u64>) -> u64 {
        let segments = self.step.segments.iter();
        segments.map(|segment| segment.stored_bytes(column)).sum()
    }

    fn read(&self, column: usize, _rows: Range<u64>) -> Result<Vec<ArrayRef>, StorageError> {
        Ok(vec![self.column(column)?])
    }
}
