//! Collects the rows of a change's query: complete, and accounted for, before anything changes.

use std::sync::Arc;

use arrow::array::{AsArray, BooleanArray, RecordBatch, UInt64Array};
use arrow::buffer::BooleanBuffer;
use arrow::compute::filter_record_batch;
use arrow::datatypes::{Int64Type, SchemaRef, UInt64Type};
use datafusion::common::internal_err;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::MemoryPool;
use tierra_engine::{RowId, RowIds};

use super::held::CONSUMER;
use super::merge::{RowAction, Upsert};
use super::statement::{Change, Effect};
use crate::error::{ChangeError, InsertError, SqlError};
use crate::memory::Collected;
use crate::types::{conform, null_column};

/// What a statement does to its table.
pub(crate) struct Changed {
    pub(crate) deleted: RowIds,
    /// The new rows; for DELETE the old ones, if RETURNING needs them.
    pub(crate) rows: Vec<RecordBatch>,
    /// The number of rows that the statement changes.
    pub(crate) count: u64,
    /// The account of `rows`, until they are committed.
    pub(crate) memory: Collected,
}

/// The rows collected so far.
pub(crate) struct Collecting<'a> {
    change: &'a Change,
    effect: Effect,
    actions: &'a [RowAction],
    schema: SchemaRef,
    changed: Changed,
    /// Bytes of row ids that are accounted for.
    id_bytes: usize,
}

impl<'a> Collecting<'a> {
    /// For the rows of the statement's query, or if there is an `upsert`, of the query that follows.
    pub(crate) fn new(
        change: &'a Change,
        upsert: Option<&'a Upsert>,
        pool: &Arc<dyn MemoryPool>,
    ) -> Self {
        let (effect, actions) = match upsert {
            Some(upsert) => (Effect::Merge, &upsert.actions),
            None => (change.effect, &change.actions),
        };
        Self {
            change,
            effect,
            actions,
            schema: change.table.schema(),
            changed: Changed {
                deleted: RowIds::default(),
                rows: Vec::new(),
                count: 0,
                memory: Collected::new(CONSUMER, pool),
            },
            id_bytes: 0,
        }
    }

    /// Adds a batch of the query: row ids, for MERGE the numbers of actions, then the table's columns if the statement needs
    /// them.
    ///
    /// # Errors
    /// If a row is changed twice, if a value does not fit its column, or if queries may not use so much memory.
    pub(crate) fn add(&mut self, batch: &RecordBatch) -> Result<()> {
        let Some(ids) = batch.column(0).as_primitive_opt::<UInt64Type>() else {
            return internal_err!("no row ids");
        };
        let (kept, first) = match self.effect {
            Effect::Merge => (self.merged(ids, batch)?, 2),
            _ => (self.changed(ids)?, 1),
        };
        let count = kept.count_set_bits();
        let id_bytes = self.changed.deleted.near_bytes();
        self.changed.memory.grow(id_bytes - self.id_bytes)?;
        self.id_bytes = id_bytes;
        if batch.num_columns() == first || count == 0 {
            return Ok(());
        }
        let rows = match count == batch.num_rows() {
            true => batch.clone(),
            false => filter_record_batch(batch, &BooleanArray::new(kept, None))?,
        };
        let columns: Vec<usize> = (first..rows.num_columns()).collect();
        // A NULL is an error only where a row gets it.
        if let Some(field) = null_column(&rows, &self.schema, &columns) {
            let table = &self.change.table.spec().name;
            return Err(InsertError::null_in(table, field).into());
        }
        let rows = conform(&rows, &self.schema, &columns).map_err(|error| {
            let (column, table) = (error.column, &self.change.table.spec().name);
            DataFusionError::Execution(format!(
                "column '{column}' of table '{table}': {}",
                error.message
            ))
        })?;
        self.changed.memory.add(&rows)?;
        self.changed.rows.push(rows);
        Ok(())
    }

    /// The rows of UPDATE and DELETE: whether each is met for the first time.
    fn changed(&mut self, ids: &UInt64Array) -> Result<BooleanBuffer> {
        let first = self.changed.deleted.insert_all(ids.values());
        let count = first.count_set_bits();
        if count < first.len() && self.change.effect == Effect::Update {
            let table = self.change.table.spec().name.clone();
            return Err(external(ChangeError::Repeated { table }));
        }
        self.changed.count += count as u64;
        Ok(first)
    }

    /// The rows of MERGE: whether each has new values.
    fn merged(&mut self, ids: &UInt64Array, batch: &RecordBatch) -> Result<BooleanBuffer> {
        let Some(numbers) = batch.column(1).as_primitive_opt::<Int64Type>() else {
            return internal_err!("no numbers of actions");
        };
        let mut kept = Vec::with_capacity(ids.len());
        for (id, number) in ids.iter().zip(numbers.iter()) {
            let number = number.and_then(|number| usize::try_from(number - 1).ok());
            let action = number.and_then(|number| self.actions.get(number));
            let Some(action) = action else {
                kept.push(false);
                continue;
            };
            self.changed.count += 1;
            if *action != RowAction::Insert {
                let Some(id) = id else {
                    return internal_err!("a row that is changed has no id");
                };
                if !self.changed.deleted.insert(RowId::from_number(id)) {
                    return Err(external(ChangeError::Twice {
                        command: "MERGE",
                        table: self.change.table.spec().name.clone(),
                    }));
                }
            }
            kept.push(*action != RowAction::Delete);
        }
        Ok(kept.into())
    }

    pub(crate) fn finish(self) -> Changed {
        self.changed
    }
}

fn external(error: ChangeError) -> DataFusionError {
    DataFusionError::External(Box::new(SqlError::Change(error)))
}
