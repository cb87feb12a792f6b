//! Morsels of which a scan in a batch takes all rows: columns that another scan has unpacked are taken as they are, and those
//! that this one unpacks are left to the others. Such a morsel is a batch of rows of its own.
//!
//! Invariant: what is left to others are the values of all rows of the morsel, and their reading was validated.

use arrow::array::{ArrayRef, RecordBatch};
use tierra_column::bits::BLOCK_LEN;

use super::shared::MORSEL_BLOCKS;
use crate::read::batch::Share;

/// Rows of a full morsel. Scans in smaller batches of rows do not share.
pub(super) const WHOLE_ROWS: usize = MORSEL_BLOCKS * BLOCK_LEN;

/// The morsel that a cursor takes whole, if it does.
#[derive(Debug, Default)]
pub(super) struct Whole {
    share: Option<Share>,
    /// Rows of the morsel.
    rows: usize,
    /// By column of the projection: what another scan has unpacked; empty outside of such a morsel.
    given: Vec<Option<ArrayRef>>,
}

impl Whole {
    /// Begins a morsel; returns whether all columns are given.
    pub(super) fn begin(&mut self, share: Share, rows: usize, projection: &[usize]) -> bool {
        let given = projection
            .iter()
            .map(|column| share.values(*column).cloned());
        self.given.clear();
        self.given.extend(given);
        (self.share, self.rows) = (Some(share), rows);
        self.given.iter().all(Option::is_some)
    }

    /// Whether the batch that is being filled is one morsel.
    #[inline]
    pub(super) fn is_filling(&self) -> bool {
        self.share.is_some()
    }

    /// What other scans share of the morsel.
    pub(super) fn share(&self) -> Option<&Share> {
        self.share.as_ref()
    }

    /// Whether a column of the projection need not be read.
    #[inline]
    pub(super) fn is_given(&self, place: usize) -> bool {
        self.given.get(place).is_some_and(Option::is_some)
    }

    /// How many columns need not be read.
    pub(super) fn given(&self) -> usize {
        self.given.iter().flatten().count()
    }

    /// A column of the projection, if it was given.
    pub(super) fn take(&mut self, place: usize) -> Option<ArrayRef> {
        self.given.get_mut(place)?.take()
    }

    /// The batch is complete and its reading validated: others may have the columns of a morsel.
    pub(super) fn end(&mut self, batch: &RecordBatch, projection: &[usize]) {
        let Some(share) = self.share.take() else {
            return;
        };
        self.given.clear();
        debug_assert_eq!(batch.num_rows(), self.rows);
        if batch.num_rows() == self.rows {
            for (column, values) in projection.iter().zip(batch.columns()) {
                share.give(*column, values);
            }
        }
    }

    /// Forgets the morsel: it is read again, alone.
    pub(super) fn abandon(&mut self) {
        self.share = None;
        self.given.clear();
    }
}
