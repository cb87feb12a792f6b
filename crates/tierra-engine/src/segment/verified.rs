//! Which blocks of a segment were compared with their checksums.

use std::sync::atomic::{AtomicU64, Ordering};

use tierra_column::bits::BLOCK_LEN;

use crate::manifest::SegmentEntry;

/// Which blocks have passed their checksum: a bit per column, those of one block side by side, so
/// that reading one row of 1,000 columns looks at two lines of bits.
pub(super) struct VerifiedBlocks {
    words_per_block: usize,
    words: Box<[AtomicU64]>,
}

impl VerifiedBlocks {
    pub(super) fn new(entry: &SegmentEntry, all: bool) -> Self {
        let blocks = (entry.rows as usize).div_ceil(BLOCK_LEN);
        let words_per_block = entry.chunks.len().div_ceil(64);
        let word = |column: usize| match entry.chunks.len().saturating_sub(column) {
            _ if all => u64::MAX,
            // Bits that no column has are set, so that words tell whether all are.
            columns @ 0..64 => u64::MAX << columns,
            _ => 0,
        };
        let words = (0..blocks * words_per_block)
            .map(|at| AtomicU64::new(word(at % words_per_block * 64)))
            .collect();
        Self {
            words_per_block,
            words,
        }
    }

    // Relaxed, here and below: a stale zero only verifies once more, and the bytes themselves never
    // change.
    pub(super) fn contains(&self, block: usize, column: usize) -> bool {
        let word = self.words[block * self.words_per_block + column / 64].load(Ordering::Relaxed);
        word >> (column % 64) & 1 == 1
    }

    pub(super) fn contains_all(&self, block: usize) -> bool {
        let words = &self.words[block * self.words_per_block..][..self.words_per_block];
        words
            .iter()
            .all(|word| word.load(Ordering::Relaxed) == u64::MAX)
    }

    pub(super) fn insert(&self, block: usize, column: usize) {
        self.words[block * self.words_per_block + column / 64]
            .fetch_or(1 << (column % 64), Ordering::Relaxed);
    }
}

impl Clone for VerifiedBlocks {
    fn clone(&self) -> Self {
        let word = |word: &AtomicU64| AtomicU64::new(word.load(Ordering::Relaxed));
        Self {
            words_per_block: self.words_per_block,
            words: self.words.iter().map(word).collect(),
        }
    }
}
