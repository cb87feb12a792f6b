//! Rows by their primary key: predicates that restrict it, and the operator that looks keys up.

mod lookup;
mod point;
mod tuples;

pub(crate) use lookup::{KeyLookup, KeyPredicates, find_rows};
pub(crate) use point::PointExec;
pub(crate) use tuples::key_tuples;
