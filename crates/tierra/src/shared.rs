//! The databases that are open in this process, so that parts of a program that know nothing of each other can share one.
//!
//! The lock of a directory belongs to an open file, not to a process: a second opening would refuse the first one's directory.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use tierra_engine::{Database, DatabaseOptions, OpenError};

use crate::Error;

/// How long to wait for a database whose last user is just closing it.
const CLOSING: Duration = Duration::from_secs(10);
/// The time between two tries.
const PACE: Duration = Duration::from_millis(5);

/// An open database.
struct Open {
    /// Without links.
    dir: PathBuf,
    database: Weak<Database>,
    options: DatabaseOptions,
}

static OPEN: Mutex<Vec<Open>> = Mutex::new(Vec::new());

fn lock() -> MutexGuard<'static, Vec<Open>> {
    // Entries are added and removed as a whole.
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Remembers a database that was opened.
pub(crate) fn remember(dir: &Path, database: &Arc<Database>, options: &DatabaseOptions) {
    remember_in(&mut lock(), dir, database, options);
}

fn remember_in(
    open: &mut Vec<Open>,
    dir: &Path,
    database: &Arc<Database>,
    options: &DatabaseOptions,
) {
    open.retain(|other| other.database.strong_count() > 0);
    // Without its real name a directory cannot be found again; then it is not shared.
    if let Ok(dir) = dir.canonicalize() {
        open.push(Open {
            dir,
            database: Arc::downgrade(database),
            options: options.clone(),
        });
    }
}

/// The database in `dir`: the one that this process has open, or else the one that `open` opens.
pub(crate) fn find_or(
    dir: &Path,
    options: &DatabaseOptions,
    open: impl Fn() -> Result<Arc<Database>, OpenError>,
) -> Result<Arc<Database>, Error> {
    let began = Instant::now();
    loop {
        // Held while the database is opened, so that of two threads one opens it and the other finds it.
        let mut all = lock();
        let real = dir.canonicalize().ok();
        let found = all.iter().filter(|other| Some(&other.dir) == real.as_ref());
        for other in found {
            if let Some(database) = other.database.upgrade() {
                return match difference(&other.options, options) {
                    None => Ok(database),
                    Some(option) => Err(Error::Shared {
                        dir: dir.to_owned(),
                        option,
                    }),
                };
            }
        }
        match open() {
            Ok(database) => {
                remember_in(&mut all, dir, &database, options);
                return Ok(database);
            }
            Err(OpenError::Locked { holder, .. })
                if holder == std::process::id().to_string() && began.elapsed() < CLOSING =>
            {
                drop(all);
                std::thread::sleep(PACE);
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// The first option that was asked for and that the open database has otherwise.
fn difference(open: &DatabaseOptions, asked: &DatabaseOptions) -> Option<&'static str> {
    fn differs<T: PartialEq>(open: &Option<T>, asked: &Option<T>) -> bool {
        asked.is_some() && open != asked
    }
    let differences = [
        (
            "near_memory",
            differs(&open.near_memory_bytes, &asked.near_memory_bytes),
        ),
        (
            "capacity",
            differs(&open.capacity_bytes, &asked.capacity_bytes),
        ),
        ("threads", differs(&open.threads, &asked.threads)),
        (
            "scrub_pace",
            differs(&open.scrub_bytes_per_s, &asked.scrub_bytes_per_s),
        ),
        (
            "verify_reads",
            differs(&open.verify_reads, &asked.verify_reads),
        ),
        ("degraded", asked.degraded && !open.degraded),
        ("read_only", asked.read_only && !open.read_only),
    ];
    let mut differences = differences.into_iter();
    differences.find_map(|(option, differs)| differs.then_some(option))
}
