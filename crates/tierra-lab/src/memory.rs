//! Where the memory is that an experiment measures: near, or far, emulated over the same bytes.
//!
//! Near memory is real. Far memory is the paper's Optane over everything that lookups load, so that one
//! structure is measured in both places without a copy. Plain execution waits for each load there, an
//! upper bound, since a processor overlaps loads that do not depend on each other; the lower bound, ten
//! loads overlapping whatever they depend on, is a setting of its own. It empties the modelled cache:
//! contenders of both bounds do not take turns.

use tierra_memory::emulation::{self, FarMemory};

use crate::error::{Context, LabError};

/// Everything that lookups load is far.
const OPTANE: FarMemory = FarMemory {
    everywhere: true,
    ..FarMemory::OPTANE
};

/// Where the memory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// Real, as it is.
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

    /// Does `work` while memory is there; it is near before and after.
    ///
    /// # Errors
    /// Those of `work`.
    pub fn during<T>(self, work: impl FnOnce() -> Result<T, LabError>) -> Result<T, LabError> {
        let far = match self {
            Memory::Near => None,
            Memory::Optane => Some(OPTANE),
            Memory::OptaneOverlapping => Some(OPTANE.plain_lower_bound()),
        };
        emulate(far)?;
        let done = work();
        emulate(None)?;
        done
    }
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
