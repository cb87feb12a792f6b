//! The outcome of a statement: rows that arrive while the query runs, or a confirmation.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::MemoryPool;
use datafusion::physical_plan::ExecutionPlan;
use futures::future::BoxFuture;
use futures::{Stream, StreamExt};

use crate::activity::Tracked;
use crate::error::SqlError;
use crate::limits::DeepPlan;
use crate::memory::Collected;
use crate::work::{PlanWork, Work};
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

impl Outcome {
    /// The outcome of a statement that is listed while it has rows to give.
    pub(crate) fn tracked(
        mut tracked: Tracked,
        result: Result<Self, SqlError>,
    ) -> Result<Self, SqlError> {
        match result {
            Ok(Self::Rows(rows)) => Ok(Self::Rows(rows.tracked_by(tracked))),
            Ok(Self::Done(done)) => {
                tracked.add_rows(done.rows.unwrap_or(0));
                Ok(Self::Done(done))
            }
            Err(error) => {
                tracked.fails(&error);
                Err(error)
            }
        }
    }
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
    source: RowSource,
    plan: Option<PlanWork>,
    /// The account of collected rows.
    collected: Option<Collected>,
    /// Lists the statement until the rows end.
    tracked: Option<Tracked>,
    /// Told of an error: the transaction in which the rows are read.
    failing: Option<Arc<AtomicBool>>,
    /// The last field, because it is dropped last.
    _deep: Option<DeepPlan>,
}

enum RowSource {
    Query(SendableRecordBatchStream),
    Ready(std::vec::IntoIter<RecordBatch>),
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
            source: RowSource::Query(stream),
            plan: Some(PlanWork::new(plan)),
            collected: Some(Collected::new("the answer", pool)),
            tracked: None,
            failing: None,
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
            source: RowSource::Ready(batches.into_iter()),
            plan: None,
            collected: None,
            tracked: None,
            failing: None,
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

    /// Says whether the reader does something else until it asks for more rows. Meanwhile
    /// [`Session::interrupt`](crate::Session::interrupt) is not about this statement.
    pub fn set_aside(&self, is_aside: bool) {
        if let Some(tracked) = &self.tracked {
            tracked.set_aside(is_aside);
        }
    }

    /// The work of the query's scans so far. It is complete once the rows have ended.
    pub fn work(&self) -> Work {
        self.plan.as_ref().map(PlanWork::so_far).unwrap_or_default()
    }
}

/// `batch` with the names of `schema`.
fn under(schema: &SchemaRef, batch: &RecordBatch) -> RecordBatch {
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::clone(schema), batch.columns().to_vec(), &options)
        .expect("the schema differs in names alone")
}

impl Rows {
    /// The rows, whose statement is listed until they end and stops when it is cancelled.
    pub(crate) fn tracked_by(mut self, tracked: Tracked) -> Self {
        // The plan of a deep statement must not outlive it: it is dropped on a large stack.
        if let (Some(plan), None) = (&self.plan, &self._deep) {
            tracked.streams(plan.clone());
        }
        self.tracked = Some(tracked);
        self
    }

    /// The rows, whose first error is noted there.
    pub(crate) fn failing(self, failing: Arc<AtomicBool>) -> Self {
        Self {
            failing: Some(failing),
            ..self
        }
    }

    fn poll_source(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<RecordBatch, SqlError>>> {
        match &mut self.source {
            RowSource::Query(stream) => {
                let next = defect::caught_in_poll(|| stream.poll_next_unpin(context));
                let next = match next {
                    Ok(next) => next.map(|next| next.map(|batch| batch.map_err(SqlError::from))),
                    Err(defect) => {
                        self.source = RowSource::Ready(Vec::new().into_iter());
                        Poll::Ready(Some(Err(defect)))
                    }
                };
                let Some(schema) = &self.restored else {
                    return next;
                };
                next.map_ok(|batch| under(schema, &batch))
            }
            RowSource::Ready(batches) => Poll::Ready(batches.next().map(Ok)),
        }
    }
}

impl Stream for Rows {
    type Item = Result<RecordBatch, SqlError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let heeded = self.tracked.as_ref().map(|tracked| tracked.heed(context));
        let next = match heeded {
            Some(Err(cancelled)) => {
                self.source = RowSource::Ready(Vec::new().into_iter());
                Poll::Ready(Some(Err(cancelled)))
            }
            _ => self.poll_source(context),
        };
        match &next {
            Poll::Pending => {}
            Poll::Ready(Some(Ok(batch))) => {
                if let Some(tracked) = &self.tracked {
                    tracked.add_rows(batch.num_rows() as u64);
                }
            }
            Poll::Ready(Some(Err(error))) => {
                if let Some(mut tracked) = self.tracked.take() {
                    tracked.fails(error);
                }
                if let Some(failing) = &self.failing {
                    failing.store(true, Ordering::Relaxed);
                }
            }
            Poll::Ready(None) => self.tracked = None,
        }
        next
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
