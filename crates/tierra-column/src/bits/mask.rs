//! The selection of a block's rows: one bit per row, which is what every filter works on.

use super::BLOCK_LEN;

const WORDS: usize = BLOCK_LEN / 64;

/// Which rows of a block are selected: row `i` is bit `i % 64` of word `i / 64`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(align(64))]
pub struct Mask(pub [u64; WORDS]);

impl Mask {
    /// Every row of a full block.
    pub const fn all() -> Self {
        Self([!0; WORDS])
    }

    /// No row.
    pub const fn none() -> Self {
        Self([0; WORDS])
    }

    /// Rows `0..n`; all of them if `n` exceeds [`BLOCK_LEN`].
    pub fn first(n: usize) -> Self {
        Self(std::array::from_fn(|word| {
            first_bits(n.saturating_sub(word * 64))
        }))
    }

    /// How many rows are selected.
    #[inline]
    pub fn count(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether any row is selected.
    #[inline]
    pub fn any(&self) -> bool {
        self.0.iter().fold(0, |seen, word| seen | word) != 0
    }

    /// Keeps the rows that `other` selects too.
    #[inline]
    pub fn and(&mut self, other: &Mask) {
        for (word, other) in self.0.iter_mut().zip(&other.0) {
            *word &= other;
        }
    }

    /// Adds the rows that `other` selects.
    #[inline]
    pub fn or(&mut self, other: &Mask) {
        for (word, other) in self.0.iter_mut().zip(&other.0) {
            *word |= other;
        }
    }

    /// Drops the rows that `other` selects.
    #[inline]
    pub fn and_not(&mut self, other: &Mask) {
        for (word, other) in self.0.iter_mut().zip(&other.0) {
            *word &= !other;
        }
    }

    /// The other rows of a full block; intersect with [`Mask::first`] for a shorter one.
    #[inline]
    #[must_use]
    pub fn not(&self) -> Mask {
        Mask(self.0.map(|word| !word))
    }

    /// Whether row `row` is selected.
    ///
    /// # Panics
    /// If `row` is not below [`BLOCK_LEN`].
    #[inline]
    pub fn get(&self, row: usize) -> bool {
        self.0[row / 64] >> (row % 64) & 1 == 1
    }

    /// Selects row `row`, or drops it.
    ///
    /// # Panics
    /// If `row` is not below [`BLOCK_LEN`].
    #[inline]
    pub fn set(&mut self, row: usize, selected: bool) {
        let word = &mut self.0[row / 64];
        *word = *word & !(1 << (row % 64)) | u64::from(selected) << (row % 64);
    }

    /// The selected rows in ascending order.
    #[inline]
    pub fn iter(&self) -> SetBits<'_> {
        SetBits {
            words: &self.0,
            base: 0,
            bits: self.0[0],
        }
    }
}

impl<'a> IntoIterator for &'a Mask {
    type Item = usize;
    type IntoIter = SetBits<'a>;

    fn into_iter(self) -> SetBits<'a> {
        self.iter()
    }
}

/// The lowest `n` bits set; all 64 from `n` = 64 on.
#[inline(always)]
pub(super) const fn first_bits(n: usize) -> u64 {
    if n >= 64 { !0 } else { (1 << n) - 1 }
}

/// The selected rows of a [`Mask`], ascending; see [`Mask::iter`].
#[derive(Clone, Debug)]
pub struct SetBits<'a> {
    words: &'a [u64; WORDS],
    /// First row of the word whose unvisited bits are in `bits`.
    base: usize,
    bits: u64,
}

impl Iterator for SetBits<'_> {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        while self.bits == 0 {
            self.base += 64;
            self.bits = *self.words.get(self.base / 64)?;
        }
        let row = self.base + self.bits.trailing_zeros() as usize;
        self.bits &= self.bits - 1;
        Some(row)
    }
}

impl std::iter::FusedIterator for SetBits<'_> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_selects_exactly_the_first_rows() {
        for n in [0, 1, 63, 64, 65, 1023, 1024] {
            let mask = Mask::first(n);
            assert_eq!(mask.count(), n);
            assert_eq!(mask.any(), n > 0);
            assert!(mask.iter().eq(0..n));
            assert_eq!(mask.not().count(), BLOCK_LEN - n);
        }
        assert_eq!(Mask::first(5000), Mask::all());
    }

    #[test]
    fn set_algebra_agrees_with_single_bits() {
        let (mut threes, mut fives) = (Mask::none(), Mask::all());
        for row in 0..BLOCK_LEN {
            threes.set(row, row % 3 == 0);
            fives.set(row, row % 5 == 0);
        }
        let combine = |op: fn(&mut Mask, &Mask)| {
            let mut result = threes;
            op(&mut result, &fives);
            result
        };
        let (and, or, and_not) = (
            combine(Mask::and),
            combine(Mask::or),
            combine(Mask::and_not),
        );
        for row in 0..BLOCK_LEN {
            let (three, five) = (row % 3 == 0, row % 5 == 0);
            assert_eq!(and.get(row), three && five);
            assert_eq!(or.get(row), three || five);
            assert_eq!(and_not.get(row), three && !five);
        }
        assert!(threes.iter().eq((0..BLOCK_LEN).step_by(3)));
    }

    #[test]
    fn an_exhausted_iterator_stays_exhausted() {
        let mask = Mask::first(1);
        let mut rows = mask.iter();
        assert_eq!(
            (rows.next(), rows.next(), rows.next()),
            (Some(0), None, None)
        );
    }
}
