//! Primary keys: unique, and found through an index of runs in far memory and levels in near memory.
//!
//! A key of one column that maps to an ordinal is its own 64-bit normalized key. Every other key is represented by a 64-bit hash,
//! and a row found by it is verified by reading its key columns.
//!
//! Runs ([`run`]) list sealed rows and are stored. So opening a database only builds the levels ([`levels`]) of the tail's rows
//! and of segments that have no run yet.
//!
//! Invariant: levels and runs of a version hold exactly the rows of its segments and its tail, deleted ones too. Of rows with equal
//! keys at most one is not deleted. Both are
//! immutable: a commit adds a level or a run to those of the previous version.

mod columns;
mod hashed;
mod levels;
mod loaded;
mod normalized;
mod run;

pub(crate) use self::columns::KeyColumns;
pub(crate) use self::hashed::rows_in;
pub(crate) use self::levels::{KeyIndex, KeyIndexCell, Level};
pub(crate) use self::loaded::{LoadedKeys, store_run};
pub(crate) use self::run::{BuiltRun, Entry, KeyRun, MergeError, RunBuilder, merge, merge_without};
