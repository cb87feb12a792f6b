//! Hash joins with interleaved lookups.
//!
//! ```text
//!  build side ── all rows ──▶ one table of their keys (tierra-index), made by all threads
//!                                │  bounds and lookup, as a filter of the probe side's scan
//!  probe side ── batches ──▶ keys ──▶ lookups, plain or interleaved ──▶ pairs of rows ──▶ batches
//! ```
//!
//! DataFusion's `HashJoinExec` looks up one key after the other. It first copies both sides into partitions, so that every
//! thread has a small table of its own. Interleaved lookups do not need small tables: all threads probe one table, and
//! neither side is copied. [`rule`] decides which joins are executed so. They keep their `HashJoinExec` as the
//! description of the join, from keys to statistics; only the execution differs. All other joins stay as they are: below
//! about a million rows, and if keys are positions in an array, `HashJoinExec` is as fast or faster.
//!
//! For every executor, a join's build side is collected once for all threads where that costs less than distributing the rows
//! of both sides ([`rule`]), and begins when the join asks for it ([`deferred`]).
//!
//! [`optional`] keeps the planner from applying facts about the optional side of an outer join to the join's rows.
//!
//! Invariant: a [`exec::JoinExec`] yields the rows that the `HashJoinExec` it replaces would yield.

mod build;
mod deferred;
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

/// The hash join of `plan`, in either execution.
pub(crate) fn hash_join(plan: &dyn ExecutionPlan) -> Option<&HashJoinExec> {
    let in_turns = || Some(plan.downcast_ref::<exec::JoinExec>()?.join());
    plan.downcast_ref::<HashJoinExec>().or_else(in_turns)
}
