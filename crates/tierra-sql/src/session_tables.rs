//! Tables that one session sees: Arrow batches of the program that uses it, read where they lie.
//!
//! A name that the database has is refused. A table of that name that another session creates later is hidden from reads.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::exec_err;
use datafusion::datasource::MemTable;
use datafusion::error::Result;
use datafusion::logical_expr::dml::InsertOp;
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;

use crate::foreign;

/// The tables, by name.
#[derive(Debug, Default)]
pub(crate) struct SessionTables(Mutex<BTreeMap<String, Arc<dyn TableProvider>>>);

impl SessionTables {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Arc<dyn TableProvider>>> {
        // Only whole tables are inserted and removed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a table, in place of one of its name. Operators take `batch_rows` rows at a time; no value is copied for that.
    pub(crate) fn add(
        &self,
        name: String,
        schema: SchemaRef,
        batches: &[RecordBatch],
        batch_rows: usize,
    ) -> Result<()> {
        let mut slices = Vec::new();
        for batch in batches {
            let starts = (0..batch.num_rows()).step_by(batch_rows);
            slices.extend(
                starts.map(|start| batch.slice(start, batch_rows.min(batch.num_rows() - start))),
            );
        }
        // One partition keeps the order of the rows.
        let rows = MemTable::try_new(schema, vec![slices])?;
        let table = foreign::settled(Arc::new(Registered { rows }));
        self.lock().insert(name, table);
        Ok(())
    }

    pub(crate) fn remove(&self, name: &str) -> bool {
        self.lock().remove(name).is_some()
    }

    pub(crate) fn get(&self, name: &str) -> Option<Arc<dyn TableProvider>> {
        self.lock().get(name).cloned()
    }

    pub(crate) fn names(&self) -> Vec<String> {
        self.lock().keys().cloned().collect()
    }
}

/// Batches of a program, which can only be read.
#[derive(Debug)]
struct Registered {
    rows: MemTable,
}

#[async_trait]
impl TableProvider for Registered {
    fn schema(&self) -> SchemaRef {
        self.rows.schema()
    }

    fn table_type(&self) -> TableType {
        TableType::Temporary
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.rows.scan(state, projection, filters, limit).await
    }

    async fn insert_into(
        &self,
        _state: &dyn Session,
        _input: Arc<dyn ExecutionPlan>,
        _insert_op: InsertOp,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        exec_err!(
            "a registered table is the program's and cannot be written; CREATE TABLE .. AS SELECT copies it"
        )
    }
}
