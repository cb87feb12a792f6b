//! Rows on their way to the client.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use futures::StreamExt;
use tierra_sql::{Rows, Session, Work};

use crate::fault::Fault;
use crate::shared::Shared;

/// Rows of a statement, and what must live as long.
pub(crate) struct Source {
    rows: Rows,
    /// The batch that was read before the answer began.
    first: Option<RecordBatch>,
    began: Instant,
    shared: Arc<Shared>,
    /// Dropped last: its end ends the statement.
    _session: Session,
}

impl Source {
    pub(crate) fn new(
        rows: Rows,
        first: Option<RecordBatch>,
        began: Instant,
        shared: Arc<Shared>,
        session: Session,
    ) -> Self {
        Self {
            rows,
            first,
            began,
            shared,
            _session: session,
        }
    }

    pub(crate) fn schema(&self) -> &SchemaRef {
        self.rows.schema()
    }

    pub(crate) fn work(&self) -> Work {
        self.rows.work()
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// The next rows.
    pub(crate) async fn next(&mut self) -> Result<Option<RecordBatch>, Fault> {
        match self.first.take() {
            Some(batch) => Ok(Some(batch)),
            None => Ok(self.shared.within(self.rows.next()).await.transpose()?),
        }
    }
}
