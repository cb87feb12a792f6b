//! A transaction's changes to one table before they are committed.
//!
//! They are applied to a version of the table that no other session sees: its deletions and its tail have them on top, so that scans,
//! lookups and counts of [`Pending::snapshot`] need to know nothing of transactions. Rows that were appended here have numbers
//! after those of the tail, which mean nothing elsewhere.
//!
//! Invariant: `base` is as it was taken, and every change leaves the snapshot whole or as it was.

use std::sync::Arc;

use arrow::array::{BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;

use crate::deleted::row_ids::RowIds;
use crate::error::{CommitError, InputError};
use crate::manifest::SEGMENT_ROWS;
use crate::manifest::row_id::RowId;
use crate::table::snapshot::Snapshot;
use crate::table::version::TableVersion;
use crate::tail;
use crate::write::change::Change;

/// What a transaction has done to a table so far; its own reads see it. A clone, which costs little, is a savepoint.
#[derive(Clone, Debug)]
pub struct Pending {
    base: Snapshot,
    /// The base with the changes.
    now: Snapshot,
    /// Rows of the base that go.
    deleted: RowIds,
    /// Rows that come, and some that were deleted again.
    appended: Vec<Appended>,
}

#[derive(Clone, Debug)]
struct Appended {
    /// Its place in the tail of `now`.
    first_row: u32,
    rows: RecordBatch,
}

impl Pending {
    /// No changes yet to what a snapshot has.
    pub fn new(base: Snapshot) -> Self {
        Self {
            now: base.clone(),
            base,
            deleted: RowIds::default(),
            appended: Vec::new(),
        }
    }

    /// The table with all changes so far.
    pub fn snapshot(&self) -> &Snapshot {
        &self.now
    }

    /// The table without them.
    pub fn base(&self) -> &Snapshot {
        &self.base
    }

    /// Whether keys are looked up at once. Otherwise the next change that appends rows reads the keys of others first.
    pub fn finds_keys(&self) -> bool {
        let key = self.base.table().key();
        key.is_none_or(|key| key.built(self.now.version()).is_some())
    }

    /// Whether nothing was changed.
    pub fn is_empty(&self) -> bool {
        self.deleted.is_empty() && self.appended.is_empty()
    }

    /// Adds what a statement does: rows of [`Pending::snapshot`] go, others come. All of it or, after an error, nothing.
    ///
    /// # Errors
    /// [`CommitError`]: rows that do not fit the table, a key that the snapshot has, too many rows for one transaction.
    pub fn apply(&mut self, deleted: &RowIds, appended: &[RecordBatch]) -> Result<(), CommitError> {
        let table = self.base.table();
        let name = || table.spec().name.clone();
        let unknown = |row: RowId| CommitError::UnknownRow {
            table: name(),
            row: row.get(),
        };
        let version = self.now.version();
        if let Some(row) = version.first_missing(deleted) {
            return Err(unknown(row));
        }
        let after = TableVersion {
            deletions: version.deletions.with(deleted).map_err(unknown)?,
            ..version.next()
        };
        let accepted = appended.iter().map(|batch| table.input().accept(batch));
        let accepted = accepted.collect::<Result<Vec<_>, InputError>>()?;
        let arrow = |source| InputError::Arrow {
            table: name(),
            source,
        };
        let rows = tail::owned(&table.schema(), &accepted);
        let rows = rows.map_err(arrow)?;
        let first_row = after.tail.rows();
        if first_row as usize + rows.num_rows() > SEGMENT_ROWS {
            return Err(CommitError::TooManyRows {
                table: name(),
                most: (SEGMENT_ROWS - self.base.version().tail.rows() as usize) as u64,
            });
        }
        let next = match rows.num_rows() {
            0 => after,
            _ => {
                let normalized_keys = table.key().map(|key| key.normalize_batch(&rows));
                after.with_rows(table, &rows, normalized_keys.as_deref(), 0)?
            }
        };
        let (tail_id, base_rows) = (next.tail.segment_id, self.base.version().tail.rows());
        let is_of_base =
            |row: &RowId| row.segment() != u64::from(tail_id) || (row.row() as u32) < base_rows;
        self.deleted
            .extend_from(&deleted.in_segments(|segment| segment != tail_id));
        let in_tail = deleted.in_segments(|segment| segment == tail_id);
        self.deleted.extend(in_tail.iter().filter(is_of_base));
        if rows.num_rows() > 0 {
            self.appended.push(Appended { first_row, rows });
        }
        self.now = Snapshot::new(table.clone(), Arc::new(next));
        Ok(())
    }

    /// What is to be committed.
    pub fn into_change(self) -> Change {
        let version = self.now.version();
        let gone = version.deletions.of(version.tail.segment_id);
        let left = |Appended { first_row, rows }: Appended| {
            let Some(gone) = gone else {
                return rows;
            };
            let stays = (0..rows.num_rows()).map(|row| !gone.contains(first_row as usize + row));
            let stays: BooleanArray = stays.map(Some).collect();
            filter_record_batch(&rows, &stays).expect("a mask has as many rows as its batch")
        };
        Change {
            appended: self.appended.into_iter().map(left).collect(),
            snapshot: self.base,
            deleted: self.deleted,
        }
    }
}
