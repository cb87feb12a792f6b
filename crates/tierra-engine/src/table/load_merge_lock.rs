//! A lock that is held by any number of loads or by one merge: both give out dictionary codes.
//!
//! Invariant: while a merge holds its pass, no load encodes rows of the table, because their codes would belong to the generation
//! that the merge replaces. The writer thread does both the merging and the sealing, so sealing never waits.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

#[derive(Debug, Default)]
struct State {
    loads: usize,
    merging: bool,
}

/// One per table.
#[derive(Debug, Default)]
pub(crate) struct LoadMergeLock {
    state: Mutex<State>,
    changed: Condvar,
}

impl LoadMergeLock {
    // Both fields are plain numbers: a panic cannot leave them half changed.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until no merge is running.
    pub(crate) fn enter_load(self: &Arc<Self>) -> LoadPass {
        let mut state = self.lock();
        while state.merging {
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        state.loads += 1;
        LoadPass { lock: self.clone() }
    }

    /// As [`Self::enter_load`] without waiting: `None` while a merge is running.
    pub(crate) fn try_enter_load(self: &Arc<Self>) -> Option<LoadPass> {
        let mut state = self.lock();
        if state.merging {
            return None;
        }
        state.loads += 1;
        Some(LoadPass { lock: self.clone() })
    }

    /// Never waits: only the writer thread merges, and it does not merge while it seals.
    pub(crate) fn enter_seal(self: &Arc<Self>) -> LoadPass {
        self.lock().loads += 1;
        LoadPass { lock: self.clone() }
    }

    /// Waits until no load is running, and blocks new ones.
    pub(crate) fn enter_merge(self: &Arc<Self>) -> MergePass {
        let mut state = self.lock();
        while state.merging || state.loads > 0 {
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        state.merging = true;
        MergePass { lock: self.clone() }
    }

    /// As [`Self::enter_merge`] without waiting: `None` while a load or another merge is running.
    pub(crate) fn try_enter_merge(self: &Arc<Self>) -> Option<MergePass> {
        let mut state = self.lock();
        if state.merging || state.loads > 0 {
            return None;
        }
        state.merging = true;
        Some(MergePass { lock: self.clone() })
    }
}

/// Held by a load from its first encoded row to its end.
#[derive(Debug)]
pub(crate) struct LoadPass {
    lock: Arc<LoadMergeLock>,
}

impl LoadPass {
    /// Ends a load that was undone. If it was the last one, `forget` runs before the lock admits anything else.
    pub(crate) fn undo(self, forget: impl FnOnce()) {
        let state = self.lock.lock();
        if state.loads == 1 {
            forget();
        }
        drop(state);
    }
}

impl Drop for LoadPass {
    fn drop(&mut self) {
        self.lock.lock().loads -= 1;
        self.lock.changed.notify_all();
    }
}

/// Held by a merge.
#[derive(Debug)]
pub(crate) struct MergePass {
    lock: Arc<LoadMergeLock>,
}

impl Drop for MergePass {
    fn drop(&mut self) {
        self.lock.lock().merging = false;
        self.lock.changed.notify_all();
    }
}
