//! Lists of values that stay one array, from the statement's text or a bound parameter to the lookup in a dictionary.
//!
//! ```text
//! IN (long list), = ANY(ARRAY[long list]) --> written.rs: taken out of the text --+
//! EXECUTE q(ARRAY[..]) --> bind.rs: assigned; arrays bound by a program -----------+--> List --> InSet
//! = ANY($1), <> ALL($1) -------------------> any.rs: AnyOf, until $1 is known -----+
//! ```
//! The planner visits every expression many times, so thousands of literals would cost it hundreds of milliseconds. It
//! sees a list as one function call, [`InSet`], which a scan reads as a set.
//!
//! Invariant: for every list, `x = ANY(list)` is what SQL says. It is true if an item equals x. Otherwise it is
//! unknown if x or an item is NULL, and else false. For an empty list it is false, even if x is NULL.

mod any;
mod bind;
mod in_set;
mod items;
mod set;
mod written;

use std::sync::Arc;

use datafusion::execution::SessionStateBuilder;

pub(crate) use any::is_any;
pub(crate) use bind::{ListParameter, assigned, unfolded};
pub(crate) use in_set::{InSet, check_sets};
pub(crate) use items::{List, ListKind};
pub(crate) use set::ListSet;
pub(crate) use written::{
    array_items, call, marked_array, replace_lists, set_name, settle_quantified, take_long_lists,
    write_arrays,
};

/// Adds the planning of `= ANY(..)` and `<> ALL(..)` to a session.
pub(crate) fn add_to(mut builder: SessionStateBuilder) -> SessionStateBuilder {
    builder
        .expr_planners()
        .get_or_insert_with(Vec::new)
        .insert(0, Arc::new(any::QuantifiedPlanner));
    builder
}
