//! A statement while it runs, and how it is cancelled.
//!
//! A caller that waits for the statement polls it through [`cancellable`], later through its rows. Both look at the flag before
//! they go on; cancelling sets the flag and wakes them. The statement's work is then dropped, which stops it. Once a statement has
//! handed its changes to the engine it is not cancelled anymore: nobody could say then whether they are there.

use std::fmt;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::{Duration, Instant, SystemTime};

use futures::task::AtomicWaker;

use super::canceller::Cancel;
use super::{Activity, Client, lock};
use crate::error::SqlError;
use crate::work::{PlanWork, Work};

/// The most characters of a statement, and of an error, that are kept.
pub(crate) const TEXT_MOST: usize = 1_000;

const NOT_TOLD: u64 = u64::MAX;

/// The beginning of `text`.
fn text_of(text: &str) -> &str {
    match text.char_indices().nth(TEXT_MOST) {
        Some((end, _)) => &text[..end],
        None => text,
    }
}

/// The statement was cancelled.
const CANCELLED: u8 = 1;
/// The engine has its changes.
const COMMITTING: u8 = 2;

tokio::task_local! {
    /// The statement whose work is polled.
    static STATEMENT: Arc<Running>;
}

/// A statement that runs.
pub(crate) struct Running {
    pub(super) id: u64,
    pub(super) client: Arc<Client>,
    pub(super) text: Arc<str>,
    pub(super) began_at: SystemTime,
    began: Instant,
    /// Rows handed out, or written.
    rows: AtomicU64,
    /// How much of its work is done, in percent; [`NOT_TOLD`] if it does not say.
    percent: AtomicU64,
    /// The plan whose rows are handed out. It is gone with the statement: the plan may hold inputs that were never read, they hold the
    /// settings of the statement, and these its [`Commit`], which holds this.
    plan: Mutex<Option<PlanWork>>,
    /// [`CANCELLED`] and [`COMMITTING`].
    stage: AtomicU8,
    /// Whether its rows wait for a reader who does something else.
    is_aside: AtomicBool,
    waker: AtomicWaker,
}

impl Running {
    pub(super) fn new(id: u64, client: Arc<Client>, text: Arc<str>) -> Self {
        Self {
            id,
            client,
            text,
            began_at: SystemTime::now(),
            began: Instant::now(),
            rows: AtomicU64::new(0),
            percent: AtomicU64::new(NOT_TOLD),
            plan: Mutex::default(),
            stage: AtomicU8::new(0),
            is_aside: AtomicBool::new(false),
            waker: AtomicWaker::new(),
        }
    }

    pub(super) fn is_of(&self, client: &Arc<Client>) -> bool {
        Arc::ptr_eq(&self.client, client)
    }

    pub(super) fn is_aside(&self) -> bool {
        self.is_aside.load(Ordering::Relaxed)
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    pub(super) fn rows(&self) -> u64 {
        self.rows.load(Ordering::Relaxed)
    }

    pub(super) fn work(&self) -> Work {
        let plan = lock(&self.plan).clone();
        plan.as_ref().map(PlanWork::so_far).unwrap_or_default()
    }

    /// `streaming` once rows are handed out; before that, and while a statement writes, `executing`, with how much of it is done if
    /// it says so.
    pub(super) fn state(&self) -> String {
        let is_streaming = lock(&self.plan).is_some();
        match self.percent.load(Ordering::Relaxed) {
            _ if is_streaming => "streaming".to_owned(),
            NOT_TOLD => "executing".to_owned(),
            percent => format!("executing, {percent} %"),
        }
    }

    /// Whether the statement was cancelled. If not, the task of `context` is woken when it is.
    fn heed(&self, context: &Context<'_>) -> Result<(), SqlError> {
        // Registered first, so that no cancellation is missed.
        self.waker.register(context.waker());
        match self.stage.load(Ordering::Acquire) {
            CANCELLED => Err(SqlError::Cancelled),
            _ => Ok(()),
        }
    }
}

impl Cancel for Running {
    fn cancel(&self) {
        self.stage.fetch_or(CANCELLED, Ordering::AcqRel);
        self.waker.wake();
    }
}

impl fmt::Debug for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Running")
            .field("id", &self.id)
            .field("text", &self.text)
            .finish_non_exhaustive()
    }
}

/// A statement that took long.
#[derive(Clone, Debug)]
pub(super) struct Slow {
    pub(super) id: u64,
    pub(super) client: Arc<Client>,
    pub(super) text: Arc<str>,
    pub(super) began_at: SystemTime,
    pub(super) elapsed: Duration,
    pub(super) rows: u64,
    pub(super) work: Work,
    /// Why it failed, if it did.
    pub(super) error: Option<String>,
}

/// How far a statement is.
pub(crate) struct Progress(Arc<Running>);

impl Progress {
    /// So much of its work is done.
    pub(crate) fn set(&self, done: u64, all: u64) {
        let percent = done.min(all) as f64 / all.max(1) as f64 * 100.0;
        self.0.percent.store(percent as u64, Ordering::Relaxed);
    }
}

/// Lists a statement while it lives.
#[derive(Debug)]
pub(crate) struct Tracked {
    activity: Arc<Activity>,
    running: Arc<Running>,
    error: Option<String>,
}

impl Tracked {
    pub(super) fn new(activity: Arc<Activity>, running: Arc<Running>) -> Self {
        Self {
            activity,
            running,
            error: None,
        }
    }

    /// Fails if the statement was cancelled; if not, `context` is woken when it is.
    pub(crate) fn heed(&self, context: &Context<'_>) -> Result<(), SqlError> {
        self.running.heed(context)
    }

    /// By which the statement's work says how far it is.
    pub(crate) fn progress(&self) -> Progress {
        Progress(Arc::clone(&self.running))
    }

    /// Notes that so many rows were handed out, or written.
    pub(crate) fn add_rows(&self, rows: u64) {
        self.running.rows.fetch_add(rows, Ordering::Relaxed);
    }

    /// Notes the plan whose rows are handed out from now on.
    pub(crate) fn streams(&self, plan: PlanWork) {
        *lock(&self.running.plan) = Some(plan);
    }

    /// Notes whether the reader of its rows does something else.
    pub(crate) fn set_aside(&self, is_aside: bool) {
        self.running.is_aside.store(is_aside, Ordering::Relaxed);
    }

    /// Notes why the statement ends.
    pub(crate) fn fails(&mut self, error: &SqlError) {
        self.error = Some(text_of(&error.to_string()).to_owned());
    }
}

impl Drop for Tracked {
    fn drop(&mut self) {
        let running = &self.running;
        let (elapsed, rows, work) = (running.elapsed(), running.rows(), running.work());
        drop(lock(&running.plan).take());
        {
            let mut all = lock(&self.activity.running);
            all.remove(&running.id);
            lock(&self.activity.totals).add(elapsed, rows, work, self.error.is_some());
        }
        let slow = Duration::from_millis(running.client.slow_ms.load(Ordering::Relaxed));
        if elapsed >= slow {
            self.activity.note_slow(Slow {
                id: running.id,
                client: Arc::clone(&running.client),
                text: Arc::clone(&running.text),
                began_at: running.began_at,
                elapsed,
                rows,
                work,
                error: self.error.take(),
            });
        }
    }
}

/// The commit of a statement, which is handed to the engine only if the statement was not cancelled before.
#[derive(Clone, Debug, Default)]
pub(crate) struct Commit(Option<Arc<Running>>);

impl Commit {
    /// That of the statement whose work calls this.
    pub(crate) fn of_statement() -> Self {
        Self(STATEMENT.try_with(Arc::clone).ok())
    }

    /// From now on the statement is not cancelled: the caller hands its changes to the engine, and waits for the result.
    ///
    /// # Errors
    /// If the statement was cancelled before.
    pub(crate) fn begin(&self) -> Result<(), SqlError> {
        let Some(running) = &self.0 else {
            return Ok(());
        };
        let begin = |stage: u8| (stage & CANCELLED == 0).then_some(stage | COMMITTING);
        let begun = running
            .stage
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, begin);
        begun.map(drop).map_err(|_| SqlError::Cancelled)
    }

    /// The engine has refused the changes. The statement can be cancelled again.
    pub(crate) fn refused(&self) {
        if let Some(running) = &self.0 {
            running.stage.fetch_and(!COMMITTING, Ordering::AcqRel);
        }
    }
}

/// Lists work that a program does for a session. [`Session::cancel`](crate::Session::cancel) and
/// [`Session::interrupt`](crate::Session::interrupt) cancel it.
#[derive(Debug)]
pub struct Listed(Tracked);

impl Listed {
    pub(crate) fn new(tracked: Tracked) -> Self {
        Self(tracked)
    }

    /// Waits until it is cancelled. One task waits at a time.
    pub async fn cancelled(&self) {
        std::future::poll_fn(|context| match self.0.heed(context) {
            Ok(()) => Poll::Pending,
            Err(_) => Poll::Ready(()),
        })
        .await;
    }

    /// Notes that so many more rows were read or written.
    pub fn add_rows(&self, rows: u64) {
        self.0.add_rows(rows);
    }
}

/// The result of `work`, or an error once the statement is cancelled: then `work` is dropped.
pub(crate) async fn cancellable<T>(
    tracked: &Tracked,
    work: impl Future<Output = Result<T, SqlError>>,
) -> Result<T, SqlError> {
    let mut work = pin!(STATEMENT.scope(Arc::clone(&tracked.running), work));
    std::future::poll_fn(|context| match tracked.heed(context) {
        Ok(()) => work.as_mut().poll(context),
        Err(cancelled) => Poll::Ready(Err(cancelled)),
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn running() -> Arc<Running> {
        let client = Client {
            id: 1,
            began: SystemTime::now(),
            name: Default::default(),
            statements: AtomicU64::new(0),
            slow_ms: AtomicU64::new(0),
        };
        Arc::new(Running::new(2, Arc::new(client), "".into()))
    }

    #[test]
    fn a_commit_is_either_not_begun_or_not_cancelled() {
        let context = Context::from_waker(std::task::Waker::noop());
        let early = running();
        early.cancel();
        assert!(Commit(Some(Arc::clone(&early))).begin().is_err());
        assert!(early.heed(&context).is_err());
        let late = running();
        let commit = Commit(Some(Arc::clone(&late)));
        commit.begin().unwrap();
        late.cancel();
        assert!(late.heed(&context).is_ok());
        // It is run again, which can be cancelled.
        commit.refused();
        assert!(late.heed(&context).is_err() && commit.begin().is_err());
    }
}
