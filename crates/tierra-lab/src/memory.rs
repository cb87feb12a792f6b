//! The memory of an experiment: near, or far, emulated over the same bytes.
//!
//! Near memory is real. Far memory is the paper's Optane over everything that lookups load, so that one structure is measured in
//! both without a copy. Plain execution waits for each load there. That is an upper bound, since a processor overlaps
//! independent loads. The lower bound, ten loads overlapping regardless of dependences, is a separate setting. It empties the
//! modelled cache, so contenders of the two bounds do not take turns.

use tierra_memory::emulation::{self, FarMemory};

use crate::error::{Context, LabError};
use crate::lab;

/// Everything that lookups load is far, and the one thread that looks up has all the bandwidth, as in the paper.
const OPTANE: FarMemory = FarMemory {
    everywhere: true,
    ..FarMemory::OPTANE.whole()
};

/// Optane as threads feel it that have the bandwidth of as many of its cores.
pub fn optane(threads: usize) -> FarMemory {
    FarMemory {
        // The emulation shares the bandwidth by the cores that the process may use.
        cores: FarMemory::OPTANE.cores * lab::threads() / threads,
        ..FarMemory::OPTANE
    }
}

/// The kind of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// Real memory.
    Near,
    /// Emulated Optane.
    Optane,
    /// [`Memory::Optane`] with the lower bound of plain execution.
    OptaneOverlapping,
}

impl Memory {
    /// The name in results.
    pub fn name(self) -> &'static str {
        match self {
            Memory::Near => "near",
            Memory::Optane => "emulated optane",
            Memory::OptaneOverlapping => "emulated optane, lower bound",
        }
    }

    /// How long that many independent lines of emulated Optane take, by its description: as many at a time as may miss.
    pub fn optane_wait_ns(lines: f64) -> f64 {
        lines * OPTANE.latency_ns / OPTANE.misses_in_flight as f64
    }

    /// Runs `work` with this memory; memory is near before and after.
    ///
    /// # Errors
    /// Those of `work`.
    pub fn during<T>(self, work: impl FnOnce() -> Result<T, LabError>) -> Result<T, LabError> {
        let far = match self {
            Memory::Near => None,
            Memory::Optane => Some(OPTANE),
            Memory::OptaneOverlapping => Some(OPTANE.plain_lower_bound()),
        };
        during(far, work)
    }
}

/// Runs `work` with that far memory emulated; memory is near before and after.
///
/// # Errors
/// Those of `work`.
pub fn during<T>(
    far: Option<FarMemory>,
    work: impl FnOnce() -> Result<T, LabError>,
) -> Result<T, LabError> {
    emulate(far)?;
    let done = work();
    emulate(None)?;
    done
}

fn emulate(far: Option<FarMemory>) -> Result<(), LabError> {
    emulation::set(far).by("the lab", "asking for emulation")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_near_again_after_work_that_fails() {
        let far = Memory::Optane.during(|| Ok(emulation::current()));
        assert_eq!(far.unwrap(), Some(OPTANE));
        let failed =
            Memory::OptaneOverlapping.during(|| Err::<(), _>("planned").by("a test", "failing"));
        assert!(failed.is_err());
        assert_eq!(emulation::current(), None);
    }
}
