//! The scrubber: a thread that continuously and slowly checks everything a database stores, and at once what was just lost.
//!
//! A pass reads every copy of every extent at the pace of [`DatabaseOptions::scrub_bytes_per_s`](crate::DatabaseOptions),
//! ordered by extent number, so that newly written extents come last. It begins at least [`PASS_LEAST`] after the previous one
//! began. Its position and start are stored in the file `scrub` of the database's directory, because processes may live shorter
//! than a pass.
//!
//! Invariant: it keeps no extent allocated except the one that it reads; with a pace of 0 it reads only what was lost.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tierra_memory::directory::Directory;
use tierra_memory::faults::Stop;

use super::{self as scrub, ScrubOptions, ScrubReport};
use crate::manifest::{ExtentId, TableEntry};
use crate::storage::Storage;
use crate::storage::directory::SCRUB_FILE;
use crate::storage::extent::OwnedExtent;
use crate::storage::revalidation::needs_revalidation;
use crate::table::catalog::Catalog;
use crate::table::requests::{Request, Requests, TableExtents};

/// Default bytes per second: less than a hundredth of what checksums take of one core, and about 3 % of the bandwidth of the
/// slowest modules.
pub const SCRUB_BYTES_PER_S: u64 = 64 << 20;
/// The least time from the beginning of a pass to that of the next.
const PASS_LEAST: Duration = Duration::from_secs(24 * 3600);
/// Interval at which its position is stored.
const REMEMBER_EVERY: Duration = Duration::from_secs(60);
/// Interval at which the lengths of files are checked, also between passes.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// The progress of the scrubber.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScrubProgress {
    /// The most bytes per second; 0: it only repairs what was lost.
    pub bytes_per_s: u64,
    /// Whether a pass is running.
    pub is_running: bool,
    /// Bytes read in this pass, or the last one, since the database was opened.
    pub pass_bytes: u64,
    /// Bytes that were left to read when that count began.
    pub pass_total_bytes: u64,
    /// When the current pass, or the last one, began, in any process.
    pub pass_began: Option<SystemTime>,
    /// Passes that ended since the database was opened.
    pub passes: u64,
    /// Copies of extents found damaged since the database was opened.
    pub damaged_copies: u64,
    /// Those of them that were repaired.
    pub repaired_copies: u64,
}

/// The pace of one database's scrubber, which can be changed at any time. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct ScrubPace(Arc<Pace>);

#[derive(Debug, Default)]
struct Pace {
    bytes_per_s: AtomicU64,
    opened_with: u64,
}

impl ScrubPace {
    /// The pace with which a database is opened.
    pub(crate) fn new(bytes_per_s: u64) -> Self {
        Self(Arc::new(Pace {
            bytes_per_s: AtomicU64::new(bytes_per_s),
            opened_with: bytes_per_s,
        }))
    }

    /// Sets the bytes per second from the next extent on. 0 pauses a pass; it continues when there is a pace again.
    pub fn set(&self, bytes_per_s: u64) {
        // Relaxed, here and below: nothing else depends on it.
        self.0.bytes_per_s.store(bytes_per_s, Ordering::Relaxed);
    }

    /// The current bytes per second.
    pub fn get(&self) -> u64 {
        self.0.bytes_per_s.load(Ordering::Relaxed)
    }

    /// Restores the pace with which the database was opened.
    pub fn reset(&self) {
        self.set(self.0.opened_with);
    }
}

/// The state that is stored between processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct State {
    began: SystemTime,
    /// The number of the next extent to read; `None` once the pass is over.
    next: Option<ExtentId>,
}

#[derive(Debug, Default)]
struct Shared {
    told: Mutex<Told>,
    wake: Condvar,
    stop: Stop,
}

#[derive(Debug, Default)]
struct Told {
    closing: bool,
    has_losses: bool,
    progress: ScrubProgress,
}

/// A handle of the thread.
#[derive(Debug)]
pub(crate) struct Scrubber {
    shared: Arc<Shared>,
    pace: ScrubPace,
    thread: Mutex<Option<JoinHandle<()>>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Plain values: none is ever half written.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Scrubber {
    /// Starts the thread. Without it, only data that is read is checked.
    pub(crate) fn start(
        storage: Arc<Storage>,
        requests: Requests,
        catalog: Arc<Catalog>,
        bytes_per_s: u64,
    ) -> Self {
        let shared = Arc::<Shared>::default();
        let pace = ScrubPace::new(bytes_per_s);
        // Files that were truncated when the database was opened.
        lock(&shared.told).has_losses = needs_revalidation();
        let sleeper = shared.clone();
        storage.losses().listen(move || {
            lock(&sleeper.told).has_losses = true;
            sleeper.wake.notify_all();
        });
        let work = Work {
            path: storage.dir.join(SCRUB_FILE),
            storage,
            requests,
            catalog,
            shared: shared.clone(),
            pace: pace.clone(),
        };
        let thread = std::thread::Builder::new().name("tierra-scrubber".to_owned());
        let thread = thread
            .spawn(move || work.run())
            .inspect_err(|error| tracing::warn!(%error, "no thread could be started for the scrubber: nothing is checked in the background"));
        Self {
            shared,
            pace,
            thread: Mutex::new(thread.ok()),
        }
    }

    pub(crate) fn progress(&self) -> ScrubProgress {
        ScrubProgress {
            bytes_per_s: self.pace.get(),
            ..lock(&self.shared.told).progress
        }
    }

    pub(crate) fn pace(&self) -> &ScrubPace {
        &self.pace
    }

    /// Ends the thread.
    pub(crate) fn close(&self) {
        lock(&self.shared.told).closing = true;
        self.shared.wake.notify_all();
        self.shared.stop.stop();
        let thread = lock(&self.thread).take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!(
                "the scrubber panicked: nothing is checked in the background any more; please report it"
            );
        }
    }
}

/// An extent that the pass has yet to read, while anything else references it.
struct Ahead {
    table: Arc<TableEntry>,
    extent: Weak<OwnedExtent>,
}

struct Work {
    path: PathBuf,
    storage: Arc<Storage>,
    requests: Requests,
    catalog: Arc<Catalog>,
    shared: Arc<Shared>,
    pace: ScrubPace,
}

impl Work {
    fn run(&self) {
        let mut state = read_state(&self.path).unwrap_or_else(|| State {
            // Nothing is older than the first pool.
            began: self.created_at().unwrap_or_else(SystemTime::now),
            next: None,
        });
        loop {
            lock(&self.shared.told).progress.pass_began = Some(state.began);
            let age = state.began.elapsed().unwrap_or(Duration::ZERO);
            let wait = match state.next {
                _ if self.pace.get() == 0 || self.storage.read_only().is_some() => Duration::MAX,
                Some(_) => Duration::ZERO,
                None => PASS_LEAST.saturating_sub(age),
            };
            match self.wait(wait.min(LOOK_EVERY)) {
                Woken::Closing => return,
                Woken::Losses => self.restore_lost(),
                Woken::Due if wait > LOOK_EVERY => self.storage.check_files(),
                Woken::Due => {
                    self.storage.check_files();
                    if state.next.is_none() {
                        state = State {
                            began: SystemTime::now(),
                            next: Some(ExtentId(0)),
                        };
                    }
                    self.pass(&mut state);
                    write_state(&self.path, &state);
                }
            }
        }
    }

    fn created_at(&self) -> Option<SystemTime> {
        let tiers = self.storage.tiers();
        let pools = tiers.open.iter().map(|tier| tier.pool.path());
        let created = pools.filter_map(|path| path.metadata().ok()?.created().ok());
        created.min()
    }

    /// Waits until there is something to do.
    fn wait(&self, most: Duration) -> Woken {
        let told = lock(&self.shared.told);
        let idle = |told: &mut Told| !told.closing && !told.has_losses;
        let waited = self.shared.wake.wait_timeout_while(told, most, idle);
        let (mut told, _) = waited.unwrap_or_else(PoisonError::into_inner);
        match () {
            () if told.closing => Woken::Closing,
            () if std::mem::take(&mut told.has_losses) => Woken::Losses,
            () => Woken::Due,
        }
    }

    /// Continues the pass from the state's position, to its end or until there is something else to do.
    fn pass(&self, state: &mut State) {
        match self.requests.ask(|reply| Request::CheckOwn {
            // Missing tiers may come back: nothing that diverges from them may be published before a requested write.
            repair: self.storage.is_settled(),
            reply,
        }) {
            Ok(Ok(damaged)) => {
                let progress = &mut lock(&self.shared.told).progress;
                progress.damaged_copies += damaged;
                progress.repaired_copies += damaged;
            }
            Ok(Err(error)) => {
                tracing::error!(%error, "the scrubber could not check manifests and logs");
            }
            Err(_) => return,
        }
        let Ok(tables) = self.requests.ask(|reply| Request::Extents { reply }) else {
            return;
        };
        let from = state.next.unwrap_or(ExtentId(0));
        let mut ahead = Vec::new();
        let mut total = 0;
        for TableExtents { entry, extents } in tables {
            for extent in extents.iter().filter(|extent| extent.id() >= from) {
                total += extent.len_bytes() * extent.copies().len() as u64;
                let (table, extent_id) = (entry.clone(), extent.id());
                let extent = Arc::downgrade(extent);
                ahead.push((extent_id, Ahead { table, extent }));
            }
        }
        ahead.sort_by_key(|(id, _)| *id);
        {
            let progress = &mut lock(&self.shared.told).progress;
            progress.is_running = true;
            (progress.pass_bytes, progress.pass_total_bytes) = (0, total);
        }
        let mut remembered = SystemTime::now();
        let mut is_done = true;
        for (id, Ahead { table, extent }) in ahead {
            let pace = self.pace.get();
            if self.is_wanted() || pace == 0 {
                is_done = false;
                break;
            }
            let options = ScrubOptions {
                bytes_per_s: Some(pace),
                only_verify: false,
                stop: self.shared.stop.clone(),
            };
            state.next = Some(id);
            self.storage.check_files();
            if let Some(extent) = extent.upgrade() {
                is_done &= self.check(&options, &table, &extent);
            }
            if remembered
                .elapsed()
                .is_ok_and(|since| since > REMEMBER_EVERY)
            {
                write_state(&self.path, state);
                remembered = SystemTime::now();
            }
        }
        let progress = &mut lock(&self.shared.told).progress;
        progress.is_running = false;
        if is_done {
            state.next = None;
            progress.passes += 1;
        }
    }

    /// Whether something is more urgent than the pass.
    fn is_wanted(&self) -> bool {
        let told = lock(&self.shared.told);
        told.closing || told.has_losses
    }

    /// Checks an extent and repairs it as far as possible. Returns whether it was checked to its end.
    fn check(&self, options: &ScrubOptions, table: &TableEntry, extent: &OwnedExtent) -> bool {
        let mut report = ScrubReport::default();
        scrub::scrub_extent(&self.catalog, options, table, extent, &mut report);
        let seen = self.storage.losses().begin_read();
        // Losses found by this read are handled next.
        self.storage.validate(seen);
        let progress = &mut lock(&self.shared.told).progress;
        progress.pass_bytes += report.bytes;
        progress.damaged_copies += report.damaged_copies;
        progress.repaired_copies += report.repaired_copies;
        !report.stopped
    }

    /// Restores everything that was lost, without a pace.
    fn restore_lost(&self) {
        let Ok(tables) = self.requests.ask(|reply| Request::Extents { reply }) else {
            return;
        };
        let options = ScrubOptions {
            stop: self.shared.stop.clone(),
            ..ScrubOptions::default()
        };
        for TableExtents { entry, extents } in tables {
            let lost = extents.into_iter().filter(|extent| {
                let mut copies = extent.copies().iter();
                copies.any(|copy| copy.has_losses())
            });
            for extent in lost {
                self.check(&options, &entry, &extent);
            }
        }
    }
}

enum Woken {
    Closing,
    Losses,
    Due,
}

/// `1 SECONDS NEXT`: when the pass began, since 1970, and the next extent's number, or `-`.
fn read_state(path: &Path) -> Option<State> {
    let text = std::fs::read_to_string(path).ok()?;
    let mut words = text.split_whitespace();
    let (version, began, next) = (words.next()?, words.next()?, words.next()?);
    let began = UNIX_EPOCH.checked_add(Duration::from_secs(began.parse().ok()?))?;
    let next = match next {
        "-" => None,
        number => Some(ExtentId(number.parse().ok()?)),
    };
    (version == "1").then_some(State { began, next })
}

/// Losing the file costs reading some data again, so an error is only logged.
fn write_state(path: &Path, state: &State) {
    let began = state.began.duration_since(UNIX_EPOCH).unwrap_or_default();
    let next = state.next.map_or("-".to_owned(), |next| next.0.to_string());
    let text = format!("1 {} {next}\n", began.as_secs());
    let dir = path.parent().unwrap_or(path);
    let written = Directory::new(dir, None).replace(SCRUB_FILE, text.as_bytes());
    if let Err(error) = written {
        tracing::warn!(path = %path.display(), %error, "the scrubber's position could not be stored: the next start reads some data again");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pace_is_of_all_its_clones_and_goes_back_to_what_it_was() {
        let pace = ScrubPace::new(7);
        pace.clone().set(0);
        assert_eq!(pace.get(), 0);
        pace.reset();
        assert_eq!(pace.get(), 7);
    }

    #[test]
    fn what_was_written_down_is_read_back_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(SCRUB_FILE);
        assert_eq!(read_state(&path), None);
        let began = UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        for next in [None, Some(ExtentId(0)), Some(ExtentId(u64::MAX))] {
            let state = State { began, next };
            write_state(&path, &state);
            assert_eq!(read_state(&path), Some(state));
        }
        for wrong in [
            "",
            "1",
            "1 5",
            "2 5 -",
            "1 x -",
            "1 5 x",
            "1 18446744073709551615 -",
        ] {
            std::fs::write(&path, wrong).unwrap();
            assert_eq!(read_state(&path), None, "{wrong}");
        }
    }
}
