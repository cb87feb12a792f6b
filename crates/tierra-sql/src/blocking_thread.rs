//! Threads that wait for a device themselves.
//!
//! A commit into logs on a disk waits for it. From a thread of which nothing is known it is handed over to another, and to be woken
//! by that takes as long as a fast disk does. Where [`BlockingThread`] says that a thread may block, the commit is made on it; tokio
//! moves to another thread what else was to run there.

use std::cell::Cell;
use std::marker::PhantomData;

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::{JoinError, block_in_place, spawn_blocking};

thread_local! {
    static MAY_BLOCK: Cell<bool> = const { Cell::new(false) };
}

/// While it lives, statements that this thread runs may block it. Only for the workers of a multi-threaded tokio runtime, and for
/// threads that enter one and no `LocalSet`.
#[derive(Debug)]
#[must_use = "it ends when it is dropped"]
pub struct BlockingThread {
    before: bool,
    /// It is of one thread.
    _not_send: PhantomData<*const ()>,
}

impl BlockingThread {
    /// Lets this thread block until the value is dropped.
    pub fn enter() -> Self {
        Self {
            before: MAY_BLOCK.replace(true),
            _not_send: PhantomData,
        }
    }

    /// Lets this thread block as long as it lives: for `on_thread_start` of a runtime.
    pub fn always() {
        MAY_BLOCK.set(true);
    }
}

impl Drop for BlockingThread {
    fn drop(&mut self) {
        MAY_BLOCK.set(self.before);
    }
}

/// The result of work that blocks: done on this thread if that may block, otherwise on another one, where it goes on if this future
/// is dropped.
pub(crate) async fn wait_for<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, JoinError> {
    let is_multi_threaded = Handle::current().runtime_flavor() == RuntimeFlavor::MultiThread;
    match MAY_BLOCK.get() && is_multi_threaded {
        true => Ok(block_in_place(work)),
        false => spawn_blocking(work).await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;
    use tokio::runtime::Builder;

    /// Whether work is done on the thread that asks for it.
    async fn stays() -> bool {
        let asks = thread::current().id();
        wait_for(move || thread::current().id() == asks)
            .await
            .unwrap()
    }

    #[test]
    fn work_stays_on_threads_that_may_block() {
        let mut workers = Builder::new_multi_thread();
        let blocking = workers
            .worker_threads(1)
            .on_thread_start(BlockingThread::always);
        let blocking = blocking.build().unwrap();
        assert!(blocking.block_on(blocking.spawn(stays())).unwrap());
        assert!(!blocking.block_on(stays()));
        let plain = Builder::new_multi_thread().worker_threads(1).build();
        let plain = plain.unwrap();
        {
            let _blocks = BlockingThread::enter();
            assert!(plain.block_on(stays()));
            assert!(!plain.block_on(plain.spawn(stays())).unwrap());
            let single = Builder::new_current_thread().build().unwrap();
            assert!(!single.block_on(stays()), "its other tasks would wait");
        }
        assert!(!plain.block_on(stays()));
    }
}
