//! Why the topology of a machine's memory is not known.

use std::io;
use std::path::PathBuf;

/// The machine could not be understood.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TopologyError {
    /// A file that every Linux has could not be read.
    #[error("{}: cannot read: {source}; is it mounted?", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// A file holds something else than expected.
    #[error("{}: found {found:?}, expected {expected}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What it holds.
        found: String,
        /// What it should hold.
        expected: &'static str,
    },
}
