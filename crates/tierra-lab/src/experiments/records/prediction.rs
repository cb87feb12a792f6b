//! What a record in far memory costs, computed from the memory's description and the bytes of a record, before it is measured.
//!
//! Missed lines take their latency, and bytes the bandwidth of reading or writing in order: a record is one object, and every internal
//! line of it is used.
//!
//! * **Reads.** The lines of all records of a window are asked for together, so as many as can be in flight share a latency. The
//!   store's own work goes on meanwhile; the longer of both hides the shorter. Uniform reads find as many lines in the modelled
//!   cache as there is room for.
//! * **Inserts.** Records are written one after the other. The first line of each is waited for; those behind it were prefetched. All
//!   are read before they are written, and written back.

use tierra_memory::LINE_BYTES;
use tierra_memory::emulation::FarMemory;

use crate::bar::Bar;
use crate::row::Row;
use tierra_data::ycsb::Workload;

/// The two differ by as much at most.
const OFF_MAX: f64 = 0.2;
/// What a row says it should have been.
pub(super) const PREDICTED: &str = "predicted_over_near";

/// The time over everything near that a row of everything far should show; `None` for workloads that are neither reads nor inserts
/// alone. All records together have `all_bytes`.
fn predicted(row: &Row, records: u64, all_bytes: u64) -> Option<f64> {
    let far = FarMemory::OPTANE.whole();
    let near_ns = row.value("time_near_ns")? / row.value("operations")?;
    let all_bytes = all_bytes as f64;
    let bytes = all_bytes / records as f64;
    let far_ns = if row.is(&[("workload", Workload::R.name)]) {
        let missed = 1.0 - (far.cache_bytes as f64 / all_bytes).min(1.0);
        let lines = (bytes / LINE_BYTES as f64).ceil();
        let waits = lines * far.latency_ns / far.misses_in_flight as f64;
        near_ns.max(missed * (waits + bytes / far.sequential_read_gb_per_s))
    } else if row.is(&[("workload", Workload::I.name)]) {
        let moved = bytes / far.sequential_read_gb_per_s + bytes / far.sequential_write_gb_per_s;
        near_ns + far.latency_ns + moved
    } else {
        return None;
    };
    Some(far_ns / near_ns)
}

/// The row with its prediction.
pub(super) fn onto(row: Row, records: u64, all_bytes: u64) -> Row {
    match predicted(&row, records, all_bytes) {
        Some(predicted) => row.number(PREDICTED, predicted),
        None => row,
    }
}

/// The bar of a workload: how far the measured time lies from the predicted one.
pub(super) fn bar(row: Option<&Row>, what: &str) -> Bar {
    let off = row
        .and_then(|row| Some((row.value("time_over_near")? / row.value(PREDICTED)? - 1.0).abs()));
    Bar::at_most(
        format!("{what}, all far over all near: off what lines, latency and bandwidth predict"),
        OFF_MAX,
        off,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORDS: u64 = 1_000_000;
    const BYTES: u64 = 1_152_000_000;

    fn row(workload: &str, near_ns: u64) -> Row {
        Row::new()
            .text("workload", workload)
            .count("operations", 1_000)
            .samples("time_near", "ns", vec![near_ns * 1_000])
    }

    #[test]
    fn reads_wait_for_their_lines_and_inserts_for_one() {
        let far_ns = |workload: &str, near_ns| {
            predicted(&row(workload, near_ns), RECORDS, BYTES).unwrap() * near_ns as f64
        };
        // 18 lines, ten at a time, and 1,152 bytes; 3.5 % are cached.
        let reads = (1.0 - 38.5 * 1.048_576 / 1_152.0) * (540.0 + 32.0);
        assert!(
            (far_ns("R", 200) - reads).abs() < 0.1,
            "{}",
            far_ns("R", 200)
        );
        assert_eq!(far_ns("R", 900), 900.0, "the store's work hides the waits");
        assert!((far_ns("I", 500) - (500.0 + 300.0 + 32.0 + 160.0)).abs() < 0.1);
        assert_eq!(predicted(&row("A", 200), RECORDS, BYTES), None);
    }

    #[test]
    fn the_bar_is_missed_on_either_side() {
        let measured = |over| onto(row("I", 500), RECORDS, BYTES).number("time_over_near", over);
        let bar_of = |over| bar(Some(&measured(over)), "I");
        assert!(bar_of(992.0 / 500.0).met);
        assert!(!bar_of(1.2).met && !bar_of(2.5).met);
        assert_eq!(bar(None, "I").measured, None);
        assert_eq!(bar(Some(&row("I", 500)), "I").measured, None);
    }
}
