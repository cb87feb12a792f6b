//! Late materialization: rows are found first and read later, by their ids, in groups of interleaved lookups.
//!
//! ```text
//! keys          --> row ids --> their columns                 (crate::keys, reader.rs)
//! TopK, LIMIT   --> row ids of the result --> columns that    (rule.rs decides, narrow.rs rewrites,
//!                   no operator below reads                    fetch.rs reads)
//! joins on keys --> row ids of partners --> their columns     (join_rule.rs decides, lookup_join.rs)
//! ```
//! A plan that reads rows later holds the snapshot that it scans, so both reads see the same rows.

mod fetch;
mod join_rule;
mod lookup_join;
mod narrow;
mod origin;
mod reader;
mod rule;

use std::sync::Arc;

use datafusion::execution::SessionStateBuilder;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;

pub(crate) use reader::{LookupWork, RowReader, RowSource};

use crate::rules::{JOINS_SELECTED, OPERATORS_PLACED};

/// Adds the rules that read rows late to a session.
pub(crate) fn add_to(mut builder: SessionStateBuilder) -> SessionStateBuilder {
    let optimizer = builder.physical_optimizers();
    let rules = &mut optimizer.get_or_insert_with(PhysicalOptimizer::new).rules;
    let placed = rules
        .iter()
        .position(|rule| rule.name() == OPERATORS_PLACED);
    rules.insert(placed.unwrap_or(rules.len()), Arc::new(rule::LateRows));
    let selected = rules.iter().position(|rule| rule.name() == JOINS_SELECTED);
    if let Some(selected) = selected {
        rules.insert(selected + 1, Arc::new(join_rule::LookUpJoins));
    }
    builder
}
