//! Hash joins whose lookups take turns.
//!
//! ```text
//!  build side ── all rows ──▶ one table of their keys (tierra-index), made by all threads
//!                                │  bounds and lookup, as a filter of the probe side's scan
//!  probe side ── batches ──▶ keys ──▶ lookups, plain or interleaved ──▶ pairs of rows ──▶ batches
//! ```
//!
//! DataFusion's `HashJoinExec` looks one key up after the other, and has both sides copied into partitions
//! first, so that every thread has a table of its own. Lookups that take turns do not need small tables:
//! all threads probe one, and neither side is copied. [`rule`] says which joins that is for; they keep
//! their `HashJoinExec` as the description of what to do, from keys to statistics, and only execute
//! otherwise. All others stay as they are: below about a million rows, and where keys are places in an array,
//! theirs is as fast or faster.
//!
//! [`optional`] keeps the planner from taking what holds of the optional side of an outer join for what holds of its rows.
//!
//! Invariant: a [`exec::JoinExec`] yields the rows that the `HashJoinExec` it stands for would yield.

mod build;
mod exec;
mod filter;
mod keys;
mod optional;
mod pairs;
mod probe;
mod rule;

use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::HashJoinExec;

pub(crate) use rule::add_to;

/// The hash join that `plan` is, however it is executed.
pub(crate) fn hash_join(plan: &dyn ExecutionPlan) -> Option<&HashJoinExec> {
    let in_turns = || Some(plan.downcast_ref::<exec::JoinExec>()?.join());
    plan.downcast_ref::<HashJoinExec>().or_else(in_turns)
}
