//! The one runtime of the process: how Python waits for it, and what a fork changes.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use tierra::sql::BlockingThread;
use tokio::runtime::{Builder, Handle, Runtime};

use crate::error::{InterfaceError, OperationalError};

/// How long a wait lasts before it looks for signals.
pub(crate) const SLICE: Duration = Duration::from_millis(50);

static RUNTIME: OnceLock<Runtime> = OnceLock::new();
/// Whether this process is a fork of one that used Tierra.
static IS_FORK: AtomicBool = AtomicBool::new(false);

/// Notes that this process is a fork.
pub(crate) fn mark_fork() {
    if RUNTIME.get().is_some() {
        IS_FORK.store(true, Ordering::Relaxed);
    }
}

pub(crate) fn is_fork() -> bool {
    IS_FORK.load(Ordering::Relaxed)
}

/// Fails in a fork of a process that used Tierra: its threads are the parent's.
pub(crate) fn refuse_fork() -> PyResult<()> {
    match is_fork() {
        false => Ok(()),
        true => Err(InterfaceError::new_err(
            "this process is a fork of one that used Tierra, whose threads it does not have: start it with \
             multiprocessing.get_context('spawn')",
        )),
    }
}

/// The runtime.
///
/// # Errors
/// In a fork, or if its threads cannot be started.
pub(crate) fn runtime() -> PyResult<&'static Runtime> {
    static STARTING: Mutex<()> = Mutex::new(());
    refuse_fork()?;
    if let Some(runtime) = RUNTIME.get() {
        return Ok(runtime);
    }
    // Of two first calls at once, one waits for the other's.
    let _starting = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(runtime) = RUNTIME.get() {
        return Ok(runtime);
    }
    // One thread more than cores: a query that was interrupted within a batch keeps its thread for a while.
    let threads = std::thread::available_parallelism().map_or(2, |cores| cores.get() + 1);
    let runtime = Builder::new_multi_thread()
        .worker_threads(threads)
        .enable_all()
        .thread_name("tierra-query")
        .on_thread_start(BlockingThread::always)
        .build();
    let runtime = runtime.map_err(|error| {
        OperationalError::new_err(format!(
            "cannot start the threads that run queries: {error}"
        ))
    })?;
    Ok(RUNTIME.get_or_init(|| runtime))
}

/// The result of `work`. On a signal whose handler raises, `work` is dropped, which stops a statement.
pub(crate) fn wait<T: Send>(py: Python<'_>, work: impl Future<Output = T> + Send) -> PyResult<T> {
    let runtime = runtime()?;
    let mut work = pin!(work);
    loop {
        match py.detach(|| slice(runtime, work.as_mut())) {
            Some(done) => return Ok(done),
            None => py.check_signals()?,
        }
    }
}

/// Wakes a thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// The result of `work` if it is there within [`SLICE`]. The thread keeps the time itself: while a large join keeps every worker of
/// the runtime busy, nobody looks at the runtime's timers.
pub(crate) fn slice<T>(
    runtime: &Runtime,
    mut work: Pin<&mut impl Future<Output = T>>,
) -> Option<T> {
    let _blocks = Handle::try_current().is_err().then(BlockingThread::enter);
    let _context = runtime.enter();
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    let end = Instant::now() + SLICE;
    loop {
        if let Poll::Ready(done) = work.as_mut().poll(&mut context) {
            return Some(done);
        }
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return None;
        }
        thread::park_timeout(left);
    }
}

/// A value whose end waits for threads. In a fork it never ends, and a panic at its end stays here.
#[derive(Debug)]
pub(crate) struct OfProcess<T>(Option<T>);

impl<T> OfProcess<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Some(value))
    }

    pub(crate) fn get(&self) -> &T {
        self.0.as_ref().expect("it is taken when it is dropped")
    }

    pub(crate) fn get_mut(&mut self) -> &mut T {
        self.0.as_mut().expect("it is taken when it is dropped")
    }
}

impl<T> Drop for OfProcess<T> {
    fn drop(&mut self) {
        let value = self.0.take();
        if is_fork() {
            std::mem::forget(value);
        } else {
            // No caller is left to get the error.
            let _ = catch_unwind(AssertUnwindSafe(|| drop(value)));
        }
    }
}
