//! Why a command failed, said in one line, and the exit status that goes with it.

use std::{fmt, io, path::PathBuf};

use arrow::error::ArrowError;

use super::status::Status;

/// Where in a script something went wrong.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// The file, or how else the script was given.
    pub(crate) script: String,
    /// The line, from 1.
    pub(crate) line: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.script, self.line)
    }
}

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CommandError {
    /// The database refused. Boxed, since this error is returned everywhere and rarely.
    #[error(transparent)]
    Database(Box<tierra::Error>),
    /// A statement or dot command of a script failed.
    #[error("{place}: {source}")]
    InScript {
        /// Where it begins.
        place: Place,
        /// What went wrong.
        source: Box<CommandError>,
    },
    /// A dot command that is none, or takes other arguments.
    #[error("{0}")]
    DotCommand(String),
    /// A file or directory could not be used.
    #[error("cannot {action} {}: {source}", path.display())]
    File {
        /// What was tried, such as `read`.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// A Parquet file could not be written.
    #[error("cannot write {}: {source}", path.display())]
    Parquet {
        /// The file.
        path: PathBuf,
        /// What went wrong.
        source: parquet::errors::ParquetError,
    },
    /// Standard output could not be written.
    #[error("cannot write the output: {0}")]
    Output(#[source] io::Error),
    /// A result that the chosen format cannot express.
    #[error("cannot write the result: {0}; try another --format")]
    Unwritable(#[source] ArrowError),
    /// The terminal failed.
    #[error("cannot read the terminal: {0}")]
    Terminal(#[from] rustyline::error::ReadlineError),
    /// The machine's memory could not be explored or measured.
    #[error("{0}")]
    Tiers(String),
    /// A database could not be checked.
    #[error("{0}")]
    Check(String),
    /// All data of a database can be read, but not all copies.
    #[error("{0}")]
    Degraded(String),
    /// Of some data no copy is left.
    #[error("{0}")]
    Lost(String),
    /// Group sizes could not be measured.
    #[error(transparent)]
    Calibrate(#[from] Box<tierra_engine::CalibrateError>),
    /// Settings of the server of records are wrong.
    #[error(transparent)]
    Config(#[from] tierra_kv::ConfigError),
    /// The server of records cannot start or go on.
    #[error(transparent)]
    Serve(#[from] tierra_kv::ServeError),
    /// The demo may not use its directory.
    #[error(
        "{} is not empty and was not made by the demo: remove it, or choose another with --dir",
        .0.display()
    )]
    NotADemo(PathBuf),
    /// The demo found wrong answers.
    #[error("{0} answers were wrong; this is a bug in Tierra, please report it")]
    WrongAnswers(usize),
    /// Ctrl-C cannot be watched for.
    #[error("cannot listen for Ctrl-C: {0}")]
    Signal(#[source] io::Error),
    /// Tables that are to be generated are there.
    #[error("nothing was generated, for {0} there already: drop what is, or choose another --db")]
    TablesExist(String),
    /// Files that are to be written are there.
    #[error(
        "nothing was generated, for {0} there already: replace with --force, or choose another --parquet"
    )]
    FilesExist(String),
    /// Ctrl-C.
    #[error("interrupted; nothing was left half done")]
    Interrupted,
}

impl CommandError {
    /// An error of using `path`.
    pub(crate) fn file(action: &'static str, path: impl Into<PathBuf>, source: io::Error) -> Self {
        Self::File {
            action,
            path: path.into(),
            source,
        }
    }

    /// The exit status: 130 after Ctrl-C as shells have it, 1 where no other says more.
    pub(crate) fn status(&self) -> Status {
        match self {
            Self::InScript { source, .. } => source.status(),
            Self::Interrupted => Status::Interrupted,
            Self::Degraded(_) => Status::Degraded,
            Self::Lost(_) => Status::Lost,
            Self::Database(error) => match &**error {
                tierra::Error::Open(tierra::engine::OpenError::Degraded { .. }) => Status::Degraded,
                _ => Status::Failed,
            },
            _ => Status::Failed,
        }
    }

    /// Whether whoever read our output has gone, as `head` does: no reason to complain.
    pub(crate) fn is_closed_output(&self) -> bool {
        match self {
            Self::InScript { source, .. } => source.is_closed_output(),
            Self::Output(error) => error.kind() == io::ErrorKind::BrokenPipe,
            _ => false,
        }
    }
}

macro_rules! from_database {
    ($($error:ty),*) => {
        $(impl From<$error> for CommandError {
            fn from(error: $error) -> Self {
                Self::Database(Box::new(error.into()))
            }
        })*
    };
}

from_database!(
    tierra::Error,
    tierra::sql::SqlError,
    tierra::engine::TableError,
    tierra::engine::LoadError
);
