//! A stretch of a bitmap whose bits stand for codes, wherever in the bitmap the first code's bit lies. One bitmap
//! so serves blocks of any base, and none cuts its own piece out of it.
//!
//! Invariant: the bit of every code in the stretch lies in the bitmap.

/// Codes `first_code ..= first_code + span` as bits, one after the other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CodeBits<'a> {
    /// Begins with the word that holds the first code's bit.
    words: &'a [u64],
    /// The first code's bit, below 64.
    first_bit: u64,
    first_code: u64,
    span: u64,
}

impl<'a> CodeBits<'a> {
    /// Code `first_code + i` is bit `first_bit + i` of `bitmap`, for every `i` up to `span`.
    ///
    /// # Panics
    /// If the bitmap lacks a bit.
    pub(crate) fn new(bitmap: &'a [u64], first_bit: u64, first_code: u64, span: u64) -> Self {
        let bits = bitmap.len() as u64 * 64;
        assert!(
            first_bit < bits && span < bits - first_bit,
            "{span} bits after bit {first_bit} of {bits}"
        );
        Self {
            words: &bitmap[(first_bit / 64) as usize..],
            first_bit: first_bit % 64,
            first_code,
            span,
        }
    }

    /// Code 0 is bit 0, for all of a bitmap that is not empty.
    pub(super) fn whole(bitmap: &'a [u64]) -> Self {
        Self::new(bitmap, 0, 0, (bitmap.len() as u64 * 64).saturating_sub(1))
    }

    /// The stretch without codes above `most`; `None` if nothing is left.
    pub(super) fn up_to(self, most: u64) -> Option<Self> {
        let span = self.span.min(most.checked_sub(self.first_code)?);
        Some(Self { span, ..self })
    }

    /// The bitmap, if its bit `i` is that of code `i` for all codes below `code_limit`; those beyond it are absent.
    #[inline(always)]
    pub(super) fn whole_bitmap(&self, code_limit: u64) -> Option<&'a [u64]> {
        let bits = (self.words.len() as u64 * 64).min(code_limit);
        (self.first_bit == 0 && self.first_code == 0 && self.span >= bits - 1).then_some(self.words)
    }

    #[inline(always)]
    pub(super) fn words(&self) -> &'a [u64] {
        self.words
    }

    #[inline(always)]
    pub(super) fn first_bit(&self) -> u64 {
        self.first_bit
    }

    #[inline(always)]
    pub(super) fn first_code(&self) -> u64 {
        self.first_code
    }

    #[inline(always)]
    pub(super) fn span(&self) -> u64 {
        self.span
    }
}
