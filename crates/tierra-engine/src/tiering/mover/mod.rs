//! The mover: a thread that gives near copies to what is read most, and takes them from what is read least.
//!
//! As long as there is room, everything is copied near when it is committed or opened. After that, rounds decide: the reads of
//! each object since the previous round are weighted by the extra cost of far memory, measured on this machine
//! ([`tierra_memory::placement`]), and exchanges that pay are made. The writer publishes them. Snapshots keep the copies that
//! they read; the room of these is free when the last such snapshot is dropped. Copying takes a tenth of the thread's time: if
//! memory or processors are busy, copying and the pauses take longer, so that less is moved.
//!
//! Invariant: moving changes no result, and without reads nothing is moved.

#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tierra_memory::emulation::{self, FarMemory};
use tierra_memory::placement::{Costs, LineTimes, exchanges};
use tierra_memory::{NearCopy, Region};

use crate::error::StorageError;
use crate::manifest::ExtentId;
use crate::storage::Storage;
use crate::table::Table;
use crate::table::catalog::Catalog;
use crate::table::near_object::{NearChange, ObjectName};
use crate::table::requests::{Request, Requests};
use crate::table::version::TableVersion;
use crate::tiering::objects::{CopyError, objects};

/// The time between rounds if something was read; up to [`IDLE_MOST`] times as long if nothing was.
const ROUND: Duration = Duration::from_secs(1);
const IDLE_MOST: u32 = 16;
/// The most bytes copied near in a round, unless one object has more.
const ROUND_BYTES: u64 = 64 << 20;
/// The thread copies for one part in this many of its time.
const COPYING_PART: u32 = 10;
/// The cost of far memory is measured again after this time.
const COSTS_LAST: Duration = Duration::from_secs(600);
/// Objects that are read for that measurement.
const MEASURED_OBJECTS: usize = 64;
/// Near memory that is read for the comparison if no object has a near copy.
const MEASURED_BYTES: usize = 16 << 20;

/// Bytes of stored objects that were moved since the database was opened, because of how they are read. What is copied near when it
/// is committed or opened is not among them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// Copied near.
    pub near_bytes: u64,
    /// Of near copies that gave way to others.
    pub far_bytes: u64,
}

#[derive(Debug, Default)]
struct MovedCounts {
    near_bytes: AtomicU64,
    far_bytes: AtomicU64,
}

/// A handle of the thread.
#[derive(Debug)]
pub(crate) struct Mover {
    shared: Arc<Shared>,
    moved: Arc<MovedCounts>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug, Default)]
struct Shared {
    closing: AtomicBool,
    /// Held while the fields above change, so that no wakeup is lost.
    sleeping: Mutex<()>,
    wake: Condvar,
}

impl Shared {
    fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Relaxed)
    }

    /// Waits for this time, or until the database closes; returns whether it is still open.
    fn pause(&self, time: Duration) -> bool {
        let sleeping = self.sleeping.lock();
        let sleeping = sleeping.unwrap_or_else(PoisonError::into_inner);
        let waited = self
            .wake
            .wait_timeout_while(sleeping, time, |()| !self.is_closing());
        drop(waited);
        !self.is_closing()
    }
}

impl Mover {
    /// Starts the thread. Without it, near copies stay where they are.
    pub(crate) fn start(storage: Arc<Storage>, requests: Requests, catalog: Arc<Catalog>) -> Self {
        let shared = Arc::<Shared>::default();
        let (mut rounds, of_thread) = (Rounds::new(storage, requests, catalog), shared.clone());
        let moved = rounds.moved.clone();
        let thread = std::thread::Builder::new().name("tierra-mover".to_owned());
        let thread = thread
            .spawn(move || rounds.run(&of_thread))
            .inspect_err(|error| tracing::warn!(%error, "no thread could be started that moves copies: near memory keeps what it has"));
        Self {
            shared,
            moved,
            thread: Mutex::new(thread.ok()),
        }
    }

    /// What the thread has moved.
    pub(crate) fn moved(&self) -> Moved {
        // Relaxed, here and below: nothing else depends on it.
        Moved {
            near_bytes: self.moved.near_bytes.load(Ordering::Relaxed),
            far_bytes: self.moved.far_bytes.load(Ordering::Relaxed),
        }
    }

    /// Ends the thread.
    pub(crate) fn close(&self) {
        let sleeping = self.shared.sleeping.lock();
        self.shared.closing.store(true, Ordering::Relaxed);
        drop(sleeping);
        self.shared.wake.notify_all();
        let thread = self
            .thread
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!(
                "the thread that moves copies panicked: near memory keeps what it has; please report it"
            );
        }
    }
}

/// The thread's state between rounds.
pub(crate) struct Rounds {
    storage: Arc<Storage>,
    requests: Requests,
    catalog: Arc<Catalog>,
    costs: Option<Measured>,
    /// Chunks that cannot be copied, because no copy of them is whole.
    unreadable: HashSet<(ExtentId, u64)>,
    moved: Arc<MovedCounts>,
}

/// The cost of far memory, when it was measured, and under which emulation.
struct Measured {
    costs: Costs,
    far: Option<FarMemory>,
    at: Instant,
}

/// An exchange to be made, by names, which keep nothing alive.
#[derive(Default)]
struct Move {
    near: Option<(usize, ObjectName)>,
    far: Vec<(usize, ObjectName)>,
    far_bytes: u64,
}

impl Rounds {
    pub(crate) fn new(storage: Arc<Storage>, requests: Requests, catalog: Arc<Catalog>) -> Self {
        Self {
            storage,
            requests,
            catalog,
            costs: None,
            unreadable: HashSet::new(),
            moved: Arc::default(),
        }
    }

    fn run(&mut self, shared: &Shared) {
        if self.storage.near.limit() == 0 {
            return;
        }
        let (mut last, mut wait) = (Instant::now(), ROUND);
        while shared.pause(wait) {
            #[cfg(test)]
            self.storage.wait_for_tests();
            if !self.has_news() {
                wait = (wait * 2).min(ROUND * IDLE_MOST);
                // A time without any reads does not show what is no longer read.
                last = Instant::now();
                continue;
            }
            // Within a longer wait, reads may have begun only just now.
            let most = if wait > ROUND { ROUND } else { Duration::MAX };
            wait = ROUND;
            let Some(costs) = self.costs() else { continue };
            let elapsed = last.elapsed().min(most);
            last = Instant::now();
            let pause = |copied: Duration| shared.pause(copied * (COPYING_PART - 1));
            if self.round(&costs, elapsed, pause).is_err() {
                // The writer has ended.
                return;
            }
        }
    }

    fn has_news(&self) -> bool {
        self.catalog.tables().iter().any(|table| {
            let current = table.current();
            objects(&current).any(|object| object.uses().has_news())
        })
    }

    /// Runs one round, `elapsed` after the previous one; returns how many objects were copied near. `pause` receives the time
    /// that copying took since its last call, and returns whether to continue.
    pub(crate) fn round(
        &mut self,
        costs: &Costs,
        elapsed: Duration,
        mut pause: impl FnMut(Duration) -> bool,
    ) -> Result<usize, StorageError> {
        let tables = self.catalog.tables();
        let moves = self.moves(&tables, costs, elapsed);
        let mut gone: Vec<Vec<NearChange>> = tables.iter().map(|_| Vec::new()).collect();
        let mut come: Vec<Vec<NearChange>> = tables.iter().map(|_| Vec::new()).collect();
        for (table, object) in moves.iter().flat_map(|one| &one.far) {
            let object = object.clone();
            gone[*table].push(NearChange { object, copy: None });
        }
        self.publish(&tables, gone)?;
        let far_bytes = moves.iter().map(|one| one.far_bytes).sum();
        self.moved.far_bytes.fetch_add(far_bytes, Ordering::Relaxed);
        let (mut count, mut near_bytes) = (0, 0);
        let mut began = Instant::now();
        for (at, object) in moves.into_iter().filter_map(|one| one.near) {
            let mut is_open = true;
            let copy = self.copy(&tables[at], &object, |_| {
                is_open = pause(began.elapsed());
                began = Instant::now();
                is_open
            });
            if let Some(copy) = copy {
                near_bytes += copy.len() as u64;
                let copy = Some(copy);
                come[at].push(NearChange { object, copy });
                count += 1;
            }
            if !is_open {
                break;
            }
        }
        self.publish(&tables, come)?;
        self.moved
            .near_bytes
            .fetch_add(near_bytes, Ordering::Relaxed);
        Ok(count)
    }

    /// The exchanges to be made now.
    fn moves(&self, tables: &[Arc<Table>], costs: &Costs, elapsed: Duration) -> Vec<Move> {
        let versions: Vec<Arc<TableVersion>> = tables.iter().map(|table| table.current()).collect();
        // Collected once: a second look would miss what a reader gives up meanwhile.
        let all = versions.iter().enumerate();
        let all = all.flat_map(|(table, version)| objects(version).map(move |it| (table, it)));
        let all: Vec<_> = all.collect();
        let (mut candidates, mut near_bytes) = (Vec::new(), 0);
        for &(table, ref object) in &all {
            let saved = object.uses().settle(elapsed, costs);
            let mut candidate = object.candidate(tables[table].spec(), saved);
            if !self.unreadable.is_empty()
                && let ObjectName::Chunk { place, .. } = object.name()
                && self.unreadable.contains(&place)
            {
                candidate.preference = Some(false);
            }
            near_bytes += if candidate.is_near {
                candidate.bytes
            } else {
                0
            };
            candidates.push(candidate);
        }
        // Removed copies that snapshots still hold count as free: they are freed when the snapshots end.
        let free_bytes = self.storage.near.limit().saturating_sub(near_bytes);
        let mut left = ROUND_BYTES;
        let exchanges = exchanges(&candidates, free_bytes, costs);
        let exchanges = exchanges.into_iter().take_while(|exchange| {
            let is_first = left == ROUND_BYTES;
            let bytes = candidates[exchange.near].bytes;
            let fits = bytes <= left;
            left = left.saturating_sub(bytes);
            is_first || fits
        });
        let exchanges: Vec<_> = exchanges.collect();
        if exchanges.is_empty() {
            return Vec::new();
        }
        // By candidate: the move it belongs to, and whether it becomes near.
        let mut roles = vec![None; candidates.len()];
        for (number, exchange) in exchanges.iter().enumerate() {
            roles[exchange.near] = Some((number, true));
            exchange
                .far
                .iter()
                .for_each(|at| roles[*at] = Some((number, false)));
        }
        let mut moves: Vec<Move> = exchanges.iter().map(|_| Move::default()).collect();
        for ((table, object), role) in all.iter().zip(roles) {
            match role {
                None => {}
                Some((number, true)) => moves[number].near = Some((*table, object.name())),
                Some((number, false)) => {
                    object.uses().start_cooldown();
                    moves[number].far.push((*table, object.name()));
                    moves[number].far_bytes += object.near_bytes(tables[*table].spec());
                }
            }
        }
        moves
    }

    /// A near copy of an object that still exists.
    fn copy(
        &mut self,
        table: &Arc<Table>,
        name: &ObjectName,
        mut goes_on: impl FnMut(usize) -> bool,
    ) -> Option<Arc<NearCopy>> {
        let current = table.current();
        let object = name.find(&current)?;
        let near = &self.storage.near;
        let copy = || object.copy(table.spec(), near, &mut goes_on);
        match self.storage.read_validated(copy).unwrap_or(Ok(None)) {
            Ok(copy) => copy,
            Err(CopyError::Index(error)) => {
                object.give_up(table.spec(), &error);
                table.ask_for_indexes();
                table.ask_for_index_copies();
                None
            }
            Err(CopyError::Chunk(error)) => {
                // The chunk is open already; its readable blocks can be read.
                tracing::warn!(table = %table.spec().name, %error, "a chunk is damaged: no near copy of it was made");
                if let ObjectName::Chunk { place, .. } = name {
                    self.unreadable.insert(*place);
                }
                None
            }
        }
    }

    fn publish(
        &self,
        tables: &[Arc<Table>],
        changes: Vec<Vec<NearChange>>,
    ) -> Result<(), StorageError> {
        let changes = tables.iter().zip(changes);
        for (table, changes) in changes.filter(|(_, changes)| !changes.is_empty()) {
            let table = table.clone();
            self.requests.ask(|reply| Request::PlaceNear {
                table,
                changes,
                reply,
            })?;
        }
        Ok(())
    }

    /// The extra cost of far memory over near, measured where tables lie; `None` if there is too little to measure.
    fn costs(&mut self) -> Option<Costs> {
        let far = emulation::current();
        let is_known = |known: &&Measured| known.far == far && known.at.elapsed() < COSTS_LAST;
        if let Some(known) = self.costs.as_ref().filter(is_known) {
            return Some(known.costs);
        }
        let tables = self.catalog.tables();
        let versions: Vec<_> = tables.iter().map(|table| table.current()).collect();
        let all = || versions.iter().flat_map(|version| objects(version));
        let step = all().count() / MEASURED_OBJECTS + 1;
        let sampled = || all().step_by(step);
        let stored: Vec<&[u8]> = sampled().map(|object| object.stored()).collect();
        let emulated: Vec<FarMemory> = sampled().filter_map(|it| it.emulated()).collect();
        let copies = || all().filter_map(|object| object.near());
        let copies_step = copies().count() / MEASURED_OBJECTS + 1;
        let copied: Vec<&[u8]> = copies().step_by(copies_step).map(|copy| &***copy).collect();
        let stored = || LineTimes::measure(&stored);
        let stored = self.storage.read_validated(stored).ok().flatten()?;
        let near = LineTimes::measure(&copied).or_else(|| {
            let mut region = Region::near(MEASURED_BYTES).ok()?;
            region.populate().ok()?;
            LineTimes::measure(&[&region])
        })?;
        // Tiers may be unlike, and each object is in one.
        let emulated = emulated.iter().map(|far| stored.emulated(far));
        let emulated: Vec<LineTimes> = emulated.collect();
        let stored = LineTimes::mean(&emulated).unwrap_or(stored);
        let costs = Costs::of(stored, near);
        tracing::debug!(?costs, "what far memory costs");
        self.costs = Some(Measured {
            costs,
            far,
            at: Instant::now(),
        });
        Some(costs)
    }
}
