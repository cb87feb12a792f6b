//! What keeps postings from being built.

use crate::error::FormatError;

/// Why postings were not built.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PostingsError {
    /// A chunk cannot be what was written.
    #[error("chunk {chunk}: {source}")]
    Chunk {
        /// Its number among those given.
        chunk: usize,
        /// What is wrong.
        source: FormatError,
    },
    /// Blocks hold codes that their minima and maxima deny.
    #[error(
        "the chunks contradict their directories about the rows of codes {first}..: restore them from another copy"
    )]
    Contradiction {
        /// The first code of the slab.
        first: u64,
    },
    /// The system refuses threads.
    #[error(
        "no thread could be started: {why}; end other programs, or raise the limit of processes"
    )]
    Thread {
        /// The system's words.
        why: String,
    },
    /// The caller asked to stop.
    #[error("building was interrupted")]
    Interrupted,
}
