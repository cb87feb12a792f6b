//! The end of INSERT: few rows go into the table's tail, many into whole segments.
//!
//! All rows of a statement become visible at once or not at all. Few rows are appended by one call. Many rows go through a
//! [`Loader`], which publishes them when it is finished and undoes them when dropped.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{Field, FieldRef, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::datasource::sink::DataSink;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType};
use futures::StreamExt;
use tierra_engine::Table;

use crate::activity::Commit;
use crate::error::InsertError;
use crate::types::{conform, null_column};

/// From this many rows, an INSERT builds segments instead of filling the tail.
pub(crate) use tierra_engine::TAIL_APPEND_ROWS;
/// The most bytes, in arrow's form, of fewer rows that are kept until the last one. More go through a [`Loader`] too, which
/// holds as much as a segment needs. It puts them into the tail if they turn out to be few.
const PENDING_MOST_BYTES: usize = 64 << 20;

/// Writes the rows of one INSERT.
#[derive(Debug)]
pub(crate) struct TableSink {
    table: Arc<Table>,
    table_schema: SchemaRef,
    /// The table's schema with every column nullable: DataFusion would refuse NULL without naming the column.
    schema: SchemaRef,
}

impl TableSink {
    pub(crate) fn new(table: Arc<Table>) -> Self {
        let table_schema = table.schema();
        let nullable = |field: &FieldRef| field.as_ref().clone().with_nullable(true);
        let fields: Vec<Field> = table_schema.fields().iter().map(nullable).collect();
        Self {
            table,
            schema: Arc::new(Schema::new(fields)),
            table_schema,
        }
    }
}

impl DisplayAs for TableSink {
    fn fmt_as(
        &self,
        _format: DisplayFormatType,
        f: &mut std::fmt::Formatter<'_>,
    ) -> std::fmt::Result {
        write!(f, "TierraTable({})", self.table.spec().name)
    }
}

#[async_trait]
impl DataSink for TableSink {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    async fn write_all(
        &self,
        rows: SendableRecordBatchStream,
        context: &Arc<TaskContext>,
    ) -> Result<u64> {
        let commit = context.session_config().get_extension::<Commit>();
        self.write_converted(rows, &commit.unwrap_or_default())
            .await
    }
}

impl TableSink {
    /// Writes rows whose columns have the table's order, converted to its types if necessary.
    pub(crate) async fn write_converted(
        &self,
        mut rows: SendableRecordBatchStream,
        commit: &Commit,
    ) -> Result<u64> {
        let mut pending = Vec::new();
        let (mut pending_rows, mut pending_bytes) = (0, 0);
        while pending_rows < TAIL_APPEND_ROWS && pending_bytes < PENDING_MOST_BYTES {
            let Some(batch) = rows.next().await else {
                let table = Arc::clone(&self.table);
                heed_cancellation().await;
                return committing(commit, move || table.append(&pending)).await;
            };
            let batch = self.own(batch?)?;
            pending_rows += batch.num_rows();
            pending_bytes += batch.get_array_memory_size();
            pending.push(batch);
        }
        let mut loader = self.table.loader();
        let mut push = pending;
        loop {
            loader = blocking(move || {
                for batch in push {
                    loader.push(batch)?;
                }
                Ok::<_, tierra_engine::LoadError>(loader)
            })
            .await?;
            match rows.next().await {
                Some(batch) => push = vec![self.own(batch?)?],
                None => {
                    heed_cancellation().await;
                    return committing(commit, move || loader.finish())
                        .await
                        .map(|report| report.rows);
                }
            }
        }
    }

    /// The batch under the table's own schema, which has the right names, types and nullability.
    pub(crate) fn own(&self, batch: RecordBatch) -> Result<RecordBatch> {
        let columns: Vec<usize> = (0..batch.num_columns()).collect();
        if let Some(field) = null_column(&batch, &self.table_schema, &columns) {
            return Err(InsertError::null_in(&self.table.spec().name, field).into());
        }
        conform(&batch, &self.table_schema, &columns).map_err(|error| {
            let (column, table) = (error.column, &self.table.spec().name);
            DataFusionError::Execution(format!(
                "column '{column}' of table '{table}': {}",
                error.message
            ))
        })
    }
}

/// Yields once, so that a statement that was dropped while its last rows were computed ends here. Tokio notices that only
/// when the task yields. Rows of a statement reported as cancelled must not appear later.
async fn heed_cancellation() {
    tokio::task::yield_now().await;
}

/// Runs the engine work that makes a statement's changes, unless the statement was cancelled.
pub(crate) async fn committing<T, E>(
    commit: &Commit,
    work: impl FnOnce() -> Result<T, E> + Send + 'static,
) -> Result<T>
where
    T: Send + 'static,
    E: std::error::Error + Send + Sync + 'static,
{
    commit
        .begin()
        .map_err(|cancelled| DataFusionError::External(Box::new(cancelled)))?;
    blocking(work).await
}

/// Runs engine work that blocks on a thread for blocking work, not on the runtime's workers.
pub(crate) async fn blocking<T, E>(
    work: impl FnOnce() -> Result<T, E> + Send + 'static,
) -> Result<T>
where
    T: Send + 'static,
    E: std::error::Error + Send + Sync + 'static,
{
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result.map_err(|error| DataFusionError::External(Box::new(error))),
        Err(join) => Err(DataFusionError::External(Box::new(join))),
    }
}
