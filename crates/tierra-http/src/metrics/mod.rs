//! `GET /metrics`: counters as Prometheus reads them. Everything is read when it is asked for; nothing is counted for this alone.
//!
//! docs/monitoring.md says what each number means.

mod text;

use tierra_engine::ColumnPlacement;
use tierra_sql::TIME_BOUNDS_S;

pub(crate) use self::text::Format;
pub use self::text::{Kind, Text};
use crate::shared::Shared;

/// Columns whose heat is told, the hottest: a scrape of a thousand would be long.
const COLUMNS_MOST: usize = 200;

/// Writes all metrics of a database.
pub(crate) fn write(shared: &Shared, text: &mut Text) {
    build_info(text);
    tiers(shared, text);
    statements(shared, text);
    columns(shared.database.placements(), text);
    health(shared, text);
}

/// Writes which Tierra this is.
pub fn build_info(text: &mut Text) {
    text.family("tierra_build_info", Kind::Gauge, "Which Tierra this is.");
    text.sample(&[("version", env!("CARGO_PKG_VERSION"))], 1);
}

fn tiers(shared: &Shared, text: &mut Text) {
    let tiers = shared.database.tiers_without_page_sizes();
    let speeds: Vec<String> = tiers.iter().map(|tier| tier.speed.to_string()).collect();
    let labels = |at: usize| [("tier", &*tiers[at].name), ("speed", &*speeds[at])];
    text.family(
        "tierra_tier_capacity_bytes",
        Kind::Gauge,
        "What a tier can hold; of near memory, the budget of copies.",
    );
    for (at, tier) in tiers.iter().enumerate() {
        text.sample(&labels(at), tier.capacity_bytes);
    }
    text.family(
        "tierra_tier_used_bytes",
        Kind::Gauge,
        "What a tier holds; of near memory, copies.",
    );
    for (at, tier) in tiers.iter().enumerate() {
        text.sample(&labels(at), tier.used_bytes);
    }
    text.family(
        "tierra_always_near_bytes",
        Kind::Gauge,
        "Near memory besides the budget: dictionaries, headers, inner parts of indexes, newest rows.",
    );
    text.sample(&[], tiers[0].always_near_bytes.unwrap_or(0));
    text.family(
        "tierra_tiers_missing",
        Kind::Gauge,
        "Tiers that were missing at the open or have failed since.",
    );
    text.sample(&[], shared.database.missing_tiers().len());

    let counted = || {
        tiers.iter().filter_map(|tier| {
            let counters = tier.counters?;
            let causes = [
                ("extents", counters.extents),
                ("logs", counters.logs),
                ("superblock", counters.superblock),
                ("repair", counters.repair),
            ];
            Some((&*tier.name, causes))
        })
    };
    text.family(
        "tierra_written_bytes",
        Kind::Counter,
        "Bytes stored to a tier, by cause.",
    );
    for (tier, causes) in counted() {
        for (cause, written) in causes {
            text.sample(&[("tier", tier), ("cause", cause)], written.bytes);
        }
    }
    text.family(
        "tierra_written_lines",
        Kind::Counter,
        "Lines of 64 bytes flushed to a tier, by cause.",
    );
    for (tier, causes) in counted() {
        for (cause, written) in causes {
            text.sample(&[("tier", tier), ("cause", cause)], written.lines);
        }
    }
    text.family(
        "tierra_write_amplification_ratio",
        Kind::Gauge,
        "Bytes stored to a tier for each byte of rows added.",
    );
    for tier in &tiers {
        if let Some(ratio) = tier.write_amplification {
            text.sample(&[("tier", &tier.name)], ratio);
        }
    }
    let moved = shared.database.moved();
    text.family(
        "tierra_moved_bytes",
        Kind::Counter,
        "Bytes that the mover copied near, and of copies that gave way.",
    );
    text.sample(&[("direction", "near")], moved.near_bytes);
    text.sample(&[("direction", "far")], moved.far_bytes);
}

fn statements(shared: &Shared, text: &mut Text) {
    let totals = shared.monitor.totals();
    let work = totals.work;
    text.family(
        "tierra_read_bytes",
        Kind::Counter,
        "Bytes of blocks that scans of queries read, by the speed of their memory.",
    );
    text.sample(&[("speed", "near")], work.bytes_near);
    text.sample(&[("speed", "far")], work.bytes_far);
    text.family(
        "tierra_read_cells",
        Kind::Counter,
        "Single values that queries read by their row, by the speed of their memory.",
    );
    text.sample(&[("speed", "near")], work.cells_near);
    text.sample(&[("speed", "far")], work.cells_far);
    text.family(
        "tierra_lookups",
        Kind::Counter,
        "Keys, values and rows that queries looked up one by one.",
    );
    text.sample(&[], work.lookups);
    text.family(
        "tierra_suspensions",
        Kind::Counter,
        "How often a lookup gave way to another instead of waiting for memory.",
    );
    text.sample(&[], work.suspensions);
    text.family(
        "tierra_query_seconds",
        Kind::Histogram,
        "The time of ended statements.",
    );
    let mut below = 0;
    for (bound, count) in TIME_BOUNDS_S.iter().zip(totals.by_time) {
        below += count;
        text.suffixed("_bucket", &[("le", &format!("{bound:?}"))], below);
    }
    text.suffixed("_bucket", &[("le", "+Inf")], totals.statements);
    text.suffixed("_sum", &[], totals.elapsed.as_secs_f64());
    text.suffixed("_count", &[], totals.statements);
    text.family(
        "tierra_queries_failed",
        Kind::Counter,
        "Statements that ended with an error.",
    );
    text.sample(&[], totals.failed);
    text.family(
        "tierra_queries_running",
        Kind::Gauge,
        "Statements that run now.",
    );
    text.sample(&[], totals.running);
    text.family("tierra_sessions", Kind::Gauge, "Open sessions.");
    text.sample(&[], totals.sessions);
}

fn columns(mut columns: Vec<ColumnPlacement>, text: &mut Text) {
    columns.retain(|column| !column.heat.is_zero());
    columns.sort_by_key(|column| std::cmp::Reverse(column.heat));
    columns.truncate(COLUMNS_MOST);
    text.family(
        "tierra_column_heat_seconds",
        Kind::Gauge,
        "The time that near copies of a column save its readers, or would save; the hottest columns.",
    );
    for column in &columns {
        let labels = [("table", &*column.table), ("column", &*column.column)];
        text.sample(&labels, column.heat.as_secs_f64());
    }
}

fn health(shared: &Shared, text: &mut Text) {
    let (_, faults) = shared.database.faults();
    for (name, value, help) in [
        (
            "tierra_faults",
            faults.found,
            "Faults found in stored data.",
        ),
        (
            "tierra_faults_repaired",
            faults.repaired,
            "Those of them that were written anew from another copy.",
        ),
        (
            "tierra_faults_lost",
            faults.lost,
            "Those of them of which no copy has the data.",
        ),
    ] {
        text.family(name, Kind::Counter, help);
        text.sample(&[], value);
    }
    let scrub = shared.database.scrub_progress();
    text.family(
        "tierra_scrub_progress_ratio",
        Kind::Gauge,
        "How much of the pass that checks everything is done.",
    );
    let progress = match scrub.pass_total_bytes {
        0 => 0.0,
        total => scrub.pass_bytes as f64 / total as f64,
    };
    text.sample(&[], progress);
    text.family(
        "tierra_scrub_passes",
        Kind::Counter,
        "Passes that have ended.",
    );
    text.sample(&[], scrub.passes);
    // Left out until the writer has told.
    if let Some(copies) = shared.copies.known() {
        text.family(
            "tierra_replicas_missing",
            Kind::Gauge,
            "Copies of tables and columns that are not complete.",
        );
        let missing = copies.iter().filter(|copy| !copy.is_complete);
        text.sample(&[], missing.count());
    }
}
