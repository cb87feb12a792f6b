//! Cancelling what one user of a session runs, and nothing else of the session.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// What can be cancelled: a statement that runs.
pub(super) trait Cancel: Send + Sync + fmt::Debug {
    fn cancel(&self);
}

tokio::task_local! {
    /// Who can cancel the statements that begin now.
    static CANCELLER: Canceller;
}

/// Cancels the statements that begin in its [`scope`](Canceller::scope), and their rows. Clones are one and the same.
#[derive(Clone, Debug, Default)]
pub struct Canceller(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    is_cancelled: AtomicBool,
    running: Mutex<Vec<Weak<dyn Cancel>>>,
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, Vec<Weak<dyn Cancel>>> {
        // Whole entries are put in and taken out.
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Canceller {
    /// Does `work`, whose statements can then be cancelled.
    pub async fn scope<T>(&self, work: impl Future<Output = T>) -> T {
        CANCELLER.scope(self.clone(), work).await
    }

    /// Cancels the statements that run, as [`Session::cancel`](crate::Session::cancel) does, and those that begin later.
    pub fn cancel(&self) {
        self.0.is_cancelled.store(true, Ordering::Release);
        let running = std::mem::take(&mut *self.0.lock());
        for running in running.iter().filter_map(Weak::upgrade) {
            running.cancel();
        }
    }

    /// Set once it was cancelled.
    pub fn flag(&self) -> &AtomicBool {
        &self.0.is_cancelled
    }

    /// Notes a statement that begins.
    pub(super) fn note(running: Arc<dyn Cancel>) {
        // Most statements have none.
        let _ = CANCELLER.try_with(|canceller| canceller.add(&running));
    }

    fn add(&self, running: &Arc<dyn Cancel>) {
        {
            let mut all = self.0.lock();
            all.retain(|other| other.strong_count() > 0);
            all.push(Arc::downgrade(running));
        }
        // `cancel` sets the flag before it takes the lock: it sees the statement, or the flag is seen here.
        if self.0.is_cancelled.load(Ordering::Acquire) {
            running.cancel();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use futures::FutureExt;

    use super::*;

    #[derive(Debug, Default)]
    struct Counted(AtomicUsize);

    impl Cancel for Counted {
        fn cancel(&self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn what_began_in_its_scope_is_cancelled_and_nothing_else() {
        let begin = || {
            let counted = Arc::<Counted>::default();
            Canceller::note(Arc::clone(&counted) as _);
            counted
        };
        let (own, other) = (Canceller::default(), Canceller::default());
        let begun = own.scope(async { begin() }).now_or_never().unwrap();
        let others = other.scope(async { begin() }).now_or_never().unwrap();
        let nobodys = begin();
        own.cancel();
        let late = own.scope(async { begin() }).now_or_never().unwrap();
        let times = [&begun, &late, &others, &nobodys].map(|one| one.0.load(Ordering::Relaxed));
        assert_eq!(times, [1, 1, 0, 0]);
        assert!(own.flag().load(Ordering::Relaxed) && !other.flag().load(Ordering::Relaxed));
    }
}
