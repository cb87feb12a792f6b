//! The tables of an open database, by name.
//!
//! Invariant: readers of one table take no lock, because the writer replaces the whole map. Those that need several tables as of
//! one moment wait for no more than the exchange of some pointers.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use tierra_column::Dictionary;

use crate::manifest::ExtentId;
use crate::storage::faults::{RangeContent, TableLookup};
use crate::table::Table;
use crate::table::snapshot::Snapshot;

/// Shared by the database and its writer. Tables hold no reference to it: that would be a cycle.
#[derive(Debug, Default)]
pub(crate) struct Catalog {
    tables: ArcSwap<BTreeMap<String, Arc<Table>>>,
    /// Held while the writer shows a commit, and while snapshots of several tables are taken: some reference counts.
    showing: Mutex<()>,
}

impl Catalog {
    pub(crate) fn new(tables: impl IntoIterator<Item = Arc<Table>>) -> Self {
        let named = tables
            .into_iter()
            .map(|table| (table.spec().name.clone(), table));
        Self {
            tables: ArcSwap::from_pointee(named.collect()),
            showing: Mutex::default(),
        }
    }

    /// Calls `publish`, which shows what a commit did to one or more tables, in between any two snapshots of several tables.
    pub(crate) fn publish_together(&self, publish: impl FnOnce()) {
        // It guards no data of its own.
        let _showing = self.showing.lock().unwrap_or_else(PoisonError::into_inner);
        publish();
    }

    /// Snapshots of tables as of one moment between two commits.
    pub(crate) fn snapshots<'t>(
        &self,
        tables: impl IntoIterator<Item = &'t Arc<Table>>,
    ) -> Vec<Snapshot> {
        let _showing = self.showing.lock().unwrap_or_else(PoisonError::into_inner);
        tables.into_iter().map(Table::snapshot).collect()
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

impl TableLookup for Catalog {
    fn held(
        &self,
        table: Option<u64>,
        extent: ExtentId,
        range: &Range<usize>,
    ) -> Option<RangeContent> {
        if let Some(id) = table {
            let table = self.table_of_id(id)?;
            return Some(held_by(&table, extent, range));
        }
        let tables = self.tables();
        let mut held = tables.iter().map(|table| held_by(table, extent, range));
        held.find(|held| held.segment.is_some())
    }

    fn dictionary(&self, table: u64, column: usize) -> Option<Arc<Dictionary>> {
        let current = self.table_of_id(table)?.current();
        current.dictionaries.get(column)?.clone()
    }
}

/// The name, column and rows that a table stores in this range of an extent.
fn held_by(table: &Table, extent: ExtentId, range: &Range<usize>) -> RangeContent {
    let mut held = RangeContent {
        table: Some(table.spec().name.clone()),
        ..RangeContent::default()
    };
    let current = table.current();
    let segments = current.segments.iter();
    let mut found = segments.filter_map(|segment| Some((segment, segment.rows_at(extent, range)?)));
    if let Some((segment, (columns, rows))) = found.next() {
        held.segment = Some(segment.id());
        held.rows = Some(rows.start as u64..rows.end as u64);
        if let [column] = columns[..] {
            held.column = Some(table.spec().columns[column].name.clone());
        }
    }
    held
}
