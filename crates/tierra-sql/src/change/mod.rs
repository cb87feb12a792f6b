//! Statements that change rows: UPDATE, DELETE, MERGE, TRUNCATE, and INSERT with RETURNING or ON CONFLICT.
//!
//! ```text
//! statement --> statement.rs: a query for the row ids and new values of the rows that change
//!   |           (row ids: a column of tables in the schema [`ROWS`]; merge.rs: MERGE and ON CONFLICT)
//!   v
//! planned and run like any query, on one snapshot of each table (crate::view)
//!   |
//!   v
//! collect.rs: row ids and new rows, accounted for, complete before anything changes
//!   |           RETURNING: a query of these rows (held.rs: tables in the schema [`HELD`])
//!   v
//! the engine: one commit, all or nothing
//! ```
//! Invariant: a statement reads the tables as they were before it. It changes all its rows or none.

mod collect;
mod distinct_keys;
mod held;
mod merge;
mod statement;
mod target;

pub(crate) use collect::{Changed, Collecting};
pub(crate) use distinct_keys::first_of_each_key;
pub(crate) use held::{HeldRows, HeldSink, HeldTable};
pub(crate) use merge::Upsert;
pub(crate) use statement::{Change, ChangeStatement, Effect, truncated};

/// The schema in which each table has one more column, the row id. Its name needs quotes, and it is not listed.
pub(crate) const ROWS: &str = "rows of tierra";
/// The schema in which each table consists of the rows that the running statement holds.
pub(crate) const HELD: &str = "rows held by tierra";
