//! Threads of one query's own.
//!
//! A sort without LIMIT is a task for each batch of its input: 12,000 for 100 million rows. The threads of a runtime take tasks one after
//! another, and a statement that comes later would wait for all of these. Where statements of several clients share threads, such
//! a query has its own, and the system divides the processors among all.

use std::sync::Arc;

use datafusion::common::stats::Precision;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::context::SessionState;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use tokio::runtime::{Builder, EnterGuard, Runtime};

use crate::BlockingThread;

/// Estimated rows of a sort's input from which a query has threads of its own: they cost 100 microseconds, which such a sort takes for
/// a thousandth of its rows.
const MANY_ROWS: usize = 1 << 20;

/// Marks the settings of sessions that share their threads: see [`SessionOptions::shares_threads`](crate::SessionOptions::shares_threads).
pub(crate) struct SharedThreads;

/// The runtime of one query.
pub(crate) struct QueryThreads(Option<Runtime>);

impl QueryThreads {
    /// Threads for `plan` if it needs its own.
    ///
    /// # Errors
    /// If the system gives none, or the plan cannot be estimated.
    pub(crate) fn of(plan: &Arc<dyn ExecutionPlan>, state: &SessionState) -> Result<Option<Self>> {
        let config = state.config();
        if config.get_extension::<SharedThreads>().is_none()
            || !sorts_many(plan, &StatisticsContext::new())?
        {
            return Ok(None);
        }
        Self::start(config.target_partitions()).map(Some)
    }

    /// Starts `threads`, at least one.
    ///
    /// # Errors
    /// If the system gives none.
    pub(crate) fn start(threads: usize) -> Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(threads)
            .thread_name("tierra-sort")
            .on_thread_start(BlockingThread::always)
            .enable_all()
            .build();
        Ok(Self(Some(runtime.map_err(DataFusionError::IoError)?)))
    }

    /// Tasks that this thread spawns while the result lives are executed there.
    pub(crate) fn enter(&self) -> Option<EnterGuard<'_>> {
        self.0.as_ref().map(Runtime::enter)
    }
}

impl Drop for QueryThreads {
    /// Does not wait: a query ends in asynchronous code.
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

fn sorts_many(plan: &Arc<dyn ExecutionPlan>, context: &StatisticsContext) -> Result<bool> {
    if let Some(sort) = plan.downcast_ref::<SortExec>()
        && sort.fetch().is_none()
    {
        let known = context.compute(sort.input().as_ref(), &StatisticsArgs::new())?;
        let rows = match known.num_rows {
            Precision::Exact(rows) | Precision::Inexact(rows) => rows,
            Precision::Absent => MANY_ROWS,
        };
        if rows >= MANY_ROWS {
            return Ok(true);
        }
    }
    for child in plan.children() {
        if sorts_many(child, context)? {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use tierra_engine::{Database, DatabaseOptions};

    use super::*;
    use crate::{Session, SessionOptions};

    #[tokio::test(flavor = "multi_thread")]
    async fn only_a_large_sort_where_threads_are_shared_has_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let database = Database::create(&dir.path().join("db"), &DatabaseOptions::default());
        let database = database.unwrap();
        let table =
            "CREATE TABLE t AS SELECT value AS n, value % 7 AS g FROM generate_series(1, 2000000)";
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
                ("SELECT * FROM t ORDER BY g, n", true),
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
        }
    }
}
