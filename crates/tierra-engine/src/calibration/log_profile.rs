//! How records reach the copies of a log: by which of the replication methods on this machine, in these tiers.
//!
//! Kept beside the calibration of lookups, as a [`Profile`]. Logs are written so from when the database is opened next; without it,
//! or with that of another machine or version, by one fence behind all copies ([`TailLog`](crate::tail)'s own choice).
//!
//! Invariant: a profile changes how fast rows are committed, never what is durable when they are.

use std::io;
use std::path::{Path, PathBuf};

use tierra_memory::replication::{Composition, CopyBy, Master, Method, Profile, Waits};

const NAME: &str = "replication";

/// How a record reaches all copies where nobody has measured: written to each, waited for once.
pub(crate) const LOG_METHOD: Method = Method::Always(Composition {
    waits: Waits::Once,
    master: Master::Pre,
    prefetch: true,
    copy: CopyBy::Stores,
});

/// Keeps what was measured in the directory of a database, used from the next open on. Returns where.
///
/// # Errors
/// The system's; a profile that was there before stays.
pub fn write_profile(profile: &Profile, dir: &Path) -> io::Result<PathBuf> {
    let path = dir.join(NAME);
    profile.write(&path)?;
    Ok(path)
}

/// How the logs of the database in `dir` are written; `None` where nobody measured. A profile that must not be
/// used is warned of.
pub(crate) fn method_of(dir: &Path) -> Option<Method> {
    match Profile::read(&dir.join(NAME)) {
        // A few thousand bytes for each time that a calibrated database is opened.
        Ok(profile) => {
            profile.map(|profile| Method::Switched(Box::leak(Box::new(profile.switch()))))
        }
        Err(error) => {
            tracing::warn!("{error}");
            None
        }
    }
}
