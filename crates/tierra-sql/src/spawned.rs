//! The rows of a plan, computed by a task of its own, and let go of at once by a reader who wants no more of them.
//!
//! To abort a task is to put it in line once more, behind all that its query has spawned: 12,000 tasks for a sort of 100 million rows. So the
//! reader drops the plan's stream itself, whereby those tasks are aborted before they begin. Only a task that is computing keeps it,
//! to the end of its batch.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::task::{Context, Poll};

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use datafusion::error::Result;
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream};
use datafusion::physical_plan::common::spawn_buffered;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{Stream, StreamExt, stream};

use crate::query_threads::QueryThreads;

/// The rows of the stream that `start` begins, computed by a task of `threads`, or else of the current runtime, up to `ahead` batches
/// before they are asked for.
///
/// # Errors
/// Those of `start`.
pub(crate) fn spawned(
    threads: Option<QueryThreads>,
    start: impl FnOnce() -> Result<SendableRecordBatchStream>,
    ahead: usize,
) -> Result<SendableRecordBatchStream> {
    let entered = threads.as_ref().and_then(QueryThreads::enter);
    let stream = start()?;
    let schema = stream.schema();
    let source = Arc::new(Source {
        stream: Mutex::new(Some(stream)),
        abandoned: AtomicBool::new(false),
    });
    let polled = Arc::clone(&source);
    let batches = stream::poll_fn(move |context| polled.poll(context));
    let batches = RecordBatchStreamAdapter::new(schema, batches);
    let buffered = spawn_buffered(Box::pin(batches), ahead);
    drop(entered);
    Ok(Box::pin(Spawned {
        buffered,
        source,
        _threads: threads,
    }))
}

struct Spawned {
    buffered: SendableRecordBatchStream,
    source: Arc<Source>,
    _threads: Option<QueryThreads>,
}

impl Stream for Spawned {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.buffered.poll_next_unpin(context)
    }
}

impl RecordBatchStream for Spawned {
    fn schema(&self) -> SchemaRef {
        self.buffered.schema()
    }
}

impl Drop for Spawned {
    fn drop(&mut self) {
        self.source.abandoned.store(true, Ordering::SeqCst);
        self.source.let_go();
    }
}

/// The plan's stream, between the task that polls it and the reader that may drop it.
struct Source {
    stream: Mutex<Option<SendableRecordBatchStream>>,
    abandoned: AtomicBool,
}

impl Source {
    fn poll(&self, context: &mut Context<'_>) -> Poll<Option<Result<RecordBatch>>> {
        let next = match &mut *self.stream.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(stream) => stream.poll_next_unpin(context),
            None => Poll::Ready(None),
        };
        if self.abandoned.load(Ordering::SeqCst) {
            self.let_go();
        }
        next
    }

    /// Drops the stream, or leaves it to the task that polls it now and looks at `abandoned` afterwards.
    fn let_go(&self) {
        let stream = match self.stream.try_lock() {
            Ok(mut stream) => stream.take(),
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner().take(),
            Err(TryLockError::WouldBlock) => None,
        };
        drop(stream);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::{Duration, Instant};

    use arrow::datatypes::Schema;

    use super::*;

    /// A stream that never has a batch, and what it holds.
    fn endless(held: &Arc<()>) -> SendableRecordBatchStream {
        let held = Arc::clone(held);
        let batches = stream::poll_fn(move |_| {
            let _ = &held;
            Poll::<Option<Result<RecordBatch>>>::Pending
        });
        Box::pin(RecordBatchStreamAdapter::new(
            Arc::new(Schema::empty()),
            batches,
        ))
    }

    #[test]
    fn a_reader_drops_the_plan_though_every_thread_is_busy() {
        let threads = QueryThreads::start(1).unwrap();
        let entered = threads.enter().unwrap();
        let (begun, begins) = mpsc::channel();
        let (end, ends) = mpsc::channel::<()>();
        tokio::spawn(async move {
            begun.send(()).unwrap();
            let _ = ends.recv();
        });
        begins.recv().unwrap();
        let held = Arc::new(());
        let rows = spawned(None, || Ok(endless(&held)), 2).unwrap();
        assert_eq!(Arc::strong_count(&held), 2);
        drop(rows);
        assert_eq!(Arc::strong_count(&held), 1);
        drop((end, entered));
    }

    #[test]
    fn a_task_that_computes_drops_the_plan_when_its_batch_ends() {
        let threads = QueryThreads::start(1).unwrap();
        let entered = threads.enter().unwrap();
        let (begun, begins) = mpsc::channel();
        let (end, ends) = mpsc::channel::<()>();
        let held = Arc::new(());
        let ends = Mutex::new((ends, Arc::clone(&held)));
        let batches = stream::poll_fn(move |_| {
            begun.send(()).unwrap();
            let _ = ends.lock().unwrap().0.recv();
            Poll::<Option<Result<RecordBatch>>>::Pending
        });
        let batches = RecordBatchStreamAdapter::new(Arc::new(Schema::empty()), batches);
        let rows = spawned(None, || Ok(Box::pin(batches) as _), 2).unwrap();
        begins.recv().unwrap();
        drop(rows);
        assert_eq!(Arc::strong_count(&held), 2, "it is within a batch");
        drop(end);
        let began = Instant::now();
        while Arc::strong_count(&held) > 1 {
            assert!(began.elapsed() < Duration::from_secs(60));
            std::thread::sleep(Duration::from_millis(1));
        }
        drop(entered);
    }
}
