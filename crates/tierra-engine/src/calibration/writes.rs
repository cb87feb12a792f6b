//! How records reach the copies of a log: by which of the replication methods on this machine, in these tiers.
//!
//! Measured on logs of the database's own tiers that hold nothing else, and kept beside the calibration of
//! lookups, as a [`Profile`]. Logs are written so from when the database is opened next; without it, or with that
//! of another machine or version, by one fence behind all copies ([`TailLog`](crate::tail)'s own choice).
//!
//! Invariant: a profile changes how fast rows are committed, never what is durable when they are.

use std::io;
use std::path::{Path, PathBuf};

use tierra_memory::replication::{Member, Method, Profile};
use tierra_memory::{ExtentWriter, MediumKind};

use super::measure::{CalibrateError, Effort};
use crate::database::Database;

const NAME: &str = "replication";
/// Room for the longest write that is measured, twice.
const LOG_BYTES_LEAST: u64 = 2 << 20;

impl Database {
    /// Measures every method of replication over copies in the tiers that are there, the first one's the master;
    /// `None` where one is a file on a device: there a write waits for the kernel, whatever the method. `step` is
    /// called as often as [`Profile::steps`] says of as many copies as there are tiers.
    ///
    /// # Errors
    /// [`CalibrateError::Writes`]; nothing is left behind.
    pub fn calibrate_writes(
        &self,
        effort: Effort,
        step: impl FnMut(),
    ) -> Result<Option<Profile>, CalibrateError> {
        let pools = self.pools();
        if pools.iter().any(|pool| pool.medium() == MediumKind::File) {
            return Ok(None);
        }
        let len_bytes = effort.least_bytes.max(LOG_BYTES_LEAST);
        let mut logs = Logs(Vec::new());
        for pool in pools {
            let log = pool.allocate(len_bytes, 0);
            let log = log.and_then(ExtentWriter::finish_log);
            let log = log.map_err(|source| CalibrateError::Writes(source.into()))?;
            logs.0.push((pool, log.extent()));
        }
        let profile = Profile::measure(&logs.0, &[], step);
        profile.map(Some).map_err(CalibrateError::Writes)
    }
}

/// Logs that nothing names, given back when this is dropped.
struct Logs(Vec<Member>);

impl Drop for Logs {
    fn drop(&mut self) {
        for (pool, log) in &self.0 {
            pool.free(*log);
        }
    }
}

/// Keeps what was measured in the directory of a database, for whoever opens that from now on. Returns where.
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
