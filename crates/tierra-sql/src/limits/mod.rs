//! What keeps a statement from taking the process down, however it is written.
//!
//! ```text
//! tokens --> depth.rs: how deeply they nest; beyond the limits an error, before anything recursive
//!   |        balance.rs: long chains of AND and OR become shallow trees
//!   |        references.rs: how often its common table expressions are planned
//!   v
//! plan   --> thread.rs: on threads with a large stack, apart from whoever waits
//!            deep.rs: execution of what nests, on such threads as well
//! ```
//! The invariant: whatever is recursive over a statement, from the parser to the last drop of its plan,
//! runs where its stack is known to suffice.

mod balance;
mod deep;
mod depth;
mod references;
mod thread;

pub(crate) use balance::balance;
pub(crate) use deep::{DeepPlan, Roomy, execute_deep, is_deep};
pub(crate) use depth::Depth;
pub(crate) use references::check_references;
pub(crate) use thread::apart;

/// Why a statement is refused before it is planned.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LimitError {
    /// It nests more deeply than a planner follows.
    #[error(
        "the statement nests {what} more than {most} deep; write it flatter, or store parts of it in tables"
    )]
    TooDeep {
        /// What nests.
        what: &'static str,
        /// How deeply it may.
        most: usize,
    },
    /// It has more of something than a planner looks at.
    #[error("the statement has more than {most} {what}; divide it, or store parts of it in tables")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// How many there may be.
        most: usize,
    },
}
