//! The numbers of a database, and of the statements that ended.

use tierra_sql::{TIME_BOUNDS_S, Totals};

use super::Samples;
use crate::shared::Shared;

/// The numbers of a sample besides the classes of times, by name. Those that only grow count from the open of the database.
const NAMES: [&str; 17] = [
    "near_budget_bytes",
    "near_used_bytes",
    "always_near_bytes",
    "read_near_bytes",
    "read_far_bytes",
    "cells_near",
    "cells_far",
    "lookups",
    "suspensions",
    "moved_near_bytes",
    "moved_far_bytes",
    "written_bytes",
    "written_lines",
    "statements",
    "failed",
    "running",
    "sessions",
];

/// Samples of a database.
pub(crate) fn of_database() -> Samples {
    Samples::new(NAMES.map(String::from).into(), &TIME_BOUNDS_S)
}

/// The numbers of a sample.
pub(crate) fn read(shared: &Shared) -> Vec<u64> {
    let tiers = shared.database.tiers_without_page_sizes();
    let near = &tiers[0];
    let written = tiers.iter().filter_map(|tier| tier.written());
    let (bytes, lines) = written.fold((0, 0), |(bytes, lines), one| {
        (bytes + one.bytes, lines + one.lines)
    });
    let moved = shared.database.moved();
    let totals = shared.monitor.totals();
    let Totals { work, .. } = totals;
    let named: [u64; NAMES.len()] = [
        near.capacity_bytes,
        near.used_bytes,
        near.always_near_bytes.unwrap_or(0),
        work.bytes_near,
        work.bytes_far,
        work.cells_near,
        work.cells_far,
        work.lookups,
        work.suspensions,
        moved.near_bytes,
        moved.far_bytes,
        bytes,
        lines,
        totals.statements,
        totals.failed,
        totals.running,
        totals.sessions,
    ];
    named.into_iter().chain(totals.by_time).collect()
}
