//! The database as DataFusion's planner looks it up: one catalog, one schema, the tables in it. Statements that change rows are
//! planned with two more, which are not listed: the same tables with row ids, and the rows that the statement holds.
//!
//! A table's provider is made anew for every statement that names it, so it cannot go stale.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::{CatalogProvider, SchemaProvider, TableProvider};
use datafusion::common::exec_err;
use datafusion::error::Result;
use tierra_engine::Database;

use crate::activity::{self, Activity};
use crate::change::{HELD, HeldTable, ROWS};
use crate::information_schema::{INFORMATION_SCHEMA, InformationSchema};
use crate::names::SCHEMA;
use crate::session_tables::SessionTables;
use crate::system_table;
use crate::table::TierraTable;

/// A catalog with two schemas: the database's one, and the one that describes it.
#[derive(Debug)]
pub(crate) struct TierraCatalog {
    schema: Arc<TierraSchema>,
}

impl TierraCatalog {
    pub(crate) fn new(
        database: Arc<Database>,
        activity: Arc<Activity>,
        session: Arc<SessionTables>,
    ) -> Self {
        Self {
            schema: Arc::new(TierraSchema {
                database,
                tables: Tables::Stored,
                activity,
                session,
            }),
        }
    }
}

impl CatalogProvider for TierraCatalog {
    fn schema_names(&self) -> Vec<String> {
        vec![SCHEMA.to_string()]
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        match name {
            SCHEMA => Some(Arc::clone(&self.schema) as _),
            INFORMATION_SCHEMA => {
                let database = Arc::clone(&self.schema.database);
                let tables = Self {
                    schema: Arc::clone(&self.schema),
                };
                Some(Arc::new(InformationSchema::new(database, Arc::new(tables))))
            }
            ROWS => Some(self.schema.with(Tables::WithRowIds)),
            HELD => Some(self.schema.with(Tables::Held)),
            _ => None,
        }
    }
}

struct TierraSchema {
    database: Arc<Database>,
    tables: Tables,
    activity: Arc<Activity>,
    /// The tables that only this session sees.
    session: Arc<SessionTables>,
}

/// What the tables of a schema consist of.
#[derive(Clone, Copy)]
enum Tables {
    /// Their rows.
    Stored,
    /// Their rows, and the rows' ids.
    WithRowIds,
    /// The rows that the running statement holds.
    Held,
}

impl TierraSchema {
    fn with(&self, tables: Tables) -> Arc<dyn SchemaProvider> {
        Arc::new(Self {
            database: Arc::clone(&self.database),
            tables,
            activity: Arc::clone(&self.activity),
            session: Arc::clone(&self.session),
        })
    }
}

impl std::fmt::Debug for TierraSchema {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TierraSchema")
            .field("tables", &self.database.tables())
            .finish()
    }
}

#[async_trait]
impl SchemaProvider for TierraSchema {
    fn table_names(&self) -> Vec<String> {
        let mut names = self.database.tables();
        names.extend(self.session.names());
        names.sort_unstable();
        names.dedup();
        names
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        if let Some(table) = self.session.get(name) {
            return Ok(Some(table));
        }
        if let Some(table) = self.database.table(name) {
            return Ok(Some(match self.tables {
                Tables::Stored => Arc::new(TierraTable::new(table)),
                Tables::WithRowIds => Arc::new(TierraTable::with_row_ids(table)),
                Tables::Held => Arc::new(HeldTable::new(&table)),
            }));
        }
        let described = match activity::find(&self.activity, name)? {
            Some(table) => Some(table),
            None => system_table::find(&self.database, name)?,
        };
        Ok(described.map(|table| Arc::new(table) as Arc<dyn TableProvider>))
    }

    fn table_exist(&self, name: &str) -> bool {
        self.session.get(name).is_some()
            || self.database.table(name).is_some()
            || system_table::is_name(name)
            || activity::TABLES.contains(&name)
    }

    fn register_table(
        &self,
        name: String,
        _table: Arc<dyn TableProvider>,
    ) -> Result<Option<Arc<dyn TableProvider>>> {
        exec_err!(
            "'{name}': a database holds tables only; views and external tables are not supported, use WITH or FROM 'file.parquet'"
        )
    }
}
