//! What stands between a call from outside and the work: the one runtime of the process, forks, and panics.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::process;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use adbc_core::error::{Error, Result, Status};
use tierra::sql::{BlockingThread, Canceller, SqlError};
use tokio::runtime::{Builder, Handle, Runtime};

use crate::error;

/// The threads that run queries.
struct Threads {
    runtime: Runtime,
    /// Whose they are.
    process: u32,
}

static THREADS: OnceLock<Threads> = OnceLock::new();

/// Whether this process is a fork of one that used the driver.
fn is_fork() -> bool {
    let threads = THREADS.get();
    threads.is_some_and(|threads| threads.process != process::id())
}

fn refuse_fork() -> Result<()> {
    match is_fork() {
        false => Ok(()),
        true => Err(Error::with_message_and_status(
            "this process is a fork of one that used Tierra, whose threads it does not have: start it anew instead \
             (in Python: multiprocessing.get_context('spawn'))",
            Status::InvalidState,
        )),
    }
}

/// Does the work of a call from outside. It fails in a fork, and if the work panics.
pub(crate) fn call<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    refuse_fork()?;
    let done = catch_unwind(AssertUnwindSafe(work));
    done.unwrap_or_else(|panic| Err(of_panic(panic.as_ref())))
}

/// The error for a panic.
fn of_panic(panic: &(dyn Any + Send)) -> Error {
    error::of_sql(&SqlError::Defect(panic_text(panic)))
}

/// What a panic says.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "a panic that says nothing".to_owned())
}

fn runtime() -> Result<&'static Runtime> {
    static STARTING: Mutex<()> = Mutex::new(());
    if let Some(threads) = THREADS.get() {
        return Ok(&threads.runtime);
    }
    // Of two first calls at once, one waits for the other's.
    let _starting = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(threads) = THREADS.get() {
        return Ok(&threads.runtime);
    }
    // One thread more than cores: a query that was cancelled within a batch keeps its thread for a while.
    let workers = thread::available_parallelism().map_or(2, |cores| cores.get() + 1);
    let runtime = Builder::new_multi_thread()
        .worker_threads(workers)
        .enable_all()
        .thread_name("tierra-query")
        .on_thread_start(BlockingThread::always)
        .build();
    let runtime = runtime.map_err(|error| {
        Error::with_message_and_status(
            format!("cannot start the threads that run queries: {error}"),
            Status::IO,
        )
    })?;
    let process = process::id();
    Ok(&THREADS.get_or_init(|| Threads { runtime, process }).runtime)
}

/// Notes which process uses the driver, and starts its threads.
pub(crate) fn begin() -> Result<()> {
    runtime().map(drop)
}

/// Wakes a thread. A wake-up is kept as well, because a commit that the thread makes itself parks it, too, and may take the token.
struct Waiting {
    thread: Thread,
    is_woken: AtomicBool,
}

impl Wake for Waiting {
    fn wake(self: Arc<Self>) {
        self.is_woken.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

/// The result of `work`, whose statements `canceller` cancels. The thread polls by itself: the caller may be a thread of another runtime,
/// in which that of this one must not block.
pub(crate) fn wait<T>(
    canceller: &Canceller,
    work: impl Future<Output = std::result::Result<T, SqlError>>,
) -> Result<T> {
    let runtime = runtime()?;
    let _blocks = Handle::try_current().is_err().then(BlockingThread::enter);
    let _context = runtime.enter();
    let waiting = Arc::new(Waiting {
        thread: thread::current(),
        is_woken: AtomicBool::new(false),
    });
    let waker = Waker::from(Arc::clone(&waiting));
    let mut context = Context::from_waker(&waker);
    let mut work = pin!(canceller.scope(work));
    loop {
        if let Poll::Ready(done) = work.as_mut().poll(&mut context) {
            return done.map_err(|error| error::of_sql(&error));
        }
        while !waiting.is_woken.swap(false, Ordering::Acquire) {
            thread::park();
        }
    }
}

/// A value whose end waits for threads or locks. In a fork it never ends, and a panic at its end stays here.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error_of_its_call() {
        let error = call::<()>(|| panic!("at {}", 7)).unwrap_err();
        assert_eq!(error.status, Status::Internal);
        assert!(error.message.contains("at 7"), "{error}");
        call(|| Ok(())).unwrap();
    }

    #[test]
    fn a_panic_at_the_end_of_a_value_stays_there() {
        struct Bad;
        impl Drop for Bad {
            fn drop(&mut self) {
                panic!("at its end");
            }
        }
        drop(OfProcess::new(Bad));
    }

    /// As a commit does that the thread makes itself.
    #[test]
    fn a_wake_up_is_not_lost_to_work_that_parks() {
        let mut polls = 0;
        let waited = wait(
            &Canceller::default(),
            std::future::poll_fn(|context| {
                polls += 1;
                if polls == 2 {
                    return Poll::Ready(Ok(polls));
                }
                context.waker().wake_by_ref();
                thread::park();
                Poll::Pending
            }),
        );
        assert_eq!(waited.unwrap(), 2);
    }

    #[test]
    fn a_thread_of_another_runtime_can_wait() {
        let other = Builder::new_current_thread().build().unwrap();
        let slept = other.block_on(async {
            wait(&Canceller::default(), async {
                let slept = tokio::spawn(tokio::time::sleep(std::time::Duration::from_millis(5)));
                slept
                    .await
                    .map_err(|error| SqlError::Defect(error.to_string()))
            })
        });
        slept.unwrap();
    }
}
