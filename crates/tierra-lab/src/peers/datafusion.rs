//! DataFusion over tables in memory: two partitions, batches of 8,192 rows.
//!
//! Texts are Utf8 or Utf8View. Neither is always faster, so experiments measure both and compare with the better.

use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::datasource::MemTable;
use datafusion::error::{DataFusionError, Result};
use datafusion::prelude::{ParquetReadOptions, SessionConfig, SessionContext};

use crate::answer::order_of;
use crate::dataset::TableFile;
use crate::lab;

/// The type of texts in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Texts {
    /// Offsets and one buffer.
    Utf8,
    /// 16-byte views.
    Utf8View,
}

impl Texts {
    /// Both ways.
    pub const ALL: [Texts; 2] = [Texts::Utf8, Texts::Utf8View];

    /// The engine's name in results.
    pub fn engine(self) -> &'static str {
        match self {
            Texts::Utf8 => "DataFusion Utf8",
            Texts::Utf8View => "DataFusion Utf8View",
        }
    }
}

/// A session over tables in memory.
pub struct InMemory {
    texts: Texts,
    context: SessionContext,
}

/// A session without tables.
pub fn context(texts: Texts) -> SessionContext {
    let config = SessionConfig::new()
        .with_target_partitions(lab::threads())
        .with_batch_size(8_192)
        .set_bool(
            "datafusion.execution.parquet.schema_force_view_types",
            texts == Texts::Utf8View,
        );
    SessionContext::new_with_config(config)
}

impl InMemory {
    /// Reads every file into a table of its name.
    pub async fn load(files: &[TableFile], texts: Texts) -> Result<InMemory> {
        let tables = InMemory {
            texts,
            context: context(texts),
        };
        for file in files {
            let batches = read(&tables.context, file).await?;
            tables.add(&file.table, batches)?;
        }
        Ok(tables)
    }

    /// A session with one table of given batches.
    pub fn of(table: &str, batches: Vec<RecordBatch>) -> Result<InMemory> {
        let tables = InMemory {
            texts: Texts::Utf8View,
            context: context(Texts::Utf8View),
        };
        tables.add(table, batches)?;
        Ok(tables)
    }

    /// A session with the files' tables, but none of their rows: it plans.
    pub fn schemas(files: &[TableFile]) -> Result<InMemory> {
        let tables = InMemory {
            texts: Texts::Utf8,
            context: context(Texts::Utf8),
        };
        for file in files {
            let table = MemTable::try_new(file.schema.clone(), vec![Vec::new()])?;
            tables
                .context
                .register_table(&file.table, Arc::new(table))?;
        }
        Ok(tables)
    }

    /// Adds a table; its batches are distributed over the partitions in turn.
    fn add(&self, table: &str, batches: Vec<RecordBatch>) -> Result<()> {
        let Some(schema) = batches.first().map(RecordBatch::schema) else {
            return Err(DataFusionError::Plan(format!(
                "table {table} has no batches"
            )));
        };
        let mut partitions = vec![Vec::new(); lab::threads()];
        for (number, batch) in batches.into_iter().enumerate() {
            partitions[number % lab::threads()].push(batch);
        }
        self.context
            .register_table(table, Arc::new(MemTable::try_new(schema, partitions)?))?;
        Ok(())
    }

    /// The engine's name in results.
    pub fn engine(&self) -> &'static str {
        self.texts.engine()
    }

    /// Plans and runs a query.
    pub async fn query(&self, sql: &str) -> Result<Vec<RecordBatch>> {
        self.context.sql(sql).await?.collect().await
    }

    /// The result columns that a query is ordered by.
    pub async fn order(&self, sql: &str) -> Result<Vec<usize>> {
        Ok(order_of(self.context.sql(sql).await?.logical_plan()))
    }
}

/// Reads one file into memory with all threads.
pub async fn read(context: &SessionContext, file: &TableFile) -> Result<Vec<RecordBatch>> {
    let path = file.path.to_string_lossy();
    context
        .read_parquet(path.as_ref(), ParquetReadOptions::default())
        .await?
        .collect()
        .await
}
