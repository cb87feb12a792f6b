//! Limits that keep any statement from crashing the process.
//!
//! ```text
//! text   --> tokens.rs: how many tokens it may have; their memory is reserved first (crate::memory)
//!   |
//!   v
//! tokens --> depth.rs: how deeply they nest; beyond the limits an error, before anything recursive
//!   |        balance.rs: long chains of AND and OR become shallow trees
//!   |        references.rs: how often its common table expressions are planned
//!   v
//! plan   --> thread.rs: on threads with a large stack, not on those of the runtime
//!            deep.rs: deeply nested plans are executed on such threads as well
//! ```
//! Invariant: all recursion over a statement, from the parser to the last drop of its plan, runs on a stack that is known
//! to be large enough.

mod balance;
mod deep;
mod depth;
mod references;
mod thread;
mod tokens;

pub(crate) use balance::balance;
pub(crate) use deep::{DeepPlan, Roomy, execute_deep, is_deep};
pub(crate) use depth::Depth;
pub(crate) use references::check_references;
pub(crate) use thread::apart;
pub(crate) use tokens::most_tokens;

/// Why a statement is refused before it is planned.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LimitError {
    /// It nests more deeply than the planner allows.
    #[error(
        "the statement nests {what} more than {most} deep; write it flatter, or store parts of it in tables"
    )]
    TooDeep {
        /// What nests.
        what: &'static str,
        /// The limit.
        most: usize,
    },
    /// It has more of something than the planner allows.
    #[error("the statement has more than {most} {what}; divide it, or store parts of it in tables")]
    TooMany {
        /// The things counted.
        what: &'static str,
        /// The limit.
        most: usize,
    },
}
