//! What it takes to test rows on packed codes, and to ask an inverted index for them instead, estimated in
//! nanoseconds.
//!
//! Measured by `examples/index_costs.rs` on one core (Zen 5): 4 M rows of one column, in random and in sorted
//! order, values of 1 to 1,000 rows each, lists of one value to all; near, and far on pages of 4 KiB. What is
//! far behind real latency costs both ways more.

/// Judging a block by its minimum and maximum: 0.12 ms for the 3,907 blocks of which nothing is left.
const BLOCK_NS: f64 = 31.0;
/// Testing a row for codes in few stretches, 0.4 to 0.5 ms for all 4 M.
const STRETCHES_ROW_NS: f64 = 0.11;
/// ... for scattered codes, by a bitmap: 1.5 to 2.0 ms; 2.4 to 4.3 where the bitmap outgrows a core's own cache.
const SCATTERED_ROW_NS: f64 = 0.45;
const WIDELY_SCATTERED_ROW_NS: f64 = 0.75;
/// Codes of a dictionary from which on that is so.
const WIDE_CODES: u64 = 1 << 20;
/// Looking a code up, without its rows: 20 to 38 ns with one.
const LOOKUP_NS: f64 = 25.0;
/// Noting a row that a code has, and sorting it: 12 ns where they lie all over the table, 4 where few blocks
/// have all of them.
const ROW_NS: f64 = 12.0;
const CLUSTERED_ROW_NS: f64 = 5.0;
/// Of the blocks, the part that has some of the codes, below which rows count as clustered.
const CLUSTERED: f64 = 0.5;
/// Testing one row of a block after an index has left nothing else of it.
const LONE_ROW_NS: f64 = 45.0;

/// A scan of one condition that an index may save.
#[derive(Clone, Copy, Debug)]
pub(super) struct ScanCost {
    /// Blocks that the index covers and nobody has read.
    pub(super) blocks: f64,
    pub(super) rows: f64,
    pub(super) are_stretches: bool,
    /// Of the dictionary.
    pub(super) codes: u64,
    /// What there is to do anyway, if another index has said so.
    pub(super) most_ns: f64,
    /// That share the scan; one of them asks the index, and the others wait for it.
    pub(super) threads: f64,
}

impl ScanCost {
    /// Until the scan ends, if the part `share_met` of the blocks has to be tested.
    pub(super) fn ns(&self, share_met: f64) -> f64 {
        let row_ns = match self.are_stretches {
            true => STRETCHES_ROW_NS,
            false if self.codes < WIDE_CODES => SCATTERED_ROW_NS,
            false => WIDELY_SCATTERED_ROW_NS,
        };
        let all_ns = self.blocks * BLOCK_NS + self.rows * share_met * row_ns;
        all_ns.min(self.most_ns) / self.threads
    }

    /// So many lookups take as long as the whole scan.
    pub(super) fn lookups_most(&self) -> u64 {
        (self.ns(1.0) / LOOKUP_NS) as u64
    }
}

pub(super) fn lookups_ns(lookups: u64) -> f64 {
    lookups as f64 * LOOKUP_NS
}

/// Noting the rows that were found, where the part `share_met` of the blocks has some.
pub(super) fn rows_ns(rows: u64, share_met: f64) -> f64 {
    let row_ns = match share_met < CLUSTERED {
        true => CLUSTERED_ROW_NS,
        false => ROW_NS,
    };
    rows as f64 * row_ns
}

/// What is left to do once an index has named `candidates`, and `others` are to be tested.
pub(super) fn left_ns(candidates: usize, others: usize) -> f64 {
    candidates as f64 * LONE_ROW_NS + others as f64 * SCATTERED_ROW_NS
}
