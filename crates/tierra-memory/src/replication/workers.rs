//! Threads that write replicas while the caller writes the master: the thesis's *Threads*, for large writes.
//!
//! A worker takes any replica. It looks for work for a few microseconds after its last and then parks, which
//! costs nothing until it is woken. Workers start with the first write that wants them, and end with their
//! set.
//!
//! Invariant: the thread that hands out work waits for all of it before anything lent to a worker is released,
//! also where something fails ([`PendingJobs`]).

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{Builder, JoinHandle, Thread, current, park};

use super::composition::{CopyBy, WorkerCopy};
use super::template::write_alone;
use crate::lock::lock;
use crate::pool::{PoolError, Replica, ViaPool};

/// How often a thread looks before it parks: some microseconds.
const LOOKS: usize = 200;
/// A worker calls nothing deep.
const STACK_BYTES: usize = 128 << 10;

const FREE: u8 = 0;
const TOLD: u8 = 1;
const DONE: u8 = 2;
const LEAVE: u8 = 3;

/// The workers of a replica set.
#[derive(Debug, Default)]
pub(super) struct Workers {
    crew: Vec<Worker>,
    /// The system gave no more threads: what they would have done, callers do.
    refused: bool,
}

#[derive(Debug)]
struct Worker {
    post: Arc<Post>,
    /// `None` once it has been asked to leave and has left.
    thread: Option<JoinHandle<()>>,
}

/// The job slot of a worker.
#[derive(Debug, Default)]
struct Post {
    state: AtomicU8,
    job: Mutex<Option<Job>>,
    failure: Mutex<Option<PoolError>>,
}

/// One replica of a write.
#[derive(Debug)]
struct Job {
    copy: Replica<ViaPool>,
    streams: bool,
    at: u64,
    bytes: *const [u8],
    caller: Thread,
}

// SAFETY: the bytes are only read, and their lender waits until the job is done.
unsafe impl Send for Job {}

/// What was handed out. Dropped, it waits.
#[must_use = "the replicas are not written before `wait` returns"]
pub(super) struct PendingJobs<'w> {
    workers: &'w [Worker],
    /// Of the replicas that no worker was there for.
    own: Result<(), PoolError>,
}

impl Workers {
    /// Has each replica written by a worker; `bytes` are lent until the answer has been waited for.
    pub(super) fn hand_out<'w>(
        &'w mut self,
        replicas: &[Replica<ViaPool>],
        by: CopyBy,
        at: u64,
        bytes: &'w [u8],
    ) -> PendingJobs<'w> {
        let streams = by == CopyBy::Threads(WorkerCopy::Streams);
        self.hire(replicas.len());
        let count = replicas.len().min(self.crew.len());
        let mut handed = PendingJobs {
            workers: &self.crew[..count],
            own: Ok(()),
        };
        for (worker, copy) in handed.workers.iter().zip(replicas) {
            let job = Job {
                copy: copy.clone(),
                streams,
                at,
                bytes,
                caller: current(),
            };
            worker.tell(job);
        }
        for copy in &replicas[count..] {
            let written = write_alone(copy, streams, at, bytes);
            if handed.own.is_ok() {
                handed.own = written;
            }
        }
        handed
    }

    fn hire(&mut self, count: usize) {
        while self.crew.len() < count && !self.refused {
            let post = Arc::<Post>::default();
            let at_post = Arc::clone(&post);
            let started = Builder::new()
                .name("tierra-replica".to_owned())
                .stack_size(STACK_BYTES)
                .spawn(move || at_post.attend());
            match started {
                Ok(thread) => self.crew.push(Worker {
                    post,
                    thread: Some(thread),
                }),
                Err(error) => {
                    tracing::warn!(%error, "no thread could be started: replicas are written one after the other");
                    self.refused = true;
                }
            }
        }
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        for worker in &mut self.crew {
            worker.post.state.store(LEAVE, Ordering::Release);
            if let Some(thread) = worker.thread.take() {
                thread.thread().unpark();
                // It catches what it does, so there is nothing to hear of.
                let _ = thread.join();
            }
        }
    }
}

impl Worker {
    fn tell(&self, job: Job) {
        *lock(&self.post.job) = Some(job);
        self.post.state.store(TOLD, Ordering::Release);
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
    }
}

impl Post {
    /// What a worker does all its life.
    fn attend(&self) {
        loop {
            // Not what it has done itself, which the caller has yet to see: it may need this core for that.
            match self.await_state(|state| matches!(state, TOLD | LEAVE)) {
                LEAVE => return,
                _ => self.work(),
            }
        }
    }

    fn work(&self) {
        let Some(job) = lock(&self.job).take() else {
            return;
        };
        // SAFETY: lent by a caller who waits for this job to be done.
        let bytes = unsafe { &*job.bytes };
        let written = catch_unwind(AssertUnwindSafe(|| {
            write_alone(&job.copy, job.streams, job.at, bytes)
        }));
        let written = written.unwrap_or_else(|_| {
            let panicked = io::Error::other("a worker panicked");
            Err(job.copy.failed(panicked))
        });
        *lock(&self.failure) = written.err();
        let caller = job.caller.clone();
        drop(job);
        self.state.store(DONE, Ordering::Release);
        caller.unpark();
    }

    /// Returns the state once it is one of those.
    fn await_state(&self, is_awaited: impl Fn(u8) -> bool) -> u8 {
        let mut looks = 0;
        loop {
            let state = self.state.load(Ordering::Acquire);
            if is_awaited(state) {
                return state;
            }
            looks += 1;
            match looks < LOOKS {
                true => std::hint::spin_loop(),
                false => park(),
            }
        }
    }
}

impl PendingJobs<'_> {
    /// Returns when all replicas are durable.
    ///
    /// # Errors
    /// The first failure, after all are done.
    pub(super) fn wait(mut self) -> Result<(), PoolError> {
        let own = std::mem::replace(&mut self.own, Ok(()));
        own.and(self.await_all())
    }

    fn await_all(&mut self) -> Result<(), PoolError> {
        let mut written = Ok(());
        for worker in std::mem::take(&mut self.workers) {
            worker.post.await_state(|state| state != TOLD);
            worker.post.state.store(FREE, Ordering::Release);
            if let Some(failure) = lock(&worker.post.failure).take() {
                written = written.and(Err(failure));
            }
        }
        written
    }
}

impl Drop for PendingJobs<'_> {
    fn drop(&mut self) {
        // Only where the caller failed or panicked; the pools remember a failure.
        let _ = self.await_all();
    }
}
