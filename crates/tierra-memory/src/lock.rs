//! Mutexes that a panic does not poison.
//!
//! Invariant: what they guard is changed only in steps that cannot panic, so it is valid at every moment.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks, even if another thread panicked while it held the lock.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
