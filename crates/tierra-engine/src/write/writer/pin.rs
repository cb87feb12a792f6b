//! Pins all tables as of one commit, for a backup.
//!
//! Invariant: the writer only hands out references, between two requests, and goes on. What they name is not overwritten.

use super::state::Writer;
use crate::error::StorageError;
use crate::table::requests::{Pinned, PinnedTable, TableExtents};

impl Writer {
    /// All tables as of the last commit.
    pub(super) fn pinned(&self) -> Result<Pinned, StorageError> {
        let pin = |stored: TableExtents| {
            let table = self.catalog.table_of_id(stored.entry.id);
            let table = table.ok_or_else(|| StorageError::Dropped {
                table: stored.entry.spec.name.clone(),
            })?;
            Ok(PinnedTable {
                version: table.current(),
                stored,
                table,
            })
        };
        let tables = self.extents().into_iter().map(pin);
        Ok(Pinned {
            tables: tables.collect::<Result<_, StorageError>>()?,
            manifest: self.published.manifest().clone(),
            commit: self.commit,
        })
    }
}
