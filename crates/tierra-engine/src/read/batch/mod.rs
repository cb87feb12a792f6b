//! Batches: scans of the same columns of a table that run at the same time share one pass over its segments.
//!
//! ```text
//! pass   .. piece 7 | 8 | 9 | 10 | 11 ..        a piece: 8 blocks of one segment, all columns
//!              ▲ window of pieces just read ▲
//! query A      took 7 8 9 10, begins 11         reads its blocks, unpacks whole columns, leaves both in the window
//! query B      took 7 8, takes 9, then 10       finds lines in the cache, and columns unpacked
//! query C      joined at 9; takes 9 .. last, then 0 .. 8 with others that miss them, or alone
//! ```
//! A query takes pieces from the window that others have read, oldest first. Only if there is none does it begin another: the next
//! that it still needs behind the piece that was begun last, going round at the end. So all members read about the same place,
//! and each sees every piece of its snapshot once.
//!
//! **No member waits for another.** A member that falls behind loses pieces of the window, which has a size, and reads them itself
//! later. A member that is ahead of others sleeps until they have taken what it has read ([`Next::OthersFirst`]), unless they
//! take nothing for some milliseconds. A query that is cancelled, fails or stops for memory just leaves; the pieces that it was reading are read by others.
//!
//! **What is shared:** the bytes of each block, which are fetched by the member that reads it first and lie in the cache for those that
//! follow within the window, and the columns of a piece, unpacked, for queries that take all of its rows. Queries with conditions
//! test and unpack packed blocks themselves, each by its own conditions: blocks that its minima and maxima exclude it does not
//! read. The tail, which lies in near memory unpacked, is read by everybody for itself.
//!
//! Snapshots differ, segments do not: a piece is named by its segment's number and its first block, and a segment's rows never change.
//! A member takes only pieces of segments that its own snapshot has.
//!
//! Invariant: a member takes each piece of its snapshot once, whichever member reads it; values reach others only after the read was validated.

mod ahead;
mod needs;
mod pass;
mod piece;
mod pieces;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

pub(crate) use self::needs::at_a_time;
pub(crate) use self::piece::Share;
pub(crate) use self::pieces::{PIECE_BLOCKS, Pieces};

pub(crate) use self::pass::Next;

use self::pass::{Pass, QUERIES_MOST};

/// Pieces from which on a scan is worth sharing: a shorter one is over before another joins.
const PIECES_LEAST: usize = 8;

/// The batches of a database. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Batches(Arc<Mutex<HashMap<u64, Vec<Weak<Pass>>>>>);

/// How large a batch becomes, and how long it waits for its queries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchLimits {
    /// The most queries of a batch; 1: none is shared. More than 64 count as 64.
    pub queries: usize,
    /// How long the first query waits for others.
    pub wait: Duration,
}

impl Default for BatchLimits {
    /// Queries join those that run; none waits.
    fn default() -> Self {
        Self {
            queries: QUERIES_MOST,
            wait: Duration::ZERO,
        }
    }
}

impl Batches {
    /// Joins a scan of `columns` to the batch of a table that shares most of them, at least half, or begins one. `None` if a batch
    /// is of no use.
    pub(crate) fn join(
        &self,
        table: u64,
        pieces: Pieces,
        columns: Vec<usize>,
        limits: BatchLimits,
    ) -> Option<Arc<Member>> {
        let queries_most = limits.queries.min(QUERIES_MOST);
        if queries_most < 2 || pieces.len() < PIECES_LEAST || columns.is_empty() {
            return None;
        }
        // Nothing between two changes that belong together panics.
        let mut tables = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        tables.retain(|_, passes| {
            passes.retain(|pass| pass.strong_count() > 0);
            !passes.is_empty()
        });
        let passes = tables.entry(table).or_default();
        let alive = passes.iter().filter_map(Weak::upgrade);
        let shared = alive.map(|pass| (pass.shared(&columns, queries_most), pass));
        let best = shared.max_by_key(|(shared, _)| *shared);
        let best = best.filter(|(shared, _)| shared * 2 >= columns.len());
        let pass = best.map_or_else(
            || {
                let pass = Arc::new(Pass::default());
                passes.push(Arc::downgrade(&pass));
                pass
            },
            |(_, pass)| pass,
        );
        let joined = pass.join(pieces, columns, queries_most, limits.wait);
        if let Some(opens) = joined.opens {
            open_at(&pass, opens);
        }
        Some(Arc::new(Member {
            pass,
            at: joined.at,
        }))
    }
}

/// Opens a batch in time, whatever executor its queries run on.
fn open_at(pass: &Arc<Pass>, opens: Instant) {
    let waiting = Arc::downgrade(pass);
    let thread = std::thread::Builder::new().name("tierra-batch".to_owned());
    let spawned = thread.spawn(move || {
        std::thread::sleep(opens.saturating_duration_since(Instant::now()));
        if let Some(pass) = waiting.upgrade() {
            pass.open();
        }
    });
    if let Err(error) = spawned {
        tracing::warn!(%error, "no thread for a batch to wait: it begins at once");
        pass.open();
    }
}

/// A scan's part in a batch. Dropping it leaves the batch.
#[derive(Debug)]
pub(crate) struct Member {
    pass: Arc<Pass>,
    at: usize,
}

impl Member {
    /// What one of the scan's threads does next.
    pub(crate) fn take(&self) -> Next {
        self.pass.take(self.at)
    }

    /// Whether a thread that was told to let [others run first](Next::OthersFirst) may ask again. If not, the waker is called then.
    pub(crate) fn poll_others(&self, context: &mut Context<'_>) -> Poll<()> {
        self.pass.poll_others(self.at, context)
    }

    /// How many pieces are not taken.
    pub(crate) fn left(&self) -> usize {
        self.pass.left(self.at)
    }

    /// The most queries that were in the batch while this one was.
    pub(crate) fn queries(&self) -> usize {
        self.pass.queries(self.at)
    }

    /// Whether the batch has begun. If not, the waker is called then.
    pub(crate) fn poll_open(&self, context: &mut Context<'_>) -> Poll<()> {
        self.pass.poll_open(context)
    }

    /// One of the scan's threads may take pieces. Without any, others do not keep pieces for this scan.
    pub(crate) fn at_work(self: &Arc<Self>) -> AtWork {
        self.pass.begin(self.at);
        AtWork(self.clone())
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.pass.leave(self.at);
    }
}

/// Held by a thread of a scan as long as it may take pieces.
#[derive(Debug)]
pub(crate) struct AtWork(Arc<Member>);

impl Drop for AtWork {
    fn drop(&mut self) {
        self.0.pass.pause(self.0.at);
    }
}
