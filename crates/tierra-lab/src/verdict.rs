//! The bars of a results folder, computed again from its raw samples.
//!
//! A file's own bars are not trusted but recomputed. A file whose bars do not follow from its samples counts as a missed
//! bar. A result of a quick run does not count, nor one with times of a machine that was busy when it began.

use std::fs;
use std::path::Path;

use crate::bar::Bar;
use crate::error::{At, LabError};
use crate::experiments::Experiment;
use crate::machine::Machine;
use crate::results::Results;

/// The bars of one results file.
#[derive(Debug)]
pub struct Verdict {
    /// The experiment.
    pub name: String,
    /// The time, the machine and the commit of the measurement.
    pub origin: String,
    /// Why the result does not count; `None` if it does.
    pub why_not_counted: Option<String>,
    /// The bars, recomputed.
    pub bars: Vec<Bar>,
    /// Whether the file's own bars agree.
    pub follows_from_samples: bool,
}

impl Verdict {
    /// Whether the result counts, every bar is met, and the file's own bars agree.
    pub fn is_met(&self) -> bool {
        self.why_not_counted.is_none()
            && self.follows_from_samples
            && self.bars.iter().all(|bar| bar.met)
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

/// Where and when a result was measured, of what source.
pub(crate) fn origin(machine: &Machine) -> String {
    // As many digits as git shows, and the mark of changes.
    let commit = machine.commit.as_deref().unwrap_or("unknown");
    let short = commit.get(..9).unwrap_or(commit);
    let changed = if commit.ends_with('+') { "+" } else { "" };
    let load = machine.load_at_start;
    let load = load.map_or("unknown".to_owned(), |load| format!("{load:.2}"));
    let (date, cpu) = (&machine.date, &machine.cpu);
    format!("{date} on {cpu}, commit {short}{changed}, load {load}")
}

fn verdict(folder: &Path, experiment: &dyn Experiment) -> Result<Verdict, LabError> {
    let results = Results::read(&Results::path(folder, experiment.name(), "json"))?;
    let bars = experiment.bars(&results.rows);
    Ok(Verdict {
        name: experiment.name().to_owned(),
        origin: origin(&results.machine),
        why_not_counted: results.why_not_counted(experiment.is_timed()),
        follows_from_samples: bars.len() == results.bars.len()
            && bars
                .iter()
                .zip(&results.bars)
                .all(|(one, recorded)| one.agrees_with(recorded)),
        bars,
    })
}
