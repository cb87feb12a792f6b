//! What a connection waits for while a statement runs: the statement, its time limit, a request to cancel it, and the client's end.
//!
//! So a client that was killed stops its query. What is told to end is still waited for: it may have changed rows before it heard.

use std::future::{pending, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tierra_sql::{Listed, SqlError};
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::cancel::Current;
use crate::connection::{Connection, Stop};
use crate::error::Fault;
use crate::wire::frame::Message;
use crate::wire::{MESSAGE_MOST_BYTES, Wire};

/// The time between two attempts to stop a statement, which may be between two of its parts.
const AGAIN: Duration = Duration::from_millis(50);

/// Why a statement is to end before it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Cancelled,
    Late,
    Gone,
}

impl From<End> for Stop {
    fn from(end: End) -> Self {
        let message = match end {
            End::Gone => return Self::Gone,
            End::Late => "canceling statement due to statement timeout",
            End::Cancelled => "canceling statement due to user request",
        };
        Fault::new("57014", message).into()
    }
}

/// Waits for a time; without one, forever. Its timer is made when it is waited for, which is seldom: most statements are done at once,
/// and `select!` makes the futures of all its branches, also of those that it does not wait for.
pub(crate) async fn until(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => pending().await,
    }
}

/// Waits for what ends a statement. Nothing of what the client sends meanwhile is lost.
async fn end(wire: &mut Wire, current: &Current, deadline: Option<Instant>) -> End {
    tokio::select! {
        biased;
        () = wire.gone() => End::Gone,
        () = current.cancelled() => End::Cancelled,
        () = until(deadline) => End::Late,
    }
}

impl Connection {
    /// Starts the time of a statement.
    pub(crate) fn start_clock(&mut self) {
        let most = self.settings.statement_timeout();
        self.deadline = most.map(|most| Instant::now() + most);
    }

    async fn end(&mut self) -> End {
        end(&mut self.wire, &self.key.current, self.deadline).await
    }

    /// The result of `work`, a part of a statement of the session.
    pub(crate) async fn watched<T>(
        &mut self,
        work: impl Future<Output = Result<T, SqlError>>,
    ) -> Result<T, Stop> {
        let Self {
            wire,
            session,
            key,
            deadline,
            shared,
            ..
        } = self;
        let mut work = pin!(work);
        // The tasks that it starts run where queries do.
        let mut work = poll_fn(move |context| {
            let _within = shared.queries.enter();
            work.as_mut().poll(context)
        });
        let mut ended = None;
        loop {
            tokio::select! {
                biased;
                done = &mut work => return match (done, ended) {
                    (_, Some(End::Gone)) => Err(Stop::Gone),
                    (Err(SqlError::Cancelled), ended) => {
                        Err(ended.unwrap_or(End::Cancelled).into())
                    }
                    (done, _) => Ok(done?),
                },
                found = end(wire, &key.current, *deadline), if ended.is_none() => {
                    ended = Some(found);
                    session.interrupt();
                }
                () = until(ended.map(|_| Instant::now() + AGAIN)) => session.interrupt(),
            }
        }
    }

    /// The result of `work`, which is not of the session, changes nothing and soon ends by itself: it is not waited for.
    pub(crate) async fn watched_alone<T>(
        &mut self,
        work: impl Future<Output = Result<T, Fault>>,
    ) -> Result<T, Stop> {
        let mut work = pin!(work);
        tokio::select! {
            biased;
            done = &mut work => Ok(done?),
            end = self.end() => Err(end.into()),
        }
    }

    /// The result of `work`, which the session lists and does not run, and which heeds `stop` as long as nothing is changed.
    pub(crate) async fn watched_to_its_end<T>(
        &mut self,
        listed: &Listed,
        stop: &AtomicBool,
        work: impl Future<Output = Result<T, Fault>>,
    ) -> Result<T, Stop> {
        let mut work = pin!(work);
        let mut end = None;
        loop {
            tokio::select! {
                biased;
                done = &mut work => return match (done, end) {
                    (_, Some(End::Gone)) => Err(Stop::Gone),
                    (Err(fault), Some(end)) if fault.code == Fault::CANCELLED => Err(end.into()),
                    (done, _) => Ok(done?),
                },
                found = self.end_of(listed), if end.is_none() => {
                    end = Some(found);
                    stop.store(true, Ordering::Relaxed);
                }
            }
        }
    }

    /// As [`Connection::end`], of work that the session lists.
    async fn end_of(&mut self, listed: &Listed) -> End {
        tokio::select! {
            biased;
            () = listed.cancelled() => End::Cancelled,
            end = self.end() => end,
        }
    }

    /// The result of `work`, which may be dropped at any time.
    pub(crate) async fn watched_for<T>(
        &mut self,
        listed: &Listed,
        work: impl Future<Output = T>,
    ) -> Result<T, Stop> {
        tokio::select! {
            biased;
            done = work => Ok(done),
            end = self.end_of(listed) => Err(end.into()),
        }
    }

    /// The next message of a COPY.
    pub(crate) async fn next_of_copy(&mut self, listed: &Listed) -> Result<Message, Stop> {
        let current = Arc::clone(&self.key.current);
        let deadline = self.deadline;
        tokio::select! {
            biased;
            () = listed.cancelled() => Err(End::Cancelled.into()),
            () = current.cancelled() => Err(End::Cancelled.into()),
            () = until(deadline) => Err(End::Late.into()),
            message = self.wire.next(MESSAGE_MOST_BYTES) => Ok(message?),
        }
    }

    /// Sends what waits if it is much. A client that does not read within the statement's time is given up: it would be in the middle
    /// of a message.
    pub(crate) async fn send_if_full(&mut self) -> Result<(), Stop> {
        match self.deadline {
            None => Ok(self.wire.send_if_full().await?),
            Some(deadline) => match timeout_at(deadline, self.wire.send_if_full()).await {
                Ok(sent) => Ok(sent?),
                Err(_) => Err(Stop::Gone),
            },
        }
    }
}
