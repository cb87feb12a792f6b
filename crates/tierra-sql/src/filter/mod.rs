//! DataFusion's predicates, translated into the engine's [`Filter`]s on one column.
//!
//! Invariant: a filter made here passes exactly the rows for which the predicate is *true*, on packed codes and on
//! values. A predicate that no filter expresses exactly is refused and stays with the executor.
//! There are two ways from an expression to a filter:
//!
//! ```text
//! comparisons, BETWEEN, IN, LIKE 'abc%'   -- structure -->  ranges, sets          (translate.rs)
//! anything deterministic on one column    -- evaluate  -->  one bit per code, or
//!                                            once per       a set of the values
//!                                            distinct value that pass              (domain.rs)
//! ```
//! Filters that only save work may pass more rows: lists of keys from joins (build_side.rs).

mod ambiguous_names;
mod build_side;
mod domain;
mod doubles;
mod dynamic;
mod pushable;
mod ranges;
mod translate;

pub(crate) use ambiguous_names::add_to;
pub(crate) use doubles::with_stored_doubles;
pub(crate) use dynamic::DynamicFilters;
pub(crate) use pushable::{is_pushable, unqualified};
pub(crate) use translate::{ColumnDomain, on_column, single_column, value_of};

use tierra_column::Filter;

/// Filters on columns of a table, all of which must hold.
pub(crate) type ColumnFilters = Vec<(usize, Filter)>;
