//! The replication method by which records reach the copies of a log, on this machine and in these tiers.
//!
//! Stored beside the calibration of lookups, as a [`Profile`], and used from the next open on. Without one of this machine and
//! version, records are written with one fence after all copies ([`TailLog`](crate::tail)'s default).
//!
//! Invariant: a profile changes how fast rows are committed, never what is durable then.

use std::io;
use std::path::{Path, PathBuf};

use tierra_memory::replication::{Composition, CopyBy, Master, Method, Profile, Waits};

/// Its name in the directory of a database.
pub(crate) const PROFILE_FILE: &str = "replication";

/// The default without a measurement: written to each copy, with one wait.
pub(crate) const LOG_METHOD: Method = Method::Always(Composition {
    waits: Waits::Once,
    master: Master::Pre,
    prefetch: true,
    copy: CopyBy::Stores,
});

/// Stores a profile in a database's directory, to be used from the next open on. Returns the path.
///
/// # Errors
/// The system's; an existing profile stays.
pub fn write_profile(profile: &Profile, dir: &Path) -> io::Result<PathBuf> {
    let path = dir.join(PROFILE_FILE);
    profile.write(&path)?;
    Ok(path)
}

/// How the logs of the database in `dir` are written; `None` without a measurement. Logs a warning if the profile must not be
/// used.
pub(crate) fn method_of(dir: &Path) -> Option<Method> {
    match Profile::read(&dir.join(PROFILE_FILE)) {
        // A few thousand bytes for each open of a calibrated database.
        Ok(profile) => {
            profile.map(|profile| Method::Switched(Box::leak(Box::new(profile.switch()))))
        }
        Err(error) => {
            tracing::warn!("{error}");
            None
        }
    }
}
