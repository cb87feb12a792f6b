//! What could not be indexed, so that a failure is met once and not at every commit.
//!
//! Invariant: forgetting costs time, never an answer: rows without an index are scanned.

use std::collections::{HashMap, HashSet};

/// A table's id, and a column.
pub(super) type TableColumn = (u64, usize);

/// The failures of this process.
#[derive(Debug, Default)]
pub(super) struct FailedBuilds {
    columns: HashMap<TableColumn, Failure>,
    /// Segments whose chunks of a column are damaged.
    segments: HashSet<(TableColumn, u32)>,
}

/// The state of a table when the index of a column could not be built.
#[derive(Debug)]
struct Failure {
    /// The generation of the column's dictionary.
    generation: u64,
    rows: u64,
}

impl FailedBuilds {
    /// Notes that building failed.
    pub(super) fn note(&mut self, column: TableColumn, generation: u64, rows: u64) {
        self.columns.insert(column, Failure { generation, rows });
    }

    /// Whether building may succeed now: it has not failed, or the dictionary has another generation, or there are a tenth more
    /// rows.
    pub(super) fn is_due(&self, column: TableColumn, generation: u64, rows: u64) -> bool {
        let is_another = |failed: &Failure| {
            failed.generation != generation || rows > failed.rows + failed.rows / 10
        };
        self.columns.get(&column).is_none_or(is_another)
    }

    /// Leaves a segment out from now on.
    pub(super) fn leave_out(&mut self, column: TableColumn, segment: u32) {
        self.segments.insert((column, segment));
    }

    /// Whether a segment is left out.
    pub(super) fn is_left_out(&self, column: TableColumn, segment: u32) -> bool {
        self.segments.contains(&(column, segment))
    }

    /// Forgets the failures of columns: there may be room again.
    pub(super) fn retry(&mut self) {
        self.columns.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_tried_again_with_a_tenth_more_rows_or_other_codes() {
        let mut failed_builds = FailedBuilds::default();
        assert!(failed_builds.is_due((1, 0), 1, 0));
        failed_builds.note((1, 0), 3, 1000);
        for (generation, rows, is_due) in [
            (3, 1000, false),
            (3, 1099, false),
            (3, 1101, true),
            (4, 1000, true),
        ] {
            assert_eq!(
                failed_builds.is_due((1, 0), generation, rows),
                is_due,
                "{rows} rows, generation {generation}"
            );
        }
        assert!(failed_builds.is_due((1, 1), 3, 1000), "another column");
        assert!(failed_builds.is_due((2, 0), 3, 1000), "another table");
        failed_builds.retry();
        assert!(failed_builds.is_due((1, 0), 3, 1000));
    }
}
