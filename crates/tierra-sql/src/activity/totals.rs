//! What the statements of a database have done since it was opened, in numbers.
//!
//! Invariant: a statement is added once, when it ends. Numbers of running ones are read where they are counted, so that nothing is
//! counted twice and no loop over rows counts for this.

use std::time::Duration;

use crate::work::Work;

/// Bounds of the classes of [`Totals::by_time`], in seconds; the last class has none.
pub const TIME_BOUNDS_S: [f64; 16] = [
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
    60.0,
];

/// Sums over all statements of a database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Statements that have ended.
    pub statements: u64,
    /// Those of them that ended with an error, also that of being cancelled.
    pub failed: u64,
    /// Statements that run.
    pub running: u64,
    /// Open sessions.
    pub sessions: u64,
    /// Rows handed out or written, those of running statements included.
    pub rows: u64,
    /// The time that ended statements took.
    pub elapsed: Duration,
    /// Ended statements by their time: up to each of [`TIME_BOUNDS_S`] and above the one before, and those above all.
    pub by_time: [u64; TIME_BOUNDS_S.len() + 1],
    /// What queries have read, running ones included. Statements that change rows are not in it, nor prepared point queries.
    pub work: Work,
}

impl Totals {
    /// Adds a statement that has ended.
    pub(super) fn add(&mut self, elapsed: Duration, rows: u64, work: Work, has_failed: bool) {
        self.statements += 1;
        self.failed += u64::from(has_failed);
        self.rows += rows;
        self.elapsed += elapsed;
        let seconds = elapsed.as_secs_f64();
        self.by_time[TIME_BOUNDS_S.partition_point(|bound| *bound < seconds)] += 1;
        self.work += work;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_on_a_bound_is_within_it() {
        let mut totals = Totals::default();
        for (seconds, class) in [(0.0, 0), (0.001, 1), (0.0011, 2), (60.0, 15), (61.0, 16)] {
            let before = totals.by_time[class];
            totals.add(Duration::from_secs_f64(seconds), 2, Work::default(), false);
            assert_eq!(totals.by_time[class], before + 1, "{seconds}");
        }
        assert_eq!((totals.statements, totals.rows), (5, 10));
        assert_eq!(totals.by_time.iter().sum::<u64>(), totals.statements);
    }
}
