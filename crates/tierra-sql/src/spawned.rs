//! The rows of a plan, computed by a task of its own, and let go of at once by a reader who wants no more of them.
//!
//! To abort a task is to put it in line once more, behind all that its query has spawned. So the reader drops the plan's stream itself, on
//! a thread that may take its time, whereby what the stream has spawned is aborted before it begins. Only a task that is computing keeps
//! it, to the end of its batch. What tasks of tasks have spawned still waits for these: queries with many have
//! [threads of their own](crate::query_threads).

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
use tokio::runtime::Handle;

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
    let runtime = Handle::try_current().ok();
    let entered = threads.as_ref().and_then(QueryThreads::enter);
    let stream = start()?;
    let schema = stream.schema();
    let source = Arc::new(Source::of(stream));
    let polled = Arc::clone(&source);
    let batches = stream::poll_fn(move |context| polled.poll(context));
    let batches = RecordBatchStreamAdapter::new(schema, batches);
    let buffered = spawn_buffered(Box::pin(batches), ahead);
    drop(entered);
    Ok(Box::pin(Spawned {
        buffered,
        source,
        runtime,
        _threads: threads,
    }))
}

struct Spawned {
    buffered: SendableRecordBatchStream,
    source: Arc<Source>,
    /// The reader's.
    runtime: Option<Handle>,
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
        let Some(stream) = self.source.take() else {
            return;
        };
        // It may have much memory to free, or an unfinished load to undo, and this thread serves clients.
        match &self.runtime {
            Some(runtime) => drop(runtime.spawn_blocking(move || drop(stream))),
            None => drop(stream),
        }
    }
}

/// The plan's stream, between the task that polls it and the reader that may drop it.
struct Source {
    stream: Mutex<Option<SendableRecordBatchStream>>,
    abandoned: AtomicBool,
}

impl Source {
    fn of(stream: SendableRecordBatchStream) -> Self {
        Self {
            stream: Mutex::new(Some(stream)),
            abandoned: AtomicBool::new(false),
        }
    }

    fn poll(&self, context: &mut Context<'_>) -> Poll<Option<Result<RecordBatch>>> {
        let next = match &mut *self.stream.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(stream) => stream.poll_next_unpin(context),
            None => Poll::Ready(None),
        };
        if matches!(next, Poll::Ready(None)) || self.abandoned.load(Ordering::SeqCst) {
            drop(self.take());
        }
        next
    }

    /// The stream, unless a task polls it now, which looks at `abandoned` afterwards.
    fn take(&self) -> Option<SendableRecordBatchStream> {
        match self.stream.try_lock() {
            Ok(mut stream) => stream.take(),
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner().take(),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::task::Waker;
    use std::thread;
    use std::time::{Duration, Instant};

    use arrow::datatypes::Schema;
    use tokio::runtime::Builder;

    use super::*;

    /// A stream that holds something, and does this when it is polled.
    fn polled(
        held: &Arc<()>,
        mut poll: impl FnMut() -> Poll<Option<Result<RecordBatch>>> + Send + 'static,
    ) -> SendableRecordBatchStream {
        let held = Arc::clone(held);
        let batches = stream::poll_fn(move |_| {
            let _ = &held;
            poll()
        });
        let schema = Arc::new(Schema::empty());
        Box::pin(RecordBatchStreamAdapter::new(schema, batches))
    }

    fn is_dropped_soon(held: &Arc<()>) {
        let began = Instant::now();
        while Arc::strong_count(held) > 1 {
            assert!(began.elapsed() < Duration::from_secs(60));
            thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn a_reader_drops_the_plan_though_every_thread_is_busy() {
        let runtime = Builder::new_multi_thread().worker_threads(1).build();
        let runtime = runtime.unwrap();
        let _entered = runtime.enter();
        let (begun, begins) = mpsc::channel();
        let (end, ends) = mpsc::channel::<()>();
        tokio::spawn(async move {
            begun.send(()).unwrap();
            let _ = ends.recv();
        });
        begins.recv().unwrap();
        let held = Arc::new(());
        let rows = spawned(None, || Ok(polled(&held, || Poll::Pending)), 2).unwrap();
        assert_eq!(Arc::strong_count(&held), 2);
        drop(rows);
        is_dropped_soon(&held);
        drop(end);
    }

    #[test]
    fn whoever_computes_drops_the_plan_when_its_batch_ends() {
        let (begun, begins) = mpsc::channel();
        let (end, ends) = mpsc::channel::<()>();
        let held = Arc::new(());
        let ends = Mutex::new(ends);
        let source = Source::of(polled(&held, move || {
            begun.send(()).unwrap();
            let _ = ends.lock().unwrap().recv();
            Poll::Pending
        }));
        thread::scope(|scope| {
            let polls = scope.spawn(|| source.poll(&mut Context::from_waker(Waker::noop())));
            begins.recv().unwrap();
            source.abandoned.store(true, Ordering::SeqCst);
            assert!(source.take().is_none(), "it is within a batch");
            drop(end);
            assert!(polls.join().unwrap().is_pending());
        });
        assert_eq!(Arc::strong_count(&held), 1);
    }

    #[tokio::test]
    async fn a_query_with_threads_of_its_own_is_computed_there() {
        let held = Arc::new(());
        let (name, named) = mpsc::channel();
        let start = || {
            Ok(polled(&held, move || {
                let own = thread::current().name().map(str::to_owned);
                name.send(own).unwrap();
                Poll::Ready(None)
            }))
        };
        let threads = QueryThreads::start(1);
        assert!(threads.is_some());
        let mut rows = spawned(threads, start, 2).unwrap();
        assert!(rows.next().await.is_none());
        assert_eq!(named.recv().unwrap().as_deref(), Some("tierra-sort"));
        // What has ended is dropped before its reader is.
        is_dropped_soon(&held);
    }
}
