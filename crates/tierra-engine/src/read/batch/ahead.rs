//! Tasks of members that are ahead, and wait until others have taken pieces.
//!
//! They sleep, so that the threads that run them run others meanwhile: one that asked again and again would keep its thread from taking
//! over tasks of another. A member that takes a piece wakes them. If none does, a thread wakes them after 2 ms.
//!
//! Invariant: while a task waits there is a thread that will wake it, so that no task waits for a member that has stopped.

use std::sync::Arc;
use std::task::Waker;

use super::pass::{PATIENCE, Pass};

/// How often the thread looks without finding a task before it ends.
const LOOKS_IDLE: u32 = 32;

/// The tasks that wait.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    /// The member of each.
    waiting: Vec<(usize, Waker)>,
    is_watched: bool,
    /// Looks of the thread since a task waited.
    idle: u32,
}

impl Ahead {
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// A task of a member waits. Whether a thread has to be started.
    #[must_use]
    pub(super) fn wait(&mut self, at: usize, waker: &Waker) -> bool {
        let is_there = |(_, known): &(usize, Waker)| known.will_wake(waker);
        if !self.waiting.iter().any(is_there) {
            self.waiting.push((at, waker.clone()));
        }
        !std::mem::replace(&mut self.is_watched, true)
    }

    /// The wakers of these members' tasks, which then wait no longer.
    pub(super) fn take(&mut self, of: u64) -> Vec<Waker> {
        let taken = self.waiting.extract_if(.., |(at, _)| of >> *at & 1 == 1);
        taken.map(|(_, waker)| waker).collect()
    }

    /// There is no thread: the wakers of all tasks, which then wait no longer.
    pub(super) fn unwatched(&mut self) -> Vec<Waker> {
        self.is_watched = false;
        self.take(u64::MAX)
    }

    /// The wakers of all tasks that wait, which then wait no longer; `None` if no task has waited for long, and the thread ends.
    pub(super) fn impatient(&mut self) -> Option<Vec<Waker>> {
        self.idle = if self.is_empty() { self.idle + 1 } else { 0 };
        self.is_watched = self.idle < LOOKS_IDLE;
        self.is_watched.then(|| self.take(u64::MAX))
    }
}

/// Wakes those that wait, now and then, whatever executor they run on.
pub(super) fn watch(pass: &Arc<Pass>) {
    let watched = Arc::downgrade(pass);
    let thread = std::thread::Builder::new().name("tierra-batch".to_owned());
    let spawned = thread.spawn(move || {
        loop {
            std::thread::sleep(PATIENCE);
            let Some(impatient) = watched.upgrade().and_then(|pass| pass.impatient()) else {
                return;
            };
            impatient.into_iter().for_each(Waker::wake);
        }
    });
    if let Err(error) = spawned {
        tracing::warn!(%error, "no thread for a batch: a query that is ahead asks again at once");
        pass.unwatched().into_iter().for_each(Waker::wake);
    }
}
