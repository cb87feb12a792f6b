//! A share of a table's rows that can be generated on its own.
//!
//! The parts of one table, put one after the other, are exactly its rows in order.

use std::ops::Range;

/// Part `index` of `count`; see [`Part::new`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    index: u32,
    count: u32,
}

impl Part {
    /// The whole table.
    pub const WHOLE: Self = Self { index: 0, count: 1 };

    /// Part `index` (from 0) of `count`; `None` unless `index < count`.
    pub fn new(index: u32, count: u32) -> Option<Self> {
        (index < count).then_some(Self { index, count })
    }

    /// All `count` parts, in order.
    pub fn split(count: u32) -> impl Iterator<Item = Self> {
        (0..count).map(move |index| Self { index, count })
    }

    /// Which part, from 0.
    pub fn index(self) -> u32 {
        self.index
    }

    /// Of how many.
    pub fn count(self) -> u32 {
        self.count
    }

    /// The rows of a table of `rows` rows that belong to this part.
    pub fn of(self, rows: u64) -> Range<u64> {
        let bound = |index: u32| {
            // In 128 bits, since rows * index can exceed 64.
            (u128::from(rows) * u128::from(index) / u128::from(self.count)) as u64
        };
        bound(self.index)..bound(self.index + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_tile_the_table() {
        for rows in [0, 1, 6, 7, 8, 1_000_003, u64::MAX] {
            for count in [1, 2, 7, 64] {
                let mut next = 0;
                for part in Part::split(count) {
                    let range = part.of(rows);
                    assert_eq!(range.start, next);
                    next = range.end;
                }
                assert_eq!(next, rows);
            }
        }
        assert_eq!(Part::new(3, 3), None);
    }
}
