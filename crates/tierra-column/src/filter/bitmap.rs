//! Ordinals that lie close together, as a bit each.

use crate::bits::CodeBits;

/// Distinct ordinals, at least one.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Bitmap {
    /// The least ordinal.
    first: u64,
    /// Bit `ordinal - first`.
    words: Vec<u64>,
}

impl Bitmap {
    /// The bitmap of ordinals in ascending order; `None` of none. It takes a bit for each ordinal between the
    /// first and the last.
    pub(crate) fn new(sorted: &[u64]) -> Option<Bitmap> {
        let (&first, &last) = (sorted.first()?, sorted.last()?);
        let mut words = vec![0; ((last - first) / 64) as usize + 1];
        for ordinal in sorted {
            let bit = (ordinal - first) as usize;
            words[bit / 64] |= 1 << (bit % 64);
        }
        Some(Bitmap { first, words })
    }

    #[inline]
    pub(super) fn contains(&self, ordinal: u64) -> bool {
        let bit = ordinal.wrapping_sub(self.first);
        self.words
            .get((bit / 64) as usize)
            .is_some_and(|word| word >> (bit % 64) & 1 == 1)
    }

    /// The bits of the ordinals from `min` to `max`, for codes from which `base` was subtracted (modulo 2^64);
    /// `None` if the bitmap has none of them.
    pub(crate) fn codes(&self, min: u64, max: u64, base: u64) -> Option<CodeBits<'_>> {
        let last = self.first.saturating_add(self.words.len() as u64 * 64 - 1);
        let (low, high) = (min.max(self.first), max.min(last));
        let span = high.checked_sub(low)?;
        let first_code = low.wrapping_sub(base);
        Some(CodeBits::new(
            &self.words,
            low - self.first,
            first_code,
            span,
        ))
    }

    /// Copies `bits` bits from ordinal `low` on, word by word; those before the first ordinal are zero.
    pub(super) fn window(&self, low: u64, bits: usize, out: &mut Vec<u64>) {
        out.clear();
        // The difference of two ordinals has 65 bits, in words 59.
        let start = i128::from(low) - i128::from(self.first);
        let (first, shift) = (start.div_euclid(64) as i64, start.rem_euclid(64) as u32);
        let word = |i: i64| {
            let at = usize::try_from(first + i).ok();
            at.and_then(|at| self.words.get(at)).copied().unwrap_or(0)
        };
        out.extend((0..bits.div_ceil(64) as i64).map(|i| {
            // Shifting in two steps keeps each shift below 64 when the first is zero.
            let carried = word(i + 1) << 1 << (63 - shift);
            word(i) >> shift | carried
        }));
    }
}
