//! Inverted indexes follow the segments: parts are built in the background after a commit, joined,
//! built anew after a dictionary merge, and again where they turn out to be damaged.
//!
//! A part is joined with the one before it while that has at most twice as many rows, and both together
//! not too many for one; so a table has logarithmically many, and a row is indexed again
//! logarithmically often. The writer builds: requests that come meanwhile wait, as they do for a merge.
//!
//! Invariant: copy on write. One manifest names the new part instead of those that it replaces; until
//! then, and where there is none, rows are scanned.

use std::sync::Arc;

use tierra_column::{Dictionary, POSTINGS_CHUNKS_MAX, PostingsError, PostingsPlan};

use super::Writer;
use crate::error::{DamageError, ScanError, StorageError};
use crate::inverted::InvertedPart;
use crate::manifest::{PartEntry, TableEntry};
use crate::segment::Segment;
use crate::space::Owner;
use crate::table::Table;
use crate::version::TableVersion;

/// A part with at most this many times the rows of the next one is joined with it.
const JOINED_TIMES: usize = 2;
/// Rows that one part covers at most: the time that building takes grows with their square.
const PART_ROWS_MAX: usize = 1 << 28;

/// A part that is to be built.
struct Step {
    segments: Vec<Arc<Segment>>,
    /// Parts that it replaces: their segments are among these.
    replaced: Vec<Arc<InvertedPart>>,
}

impl Writer {
    /// Builds what is missing of a table's indexes.
    pub(super) fn build_indexes(&mut self, table: &Arc<Table>) {
        for column in table.spec().indexed_columns() {
            // Nobody waits for it, and nothing is lost: rows without an index are scanned.
            match self.build_index(table, column) {
                Ok(()) | Err(StorageError::Closed | StorageError::Dropped { .. }) => {}
                Err(error) => {
                    let version = table.current();
                    let generation = version.dictionary(column).map_or(0, Dictionary::generation);
                    let id = (table.id(), column);
                    self.unbuilt.note(id, generation, sealed_rows(&version));
                    let (table, column) = (&table.spec().name, &table.spec().columns[column].name);
                    tracing::warn!(table, column, %error, "an index could not be built");
                }
            }
        }
    }

    fn build_index(&mut self, table: &Arc<Table>, column: usize) -> Result<(), StorageError> {
        let id = (table.id(), column);
        loop {
            let current = table.current();
            let Some(dictionary) = current.dictionaries[column].clone() else {
                return Ok(());
            };
            let (generation, rows) = (dictionary.generation(), sealed_rows(&current));
            if !self.unbuilt.is_due(id, generation, rows) {
                return Ok(());
            }
            let is_readable = |segment: &Segment| !self.unbuilt.is_left_out(id, segment.id());
            let Some(step) = next_step(&current, column, is_readable) else {
                return Ok(());
            };
            let part = match self.build_part(table, column, &step.segments, &dictionary) {
                Ok(part) => part,
                Err(StorageError::Scan(error)) => match *error {
                    ScanError::Damaged { segment, .. } => {
                        // Its rows stay without an index, all others need not.
                        self.unbuilt.leave_out(id, segment);
                        let table = &table.spec().name;
                        tracing::warn!(table, %error, "a segment could not be indexed");
                        continue;
                    }
                    other => return Err(other.into()),
                },
                Err(error) => return Err(error),
            };
            let is_kept = |part: &&Arc<InvertedPart>| {
                let is_replaced = step.replaced.iter().any(|other| Arc::ptr_eq(other, part));
                !is_replaced && !part.is_given_up()
            };
            let kept = current.indexes.iter().filter(is_kept);
            let indexes: Vec<_> = kept.cloned().chain([part.clone()]).collect();
            let mut entry = TableEntry::clone(&*self.entry(table)?);
            entry.parts = indexes.iter().map(|part| part.entry().clone()).collect();
            let next = self.published.with_table(entry);
            self.publish(next, vec![part.extent().clone()])?;
            publish_parts(table, &current, indexes);
        }
    }

    /// Copies the parts of a table's indexes near, as far as the budget goes. One that turns out to be
    /// damaged is built again.
    pub(super) fn copy_indexes_near(&mut self, table: &Arc<Table>) {
        if self.copy_parts_near(table) {
            self.build_indexes(table);
            // What was built a moment ago is not read before it is copied.
            self.copy_parts_near(table);
        }
    }

    /// Whether a part was given up.
    fn copy_parts_near(&self, table: &Arc<Table>) -> bool {
        let (current, spec) = (table.current(), table.spec());
        let mut indexes = current.indexes.to_vec();
        let (mut copied, mut damaged) = (false, false);
        for part in indexes.iter_mut().filter(|part| !part.is_given_up()) {
            if self.storage.is_closing() {
                break;
            }
            let column = &spec.columns[part.column()];
            match part.with_near_copy(&self.storage.budget, column.near, &self.storage.calibration)
            {
                Ok(None) => {}
                Ok(Some(near)) => {
                    *part = near;
                    copied = true;
                }
                Err(error) => {
                    part.give_up();
                    damaged = true;
                    let (table, column) = (&spec.name, &column.name);
                    tracing::warn!(
                        table,
                        column,
                        %error,
                        "a part of an index is damaged: it is built again"
                    );
                }
            }
        }
        if copied {
            publish_parts(table, &current, indexes);
        }
        damaged
    }

    fn build_part(
        &self,
        table: &Table,
        column: usize,
        segments: &[Arc<Segment>],
        dictionary: &Dictionary,
    ) -> Result<Arc<InvertedPart>, StorageError> {
        let (spec, closing) = (table.spec(), self.storage.closing());
        table.check_alive()?;
        for segment in segments {
            if self.storage.is_closing() {
                return Err(StorageError::Closed);
            }
            for block in 0..segment.blocks() {
                segment.verify(spec, column, block)?;
            }
        }
        let fault = |error| match error {
            PostingsError::Chunk { chunk, source } => {
                segments[chunk].damaged(spec, column, 0, source).into()
            }
            PostingsError::Interrupted => StorageError::Closed,
            PostingsError::Contradiction { .. } | PostingsError::Thread { .. } => {
                StorageError::Index {
                    column: spec.columns[column].name.clone(),
                    source: error,
                }
            }
        };
        let chunks = segments.iter().map(|segment| *segment.chunk(column));
        let threads = self.storage.threads;
        let plan = PostingsPlan::new(chunks.collect(), dictionary, threads, closing);
        let plan = plan.map_err(fault)?;
        let (homes, owner) = (table.homes(), Owner::Index(table.id()));
        let homes = homes.of_column(column);
        let mut writer = self
            .storage
            .allocate(homes, plan.len_bytes() as u64, owner)?;
        plan.write(&mut writer, closing).map_err(fault)?;
        let extent = writer.finish()?;
        let entry = PartEntry {
            column: column as u32,
            generation: dictionary.generation(),
            segments: segments.iter().map(|segment| segment.id()).collect(),
            extent: extent.id(),
        };
        let calibration = &self.storage.calibration;
        let part = InvertedPart::written(Arc::new(entry), extent, calibration);
        Ok(part.map_err(|source| damaged(table, column, source))?)
    }
}

fn damaged(table: &Table, column: usize, source: tierra_column::FormatError) -> DamageError {
    let column = table.spec().columns[column].name.clone();
    DamageError::Index { column, source }
}

fn publish_parts(table: &Arc<Table>, current: &TableVersion, indexes: Vec<Arc<InvertedPart>>) {
    table.publish(TableVersion {
        segments: current.segments.clone(),
        dictionaries: current.dictionaries.clone(),
        indexes: indexes.into(),
        tail: current.tail.clone(),
        keys: current.keys.next(None),
    });
}

fn sealed_rows(version: &TableVersion) -> u64 {
    version.rows() - u64::from(version.tail.rows())
}

/// The readable segments that no part covers, with those of the last parts as far as these are to be
/// joined; `None` where all are covered.
fn next_step(
    version: &TableVersion,
    column: usize,
    is_readable: impl Fn(&Segment) -> bool,
) -> Option<Step> {
    let parts = version.indexes.iter();
    let usable = |part: &&Arc<InvertedPart>| part.column() == column && !part.is_given_up();
    let parts: Vec<_> = parts.filter(usable).collect();
    let is_covered = |segment: &Segment| parts.iter().any(|part| part.covers(segment.id()));
    let mut rows = 0;
    let mut segments: Vec<_> = version
        .segments
        .iter()
        .filter(|segment| is_readable(segment) && !is_covered(segment))
        .take(POSTINGS_CHUNKS_MAX)
        .take_while(|segment| {
            rows += segment.rows();
            rows <= PART_ROWS_MAX
        })
        .cloned()
        .collect();
    if segments.is_empty() {
        return None;
    }
    let rows = |segments: &[Arc<Segment>]| -> usize {
        segments.iter().map(|segment| segment.rows()).sum()
    };
    let mut replaced = Vec::new();
    for part in parts.into_iter().rev() {
        let listed = |segment: &&Arc<Segment>| is_readable(segment) && part.covers(segment.id());
        let of_part: Vec<_> = version.segments.iter().filter(listed).cloned().collect();
        let (of_part_rows, rows) = (rows(&of_part), rows(&segments));
        if of_part_rows > JOINED_TIMES * rows
            || of_part_rows + rows > PART_ROWS_MAX
            || of_part.len() + segments.len() > POSTINGS_CHUNKS_MAX
        {
            break;
        }
        segments.extend(of_part);
        replaced.push(part.clone());
    }
    segments.sort_unstable_by_key(|segment| segment.id());
    Some(Step { segments, replaced })
}
