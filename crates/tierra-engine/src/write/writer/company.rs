//! Which commits become a group: those that wait, and where a device is written also those that are about to come.
//!
//! Sessions whose commits were one group are answered together, and come again together. If the first of them were written at once,
//! the others would wait for it: two writes of the device in place of one. So whoever comes first waits for as many as were seen
//! last time, for half as long as their write took. A session that was alone last time waits for nobody.
//!
//! Invariant: nobody is waited for where all logs are memory: to write them takes less time than to wait.

use std::time::{Duration, Instant};

use super::group::GROUP_COMMITS_MOST;
use super::state::Writer;
use crate::table::requests::{Commit, Queue, Request};

/// The longest time for which others are waited for. A processor is busy with it, unless it has other threads to run.
const WAIT_MOST: Duration = Duration::from_micros(100);

/// The commits that were seen when a device was written last.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Company {
    /// Those that were written, and those that came meanwhile.
    commits: usize,
    /// What the write took.
    took: Duration,
}

impl Company {
    /// Whether a commit that goes to a device will not be alone.
    pub(super) fn is_expected(&self) -> bool {
        self.commits > 1
    }
}

impl Writer {
    /// A commit, and those that are written with it.
    pub(super) fn with_others(&mut self, commit: Commit, queue: &Queue) -> Vec<Commit> {
        let wait = (self.company.took / 2).min(WAIT_MOST);
        let waits = self.company.is_expected() && self.writes_to_device(&commit);
        if waits {
            wait_for(self.company.commits - 1, queue, Instant::now() + wait);
        }
        let (commits, other) = take_commits(commit, queue);
        self.put_back = other;
        commits
    }

    /// Notes how many commits there were when a device was written.
    pub(super) fn note_company(&mut self, written: usize, took: Duration) {
        // A recording must not depend on the clock.
        if self.storage.options.recorder.is_none() {
            self.company = Company {
                commits: written + self.requests.waiting(),
                took,
            };
        }
    }

    fn writes_to_device(&self, commit: &Commit) -> bool {
        let mut tables = commit.changes.iter().map(|change| change.table.id());
        tables.any(|table| !self.is_log_in_memory(table))
    }
}

/// Waits until so many requests are in the queue.
fn wait_for(requests: usize, queue: &Queue, until: Instant) {
    while queue.waiting() < requests && Instant::now() < until {
        // Sessions whose answers have just been sent are to run. None of them has to wake this thread.
        std::thread::yield_now();
    }
}

/// A commit and those behind it, and the first request that is none.
fn take_commits(first: Commit, queue: &Queue) -> (Vec<Commit>, Option<Request>) {
    let mut commits = vec![first];
    while commits.len() < GROUP_COMMITS_MOST {
        match queue.try_next() {
            Ok(Request::Commit(commit)) => commits.push(commit),
            Ok(other) => return (commits, Some(other)),
            Err(_) => break,
        }
    }
    (commits, None)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc::sync_channel;

    use super::super::shared::SharedWriter;
    use super::*;
    use crate::table::requests::Requests;

    fn commit() -> Commit {
        let (reply, _) = sync_channel(1);
        Commit {
            changes: Vec::new(),
            reply,
        }
    }

    #[test]
    fn commits_that_wait_are_taken_up_to_another_request() {
        let (requests, queue) = Requests::new(Arc::<SharedWriter>::default());
        for request in [
            Request::Commit(commit()),
            Request::Commit(commit()),
            Request::GoOn,
            Request::Commit(commit()),
        ] {
            requests.send(request);
        }
        let (commits, other) = take_commits(commit(), &queue);
        assert_eq!((commits.len(), requests.waiting()), (3, 1));
        assert!(matches!(other, Some(Request::GoOn)));
    }

    #[test]
    fn as_many_are_waited_for_as_are_expected_and_no_longer_than_that() {
        const LONG: Duration = Duration::from_secs(60);
        let (requests, queue) = Requests::new(Arc::<SharedWriter>::default());
        let begun = Instant::now();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..2 {
                    std::thread::sleep(Duration::from_millis(20));
                    requests.send(Request::Commit(commit()));
                }
            });
            wait_for(2, &queue, begun + LONG);
        });
        assert_eq!(take_commits(commit(), &queue).0.len(), 3);
        assert!(begun.elapsed() < LONG);
        // Nobody comes.
        let until = Instant::now() + Duration::from_millis(20);
        wait_for(1, &queue, until);
        assert!(Instant::now() >= until);
    }

    #[test]
    fn only_who_was_not_alone_expects_others() {
        let company = |commits| Company {
            commits,
            took: Duration::from_millis(1),
        };
        assert!(!Company::default().is_expected() && !company(1).is_expected());
        assert!(company(2).is_expected());
    }
}
