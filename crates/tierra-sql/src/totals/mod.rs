//! Aggregations that need no rows: COUNT, SUM, AVG, MIN and MAX of columns, taken from packed codes and chunk headers; also by the values of
//! a column that has a dictionary, by its codes.
//!
//! ```text
//! AggregateExec: Final                     AggregateExec: Final
//!   CoalescePartitionsExec                   CoalescePartitionsExec
//!     AggregateExec: Partial       -->         TierraTotalsExec        (exec.rs)
//!       TierraScanExec                           TierraScanExec
//! ```
//! The new operator yields what the old one did: a row of the states of the aggregates for each partition ([`state`]), or rows of groups
//! and their states, where a group may come several times. The scan below it evaluates the filters, and returns totals of columns
//! instead of rows. An aggregation that needs anything else stays as it is.

mod exec;
mod rule;
mod state;

use std::sync::Arc;

use datafusion::execution::SessionStateBuilder;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;

use crate::rules::FILTERS_PUSHED;

/// Adds the rule to a session.
pub(crate) fn add_to(mut builder: SessionStateBuilder) -> SessionStateBuilder {
    let optimizer = builder.physical_optimizers();
    let rules = &mut optimizer.get_or_insert_with(PhysicalOptimizer::new).rules;
    let last = rules
        .iter()
        .rposition(|rule| rule.name().starts_with(FILTERS_PUSHED));
    rules.insert(last.unwrap_or(rules.len()), Arc::new(rule::RULE));
    builder
}
