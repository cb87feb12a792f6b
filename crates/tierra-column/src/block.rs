//! Values on their way into a chunk: one block's ordinals and which of its rows are NULL.
//!
//! Invariant: a NULL row holds the ordinal of the row before it (of the first value, where none
//! came before), so minima, maxima and differences need not look for NULLs. A block of NULLs only
//! holds zeros.

use crate::bits::{BLOCK_LEN, Kernels, Mask};

/// Up to 1,024 ordinals.
pub(crate) struct OrdinalBlock {
    pub(crate) ordinals: Box<[u64; BLOCK_LEN]>,
    pub(crate) rows: usize,
    pub(crate) nulls: Mask,
}

/// What a block's directory entry says about its values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Summary {
    /// Least and greatest ordinal; crossed where every row is NULL.
    pub(crate) min: u64,
    pub(crate) max: u64,
    pub(crate) null_count: u16,
}

impl Summary {
    /// Of no values.
    pub(crate) const EMPTY: Summary = Summary {
        min: u64::MAX,
        max: 0,
        null_count: 0,
    };

    /// Least and greatest of all blocks.
    pub(crate) fn of_all<'s>(blocks: impl IntoIterator<Item = &'s Summary>) -> Summary {
        blocks
            .into_iter()
            .fold(Summary::EMPTY, |total, block| Summary {
                min: total.min.min(block.min),
                max: total.max.max(block.max),
                null_count: 0,
            })
    }

    /// NULLs of all blocks.
    pub(crate) fn nulls_of(blocks: &[Summary]) -> u64 {
        blocks.iter().map(|block| u64::from(block.null_count)).sum()
    }
}

impl OrdinalBlock {
    pub(crate) fn new() -> OrdinalBlock {
        OrdinalBlock {
            ordinals: Box::new([0; BLOCK_LEN]),
            rows: 0,
            nulls: Mask::none(),
        }
    }

    pub(crate) fn values(&self) -> &[u64] {
        &self.ordinals[..self.rows]
    }

    /// Notes NULLs from 64 validity bits (1: a value) of the rows from `row` on, of which `count`
    /// count.
    pub(crate) fn mark_nulls(&mut self, row: usize, validity: u64, count: usize) {
        let counted = if count >= 64 { !0 } else { (1 << count) - 1 };
        let nulls = !validity & counted;
        if nulls == 0 {
            return;
        }
        let (word, bit) = (row / 64, row % 64);
        self.nulls.0[word] |= nulls << bit;
        if bit > 0 && word + 1 < self.nulls.0.len() {
            self.nulls.0[word + 1] |= nulls >> (64 - bit);
        }
    }

    /// Establishes the invariant once all rows are filled in.
    pub(crate) fn settle_nulls(&mut self) {
        let null_count = self.nulls.count();
        if null_count == 0 {
            return;
        }
        if null_count == self.rows {
            self.ordinals.fill(0);
            return;
        }
        let first = (0..self.rows)
            .find(|&row| !self.nulls.get(row))
            .expect("fewer NULLs than rows leave a value");
        let mut previous = self.ordinals[first];
        for row in &self.nulls {
            if row > 0 && !self.nulls.get(row - 1) {
                previous = self.ordinals[row - 1];
            }
            self.ordinals[row] = previous;
        }
    }

    pub(crate) fn summary(&self, kernels: Kernels) -> Summary {
        let null_count = self.nulls.count();
        if null_count == self.rows {
            return Summary {
                null_count: null_count as u16,
                ..Summary::EMPTY
            };
        }
        let (min, max) = kernels
            .min_max_u64(self.values())
            .unwrap_or((Summary::EMPTY.min, Summary::EMPTY.max));
        Summary {
            min,
            max,
            null_count: null_count as u16,
        }
    }

    /// `ordinal - base` of every row, code 0 where it is NULL.
    pub(crate) fn codes(&self, base: u64, out: &mut [u64; BLOCK_LEN]) {
        Kernels::best().compiled(|| {
            for (code, ordinal) in out.iter_mut().zip(self.ordinals.iter()) {
                *code = ordinal.wrapping_sub(base);
            }
        });
        for row in &self.nulls {
            out[row] = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nulls_take_the_value_before_them() {
        let mut block = OrdinalBlock::new();
        block.rows = 130;
        for row in 0..130 {
            block.ordinals[row] = row as u64;
        }
        // Rows 0, 1, 63, 64 and 129 are NULL, noted in pieces that straddle words.
        block.mark_nulls(0, !0b11, 62);
        block.mark_nulls(62, !0b110, 64);
        block.mark_nulls(126, !0b1000, 4);
        block.settle_nulls();
        assert!(block.nulls.iter().eq([0, 1, 63, 64, 129]));
        for (row, ordinal) in [
            (0, 2),
            (1, 2),
            (2, 2),
            (62, 62),
            (63, 62),
            (64, 62),
            (65, 65),
            (129, 128),
        ] {
            assert_eq!(block.ordinals[row], ordinal, "row {row}");
        }
        let summary = block.summary(Kernels::best());
        assert_eq!((summary.min, summary.max, summary.null_count), (2, 128, 5));
    }
}
