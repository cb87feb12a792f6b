//! Matching rows of both sides, as two lists of row numbers.

use arrow::array::{Array, BooleanArray, UInt32Array};
use tierra_index::{JoinMatch, JoinRows, JoinTable};

/// Pairs of a row of the build side and a row of a probe batch.
#[derive(Debug, Default)]
pub(super) struct Pairs {
    build: Vec<u32>,
    probe: Vec<u32>,
}

/// How many matches of a probe batch have become pairs.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Progress {
    /// The next row of the batch.
    row: usize,
    /// The next match of that row.
    of_row: usize,
}

impl Pairs {
    pub(super) fn len(&self) -> usize {
        self.build.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.build.is_empty()
    }

    pub(super) fn build(&self) -> &[u32] {
        &self.build
    }

    pub(super) fn probe(&self) -> &[u32] {
        &self.probe
    }

    #[cfg(test)]
    pub(super) fn of(build: &[u32], probe: &[u32]) -> Self {
        Self {
            build: build.to_vec(),
            probe: probe.to_vec(),
        }
    }

    /// The lists as index arrays for `take`: of the build side, of the probe batch.
    pub(super) fn indices(&self) -> (UInt32Array, UInt32Array) {
        let array = |rows: &[u32]| UInt32Array::from_iter_values(rows.iter().copied());
        (array(&self.build), array(&self.probe))
    }

    /// Drops the pairs for which `mask` is not true.
    pub(super) fn keep(&mut self, mask: &BooleanArray) {
        debug_assert_eq!(mask.len(), self.len());
        if mask.null_count() == 0 && mask.true_count() == mask.len() {
            return;
        }
        let mut kept = 0;
        for place in 0..self.len() {
            self.build[kept] = self.build[place];
            self.probe[kept] = self.probe[place];
            kept += usize::from(mask.is_valid(place) && mask.value(place));
        }
        self.build.truncate(kept);
        self.probe.truncate(kept);
    }

    /// Replaces the pairs by the next ones of a batch, at most `most`. They are in the order of the batch's rows, and per
    /// row in the order of the build side's. `false` when they were the last.
    pub(super) fn refill(
        &mut self,
        table: &JoinTable,
        matches: &[JoinMatch],
        progress: &mut Progress,
        most: usize,
    ) -> bool {
        self.build.clear();
        self.probe.clear();
        if table.is_unique() {
            return self.refill_unique(matches, progress, most);
        }
        while let Some(found) = matches.get(progress.row) {
            let room = most - self.len();
            let only;
            let rows = match table.rows(*found) {
                JoinRows::None => &[][..],
                JoinRows::One(row) => {
                    only = [row];
                    &only[..]
                }
                JoinRows::Many(rows) => rows,
            };
            let rest = &rows[progress.of_row..];
            let next = &rest[..rest.len().min(room)];
            self.build.extend_from_slice(next);
            self.probe.resize(self.build.len(), progress.row as u32);
            if next.len() < rest.len() {
                progress.of_row += next.len();
                return true;
            }
            *progress = Progress {
                row: progress.row + 1,
                of_row: 0,
            };
        }
        false
    }

    /// For tables without duplicate keys. Whether a row has a match is not predictable, so each row is written, and the next
    /// row overwrites it if it had none.
    fn refill_unique(
        &mut self,
        matches: &[JoinMatch],
        progress: &mut Progress,
        most: usize,
    ) -> bool {
        let first = progress.row;
        let end = matches.len().min(first + most);
        self.build.resize(end - first, 0);
        self.probe.resize(end - first, 0);
        let mut count = 0;
        for (row, found) in (first..end).zip(&matches[first..end]) {
            self.build[count] = found.only_row();
            self.probe[count] = row as u32;
            count += usize::from(found.is_some());
        }
        self.build.truncate(count);
        self.probe.truncate(count);
        progress.row = end;
        end < matches.len()
    }
}
