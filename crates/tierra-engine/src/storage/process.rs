//! Which process opened a database. A fork has the same memory, but none of the threads, and shares the lock of the directory
//! with its parent.
//!
//! Invariant: a fork neither writes nor unlocks what its parent has open.

use std::process;

/// The process that made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OwnProcess(u32);

impl OwnProcess {
    /// The running process.
    pub(crate) fn this() -> Self {
        Self(process::id())
    }

    /// Another process than the running one, as a fork sees its parent.
    #[cfg(test)]
    pub(crate) fn other() -> Self {
        Self(0)
    }

    /// Whether the running process is a fork of it.
    pub(crate) fn is_forked(self) -> bool {
        self != Self::this()
    }
}
