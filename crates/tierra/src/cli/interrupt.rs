//! Ctrl-C: the first stops what is running, a second one that nobody heeds ends the process.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use super::CommandError;

/// Whether Ctrl-C was pressed since [`Interrupt::watch`].
#[derive(Clone)]
pub(crate) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Watches for Ctrl-C from now on; called on the runtime, for commands that run to their end
    /// and look at the flag between steps.
    pub(crate) fn watch() -> Self {
        let pressed = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&pressed);
        tokio::spawn(async move {
            while tokio::signal::ctrl_c().await.is_ok() {
                if flag.swap(true, Ordering::Relaxed) {
                    // What was asked to stop does not: unpublished work is undone on the next open.
                    std::process::exit(130);
                }
                eprintln!("stopping; press Ctrl-C again to leave at once");
            }
        });
        Self(pressed)
    }

    /// The flag itself, for a loader that looks at it.
    pub(crate) fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.0)
    }

    /// An error once Ctrl-C was pressed.
    pub(crate) fn check(&self) -> Result<(), CommandError> {
        match self.0.load(Ordering::Relaxed) {
            true => Err(CommandError::Interrupted),
            false => Ok(()),
        }
    }
}
