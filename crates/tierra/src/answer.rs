//! The whole result of one statement.

use std::fmt;

use arrow::{
    array::RecordBatch,
    datatypes::{Schema, SchemaRef},
};

use crate::TextRows;
use crate::sql::{Done, Outcome, SqlError, Work};

/// The answer of a statement: rows, or that it is done. It displays as a table, with NULLs as `NULL` and control
/// characters as `\n` and the like.
#[derive(Clone, Debug)]
pub struct Answer {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
    work: Work,
    done: Option<Done>,
}

impl Answer {
    /// Collects all rows of an outcome.
    pub(crate) async fn of(outcome: Outcome) -> Result<Self, SqlError> {
        match outcome {
            Outcome::Rows(mut rows) => {
                let batches = rows.collect().await?;
                Ok(Self {
                    schema: rows.schema().clone(),
                    batches,
                    work: rows.work(),
                    done: None,
                })
            }
            Outcome::Done(done) => Ok(Self {
                schema: Schema::empty().into(),
                batches: Vec::new(),
                work: Work::default(),
                done: Some(done),
            }),
        }
    }

    /// Names and types of the columns; none for a statement that is not a query.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The rows of a query.
    pub fn batches(&self) -> &[RecordBatch] {
        &self.batches
    }

    /// The number of rows of a query, or of rows that a statement wrote.
    pub fn row_count(&self) -> u64 {
        match &self.done {
            Some(done) => done.rows.unwrap_or(0),
            None => self.batches.iter().map(|b| b.num_rows() as u64).sum(),
        }
    }

    /// The query's reads from near and far memory.
    pub fn work(&self) -> Work {
        self.work
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(done) = &self.done {
            return done.fmt(f);
        }
        match TextRows::new(&self.schema, &self.batches) {
            Ok(table) => table.fmt(f),
            Err(error) => write!(f, "a result that cannot be shown: {error}"),
        }
    }
}

impl IntoIterator for Answer {
    type Item = RecordBatch;
    type IntoIter = std::vec::IntoIter<RecordBatch>;

    /// The batches of a query.
    fn into_iter(self) -> Self::IntoIter {
        self.batches.into_iter()
    }
}
