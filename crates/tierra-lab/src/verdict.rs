//! The bars of a results folder, computed again from its raw samples.
//!
//! A file's own bars are not trusted but recomputed. A file whose bars do not follow from its samples counts as a missed
//! bar.

use std::fs;
use std::path::Path;

use crate::bar::Bar;
use crate::error::{At, LabError};
use crate::experiments::Experiment;
use crate::results::Results;

/// The bars of one results file.
#[derive(Debug)]
pub struct Verdict {
    /// The experiment.
    pub name: String,
    /// Whether the run was a quick one: its bars are stated for full scale.
    pub quick: bool,
    /// The time and the machine of the measurement.
    pub origin: String,
    /// The bars, recomputed.
    pub bars: Vec<Bar>,
    /// Whether the file's own bars agree.
    pub follows_from_samples: bool,
}

impl Verdict {
    /// Whether every bar is met and the file's own bars agree.
    pub fn is_met(&self) -> bool {
        self.follows_from_samples && self.bars.iter().all(|bar| bar.met)
    }
}

/// Recomputes the bars of every results file in a folder, in the order of `experiments`.
///
/// # Errors
/// A folder that cannot be read or holds no results, a file that is not a results file, and results of an unknown
/// experiment.
pub fn verdicts(folder: &Path, experiments: &[&dyn Experiment]) -> Result<Vec<Verdict>, LabError> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).at(folder)? {
        let path = entry.at(folder)?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "json")
        {
            names.extend(
                path.file_stem()
                    .map(|stem| stem.to_string_lossy().into_owned()),
            );
        }
    }
    if names.is_empty() {
        return Err(LabError::NoResults {
            path: folder.to_owned(),
        });
    }
    let known = || {
        experiments
            .iter()
            .map(|experiment| experiment.name())
            .collect::<Vec<_>>()
    };
    if let Some(name) = names.iter().find(|name| !known().contains(&name.as_str())) {
        return Err(LabError::UnknownExperiment {
            name: name.clone(),
            known: known().join(", "),
        });
    }
    let present = experiments
        .iter()
        .filter(|experiment| names.iter().any(|name| name == experiment.name()));
    present
        .map(|experiment| verdict(folder, *experiment))
        .collect()
}

fn verdict(folder: &Path, experiment: &dyn Experiment) -> Result<Verdict, LabError> {
    let results = Results::read(&Results::path(folder, experiment.name(), "json"))?;
    let bars = experiment.bars(&results.rows);
    Ok(Verdict {
        name: experiment.name().to_owned(),
        quick: results.quick,
        origin: format!("{} on {}", results.machine.date, results.machine.cpu),
        follows_from_samples: bars.len() == results.bars.len()
            && bars
                .iter()
                .zip(&results.bars)
                .all(|(one, recorded)| one.agrees_with(recorded)),
        bars,
    })
}
