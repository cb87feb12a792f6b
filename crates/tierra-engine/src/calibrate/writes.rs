//! Measures how logs are written: every replication method, on empty logs in the database's own tiers.

use tierra_memory::replication::{Member, Profile};
use tierra_memory::{ExtentWriter, MediumKind};

use super::{CalibrateError, Effort};
use crate::database::Database;

/// Room for the longest measured write, twice.
const LOG_BYTES_LEAST: u64 = 2 << 20;

impl Database {
    /// Measures every replication method over copies in the present tiers, the first one as master. `None` if one of them is a
    /// file on a device: there a write waits for the kernel with every method. `step` is called as often as [`Profile::steps`]
    /// says for as many copies as there are tiers.
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

/// Logs that no manifest names; freed on drop.
struct Logs(Vec<Member>);

impl Drop for Logs {
    fn drop(&mut self) {
        for (pool, log) in &self.0 {
            pool.free(*log);
        }
    }
}
