//! Ctrl-C: the first press stops the running statement or command. A second press before the first was handled ends the
//! process.
//!
//! The handler is installed when [`Interrupt::watch`] returns. The line editor of the shell installs its own while it reads,
//! and restores this one afterwards.
//!
//! A separate thread waits for the signal. So Ctrl-C is noticed even while a query keeps every worker of the runtime busy,
//! as a large join can for seconds.

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
                        // The code that was asked to stop has not stopped.
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

    /// The flag itself, for a loader that polls it.
    pub(crate) fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.pressed)
    }

    /// An error after Ctrl-C was pressed.
    pub(crate) fn check(&self) -> Result<(), CommandError> {
        match self.pressed.load(Ordering::Relaxed) {
            true => Err(CommandError::Interrupted),
            false => Ok(()),
        }
    }

    /// The result of `work`, or an error if Ctrl-C is pressed first: then `work` is dropped. An earlier press does not
    /// count.
    pub(crate) async fn stops<T>(
        &self,
        work: impl Future<Output = Result<T, CommandError>>,
    ) -> Result<T, CommandError> {
        self.pressed.store(false, Ordering::Relaxed);
        let pressed = async {
            // Registered before the flag is read, so that no press is missed.
            let woken = self.wake.notified();
            if self.check().is_ok() {
                woken.await;
            }
        };
        let result = tokio::select! {
            done = work => done,
            () = pressed => Err(CommandError::Interrupted),
        };
        // Handled: the next press is a first one again.
        self.pressed.store(false, Ordering::Relaxed);
        result
    }
}
