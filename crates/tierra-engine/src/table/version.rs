//! A table as of one commit: what a snapshot sees.
//!
//! This is the place that decides which rows a version has: those of its segments and its tail that are not among its deletions.
//! Whatever counts rows or hands them out asks here.
//!
//! Invariant: immutable and complete in itself. The writer makes the next version and swaps it in; readers of this one are not
//! affected.

use std::sync::Arc;

use tierra_column::Dictionary;

use crate::deleted::Deletions;
use crate::deleted::numbering::Numbering;
use crate::deleted::row_ids::RowIds;
use crate::dictionaries::published::Dictionaries;
use crate::index::inverted::InvertedParts;
use crate::index::key::KeyIndexCell;
use crate::manifest::row_id::RowId;
use crate::segment::{Segment, Segments};
use crate::slice_bytes::slice_bytes;
use crate::tail::Tail;

/// The state of a table after one commit.
#[derive(Debug)]
pub(crate) struct TableVersion {
    pub(crate) segments: Segments,
    pub(crate) dictionaries: Dictionaries,
    pub(crate) indexes: InvertedParts,
    pub(crate) tail: Tail,
    /// Of segments and tail. No other rows are in it.
    pub(crate) deletions: Deletions,
    /// What the row ids mean. They change when rows are moved to another segment.
    pub(crate) numbering: Arc<Numbering>,
    /// Lists all rows of segments and tail, deleted ones too. Built when first needed; unused without a primary key.
    pub(crate) keys: KeyIndexCell,
}

/// Where a row of a version lies.
pub(crate) enum Located<'a> {
    Sealed(&'a Segment, usize),
    Tail(&'a arrow::array::RecordBatch, usize),
}

impl TableVersion {
    /// An empty version of a table with this many columns.
    pub(crate) fn without_rows(columns: usize, tail_segment_id: u32) -> TableVersion {
        TableVersion {
            segments: Segments::default(),
            dictionaries: vec![None; columns].into(),
            indexes: Arc::new([]),
            tail: Tail::empty(tail_segment_id),
            deletions: Deletions::default(),
            numbering: Arc::default(),
            keys: KeyIndexCell::of([]),
        }
    }

    /// A copy with the same rows, which the writer turns into the next version.
    pub(crate) fn next(&self) -> TableVersion {
        TableVersion {
            segments: self.segments.clone(),
            dictionaries: self.dictionaries.clone(),
            indexes: self.indexes.clone(),
            tail: self.tail.clone(),
            deletions: self.deletions.clone(),
            numbering: self.numbering.clone(),
            keys: self.keys.next(None),
        }
    }

    /// Number of rows.
    pub(crate) fn rows(&self) -> u64 {
        self.stored_rows() - self.deletions.count()
    }

    /// Number of rows with the deleted ones.
    pub(crate) fn stored_rows(&self) -> u64 {
        self.segments.rows() + u64::from(self.tail.rows())
    }

    /// Number of rows of a segment.
    pub(crate) fn rows_of(&self, segment: &Segment) -> usize {
        segment.rows() - self.deletions.count_of(segment.id())
    }

    /// Number of rows of the tail.
    pub(crate) fn tail_rows(&self) -> usize {
        self.tail.rows() as usize - self.deletions.count_of(self.tail.segment_id)
    }

    /// Where the row lies, if this version has it.
    pub(crate) fn locate(&self, row: RowId) -> Option<Located<'_>> {
        match self.deletions.contains(row) {
            true => None,
            false => self.locate_stored(row),
        }
    }

    /// Where the row lies, deleted or not.
    fn locate_stored(&self, row: RowId) -> Option<Located<'_>> {
        if row.segment() == u64::from(self.tail.segment_id) {
            let (batch, at) = self.tail.locate(row.row() as u32)?;
            return Some(Located::Tail(batch, at));
        }
        let segment = self.segments.get(u32::try_from(row.segment()).ok()?)?;
        (row.row() < segment.rows()).then_some(Located::Sealed(segment, row.row()))
    }

    /// Whether this version has the row.
    pub(crate) fn contains(&self, row: RowId) -> bool {
        self.locate(row).is_some()
    }

    /// The first of these rows that this version does not have.
    pub(crate) fn first_missing(&self, rows: &RowIds) -> Option<RowId> {
        rows.by_segment().find_map(|(segment, rows)| {
            let last = RowId::new(segment, rows.last()?);
            match self.locate_stored(last) {
                None => Some(last),
                Some(_) => {
                    let deleted = self.deletions.of(segment)?.first_common(rows)?;
                    Some(RowId::new(segment, deleted))
                }
            }
        })
    }

    pub(crate) fn dictionary(&self, column: usize) -> Option<&Dictionary> {
        self.dictionaries[column].as_deref()
    }

    /// Bytes of near memory that the version takes regardless of the budget for copies.
    pub(crate) fn always_near_bytes(&self) -> u64 {
        let chunk_headers = self.segments.iter().map(|segment| segment.header_bytes());
        let dictionaries = self.dictionaries.iter().flatten();
        let dictionaries = dictionaries.map(|dictionary| dictionary.len_bytes() as u64);
        let tail = self
            .tail
            .batches()
            .iter()
            .flat_map(|batch| batch.rows.columns());
        let tail = tail.map(|values| slice_bytes(values) as u64);
        let others = self.keys.near_bytes() + self.deletions.near_bytes();
        chunk_headers.chain(dictionaries).chain(tail).sum::<u64>() + others as u64
    }
}
