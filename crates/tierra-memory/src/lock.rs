//! Locks whose guarded values are whole at every moment.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks past a panic elsewhere: what these locks guard is changed only in steps that cannot panic.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
