//! The codes that a filter passes: a list while they are few, a bit per code from then on.
//!
//! A list of 10,000 values against a dictionary of 100 million must not cost a bitmap of 12 MB, of
//! which an index then needs nothing.
//!
//! Invariant: a list ascends and never takes more bytes than the bitmap would.

/// A bitmap of a dictionary has a bit per value, a listed code takes 32.
const BITS_PER_LISTED: usize = 32;

/// Codes of one dictionary.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum CodeSet {
    /// In ascending order, each once.
    Listed(Vec<u32>),
    /// Bit `code % 64` of word `code / 64`.
    Bitmap(Vec<u64>),
}

/// Takes codes up in any order.
pub(super) struct Collector {
    /// Values of the dictionary.
    len: usize,
    listed: Vec<u32>,
    /// Empty as long as the list is short enough.
    bitmap: Vec<u64>,
}

impl Collector {
    /// For a dictionary of `len` values.
    pub(super) fn new(len: usize) -> Self {
        Collector {
            len,
            listed: Vec::new(),
            bitmap: Vec::new(),
        }
    }

    /// `code` is below the dictionary's length.
    #[inline]
    pub(super) fn add(&mut self, code: u32) {
        if self.bitmap.is_empty() {
            if self.listed.len() < self.len / BITS_PER_LISTED {
                self.listed.push(code);
                return;
            }
            self.spill();
        }
        set(&mut self.bitmap, code);
    }

    #[cold]
    fn spill(&mut self) {
        self.bitmap = bitmap_of(&self.listed, self.len);
        self.listed = Vec::new();
    }

    /// The codes, each once.
    pub(super) fn finish(mut self) -> CodeSet {
        if !self.bitmap.is_empty() {
            return CodeSet::Bitmap(self.bitmap);
        }
        // Looked up in the order of values, codes mostly arrive in order.
        if !self.listed.is_sorted() {
            self.listed.sort_unstable();
        }
        self.listed.dedup();
        CodeSet::Listed(self.listed)
    }
}

impl CodeSet {
    /// As a bit for each of `len` values.
    pub(crate) fn into_bitmap(self, len: usize) -> Vec<u64> {
        match self {
            CodeSet::Listed(codes) => bitmap_of(&codes, len),
            CodeSet::Bitmap(bitmap) => bitmap,
        }
    }
}

/// A bit for each of `len` values, set for those listed.
pub(crate) fn bitmap_of(listed: &[u32], len: usize) -> Vec<u64> {
    let mut bitmap = vec![0; len.div_ceil(64)];
    for code in listed {
        set(&mut bitmap, *code);
    }
    bitmap
}

#[inline]
fn set(bitmap: &mut [u64], code: u32) {
    bitmap[code as usize / 64] |= 1 << (code % 64);
}

/// Clears the bits from `len` on.
pub(crate) fn clear_beyond(bitmap: &mut [u64], len: usize) {
    if let Some(word) = bitmap.get_mut(len / 64) {
        *word &= (1 << (len % 64)) - 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_are_listed_in_order_and_many_become_bits() {
        let len = 64 * BITS_PER_LISTED;
        for count in [0, 1, 63, 64, 65, 200] {
            let mut collector = Collector::new(len);
            let codes: Vec<u32> = (0..count).map(|i| i * 7).collect();
            codes.iter().rev().for_each(|code| collector.add(*code));
            let found = collector.finish();
            assert_eq!(matches!(found, CodeSet::Listed(_)), count <= 64, "{count}");
            if let CodeSet::Listed(listed) = &found {
                assert_eq!(*listed, codes);
            }
            assert_eq!(found.into_bitmap(len), bitmap_of(&codes, len));
        }
    }

    #[test]
    fn a_code_that_comes_twice_is_listed_once() {
        let mut collector = Collector::new(1000);
        for code in [5, 3, 5] {
            collector.add(code);
        }
        assert_eq!(collector.finish(), CodeSet::Listed(vec![3, 5]));
    }
}
