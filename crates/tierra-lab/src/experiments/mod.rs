//! The experiments: one per file, each a question with numbers for an answer.
//!
//! An experiment measures rows. What they promise ([`Experiment::bars`]) and how they are shown
//! ([`Experiment::views`]) are functions of rows alone, so both can be had again from a results file.

mod crash;
#[cfg(feature = "engine")]
pub mod database;
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
mod ssb;
#[cfg(feature = "sql")]
mod tpch;
mod updates;

pub use needs::Needs;
pub use records::serve;

use crate::bar::Bar;
use crate::curve::Curve;
use crate::error::LabError;
use crate::lab::{Lab, ScaleOption};
use crate::results::Tier;
use crate::row::Row;
use crate::view::View;

/// What an experiment measured.
#[derive(Debug)]
pub struct Measured {
    /// What stood behind the memory.
    pub tier: Tier,
    /// Scale, repetitions and so on, beside what the lab records itself.
    pub parameters: Row,
    /// One row per measured point.
    pub rows: Vec<Row>,
}

/// A question with numbers for an answer.
pub trait Experiment: Sync {
    /// The name on the command line and of the results' files.
    fn name(&self) -> &'static str;

    /// The question, one sentence.
    fn about(&self) -> &'static str;

    /// The options of [`Scale`](crate::lab::Scale) that it heeds.
    fn heeds(&self) -> &'static [ScaleOption] {
        &[]
    }

    /// Measures.
    fn run(&self, lab: &Lab) -> Result<Measured, LabError>;

    /// The promises, computed from the rows' raw samples.
    fn bars(&self, rows: &[Row]) -> Vec<Bar>;

    /// How the rows are laid out.
    fn views(&self) -> &'static [View];

    /// What is drawn as lines, over time.
    fn curves(&self) -> &'static [Curve] {
        &[]
    }

    /// What the papers state, under the keys of the rows it stands beside.
    fn paper(&self) -> Vec<Row> {
        Vec::new()
    }
}

/// Every experiment, in the order of `list`.
pub fn all() -> &'static [&'static dyn Experiment] {
    &[
        #[cfg(feature = "sql")]
        &ssb::Ssb,
        #[cfg(feature = "sql")]
        &tpch::Tpch,
        #[cfg(feature = "sql")]
        &load::Load,
        #[cfg(feature = "sql")]
        &scan::Scan,
        #[cfg(feature = "sql")]
        &point::Point,
        #[cfg(feature = "sql")]
        &sql_fuzz::SqlFuzz,
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
