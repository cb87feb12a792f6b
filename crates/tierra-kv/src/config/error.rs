//! What is wrong with settings, where, and what to write instead.

use std::fmt;
use std::path::PathBuf;

use super::modern_name;

/// Why the settings cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read the configuration {}: {error}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why not.
        error: std::io::Error,
    },
    /// A quote that is not closed.
    #[error("{location}: unbalanced quotes")]
    Quotes {
        /// File and line.
        location: String,
    },
    /// A name without a value.
    #[error("{location}: {name} needs a value")]
    NoValue {
        /// File and line, or the command line.
        location: String,
        /// The setting.
        name: String,
    },
    /// There is no such setting.
    #[error("{location}: there is no setting {name} (--help lists those there are)")]
    Unknown {
        /// File and line, or the command line.
        location: String,
        /// What was taken for a setting.
        name: String,
    },
    /// A word of the command line that no name with dashes stands before.
    #[error("the command line: {word} cannot stand alone: write {instead}")]
    Bare {
        /// The word.
        word: String,
        /// What was probably meant.
        instead: String,
    },
    /// The value of a setting is wrong.
    #[error("{location}: {name}: {why}")]
    Invalid {
        /// File and line, or the command line.
        location: String,
        /// The setting.
        name: String,
        /// What is wrong.
        why: String,
    },
    /// Settings that do not go together, wherever they come from.
    #[error("{name}: {why}")]
    Together {
        /// One of them.
        name: &'static str,
        /// What is wrong, and with which other.
        why: String,
    },
    /// All that is wrong, where it is more than one thing.
    #[error("{}", ErrorList(.0))]
    Several(Vec<ConfigError>),
}

struct ErrorList<'a>(&'a [ConfigError]);

impl fmt::Display for ErrorList<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} settings cannot be used:", self.0.len())?;
        for error in self.0 {
            write!(f, "\n  {error}")?;
        }
        write!(
            f,
            "\nWhat the command line says (--NAME VALUE) comes before what a file says."
        )
    }
}

impl ConfigError {
    /// All that is wrong as one error, if anything is.
    pub(super) fn all(mut errors: Vec<ConfigError>) -> Result<(), ConfigError> {
        match errors.len() {
            0 => Ok(()),
            1 => Err(errors.remove(0)),
            _ => Err(Self::Several(errors)),
        }
    }

    /// Whether it is about a setting, whose name is in small letters.
    pub(super) fn is_about(&self, setting: &str) -> bool {
        match self {
            Self::NoValue { name, .. }
            | Self::Unknown { name, .. }
            | Self::Invalid { name, .. } => modern_name(name) == modern_name(setting),
            _ => false,
        }
    }
}
