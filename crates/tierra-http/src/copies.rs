//! Which copies of tables there are. Only the writer knows, and it may be busy for long: it is asked in the background.
//!
//! Invariant: nobody waits for the writer, and it has one question at a time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tierra_engine::{CopyInfo, Database};

/// How often it is asked.
const EVERY: Duration = Duration::from_secs(5);

/// The copies of tables as the writer told them last.
#[derive(Default)]
pub(crate) struct Copies {
    is_asked: AtomicBool,
    told: Mutex<Told>,
}

#[derive(Default)]
struct Told {
    at: Option<Instant>,
    copies: Option<Arc<Vec<CopyInfo>>>,
}

impl Copies {
    /// What is known; `None` before the first answer, and once the writer has ended.
    pub(crate) fn known(&self) -> Option<Arc<Vec<CopyInfo>>> {
        self.told().copies.clone()
    }

    fn told(&self) -> MutexGuard<'_, Told> {
        // Both fields are set at once.
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks the writer on a thread of its own, if the last answer is old and no question is open.
    pub(crate) fn ask_in_time(self: &Arc<Self>, database: &Arc<Database>) {
        let is_old = self.told().at.is_none_or(|at| at.elapsed() >= EVERY);
        if !is_old || self.is_asked.swap(true, Ordering::AcqRel) {
            return;
        }
        let (copies, database) = (Arc::clone(self), Arc::clone(database));
        tokio::task::spawn_blocking(move || {
            let told = database.copies().ok().map(Arc::new);
            *copies.told() = Told {
                at: Some(Instant::now()),
                copies: told,
            };
            copies.is_asked.store(false, Ordering::Release);
        });
    }
}
