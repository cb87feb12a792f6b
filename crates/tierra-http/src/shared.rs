//! What the requests to a database share.

use std::pin::pin;
use std::sync::Arc;

use tierra_engine::Database;
use tierra_sql::{Monitor, SessionOptions};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

use crate::copies::Copies;
use crate::samples::{self, Samples};

/// What requests share.
pub(crate) struct Shared {
    pub(crate) database: Arc<Database>,
    pub(crate) monitor: Monitor,
    /// The options of each session.
    pub(crate) session: SessionOptions,
    /// Where queries run.
    pub(crate) queries: Handle,
    pub(crate) samples: Samples,
    pub(crate) copies: Arc<Copies>,
    /// Held by the one backup that is sent.
    pub(crate) backup_turn: Arc<Semaphore>,
}

impl Shared {
    pub(crate) fn new(database: Arc<Database>, session: SessionOptions, queries: Handle) -> Self {
        Self {
            monitor: Monitor::new(&database),
            database,
            session,
            queries,
            samples: samples::of_database(),
            copies: Arc::default(),
            backup_turn: Arc::new(Semaphore::new(1)),
        }
    }

    /// The result of `work`, whose tasks run where queries do.
    pub(crate) async fn within<T>(&self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        std::future::poll_fn(|context| {
            let _within = self.queries.enter();
            work.as_mut().poll(context)
        })
        .await
    }
}
