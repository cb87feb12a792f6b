//! A table as of one commit: what a snapshot sees.
//!
//! Invariant: immutable and complete in itself. The writer makes the next version and swaps it in; readers of this one are not
//! affected.

use std::sync::Arc;

use tierra_column::Dictionary;

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
    /// Built when first needed; unused without a primary key.
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
            keys: self.keys.next(None),
        }
    }

    /// Number of rows.
    pub(crate) fn rows(&self) -> u64 {
        self.segments.rows() + u64::from(self.tail.rows())
    }

    /// Where the row lies, if this version has it.
    pub(crate) fn locate(&self, row: RowId) -> Option<Located<'_>> {
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

    pub(crate) fn dictionary(&self, column: usize) -> Option<&Dictionary> {
        self.dictionaries[column].as_deref()
    }

    /// Bytes of near memory that the version takes regardless of the budget for copies.
    pub(crate) fn always_near_bytes(&self) -> u64 {
        let chunk_headers = self
            .segments
            .iter()
            .map(|segment| segment.chunk_headers().len_bytes());
        let dictionaries = self.dictionaries.iter().flatten();
        let dictionaries = dictionaries.map(|dictionary| dictionary.len_bytes() as u64);
        let tail = self
            .tail
            .batches()
            .iter()
            .flat_map(|batch| batch.rows.columns());
        let tail = tail.map(|values| slice_bytes(values) as u64);
        chunk_headers.chain(dictionaries).chain(tail).sum::<u64>() + self.keys.near_bytes() as u64
    }
}
