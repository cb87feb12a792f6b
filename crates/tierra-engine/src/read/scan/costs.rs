//! Estimates in nanoseconds: the cost of testing rows on packed codes, and of asking an inverted index instead.
//!
//! Measured by `examples/index_costs.rs` on one core (Zen 5): 4 M rows of one column, in random and in sorted order, values of 1
//! to 1,000 rows each, lists of one value to all; near, and far on pages of 4 KiB. Real far latency makes both more expensive.

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
        let all_ns = self.blocks * BLOCK_NS + self.rows * share_met * row_ns;
        all_ns.min(self.most_ns) / self.threads
    }

    /// The number of lookups that takes as long as the whole scan.
    pub(super) fn lookups_most(&self) -> u64 {
        (self.ns(1.0) / LOOKUP_NS) as u64
    }
}

pub(super) fn lookups_ns(lookups: u64) -> f64 {
    lookups as f64 * LOOKUP_NS
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
