//! Planning threads: they have a large stack and are not those of the runtime.
//!
//! Planning does not yield and may take seconds. On a separate thread it blocks no worker of the runtime, so that Ctrl-C
//! is handled. If the statement is cancelled, the thread finishes its current work, whose length [`super::Depth`]
//! bounds, and waits for the next statement.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;
use std::time::Duration;

use datafusion::common::exec_datafusion_err;
use datafusion::error::{DataFusionError, Result};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

/// Stack of a planning thread in bytes: enough for every statement that [`super::Depth`] accepts, with a margin. Pages
/// that are not touched take no memory.
pub(super) const STACK_BYTES: usize = 512 << 20;
/// How long a thread waits for its next statement.
const PATIENCE: Duration = Duration::from_secs(10);

type Job = Box<dyn FnOnce() + Send>;

/// Threads that wait for work.
static IDLE: Mutex<Vec<(ThreadId, Sender<Job>)>> = Mutex::new(Vec::new());

/// Runs `work` on a thread with a large stack and returns its result. It panics if `work` does.
///
/// # Errors
/// If no thread can be started.
pub(crate) async fn apart<T: Send + 'static>(
    work: impl Future<Output = T> + Send + 'static,
) -> Result<T> {
    let Ok(runtime) = Handle::try_current() else {
        return Ok(work.await);
    };
    let (send, receive) = oneshot::channel();
    run(Box::new(move || {
        let done = catch_unwind(AssertUnwindSafe(|| runtime.block_on(work)));
        // If the statement was cancelled, the result is dropped here, on the large stack.
        let _ = send.send(done);
    }))?;
    let done: Result<std::result::Result<T, Box<dyn Any + Send>>, _> = receive.await;
    match done {
        Ok(Ok(result)) => Ok(result),
        Ok(Err(panic)) => resume_unwind(panic),
        Err(_) => Err(exec_datafusion_err!(
            "the thread that planned the statement has ended"
        )),
    }
}

/// Drops `what` on a thread with a large stack.
pub(super) fn drop_apart(what: impl Send + 'static) {
    // If no thread can be started, it is dropped here.
    let _ = run(Box::new(move || drop(what)));
}

/// Runs `work` on an idle thread, or on a new one.
fn run(work: Job) -> Result<()> {
    let idle = lock_idle().pop();
    if let Some((_, idle)) = idle {
        // The thread is no longer in the list, so it waits for this work.
        return idle
            .send(work)
            .map_err(|_| exec_datafusion_err!("a planning thread has ended"));
    }
    std::thread::Builder::new()
        .name("tierra-plan".to_string())
        .stack_size(STACK_BYTES)
        .spawn(move || {
            work();
            while let Some(next) = wait_for_more() {
                next();
            }
        })
        .map(drop)
        .map_err(DataFusionError::IoError)
}

/// The work of the next statement, if it comes in time.
fn wait_for_more() -> Option<Job> {
    let (send, receive) = channel();
    let me = std::thread::current().id();
    lock_idle().push((me, send));
    if let Ok(work) = receive.recv_timeout(PATIENCE) {
        return Some(work);
    }
    let mut idle = lock_idle();
    let place = idle.iter().position(|(thread, _)| *thread == me);
    match place {
        Some(place) => {
            idle.swap_remove(place);
            None
        }
        // Another thread has just taken the sender to send work.
        None => {
            drop(idle);
            receive.recv().ok()
        }
    }
}

fn lock_idle() -> MutexGuard<'static, Vec<(ThreadId, Sender<Job>)>> {
    IDLE.lock().unwrap_or_else(PoisonError::into_inner)
}
