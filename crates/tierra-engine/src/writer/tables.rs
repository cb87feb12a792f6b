//! Tables come and go.

use std::sync::Arc;

use super::Writer;
use crate::error::{StorageError, TableError};
use crate::key::KeyIndexCell;
use crate::manifest::{TableEntry, TailEntry};
use crate::spec::TableSpec;
use crate::table::Table;
use crate::tail::{Tail, TailLog};
use crate::version::TableVersion;

impl Writer {
    pub(super) fn create_table(&mut self, spec: TableSpec) -> Result<Arc<Table>, TableError> {
        spec.check()?;
        if self.catalog.table(&spec.name).is_some() {
            return Err(TableError::Exists { table: spec.name });
        }
        let spec = Arc::new(spec);
        let mut next = self.published.manifest().clone();
        let id = next.next_table_id;
        next.next_table_id += 1;
        let tail = TailEntry {
            segment_id: 0,
            first_sequence: 0,
            logs: Vec::new(),
        };
        next.tables.push(Arc::new(TableEntry {
            id,
            spec: spec.clone(),
            next_segment_id: 1,
            delete_vector_version: 0,
            dictionaries: vec![None; spec.columns.len()],
            segments: Vec::new(),
            tail,
        }));
        self.published
            .publish(&self.storage.pool, next, Vec::new())
            .map_err(StorageError::from)?;
        let version = TableVersion {
            segments: Arc::new([]),
            dictionaries: vec![None; spec.columns.len()].into(),
            tail: Tail::empty(0),
            keys: KeyIndexCell::empty(),
        };
        let table = Table::new(id, spec, version, 1, self.storage.clone());
        self.logs.insert(id, TailLog::starting_at(0));
        self.catalog.insert(table.clone());
        Ok(table)
    }

    pub(super) fn drop_table(&mut self, name: &str) -> Result<(), TableError> {
        let Some(table) = self.catalog.table(name) else {
            return Err(TableError::Unknown {
                table: name.to_owned(),
            });
        };
        let mut next = self.published.manifest().clone();
        next.tables.retain(|entry| entry.id != table.id());
        self.published
            .publish(&self.storage.pool, next, Vec::new())
            .map_err(StorageError::from)?;
        // Snapshots go on reading: their segments hold the extents.
        table.mark_dropped();
        self.logs.remove(&table.id());
        self.catalog.remove(name);
        Ok(())
    }

    /// The table's entry in the newest manifest.
    pub(super) fn entry(&self, table: &Table) -> Result<Arc<TableEntry>, StorageError> {
        table.check_alive()?;
        let entry = self.published.table(table.id()).cloned();
        entry.ok_or_else(|| StorageError::Dropped {
            table: table.spec().name.clone(),
        })
    }
}
