//! The interface of an experiment.
//!
//! An experiment measures rows. Its bars ([`Experiment::bars`]) and its views ([`Experiment::views`]) are functions of the rows
//! alone, so both can be computed again from a results file.

use crate::bar::Bar;
use crate::curve::Curve;
use crate::error::LabError;
use crate::lab::{Lab, ScaleOption};
use crate::peers::Peer;
use crate::results::Tier;
use crate::row::Row;
use crate::view::View;

/// The result of an experiment.
#[derive(Debug)]
pub struct Measured {
    /// The medium of the measured memory.
    pub tier: Tier,
    /// Scale, repetitions and so on, in addition to what the lab records.
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

    /// The options of [`Scale`](crate::lab::Scale) that it supports.
    fn heeds(&self) -> &'static [ScaleOption] {
        &[]
    }

    /// Whether it measures time, which other work on the machine lengthens. One that only counts is right on a busy machine too.
    fn is_timed(&self) -> bool {
        true
    }

    /// The peers that its bars need.
    fn peers(&self) -> &'static [Peer] {
        &[]
    }

    /// Measures.
    fn run(&self, lab: &Lab) -> Result<Measured, LabError>;

    /// Called when the results are written. What a run noted, so that the next one goes on after an early end, has served then.
    fn written(&self, _: &Lab) {}

    /// The promises, computed from the rows' raw samples.
    fn bars(&self, rows: &[Row]) -> Vec<Bar>;

    /// The layout of the rows.
    fn views(&self) -> &'static [View];

    /// The curves drawn over time.
    fn curves(&self) -> &'static [Curve] {
        &[]
    }

    /// The papers' values, under the keys of the corresponding rows.
    fn paper(&self) -> Vec<Row> {
        Vec::new()
    }
}
