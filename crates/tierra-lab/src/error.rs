//! Why an experiment could not run, or why a result is not valid.

use std::error::Error;
use std::path::PathBuf;

/// What went wrong, where, and what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// No such experiment.
    #[error("there is no experiment `{name}`; `list` names them: {known}")]
    UnknownExperiment {
        /// What was asked for.
        name: String,
        /// The names there are.
        known: String,
    },
    /// An option of size that the experiment does not have.
    #[error("`{name}` has no --{option}; run it without")]
    NoScale {
        /// The experiment.
        name: &'static str,
        /// The option that it does not support.
        option: &'static str,
    },
    /// A file or directory could not be read or written.
    #[error("{path}: {source}", path = path.display())]
    File {
        /// The file or directory.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// A file is not a results file.
    #[error("{path}: not a results file of this version: {source}; run the experiment again", path = path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// A results file with another layout.
    #[error("{path}: results of schema {found}, this lab reads {expected}; run the experiment again", path = path.display())]
    Schema {
        /// The file.
        path: PathBuf,
        /// The file's schema.
        found: u32,
        /// This lab's.
        expected: u32,
    },
    /// A folder without results.
    #[error("{path} holds no results; `run` writes them, `--out` says where", path = path.display())]
    NoResults {
        /// The folder.
        path: PathBuf,
    },
    /// A quick run would replace a full one.
    #[error("{path} holds full-scale results, which a quick run does not replace; give another folder with --out", path = path.display())]
    QuickOverFull {
        /// The file.
        path: PathBuf,
    },
    /// A run that does not count would replace one that does.
    #[error("{path} holds results that count, which these would not ({why}); run it again later, with a longer --wait, or give another folder with --out", path = path.display())]
    NotCountedOverCounted {
        /// The file.
        path: PathBuf,
        /// Why the run would not count.
        why: String,
    },
    /// A peer that a bar needs does not start.
    #[error(
        "{name} does not start: {why}; without it bars are not measured, and `--without-peers` runs nevertheless"
    )]
    NoPeer {
        /// The peer.
        name: &'static str,
        /// Why it does not start.
        why: String,
    },
    /// One of the contenders failed.
    #[error("{who}, {doing}: {source}")]
    Contender {
        /// Which one.
        who: String,
        /// What it was doing.
        doing: String,
        /// Its error.
        source: Box<dyn Error + Send + Sync>,
    },
    /// A read does not return what was written.
    #[error("{who} gives a wrong answer: {what}")]
    WrongAnswer {
        /// Which contender.
        who: String,
        /// The wrong answer.
        what: String,
    },
    /// Two contenders give different answers, so their times are meaningless.
    #[error("{what}: {left} and {right} give different answers: {detail}")]
    AnswersDiffer {
        /// The query or operation.
        what: String,
        /// One contender.
        left: String,
        /// The other one.
        right: String,
        /// The first difference.
        detail: String,
    },
    /// The figure could not be drawn.
    #[error("{path}: cannot draw: {detail}", path = path.display())]
    Figure {
        /// The file.
        path: PathBuf,
        /// What the plotting library says.
        detail: String,
    },
}

/// Adds to an error the contender and its operation.
pub trait Context<T> {
    /// Turns any error into [`LabError::Contender`].
    fn by(self, who: &str, doing: impl Into<String>) -> Result<T, LabError>;
}

impl<T, E: Into<Box<dyn Error + Send + Sync>>> Context<T> for Result<T, E> {
    fn by(self, who: &str, doing: impl Into<String>) -> Result<T, LabError> {
        self.map_err(|error| LabError::Contender {
            who: who.to_owned(),
            doing: doing.into(),
            source: error.into(),
        })
    }
}

/// Gives an input/output error its path.
pub trait At<T> {
    /// Turns an input/output error into [`LabError::File`].
    fn at(self, path: impl Into<PathBuf>) -> Result<T, LabError>;
}

impl<T> At<T> for Result<T, std::io::Error> {
    fn at(self, path: impl Into<PathBuf>) -> Result<T, LabError> {
        self.map_err(|source| LabError::File {
            path: path.into(),
            source,
        })
    }
}
