//! Measures how long reading lines takes in each tier, of the tables that lie there.

use std::sync::Arc;
use std::thread;

use tierra_memory::emulation;
use tierra_memory::placement::LineTimes;

use super::{Before, CalibrateError};
use crate::database::Database;
use crate::error::{TableError, TierError};
use crate::storage::extent::ExtentCopy;
use crate::table::requests::Request;

impl Database {
    /// Measures how long reading a line takes in each tier, without emulation, and has replicas and copies chosen by it from now on. Tiers in
    /// which too little lies to be measured are left out. It takes a few milliseconds for each tier.
    ///
    /// # Errors
    /// [`CalibrateError`]: memory was lost meanwhile, a writer that has failed.
    pub fn calibrate_tiers(&self) -> Result<Vec<(String, LineTimes)>, CalibrateError> {
        let mut measured = Vec::new();
        {
            let _before = Before(emulation::current());
            emulation::set(None)?;
            let tables = self.catalog().tables();
            let versions: Vec<_> = tables.iter().map(|table| table.current()).collect();
            let extents = || {
                let segments = versions.iter().flat_map(|version| version.segments.iter());
                segments.flat_map(|segment| segment.extents().iter().flatten())
            };
            let threads = thread::available_parallelism().map_or(1, usize::from);
            for tier in &self.storage().tiers().open {
                let copies = extents().flat_map(|extent| extent.copies());
                let there = copies.filter(|copy| copy.tier() == tier.id);
                let pieces: Vec<&[u8]> = there.map(|copy: &Arc<ExtentCopy>| &***copy).collect();
                let times = self
                    .storage()
                    .read_validated(|| {
                        let alone = LineTimes::measure(&pieces)?;
                        Some(alone.shared_by(&pieces, threads))
                    })
                    .map_err(CalibrateError::Scan)?;
                if let Some(times) = times {
                    tier.lines.set(Some(times));
                    measured.push((tier.name.to_string(), times));
                }
            }
        }
        self.choose_replicas()?;
        self.wait_for_near_copies()?;
        Ok(measured)
    }

    /// Takes these for the times of a tier's lines, until they are measured or the database is opened again; `None`: what they were
    /// when it was opened. For memory whose times are known, and to have the replicas of one tier read: make all others slow. It counts
    /// from the next [`Database::choose_replicas`] on, and for scans that begin then.
    ///
    /// # Errors
    /// [`TierError::Unknown`]: no open tier has this name.
    pub fn assume_line_times(&self, tier: &str, times: Option<LineTimes>) -> Result<(), TierError> {
        let tiers = self.storage().tiers();
        let Some(open) = tiers.open.iter().find(|open| *open.name == *tier) else {
            let name = tier.to_owned();
            return Err(TierError::Unknown { name });
        };
        let calibrated = || self.calibration().line_times(tier);
        open.lines.set(times.or_else(calibrated));
        Ok(())
    }

    /// Chooses anew which replicas and which of their copies are read, of each chunk those that cost least. That is done when a database is opened and when rows
    /// are written; a program that changes the far memory that is emulated calls it then. Blocks until it is done; snapshots of before
    /// read what they did.
    ///
    /// # Errors
    /// A writer that has failed.
    pub fn choose_replicas(&self) -> Result<(), TableError> {
        let choose = |reply| Request::ChooseReplicas { reply: Some(reply) };
        Ok(self.requests().ask(choose)?)
    }
}
