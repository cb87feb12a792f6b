//! Estimates in nanoseconds: the cost of testing rows on packed codes, and of asking an inverted index instead.
//!
//! Measured by `examples/index_costs.rs` on one core (Zen 5): 4 M rows of one column, in random and in sorted order, values of 1
//! to 1,000 rows each, lists of one value to all; near. What far memory takes longer for a line is added to both: as calibrated, or as
//! emulated.

use tierra_memory::LINE_BYTES;
use tierra_memory::placement::LineTimes;

/// Judging a block by its minimum and maximum: 0.12 ms for the 3,907 blocks, all ruled out.
const BLOCK_NS: f64 = 31.0;
/// Testing a row for codes in few ranges: 0.4 to 0.5 ms for all 4 M.
const STRETCHES_ROW_NS: f64 = 0.11;
/// The same for scattered codes, by a bitmap: 1.5 to 2.0 ms; 2.4 to 4.3 ms if the bitmap outgrows a core's own cache.
const SCATTERED_ROW_NS: f64 = 0.45;
const WIDELY_SCATTERED_ROW_NS: f64 = 0.75;
/// Codes of a dictionary from which on the bitmap outgrows that cache.
const WIDE_CODES: u64 = 1 << 20;
/// Looking a code up, without its rows: 20 to 38 ns each.
const LOOKUP_NS: f64 = 25.0;
/// Noting a row that a code has, and sorting it: 12 ns if the rows are spread over the table, 4 ns if few blocks have all of
/// them.
const ROW_NS: f64 = 12.0;
const CLUSTERED_ROW_NS: f64 = 5.0;
/// Rows count as clustered if less than this share of the blocks has any of the codes.
const CLUSTERED: f64 = 0.5;
/// Testing the one row of a block that an index has left.
const LONE_ROW_NS: f64 = 45.0;

/// A scan for one condition that an index may save.
#[derive(Clone, Copy, Debug)]
pub(super) struct ScanCost {
    /// Blocks that the index covers and no cursor has read.
    pub(super) blocks: f64,
    pub(super) rows: f64,
    /// What reading the column in these blocks takes longer than in near memory.
    pub(super) far_ns: f64,
    pub(super) are_stretches: bool,
    /// Codes of the dictionary.
    pub(super) codes: u64,
    /// The cost that remains anyway, if another index has listed rows.
    pub(super) most_ns: f64,
    /// Threads that share the scan; one of them asks the index, and the others wait for it.
    pub(super) threads: f64,
}

impl ScanCost {
    /// Time until the scan ends, if the share `share_met` of the blocks must be tested.
    pub(super) fn ns(&self, share_met: f64) -> f64 {
        let row_ns = match self.are_stretches {
            true => STRETCHES_ROW_NS,
            false if self.codes < WIDE_CODES => SCATTERED_ROW_NS,
            false => WIDELY_SCATTERED_ROW_NS,
        };
        let tested_ns = self.rows * row_ns + self.far_ns;
        let all_ns = self.blocks * BLOCK_NS + share_met * tested_ns;
        all_ns.min(self.most_ns) / self.threads
    }
}

/// What reading bytes in order takes longer than in near memory.
pub(super) fn far_ns(bytes: u64, lines: LineTimes) -> f64 {
    let longer_ns = (lines.in_order_ns - LineTimes::USUAL.in_order_ns).max(0.0);
    bytes as f64 / LINE_BYTES as f64 * longer_ns
}

/// Looking a code up in a part of an index whose lines take so long.
pub(super) fn lookup_ns(lines: LineTimes) -> f64 {
    LOOKUP_NS + (lines.looked_up_ns() - LineTimes::USUAL.looked_up_ns()).max(0.0)
}

/// Noting the rows that were found, if the share `share_met` of the blocks has any.
pub(super) fn rows_ns(rows: u64, share_met: f64) -> f64 {
    let row_ns = match share_met < CLUSTERED {
        true => CLUSTERED_ROW_NS,
        false => ROW_NS,
    };
    rows as f64 * row_ns
}

/// The remaining cost if an index has listed `candidates`, and `others` must be tested.
pub(super) fn left_ns(candidates: usize, others: usize) -> f64 {
    candidates as f64 * LONE_ROW_NS + others as f64 * SCATTERED_ROW_NS
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(far_ns: f64) -> ScanCost {
        ScanCost {
            blocks: 1000.0,
            rows: 1_024_000.0,
            far_ns,
            are_stretches: true,
            codes: 1000,
            most_ns: f64::INFINITY,
            threads: 2.0,
        }
    }

    #[test]
    fn what_lies_far_costs_what_its_lines_take_longer() {
        let slow = LineTimes {
            in_order_ns: 25.0,
            alone_ns: 500.0,
            shared_ns: 0.0,
        };
        let bytes = 2 * 1_024_000;
        assert_eq!(far_ns(bytes, LineTimes::USUAL), 0.0);
        assert_eq!(far_ns(bytes, slow), 640_000.0);
        let near = cost(0.0);
        let far = cost(far_ns(bytes, slow));
        assert_eq!(far.ns(1.0) - near.ns(1.0), 320_000.0);
        // Blocks that are judged by minimum and maximum stay where they are.
        assert_eq!(far.ns(0.0), near.ns(0.0));
        assert_eq!(lookup_ns(LineTimes::USUAL), LOOKUP_NS);
        assert_eq!(lookup_ns(slow), LOOKUP_NS + 100.0);
    }
}
