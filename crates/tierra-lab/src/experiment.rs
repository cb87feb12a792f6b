//! What an experiment is.
//!
//! An experiment measures rows. What they promise ([`Experiment::bars`]) and how they are shown
//! ([`Experiment::views`]) are functions of rows alone, so both can be had again from a results file.

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
