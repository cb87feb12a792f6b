//! Threads of one query's own.
//!
//! A sort by several columns without LIMIT is a task for each batch of its input: 12,000 for 100 million rows. The threads of a runtime take
//! tasks one after another, and a statement that comes later would wait for all of these; so would the end of the query itself, whose
//! reader has gone. Where statements of several clients share threads, such a query has its own: the system divides the processors
//! among all, and the threads end with the query, after some sixty tasks. A plan too deep for ordinary stacks is executed elsewhere
//! ([`crate::limits`]).

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::available_parallelism;

use datafusion::common::stats::Precision;
use datafusion::execution::context::SessionState;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use tokio::runtime::{Builder, EnterGuard, Handle, Runtime};

/// Estimated rows of a sort's input from which a query has threads of its own. To sort so many takes a thousand times as long as
/// to start the threads.
const MANY_ROWS: usize = 1 << 20;
/// Queries with threads of their own at a time. More share the runtime's: each holds memory and open files of the system.
const MOST: usize = 16;

/// How many there are.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Marks the settings of sessions that share their threads: see [`SessionOptions::shares_threads`](crate::SessionOptions::shares_threads).
pub(crate) struct SharedThreads;

/// The runtime of one query.
pub(crate) struct QueryThreads(Option<Runtime>);

impl QueryThreads {
    /// Threads for `plan`, if it needs its own and the system gives some.
    pub(crate) fn of(plan: &Arc<dyn ExecutionPlan>, state: &SessionState) -> Option<Self> {
        let config = state.config();
        config.get_extension::<SharedThreads>()?;
        match sorts_many(plan, &StatisticsContext::new()) {
            true => Self::start(config.target_partitions()),
            false => None,
        }
    }

    /// Starts as many, but no more than processors.
    pub(crate) fn start(threads: usize) -> Option<Self> {
        let more = |count: usize| (count < MOST).then_some(count + 1);
        COUNT
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
            .ok()?;
        let mut own = Self(None);
        let processors = available_parallelism().map_or(1, NonZeroUsize::get);
        let runtime = Builder::new_multi_thread()
            .worker_threads(threads.clamp(1, processors))
            .thread_name("tierra-sort")
            .enable_all()
            .build();
        own.0 = runtime
            .inspect_err(|error| tracing::warn!(%error, "a large sort has no threads of its own"))
            .ok();
        own.0.is_some().then_some(own)
    }

    /// Tasks that this thread spawns while the result lives are executed there.
    pub(crate) fn enter(&self) -> Option<EnterGuard<'_>> {
        self.handle().map(Handle::enter)
    }

    pub(crate) fn handle(&self) -> Option<&Handle> {
        self.0.as_ref().map(Runtime::handle)
    }
}

impl Drop for QueryThreads {
    /// Does not wait: a query ends in asynchronous code.
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
        COUNT.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Whether the plan sorts many rows, or as many as nobody knows.
fn sorts_many(plan: &Arc<dyn ExecutionPlan>, context: &StatisticsContext) -> bool {
    let is_large = || {
        let sort = plan.downcast_ref::<SortExec>()?;
        if sort.fetch().is_some() {
            return None;
        }
        let known = context.compute(sort.input().as_ref(), &StatisticsArgs::new());
        Some(match known.ok()?.num_rows {
            Precision::Exact(rows) | Precision::Inexact(rows) => rows >= MANY_ROWS,
            Precision::Absent => true,
        })
    };
    is_large().unwrap_or(false)
        || plan
            .children()
            .into_iter()
            .any(|child| sorts_many(child, context))
}

#[cfg(test)]
mod tests {
    use futures::StreamExt;
    use tierra_engine::{Database, DatabaseOptions};

    use super::*;
    use crate::{Outcome, Session, SessionOptions};

    #[tokio::test(flavor = "multi_thread")]
    async fn only_a_large_sort_where_threads_are_shared_has_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let database = Database::create(&dir.path().join("db"), &DatabaseOptions::default());
        let database = database.unwrap();
        let table =
            "CREATE TABLE t AS SELECT value AS n, value % 7 AS g FROM generate_series(1, 2000000)";
        let large = "SELECT * FROM t ORDER BY g, n";
        for shares_threads in [false, true] {
            let options = SessionOptions {
                shares_threads,
                ..SessionOptions::default()
            };
            let session = Session::new(Arc::clone(&database), &options).unwrap();
            if !shares_threads {
                session.execute(table).await.unwrap();
            }
            for (sql, is_large) in [
                (large, true),
                ("SELECT * FROM t ORDER BY g, n LIMIT 5", false),
                ("SELECT * FROM t WHERE n < 10 ORDER BY g, n", false),
                ("SELECT sum(n) FROM t", false),
            ] {
                assert_eq!(
                    session.has_own_threads(sql).await,
                    shares_threads && is_large,
                    "{sql}"
                );
            }
            let Outcome::Rows(mut rows) = session.sql(large).await.unwrap() else {
                panic!("no rows");
            };
            let first = rows.next().await.unwrap().unwrap();
            assert!(first.num_rows() > 0);
            // Other tests may have some at the same time.
            assert!(COUNT.load(Ordering::Relaxed) >= usize::from(shares_threads));
        }
    }
}
