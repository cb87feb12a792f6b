//! Rows that a statement holds while it runs: those that an INSERT has computed, and those that RETURNING reads.
//!
//! They are an extension of the state that a plan is made with. A table in the schema [`super::HELD`] consists of them.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::internal_err;
use datafusion::datasource::MemTable;
use datafusion::datasource::sink::DataSink;
use datafusion::error::Result;
use datafusion::execution::memory_pool::MemoryPool;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan};
use futures::StreamExt;
use tierra_engine::Table;

use crate::memory::Collected;
use crate::sink::TableSink;

/// What the error calls the rows if they are too many.
pub(super) const CONSUMER: &str = "the rows of the change";

/// The rows that the running statement holds.
pub(crate) struct HeldRows(Mutex<(Vec<RecordBatch>, Collected)>);

impl HeldRows {
    /// None so far.
    pub(crate) fn new(pool: &Arc<dyn MemoryPool>) -> Self {
        let memory = Collected::new(CONSUMER, pool);
        Self(Mutex::new((Vec::new(), memory)))
    }

    /// These rows, which are accounted for elsewhere.
    pub(crate) fn of(rows: Vec<RecordBatch>, pool: &Arc<dyn MemoryPool>) -> Self {
        let held = Self::new(pool);
        held.lock().0 = rows;
        held
    }

    fn lock(&self) -> MutexGuard<'_, (Vec<RecordBatch>, Collected)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, batch: RecordBatch) -> Result<()> {
        let (rows, memory) = &mut *self.lock();
        memory.add(&batch)?;
        rows.push(batch);
        Ok(())
    }

    fn rows(&self) -> Vec<RecordBatch> {
        self.lock().0.clone()
    }

    /// Takes the rows and their account.
    pub(crate) fn take(&self, pool: &Arc<dyn MemoryPool>) -> (Vec<RecordBatch>, Collected) {
        let none = (Vec::new(), Collected::new(CONSUMER, pool));
        std::mem::replace(&mut *self.lock(), none)
    }
}

impl fmt::Debug for HeldRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeldRows").finish_non_exhaustive()
    }
}

/// The end of an INSERT that does not write yet.
#[derive(Debug)]
pub(crate) struct HeldSink {
    table: TableSink,
    held: Arc<HeldRows>,
}

impl HeldSink {
    pub(crate) fn new(table: Arc<Table>, held: Arc<HeldRows>) -> Self {
        Self {
            table: TableSink::new(table),
            held,
        }
    }
}

impl DisplayAs for HeldSink {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.table.fmt_as(format, f)
    }
}

#[async_trait]
impl DataSink for HeldSink {
    fn schema(&self) -> &SchemaRef {
        self.table.schema()
    }

    async fn write_all(
        &self,
        mut rows: SendableRecordBatchStream,
        _context: &Arc<TaskContext>,
    ) -> Result<u64> {
        let mut count = 0;
        while let Some(batch) = rows.next().await {
            let batch = self.table.own(batch?)?;
            count += batch.num_rows() as u64;
            self.held.push(batch)?;
        }
        Ok(count)
    }
}

/// A table of the rows that the running statement holds.
#[derive(Debug)]
pub(crate) struct HeldTable(SchemaRef);

impl HeldTable {
    /// The rows have the columns of `table`.
    pub(crate) fn new(table: &Table) -> Self {
        Self(table.schema())
    }
}

#[async_trait]
impl TableProvider for HeldTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.0)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(held) = state.config().get_extension::<HeldRows>() else {
            return internal_err!("the statement holds no rows");
        };
        let rows = MemTable::try_new(self.schema(), vec![held.rows()])?;
        rows.scan(state, projection, filters, limit).await
    }
}
