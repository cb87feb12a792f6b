//! Why a command failed, in one line, and its exit status.

use std::{fmt, io, path::PathBuf};

use arrow::error::ArrowError;

use super::status::Status;

/// A position in a script.
#[derive(Clone, Debug)]
pub(crate) struct ScriptPosition {
    /// The file, or the option that gave the script.
    pub(crate) script: String,
    /// The line, from 1.
    pub(crate) line: usize,
}

impl fmt::Display for ScriptPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.script, self.line)
    }
}

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CommandError {
    /// An error of the database. Boxed, because this error is returned everywhere and rarely.
    #[error(transparent)]
    Database(Box<tierra::Error>),
    /// A statement or dot command of a script failed.
    #[error("{place}: {source}")]
    InScript {
        /// Where the statement begins.
        place: ScriptPosition,
        /// What went wrong.
        source: Box<CommandError>,
    },
    /// An unknown dot command, or wrong arguments of one.
    #[error("{0}")]
    DotCommand(String),
    /// A file or directory could not be used.
    #[error("cannot {action} {}: {source}", path.display())]
    File {
        /// The action, such as `read`.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
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
    /// The chosen format cannot express a result.
    #[error("cannot write the result: {0}; try another --format")]
    Unwritable(#[source] ArrowError),
    /// The terminal failed.
    #[error("cannot read the terminal: {0}")]
    Terminal(#[from] rustyline::error::ReadlineError),
    /// The machine's memory could not be listed or measured.
    #[error("{0}")]
    Tiers(String),
    /// A database could not be checked.
    #[error("{0}")]
    Check(String),
    /// All data of a database can be read, but not all copies.
    #[error("{0}")]
    Degraded(String),
    /// Some data has no copy left.
    #[error("{0}")]
    Lost(String),
    /// Group sizes could not be measured.
    #[error(transparent)]
    Calibrate(#[from] Box<tierra_engine::CalibrateError>),
    /// Wrong settings of the server of records.
    #[error(transparent)]
    Config(#[from] tierra_kv::ConfigError),
    /// The server of records cannot start or continue.
    #[error(transparent)]
    Serve(#[from] tierra_kv::ServeError),
    /// A file of users cannot be used.
    #[error(transparent)]
    Users(#[from] tierra_postgres::UsersError),
    /// TLS cannot be set up.
    #[error(transparent)]
    Tls(#[from] tierra_postgres::TlsError),
    /// The server for clients of PostgreSQL cannot start.
    #[error(transparent)]
    Postgres(#[from] tierra_postgres::ServeError),
    /// The server for HTTP cannot start.
    #[error(transparent)]
    Http(#[from] tierra_http::ServeError),
    /// A password that is none.
    #[error("{0}")]
    User(String),
    /// The demo may not use its directory.
    #[error(
        "{} is not empty and was not made by the demo: remove it, or choose another with --dir",
        .0.display()
    )]
    NotADemo(PathBuf),
    /// The demo found wrong answers.
    #[error("{0} answers were wrong; this is a bug in Tierra, please report it")]
    WrongAnswers(usize),
    /// The handler of Ctrl-C cannot be installed.
    #[error("cannot listen for Ctrl-C: {0}")]
    Signal(#[source] io::Error),
    /// Tables to be generated already exist.
    #[error("nothing was generated: {0} there already; drop it, or choose another --db")]
    TablesExist(String),
    /// Files to be written already exist.
    #[error(
        "nothing was generated: {0} there already; replace with --force, or choose another --parquet"
    )]
    FilesExist(String),
    /// Ctrl-C.
    #[error("interrupted; nothing was left half done")]
    Interrupted,
}

impl CommandError {
    /// An error with `path`.
    pub(crate) fn file(action: &'static str, path: impl Into<PathBuf>, source: io::Error) -> Self {
        Self::File {
            action,
            path: path.into(),
            source,
        }
    }

    /// The exit status: 130 after Ctrl-C as in shells, 1 unless another one applies.
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

    /// Whether the reader of our output has closed it, as `head` does. That is not an error.
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
