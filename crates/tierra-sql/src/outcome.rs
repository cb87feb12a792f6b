//! The outcome of a statement: rows that arrive while the query runs, or a confirmation.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::MemoryPool;
use datafusion::physical_plan::ExecutionPlan;
use futures::future::BoxFuture;
use futures::{Stream, StreamExt};

use crate::error::SqlError;
use crate::limits::DeepPlan;
use crate::memory::Collected;
use crate::{defect, duplicate_names};

/// The outcome of one statement.
pub enum Outcome {
    /// The rows of a query.
    Rows(Rows),
    /// A change that has taken effect.
    Done(Done),
}

/// A statement that has taken effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Done {
    /// Its first words: `CREATE TABLE`, `INSERT`.
    pub command: &'static str,
    /// The number of rows written, if the statement writes rows.
    pub rows: Option<u64>,
}

impl fmt::Display for Done {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.rows {
            Some(rows) => write!(f, "{} {rows}", self.command),
            None => f.write_str(self.command),
        }
    }
}

/// The rows of a query. They are computed on demand, a few batches ahead. Dropping them stops the query at the end of
/// the current batch.
pub struct Rows {
    schema: SchemaRef,
    /// The schema with the user's names, if the plan's differ.
    restored: Option<SchemaRef>,
    source: Source,
    plan: Option<Arc<dyn ExecutionPlan>>,
    /// The account of collected rows.
    collected: Option<Collected>,
    /// The last field, because it is dropped last.
    _deep: Option<DeepPlan>,
}

enum Source {
    Query(SendableRecordBatchStream),
    Ready(std::vec::IntoIter<RecordBatch>),
}

/// How much of the tables a query has read so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Work {
    /// Blocks whose values were read.
    pub blocks_read: u64,
    /// Blocks that minima and maxima ruled out.
    pub blocks_skipped: u64,
    /// Blocks that another query of the batch had read: none of them is in `blocks_read`.
    pub blocks_shared: u64,
    /// Blocks that were unpacked into values.
    pub blocks_decoded: u64,
    /// Rows of tails that were read.
    pub tail_rows: u64,
    /// Bytes read from near memory.
    pub bytes_near: u64,
    /// Bytes read from far memory.
    pub bytes_far: u64,
}

impl Rows {
    pub(crate) fn of_query(
        plan: Arc<dyn ExecutionPlan>,
        stream: SendableRecordBatchStream,
        deep: Option<DeepPlan>,
        pool: &Arc<dyn MemoryPool>,
    ) -> Self {
        let planned = stream.schema();
        let restored = duplicate_names::restored(&planned);
        Self {
            schema: restored.clone().unwrap_or(planned),
            restored,
            source: Source::Query(stream),
            plan: Some(plan),
            collected: Some(Collected::new("the answer", pool)),
            _deep: deep,
        }
    }

    pub(crate) fn of_batch(batch: RecordBatch) -> Self {
        Self::of_batches(batch.schema(), vec![batch])
    }

    /// Rows that are there, whose columns are called as in `schema`.
    pub(crate) fn of_batches(schema: SchemaRef, batches: Vec<RecordBatch>) -> Self {
        Self {
            schema,
            restored: None,
            source: Source::Ready(batches.into_iter()),
            plan: None,
            collected: None,
            _deep: None,
        }
    }

    /// Names and types of the columns.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// All remaining rows.
    ///
    /// # Errors
    /// The first error of the query, or that the rows exceed the memory that queries may use; rows before it are lost.
    pub fn collect(&mut self) -> BoxFuture<'_, Result<Vec<RecordBatch>, SqlError>> {
        Box::pin(async move {
            let mut batches = Vec::new();
            while let Some(batch) = self.next().await {
                let batch = batch?;
                if let Some(collected) = &mut self.collected {
                    collected.add(&batch)?;
                }
                batches.push(batch);
            }
            Ok(batches)
        })
    }

    /// The work of the query's scans so far. It is complete once the rows have ended.
    pub fn work(&self) -> Work {
        let mut work = Work::default();
        if let Some(plan) = &self.plan {
            add_work(plan, &mut work);
        }
        work
    }
}

/// `batch` with the names of `schema`.
fn under(schema: &SchemaRef, batch: &RecordBatch) -> RecordBatch {
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::clone(schema), batch.columns().to_vec(), &options)
        .expect("the schema differs in names alone")
}

fn add_work(plan: &Arc<dyn ExecutionPlan>, work: &mut Work) {
    if let Some(metrics) = plan.metrics() {
        let sum = |name: &str| {
            metrics
                .sum_by_name(name)
                .map_or(0, |value| value.as_usize() as u64)
        };
        work.blocks_read += sum("blocks_read");
        work.blocks_skipped += sum("blocks_skipped");
        work.blocks_shared += sum("blocks_shared");
        work.blocks_decoded += sum("blocks_decoded");
        work.tail_rows += sum("tail_rows");
        work.bytes_near += sum("bytes_near");
        work.bytes_far += sum("bytes_far");
    }
    for child in plan.children() {
        add_work(child, work);
    }
}

impl Stream for Rows {
    type Item = Result<RecordBatch, SqlError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        match &mut self.source {
            Source::Query(stream) => {
                let next = defect::caught_in_poll(|| stream.poll_next_unpin(context));
                let next = match next {
                    Ok(next) => next.map(|next| next.map(|batch| batch.map_err(SqlError::from))),
                    Err(defect) => {
                        self.source = Source::Ready(Vec::new().into_iter());
                        Poll::Ready(Some(Err(defect)))
                    }
                };
                let Some(schema) = &self.restored else {
                    return next;
                };
                next.map_ok(|batch| under(schema, &batch))
            }
            Source::Ready(batches) => Poll::Ready(batches.next().map(Ok)),
        }
    }
}

impl fmt::Debug for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rows")
            .field("schema", &self.schema)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::Rows(rows) => rows.fmt(f),
            Outcome::Done(done) => done.fmt(f),
        }
    }
}
