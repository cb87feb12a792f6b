//! Inverted indexes follow the segments: parts are built in the background after a commit, joined, and
//! built anew after a dictionary merge.
//!
//! A part is joined with the one before it while that has at most twice as many rows, so a table has
//! logarithmically many, and a row is indexed again logarithmically often. The writer builds:
//! requests that come meanwhile wait, as they do for a merge.
//!
//! Invariant: copy on write. One manifest names the new part instead of those that it replaces; until
//! then, and where there is none, rows are scanned.

use std::sync::Arc;

use tierra_column::{Dictionary, POSTINGS_CHUNKS_MAX, PostingsError, PostingsPlan};

use super::Writer;
use crate::error::{DamageError, StorageError};
use crate::inverted::InvertedPart;
use crate::manifest::{PartEntry, TableEntry};
use crate::segment::Segment;
use crate::space::{OwnedExtent, Owner};
use crate::table::Table;
use crate::version::TableVersion;

/// A part with at most this many times the rows of the next one is joined with it.
const JOINED_TIMES: usize = 2;

/// A part that is to be built.
struct Step {
    segments: Vec<Arc<Segment>>,
    /// Parts that it replaces: their segments are among these.
    replaced: Vec<Arc<InvertedPart>>,
}

impl Writer {
    /// Builds what is missing of a table's indexes, and copies it near.
    pub(super) fn build_indexes(&mut self, table: &Arc<Table>) {
        for column in table.spec().indexed_columns() {
            // Nobody waits for it, and nothing is lost: rows without an index are scanned.
            match self.build_index(table, column) {
                Ok(()) | Err(StorageError::Closed | StorageError::Dropped { .. }) => {}
                Err(error) => {
                    let (table, column) = (&table.spec().name, &table.spec().columns[column].name);
                    tracing::warn!(table, column, %error, "an index could not be built");
                }
            }
        }
    }

    fn build_index(&mut self, table: &Arc<Table>, column: usize) -> Result<(), StorageError> {
        loop {
            let current = table.current();
            let (Some(dictionary), Some(step)) = (
                current.dictionaries[column].clone(),
                next_step(&current, column),
            ) else {
                break;
            };
            let part = self.build_part(table, column, &step.segments, &dictionary)?;
            let is_replaced = |part: &Arc<InvertedPart>| {
                step.replaced.iter().any(|other| Arc::ptr_eq(other, part))
            };
            let kept = current.indexes.iter().filter(|part| !is_replaced(part));
            let indexes: Vec<_> = kept.cloned().chain([part.clone()]).collect();
            let mut entry = TableEntry::clone(&*self.entry(table)?);
            entry.parts = indexes.iter().map(|part| part.entry().clone()).collect();
            let next = self.published.with_table(entry);
            self.published
                .publish(&self.storage.pool, next, vec![part.extent().clone()])?;
            publish_parts(table, &current, indexes);
        }
        self.copy_parts_near(table, column)
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
        let owner = Owner::Index(table.id()).tag();
        let mut writer = self.storage.pool.allocate(plan.len_bytes() as u64, owner)?;
        plan.write(&mut writer, closing).map_err(fault)?;
        let extent = OwnedExtent::finish(&self.storage.pool, writer)?;
        let entry = PartEntry {
            column: column as u32,
            generation: dictionary.generation(),
            segments: segments.iter().map(|segment| segment.id()).collect(),
            extent: extent.extent(),
        };
        let size = self.storage.calibration.cell;
        let part = InvertedPart::written(Arc::new(entry), extent, size);
        Ok(part.map_err(|source| damaged(table, column, source))?)
    }

    fn copy_parts_near(&self, table: &Arc<Table>, column: usize) -> Result<(), StorageError> {
        let current = table.current();
        let mut indexes = current.indexes.to_vec();
        let mut copied = false;
        for part in indexes.iter_mut().filter(|part| part.column() == column) {
            if self.storage.is_closing() {
                break;
            }
            let wish = table.spec().columns[column].near;
            let near = part.with_near_copy(&self.storage.budget, wish);
            if let Some(near) = near.map_err(|source| damaged(table, column, source))? {
                *part = near;
                copied = true;
            }
        }
        if copied {
            publish_parts(table, &current, indexes);
        }
        Ok(())
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

/// The segments that no part covers, with those of the last parts as far as these are to be joined;
/// `None` where all are covered.
fn next_step(version: &TableVersion, column: usize) -> Option<Step> {
    let parts = || {
        version
            .indexes
            .iter()
            .filter(|part| part.column() == column)
    };
    let is_covered = |segment: &Segment| parts().any(|part| part.covers(segment.id()));
    let mut segments: Vec<_> = version
        .segments
        .iter()
        .filter(|segment| !is_covered(segment))
        .take(POSTINGS_CHUNKS_MAX)
        .cloned()
        .collect();
    if segments.is_empty() {
        return None;
    }
    let rows = |segments: &[Arc<Segment>]| -> usize {
        segments.iter().map(|segment| segment.rows()).sum()
    };
    let mut replaced = Vec::new();
    for part in parts().collect::<Vec<_>>().into_iter().rev() {
        let listed = |segment: &&Arc<Segment>| part.covers(segment.id());
        let of_part: Vec<_> = version.segments.iter().filter(listed).cloned().collect();
        if rows(&of_part) > JOINED_TIMES * rows(&segments)
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
