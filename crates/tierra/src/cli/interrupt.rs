//! Ctrl-C: the first stops what is running, a second one that comes before anybody heeded the
//! first ends the process.
//!
//! The handler is in place when [`Interrupt::watch`] returns: the line editor of the shell puts its
//! own in front while it reads, and afterwards restores the one that it found.
//!
//! The signal is awaited on a thread of its own. A query that keeps every worker of the runtime
//! busy, as a large join can for seconds, so never keeps Ctrl-C from being noticed.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use tokio::{
    runtime::Builder,
    signal::unix::{SignalKind, signal},
    sync::Notify,
};

use super::CommandError;

/// Whether Ctrl-C was pressed.
#[derive(Clone)]
pub(crate) struct Interrupt {
    pressed: Arc<AtomicBool>,
    wake: Arc<Notify>,
}

impl Interrupt {
    /// Watches for Ctrl-C from now on, until the process ends.
    pub(crate) fn watch() -> Result<Self, CommandError> {
        let threads = tierra::Error::Threads;
        let interrupt = Self {
            pressed: Arc::default(),
            wake: Arc::default(),
        };
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(threads)?;
        let registered = {
            let _context = runtime.enter();
            signal(SignalKind::interrupt())
        };
        let mut presses = registered.map_err(CommandError::Signal)?;
        let Self { pressed, wake } = interrupt.clone();
        let watch = move || {
            runtime.block_on(async {
                while presses.recv().await.is_some() {
                    if pressed.swap(true, Ordering::Relaxed) {
                        // Whoever was asked to stop does not.
                        eprintln!(
                            "error: interrupted twice, so ended at once; what was not committed is \
                             undone when the database is next opened"
                        );
                        std::process::exit(130);
                    }
                    wake.notify_waiters();
                }
            });
        };
        thread::Builder::new()
            .name("tierra-interrupt".to_owned())
            .spawn(watch)
            .map_err(threads)?;
        Ok(interrupt)
    }

    /// The flag itself, for a loader that looks at it.
    pub(crate) fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.pressed)
    }

    /// An error once Ctrl-C was pressed.
    pub(crate) fn check(&self) -> Result<(), CommandError> {
        match self.pressed.load(Ordering::Relaxed) {
            true => Err(CommandError::Interrupted),
            false => Ok(()),
        }
    }

    /// What `work` yields, or an error if Ctrl-C is pressed before: `work` is dropped then. A press
    /// from before does not count.
    pub(crate) async fn stops<T>(
        &self,
        work: impl Future<Output = Result<T, CommandError>>,
    ) -> Result<T, CommandError> {
        self.pressed.store(false, Ordering::Relaxed);
        let pressed = async {
            // Registered before the flag is looked at, so that no press falls in between.
            let woken = self.wake.notified();
            if self.check().is_ok() {
                woken.await;
            }
        };
        let result = tokio::select! {
            done = work => done,
            () = pressed => Err(CommandError::Interrupted),
        };
        // Heeded: the next press is a first one again.
        self.pressed.store(false, Ordering::Relaxed);
        result
    }
}
