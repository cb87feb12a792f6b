//! How many distinct values a column has, estimated from a sample.

use hashbrown::HashMap;

/// How often a sample has each of its distinct values (strings: hashes of them).
#[derive(Default)]
pub(crate) struct Distinct {
    counts: HashMap<u64, u32>,
    /// Values looked at.
    pub(crate) values: usize,
}

impl Distinct {
    /// Distinct values seen.
    pub(crate) fn seen(&self) -> usize {
        self.counts.len()
    }

    pub(crate) fn add(&mut self, value: u64) {
        self.values += 1;
        *self.counts.entry(value).or_insert(0) += 1;
    }

    /// Distinct values among `rows` rows by Chao's estimator: those seen, and as many more as
    /// values seen once and values seen twice let expect.
    pub(crate) fn estimate(&self, rows: usize) -> usize {
        let seen_times = |times| {
            self.counts
                .values()
                .filter(|&&count| count == times)
                .count()
        };
        if self.values >= rows {
            return self.counts.len();
        }
        let (once, twice) = (seen_times(1) as f64, seen_times(2) as f64);
        let unseen = once * (once - 1.0).max(0.0) / (2.0 * (twice + 1.0));
        rows.min(self.counts.len() + unseen as usize)
    }
}
