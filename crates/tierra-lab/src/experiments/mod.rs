//! The experiments: one per file, each a question with numbers for an answer.

#[cfg(feature = "sql")]
mod access;
#[cfg(feature = "sql")]
mod changes;
#[cfg(feature = "sql")]
mod cocktail;
#[cfg(feature = "sql")]
mod commits;
#[cfg(feature = "engine")]
mod compress;
mod crash;
#[cfg(feature = "engine")]
mod database;
mod elision;
mod emulation;
#[cfg(feature = "engine")]
mod faults;
mod fig1;
mod fig2;
#[cfg(feature = "sql")]
mod fig3;
#[cfg(feature = "sql")]
mod fig4;
#[cfg(feature = "sql")]
mod fig5;
mod floor;
#[cfg(feature = "engine")]
mod kill;
mod kv;
#[cfg(feature = "sql")]
mod load;
mod memory;
mod needs;
#[cfg(feature = "sql")]
mod pcr;
#[cfg(feature = "sql")]
mod point;
#[cfg(feature = "sql")]
mod reconstruction;
mod records;
#[cfg(feature = "engine")]
mod recover;
mod replicate;
mod replicate_chunk;
mod replicate_switch;
mod residency;
#[cfg(feature = "sql")]
mod scan;
#[cfg(feature = "sql")]
mod sql_fuzz;
#[cfg(feature = "sql")]
mod sql_writes;
#[cfg(feature = "sql")]
mod ssb;
#[cfg(feature = "sql")]
mod sums;
#[cfg(feature = "sql")]
mod tpcc;
#[cfg(feature = "sql")]
mod tpch;
mod updates;
#[cfg(feature = "sql")]
mod wire;

pub use needs::Needs;
pub use records::serve;

pub use crate::experiment::{Experiment, Measured};

#[cfg(feature = "engine")]
use std::path::Path;

use crate::error::LabError;
#[cfg(feature = "sql")]
use crate::served;

/// Every experiment, in the order of `list`.
pub fn all() -> &'static [&'static dyn Experiment] {
    &[
        #[cfg(feature = "sql")]
        &ssb::Ssb::ONE,
        #[cfg(feature = "sql")]
        &ssb::Ssb::TEN,
        #[cfg(feature = "sql")]
        &tpch::Tpch,
        #[cfg(feature = "sql")]
        &sums::Sums,
        #[cfg(feature = "sql")]
        &access::AccessModes::TPCH,
        #[cfg(feature = "sql")]
        &access::AccessModes::TPCH_10,
        #[cfg(feature = "sql")]
        &access::AccessModes::SSB,
        #[cfg(feature = "sql")]
        &access::AccessMisses,
        #[cfg(feature = "sql")]
        &cocktail::Cocktail,
        #[cfg(feature = "sql")]
        &load::Load,
        #[cfg(feature = "sql")]
        &scan::Scan,
        #[cfg(feature = "sql")]
        &point::Point,
        #[cfg(feature = "sql")]
        &changes::Changes,
        #[cfg(feature = "sql")]
        &commits::Commits,
        #[cfg(feature = "sql")]
        &tpcc::Tpcc,
        #[cfg(feature = "sql")]
        &wire::Wire,
        #[cfg(feature = "sql")]
        &sql_fuzz::SqlFuzz,
        #[cfg(feature = "sql")]
        &sql_writes::SqlWrites,
        &floor::Floor,
        &memory::Memory,
        &emulation::Emulation,
        &fig1::Fig1,
        &fig2::Fig2,
        #[cfg(feature = "sql")]
        &fig3::Fig3,
        #[cfg(feature = "sql")]
        &fig4::Fig4,
        #[cfg(feature = "sql")]
        &fig5::Fig5,
        #[cfg(feature = "engine")]
        &compress::Compress,
        #[cfg(feature = "sql")]
        &pcr::PcrRead,
        #[cfg(feature = "sql")]
        &pcr::PcrAppend,
        #[cfg(feature = "sql")]
        &pcr::PcrMixed,
        #[cfg(feature = "sql")]
        &pcr::PcrSsb,
        #[cfg(feature = "sql")]
        &pcr::ReplicaChoice,
        &crash::Crash,
        #[cfg(feature = "engine")]
        &kill::Kill,
        #[cfg(feature = "engine")]
        &faults::Faults,
        #[cfg(feature = "engine")]
        &recover::Recover,
        &elision::Elision,
        &residency::Residency,
        &kv::lookups::KvLookups,
        &replicate::Replicate,
        &replicate_chunk::ReplicateChunk,
        &replicate_switch::ReplicateSwitch,
        &updates::Updates,
        &records::KvWindow,
        &records::KvMemory,
        &records::YcsbThreshold,
        &records::YcsbRatio,
        &records::YcsbDynamic,
        &records::YcsbServed,
        &records::KvShift,
        &records::KvPeers,
    ]
}

/// Runs as a child. It returns only if there is no such work.
///
/// # Errors
/// [`LabError`]: there is no such work, or it failed.
#[cfg(feature = "engine")]
pub fn child(work: &str, dir: &Path, number: u64) -> Result<(), LabError> {
    match work {
        recover::CHILD => recover::fill_until_killed(dir, number),
        #[cfg(feature = "sql")]
        served::CHILD => served::serve(dir, number),
        _ => database::change(work, dir, number),
    }
}

/// Runs a query of TPC-H on a database as the child that cachegrind counts; explains it if no access mode is given.
///
/// # Errors
/// [`LabError`]: there is no such query or mode, or it failed.
#[cfg(feature = "sql")]
pub fn query(database: &Path, name: &str, access: Option<&str>) -> Result<(), LabError> {
    access::query(database, name, access)
}

/// The experiment of that name.
pub fn named(name: &str) -> Result<&'static dyn Experiment, LabError> {
    all()
        .iter()
        .copied()
        .find(|experiment| experiment.name() == name)
        .ok_or_else(|| LabError::UnknownExperiment {
            name: name.to_owned(),
            known: all()
                .iter()
                .map(|experiment| experiment.name())
                .collect::<Vec<_>>()
                .join(", "),
        })
}
