//! The version of a table after a change: rows go, others come into the tail.
//!
//! Invariant: the old version is untouched, and nothing is durable yet.

use std::sync::Arc;

use arrow::array::RecordBatch;

use crate::deleted::row_ids::RowIds;
use crate::error::{CommitError, InputError};
use crate::manifest::row_id::RowId;
use crate::table::Table;
use crate::table::requests::TailRows;
use crate::table::version::TableVersion;

impl TableVersion {
    /// The version after a change whose record has so many bytes. Keys are unique among the rows that are left and those that
    /// come.
    ///
    /// # Errors
    /// [`CommitError::Conflict`]: it does not have a row that is to go. [`CommitError::DuplicateKey`].
    pub(crate) fn after(
        &self,
        table: &Arc<Table>,
        deleted: &RowIds,
        rows: Option<&TailRows>,
        logged_bytes: u64,
    ) -> Result<TableVersion, CommitError> {
        let left = self.without(table, deleted)?;
        match rows {
            Some(TailRows { batch, keys }) => {
                left.with_rows(table, batch, keys.as_deref(), logged_bytes)
            }
            None => Ok(TableVersion {
                tail: left.tail.logged(logged_bytes),
                ..left
            }),
        }
    }

    /// The version without these rows.
    ///
    /// # Errors
    /// [`CommitError::Conflict`]: it does not have them all.
    pub(crate) fn without(
        &self,
        table: &Table,
        deleted: &RowIds,
    ) -> Result<TableVersion, CommitError> {
        let conflict = |row: RowId| CommitError::Conflict {
            table: table.spec().name.clone(),
            row: row.get(),
        };
        if let Some(row) = self.first_missing(deleted) {
            return Err(conflict(row));
        }
        Ok(TableVersion {
            deletions: self.deletions.with(deleted).map_err(conflict)?,
            ..self.next()
        })
    }

    /// The version with more rows in the tail, of which it has no key.
    ///
    /// # Errors
    /// [`CommitError::DuplicateKey`].
    pub(crate) fn with_rows(
        self,
        table: &Arc<Table>,
        batch: &RecordBatch,
        keys: Option<&[u64]>,
        logged_bytes: u64,
    ) -> Result<TableVersion, CommitError> {
        let first = self.tail.rows();
        let row_id = |at: usize| RowId::new(self.tail.segment_id, first + at as u32);
        let near = match (table.key(), keys) {
            (Some(key), Some(normalized)) => {
                Some(key.extend(table, &self, batch, normalized, row_id)?)
            }
            _ => None,
        };
        let tail = self.tail.push(batch.clone(), logged_bytes);
        let tail = tail.map_err(|source| InputError::Arrow {
            table: table.spec().name.clone(),
            source,
        })?;
        Ok(TableVersion {
            keys: self.keys.next(near),
            tail,
            ..self
        })
    }
}
