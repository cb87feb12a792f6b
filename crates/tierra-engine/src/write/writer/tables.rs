//! Creating, showing and dropping tables.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::state::Writer;
use crate::error::{StorageError, TableError};
use crate::manifest::{ColumnId, TableEntry, TailEntry};
use crate::spec::TableSpec;
use crate::spec::replicas::{ReplicaPlacement, Replicas};
use crate::table::Table;
use crate::table::version::TableVersion;
use crate::tail::TailLog;

impl Writer {
    pub(super) fn create_table(
        &mut self,
        spec: TableSpec,
        replicas: &Replicas,
    ) -> Result<Arc<Table>, TableError> {
        let table = self.begin_table(spec, replicas)?;
        let next = self.published.with_table(entry_of(&table));
        self.publish(next, Vec::new())?;
        self.show(&table, TailLog::starting_at(0));
        Ok(table)
    }

    /// Makes a table that is not yet in the manifest or visible. The commit of its first rows names it in the same manifest and
    /// then shows it.
    pub(super) fn begin_table(
        &mut self,
        spec: TableSpec,
        replicas: &Replicas,
    ) -> Result<Arc<Table>, TableError> {
        let spec = spec.settled();
        spec.check()?;
        spec.check_encodings()?;
        if self.catalog.table(&spec.name).is_some() {
            return Err(TableError::Exists { table: spec.name });
        }
        let placement = self.storage.tiers().settle(replicas, &spec)?;
        let version = TableVersion::without_rows(spec.columns.len(), 0);
        let (id, spec, storage) = (self.next_table_id, Arc::new(spec), self.storage.clone());
        self.next_table_id += 1;
        let requests = self.requests.clone();
        Ok(Table::new(
            id, spec, placement, version, 1, storage, requests,
        ))
    }

    /// Whether the table was begun and is not yet visible.
    pub(super) fn is_begun(&self, table: &Table) -> bool {
        !self.logs.contains_key(&table.id())
    }

    /// Makes a table visible that the manifest now names.
    pub(super) fn show(&mut self, table: &Arc<Table>, log: TailLog) {
        self.logs.insert(table.id(), log);
        self.catalog.insert(table.clone());
    }

    /// Drops all of these tables with one manifest.
    pub(super) fn drop_tables(&mut self, names: &[String]) -> Result<(), TableError> {
        let table = |name: &String| {
            let unknown = || TableError::Unknown {
                table: name.clone(),
            };
            self.catalog.table(name).ok_or_else(unknown)
        };
        let tables = names.iter().map(table).collect::<Result<Vec<_>, _>>()?;
        if tables.is_empty() {
            return Ok(());
        }
        let mut next = self.published.manifest().clone();
        let stays = |id| tables.iter().all(|table| table.id() != id);
        next.tables.retain(|entry| stays(entry.id));
        self.publish(next, Vec::new())?;
        for table in tables {
            // Snapshots keep reading: their segments hold the extents.
            table.mark_dropped();
            self.logs.remove(&table.id());
            self.catalog.remove(&table.spec().name);
        }
        self.failed_builds.retry();
        self.give_back_space();
        Ok(())
    }

    /// Returns unreferenced space to the file system.
    pub(super) fn give_back_space(&self) {
        for tier in &self.storage.tiers().open {
            match tier.pool.give_back() {
                Ok(0) => {}
                Ok(bytes) => tracing::info!(tier = &*tier.name, bytes, "gave free space back"),
                Err(error) => tracing::warn!(%error, "free space was not given back"),
            }
        }
    }

    /// The table's entry in the newest manifest; for a table that was begun, its future entry.
    pub(super) fn entry(&self, table: &Table) -> Result<Arc<TableEntry>, StorageError> {
        table.check_alive()?;
        if let Some(entry) = self.published.table(table.id()) {
            return Ok(entry.clone());
        }
        let name = &table.spec().name;
        match self.catalog.table(name) {
            None => Ok(Arc::new(entry_of(table))),
            Some(_) => Err(StorageError::Created {
                table: name.clone(),
            }),
        }
    }
}

/// The entry of a table without rows.
fn entry_of(table: &Table) -> TableEntry {
    let spec = table.shared_spec();
    let columns = spec.columns.len() as u32;
    TableEntry {
        id: table.id(),
        column_ids: (0..columns).map(ColumnId).collect(),
        next_column_id: ColumnId(columns),
        placement: ReplicaPlacement::clone(&table.placement()),
        next_segment_id: table.next_segment_id(),
        dictionaries: vec![None; spec.columns.len()],
        segments: Vec::new(),
        deleted: BTreeMap::new(),
        parts: Vec::new(),
        runs: Vec::new(),
        tail: TailEntry::default(),
        spec,
    }
}
