//! The tables of an open database, by name.
//!
//! Invariant: readers take no lock: the writer replaces the whole map.

use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::ArcSwap;

use crate::table::Table;

/// Shared by the database and its writer, not by the tables, which would keep themselves alive.
#[derive(Debug, Default)]
pub(crate) struct Catalog {
    tables: ArcSwap<BTreeMap<String, Arc<Table>>>,
}

impl Catalog {
    pub(crate) fn new(tables: impl IntoIterator<Item = Arc<Table>>) -> Self {
        let named = tables
            .into_iter()
            .map(|table| (table.spec().name.clone(), table));
        Self {
            tables: ArcSwap::from_pointee(named.collect()),
        }
    }

    pub(crate) fn names(&self) -> Vec<String> {
        self.tables.load().keys().cloned().collect()
    }

    pub(crate) fn table(&self, name: &str) -> Option<Arc<Table>> {
        self.tables.load().get(name).cloned()
    }

    pub(crate) fn table_of_id(&self, id: u64) -> Option<Arc<Table>> {
        let tables = self.tables.load();
        tables.values().find(|table| table.id() == id).cloned()
    }

    pub(crate) fn tables(&self) -> Vec<Arc<Table>> {
        self.tables.load().values().cloned().collect()
    }

    /// Called by the writer only.
    pub(crate) fn insert(&self, table: Arc<Table>) {
        let mut tables = BTreeMap::clone(&self.tables.load());
        tables.insert(table.spec().name.clone(), table);
        self.tables.store(Arc::new(tables));
    }

    /// Called by the writer only.
    pub(crate) fn remove(&self, name: &str) {
        let mut tables = BTreeMap::clone(&self.tables.load());
        tables.remove(name);
        self.tables.store(Arc::new(tables));
    }
}
