//! Memory of each tier over time, as the placement study reads it from numastat.

use tierra_kv::keyspace::Report;

use crate::curve::Curve;
use crate::row::Row;
use crate::view::Unit;

/// Memory of the tiers at a moment: points of a [`curve`], for a store of this name. An empty tier has no point.
pub(super) fn note(rows: &mut Vec<Row>, store: &str, at_s: f64, near_bytes: u64, far_bytes: u64) {
    let tiers = [("near", near_bytes), ("far", far_bytes)];
    for (tier, bytes) in tiers.into_iter().filter(|&(_, bytes)| bytes > 0) {
        let row = Row::new()
            .text("memory", format!("{store}: {tier}"))
            .number("moment_s", at_s)
            .count("tier_bytes", bytes);
        rows.push(row);
    }
}

/// Memory of the tiers as a store reports it: pages of records, and tables, which are near.
pub(super) fn held_bytes(report: &Report) -> (u64, u64) {
    let near = report.near.held_bytes + report.table_bytes;
    (near, report.far.held_bytes)
}

/// A line for each tier of each store.
pub(super) const fn curve(title: &'static str) -> Curve {
    Curve {
        title,
        at: "moment_s",
        series: "memory",
        value: "tier_bytes",
        unit: Unit::Bytes,
    }
}
