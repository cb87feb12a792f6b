//! Watches the real memory of the process while queries run.
//!
//! Operators account only for memory that they know of: windows keep whole partitions, and results of expressions have no
//! account. So a thread checks every few milliseconds by how much the process's own memory has grown since no query ran.
//! If that exceeds the limits of the sessions with running queries plus [`MARGIN_BYTES`], the query that began last ends
//! with an error. Near copies do not count. Nothing counts while a statement writes: inserted rows are not part of the
//! limit.
//!
//! Memory that is freed but kept by the program's allocator counts, since the system cannot use it. The program may say how
//! to give it back ([`release_memory_with`]). That is done before a query is ended, and when no query has run for a second.

use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::resources_datafusion_err;
use datafusion::error::Result;
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream};
use futures::Stream;
use futures::task::AtomicWaker;
use tierra_engine::Database;
use tierra_memory::Size;

use super::QueryMemory;

/// Growth allowed beyond the limit: for batches on their way between operators, and for memory that the allocator keeps.
const MARGIN_BYTES: u64 = 128 << 20;
/// Time between two checks.
const PACE: Duration = Duration::from_millis(5);
/// The same once less than [`MARGIN_BYTES`] are left. A thread touches new memory at some 2 MiB in a millisecond, so what
/// comes between two checks stays a small part of the margin.
const FAST_PACE: Duration = Duration::from_millis(1);
/// Checks without a query before the thread sleeps until it is woken. So queries that follow each other do not pay for waking it.
const IDLE: u32 = 200;
/// Checks between ending one query and ending the next, so that memory can be released.
const GRACE: u32 = 20;
/// Bytes of a page in `/proc/self/statm`.
const STATM_PAGE_BYTES: u64 = 4096;

/// A query that is watched.
struct Watch {
    memory: Arc<QueryMemory>,
    database: Arc<Database>,
    /// The growth of the process when the query was ended.
    grown_bytes: AtomicU64,
    waker: AtomicWaker,
}

/// The memory of the process when no query ran.
#[derive(Default)]
struct Base {
    own_bytes: u64,
    measured: Option<Instant>,
    /// Set by the first check.
    near_bytes: Option<u64>,
}

#[derive(Default)]
struct Queries {
    running: Vec<Arc<Watch>>,
    writing: usize,
    base: Base,
    has_thread: bool,
    /// Whether the thread checks, and is not waiting for a query.
    is_awake: bool,
}

static QUERIES: Mutex<Queries> = Mutex::new(Queries {
    running: Vec::new(),
    writing: 0,
    base: Base {
        own_bytes: 0,
        measured: None,
        near_bytes: None,
    },
    has_thread: false,
    is_awake: false,
});
static BEGUN: Condvar = Condvar::new();

fn lock() -> MutexGuard<'static, Queries> {
    QUERIES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The process's own resident bytes, without mapped files and pools.
fn own_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let mut pages = text.split(' ').skip(1).map(|pages| pages.parse::<u64>());
    let (resident, shared) = (pages.next()?.ok()?, pages.next()?.ok()?);
    Some(resident.saturating_sub(shared) * STATM_PAGE_BYTES)
}

/// The rows of a query that is ended if it makes the process too large.
pub(crate) struct Watched {
    schema: SchemaRef,
    rows: Option<SendableRecordBatchStream>,
    watch: Arc<Watch>,
}

impl Watched {
    pub(crate) fn new(
        rows: SendableRecordBatchStream,
        memory: &Arc<QueryMemory>,
        database: &Arc<Database>,
    ) -> Self {
        let watch = Arc::new(Watch {
            memory: Arc::clone(memory),
            database: Arc::clone(database),
            grown_bytes: AtomicU64::new(0),
            waker: AtomicWaker::new(),
        });
        begin(&watch);
        Self {
            schema: rows.schema(),
            rows: Some(rows),
            watch,
        }
    }
}

fn begin(watch: &Arc<Watch>) {
    let mut queries = lock();
    let is_recent = |measured: Instant| measured.elapsed() < PACE;
    if queries.running.is_empty() && !queries.base.measured.is_some_and(is_recent) {
        queries.base = Base {
            own_bytes: own_bytes().unwrap_or(u64::MAX),
            measured: Some(Instant::now()),
            near_bytes: None,
        };
    }
    queries.running.push(Arc::clone(watch));
    if !queries.has_thread {
        let thread = std::thread::Builder::new().name("tierra-memory".to_string());
        queries.has_thread = thread.spawn(look).is_ok();
    } else if !queries.is_awake {
        BEGUN.notify_one();
    }
}

impl Watched {
    fn end(&mut self) {
        self.rows = None;
        lock()
            .running
            .retain(|other| !Arc::ptr_eq(other, &self.watch));
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.end();
    }
}

impl Stream for Watched {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.watch.waker.register(context.waker());
        let grown = self.watch.grown_bytes.load(Ordering::Relaxed);
        if grown > 0 {
            // Stops the query, which releases its memory.
            return Poll::Ready(self.rows.take().map(|_| {
                Err(resources_datafusion_err!(
                    "the query made the process grow by {}, of tierra.query_memory = {}: \
                     SET tierra.query_memory to more, or ask for less at a time",
                    Size(grown),
                    Size(self.watch.memory.limit() as u64)
                ))
            }));
        }
        let next = match &mut self.rows {
            Some(rows) => rows.as_mut().poll_next(context),
            None => Poll::Ready(None),
        };
        if matches!(next, Poll::Ready(None)) {
            self.end();
        }
        next
    }
}

impl RecordBatchStream for Watched {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

/// A statement that writes: no limit counts its memory.
pub(crate) struct Writing;

impl Writing {
    pub(crate) fn begin() -> Self {
        lock().writing += 1;
        Self
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        let mut queries = lock();
        queries.writing -= 1;
        // The memory that it leaves, tails and dictionaries, stays.
        let now = own_bytes().unwrap_or(u64::MAX);
        queries.base.own_bytes = queries.base.own_bytes.max(now);
    }
}

/// Gives freed memory back to the system.
static RELEASE: OnceLock<fn()> = OnceLock::new();

/// Says how the program's allocator gives freed memory back to the system, for an allocator that keeps it. `release` is
/// called when no query has run for a second, and before a query is ended because the process has grown. The first call
/// counts.
///
/// The `tierra` binary sets mimalloc's `purge_delay` to two seconds, so that a query finds the memory of the one before it,
/// and passes `mi_collect(true)` here.
pub fn release_memory_with(release: fn()) {
    RELEASE.get_or_init(|| release);
}

fn release() {
    if let Some(release) = RELEASE.get() {
        release();
    }
}

/// Checks until the process ends, and sleeps after a while without a query.
fn look() {
    let (mut grace, mut idle) = (0_u32, 0);
    loop {
        let mut queries = lock();
        if queries.running.is_empty() && idle <= IDLE {
            drop(queries);
            match idle {
                IDLE => release(),
                _ => std::thread::sleep(PACE),
            }
            idle += 1;
            continue;
        }
        idle = 0;
        while queries.running.is_empty() {
            queries.is_awake = false;
            queries = BEGUN.wait(queries).unwrap_or_else(PoisonError::into_inner);
        }
        queries.is_awake = true;
        if queries.base.near_bytes.is_none() {
            queries.base.near_bytes = Some(queries.near_bytes());
        }
        let mut pace = PACE;
        if grace == 0 && queries.writing == 0 {
            let mut growth = queries.growth();
            if growth.is_some_and(Growth::is_beyond) {
                drop(queries);
                release();
                queries = lock();
                growth = queries.growth();
            }
            if let Some(growth) = growth {
                if growth.is_beyond()
                    && let Some(last) = queries.running.pop()
                {
                    last.grown_bytes
                        .store(growth.grown_bytes, Ordering::Relaxed);
                    last.waker.wake();
                    grace = GRACE;
                } else if growth.grown_bytes.saturating_add(MARGIN_BYTES) > growth.most_bytes {
                    pace = FAST_PACE;
                }
            }
        } else {
            grace = grace.saturating_sub(1);
        }
        drop(queries);
        std::thread::sleep(pace);
    }
}

/// How much the process has grown, and how much it may.
#[derive(Clone, Copy)]
struct Growth {
    grown_bytes: u64,
    most_bytes: u64,
}

impl Growth {
    fn is_beyond(self) -> bool {
        self.grown_bytes > self.most_bytes
    }
}

impl Queries {
    /// The most bytes of near memory that a queried database uses.
    fn near_bytes(&self) -> u64 {
        let near = self.running.iter().map(|watch| watch.database.near_bytes());
        near.max().unwrap_or(0)
    }

    /// The growth of the process, less that of near copies.
    fn growth(&self) -> Option<Growth> {
        let mut grown_bytes = own_bytes()?.checked_sub(self.base.own_bytes)?;
        let mut seen: Vec<*const QueryMemory> = Vec::new();
        let mut most_bytes = MARGIN_BYTES;
        for watch in &self.running {
            let memory = Arc::as_ptr(&watch.memory);
            if !seen.contains(&memory) {
                seen.push(memory);
                most_bytes = most_bytes.saturating_add(watch.memory.limit() as u64);
            }
        }
        // The database is asked only if the result depends on it.
        if grown_bytes > most_bytes {
            let near = self.near_bytes();
            let near = near.saturating_sub(self.base.near_bytes.unwrap_or(0));
            grown_bytes = grown_bytes.saturating_sub(near);
        }
        Some(Growth {
            grown_bytes,
            most_bytes,
        })
    }
}
