//! Records what matched its checksum and is trusted until damage is found anywhere.
//!
//! ```text
//! bit set, no damage found since      trusted without a check
//! bit clear, or damage found since    compared with its checksum, then set
//! ```
//! Memory that lost or changed one byte without a report may have changed others that were verified before. So each fault that a
//! reader or a scrub pass finds invalidates all bits of its database, and later reads compare again.
//!
//! Invariant: a valid bit was set after the last damage was found.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The number of faults found in one database. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct DamageFound(Arc<AtomicU64>);

impl DamageFound {
    /// Notes damage: earlier verifications become invalid.
    pub(crate) fn note(&self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }

    #[inline]
    fn count(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}

/// Bits of blocks, pages or leaves, in groups that are tested together.
#[derive(Debug)]
pub(crate) struct VerifiedBits {
    damage: DamageFound,
    /// Number of faults found before the bits became valid.
    since: AtomicU64,
    bits_per_group: usize,
    words: Box<[AtomicU64]>,
}

/// The start of a check: its result counts if no damage was found since.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Began(u64);

impl VerifiedBits {
    /// `groups` of `bits_per_group` bits, all set or all clear.
    pub(crate) fn new(
        damage: &DamageFound,
        groups: usize,
        bits_per_group: usize,
        all: bool,
    ) -> Self {
        let bits = Self {
            since: AtomicU64::new(damage.count()),
            damage: damage.clone(),
            bits_per_group,
            words: (0..groups * bits_per_group.div_ceil(64))
                .map(|_| AtomicU64::new(u64::MAX))
                .collect(),
        };
        if !all {
            bits.clear();
        }
        bits
    }

    fn words_per_group(&self) -> usize {
        self.bits_per_group.div_ceil(64)
    }

    fn clear(&self) {
        for (at, word) in self.words.iter().enumerate() {
            let first = at % self.words_per_group() * 64;
            // Unused bits stay set, so that whole words can be compared.
            let none = match self.bits_per_group - first {
                bits @ 0..64 => u64::MAX << bits,
                _ => 0,
            };
            word.store(none, Ordering::Relaxed);
        }
    }

    /// Whether set bits are still valid.
    #[inline]
    fn counts(&self) -> bool {
        self.since.load(Ordering::Acquire) == self.damage.count()
    }

    // Relaxed, here and below: a stale zero only causes another check, and the bytes themselves never change.
    #[inline]
    pub(crate) fn contains(&self, group: usize, bit: usize) -> bool {
        let word = &self.words[group * self.words_per_group() + bit / 64];
        word.load(Ordering::Relaxed) >> (bit % 64) & 1 == 1 && self.counts()
    }

    /// Whether all bits of a group are set.
    #[inline]
    pub(crate) fn contains_all(&self, group: usize) -> bool {
        let words = &self.words[group * self.words_per_group()..][..self.words_per_group()];
        let is_full = |word: &AtomicU64| word.load(Ordering::Relaxed) == u64::MAX;
        words.iter().all(is_full) && self.counts()
    }

    /// Replaces these bits of each group by those of `other`; without it, or if its are not as valid, they are clear.
    pub(crate) fn take_bits(&mut self, bits: &[usize], other: Option<&Self>) {
        let mut mask = vec![0; self.words_per_group()];
        bits.iter()
            .for_each(|bit| mask[bit / 64] |= 1 << (bit % 64));
        let theirs = other.cloned();
        let theirs = theirs.filter(|it| it.since.load(Ordering::Relaxed) == *self.since.get_mut());
        for (at, (word, mask)) in self.words.iter_mut().zip(mask.iter().cycle()).enumerate() {
            let theirs = theirs.as_ref();
            let taken = theirs.map_or(0, |it| it.words[at].load(Ordering::Relaxed) & mask);
            *word.get_mut() = *word.get_mut() & !mask | taken;
        }
    }

    /// Called before a check: clears invalid bits.
    pub(crate) fn begin(&self) -> Began {
        let now = self.damage.count();
        if self.since.load(Ordering::Acquire) != now {
            self.clear();
            self.since.store(now, Ordering::Release);
        }
        Began(now)
    }

    /// Called after a check that began then and found the bytes right.
    pub(crate) fn insert(&self, group: usize, bit: usize, began: Began) {
        if self.damage.count() == began.0 {
            let word = &self.words[group * self.words_per_group() + bit / 64];
            word.fetch_or(1 << (bit % 64), Ordering::Relaxed);
        }
    }
}

impl Clone for VerifiedBits {
    fn clone(&self) -> Self {
        // In this order: bits that are cleared meanwhile are copied with the older count.
        let since = AtomicU64::new(self.since.load(Ordering::Acquire));
        let word = |word: &AtomicU64| AtomicU64::new(word.load(Ordering::Relaxed));
        Self {
            damage: self.damage.clone(),
            since,
            bits_per_group: self.bits_per_group,
            words: self.words.iter().map(word).collect(),
        }
    }
}

/// One group of bits: the pages or leaves of one extent.
#[derive(Clone, Debug)]
pub(crate) struct VerifiedPages(Arc<VerifiedBits>);

impl VerifiedPages {
    pub(crate) fn new(damage: &DamageFound, pages: usize, all: bool) -> Self {
        Self(Arc::new(VerifiedBits::new(damage, 1, pages, all)))
    }

    /// Bits of the same shape for other bytes: results for one do not count for the other.
    pub(crate) fn of_other_bytes(&self) -> Self {
        Self(Arc::new((*self.0).clone()))
    }

    #[inline]
    pub(crate) fn contains(&self, page: usize) -> bool {
        self.0.contains(0, page)
    }

    /// Checks a page, and marks it if `check` finds it right.
    pub(crate) fn check<E>(
        &self,
        page: usize,
        check: impl FnOnce() -> Result<(), E>,
    ) -> Result<(), E> {
        let began = self.0.begin();
        check()?;
        self.0.insert(0, page, began);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_verified_counts_until_damage_is_found() {
        for bits in [1, 63, 64, 65, 130] {
            let damage = DamageFound::default();
            let verified = VerifiedBits::new(&damage, 3, bits, false);
            assert!((0..bits).all(|bit| !verified.contains(1, bit)));
            let began = verified.begin();
            (0..bits).for_each(|bit| verified.insert(1, bit, began));
            assert!(verified.contains_all(1) && verified.contains(1, bits - 1));
            assert!(!verified.contains_all(0) && !verified.contains(2, bits - 1));
            let copy = verified.clone();
            damage.note();
            for stale in [&verified, &copy] {
                assert!(!stale.contains_all(1) && !stale.contains(1, 0));
                let began = stale.begin();
                assert!(!stale.contains_all(1) && !stale.contains(1, bits - 1));
                (0..bits).for_each(|bit| stale.insert(1, bit, began));
                assert!(stale.contains_all(1));
            }
        }
    }

    #[test]
    fn bits_are_taken_from_where_the_same_was_verified() {
        let damage = DamageFound::default();
        let bits = |all| VerifiedBits::new(&damage, 2, 70, all);
        let (verified, other) = (bits(true), bits(false));
        let began = other.begin();
        other.insert(1, 65, began);
        let mut copy = verified.clone();
        copy.take_bits(&[3, 65], None);
        copy.take_bits(&[65, 66], Some(&other));
        for group in 0..2 {
            let clear = (0..70).filter(|bit| !copy.contains(group, *bit));
            let expected: &[usize] = if group == 0 { &[3, 65, 66] } else { &[3, 66] };
            assert!(clear.eq(expected.iter().copied()));
        }
        assert!(verified.contains_all(0));
        let began = copy.begin();
        for group in 0..2 {
            [3, 65, 66]
                .iter()
                .for_each(|bit| copy.insert(group, *bit, began));
            assert!(copy.contains_all(group));
        }
        // What was verified before damage was found does not count any more.
        damage.note();
        copy.begin();
        copy.take_bits(&[65], Some(&other));
        assert!(!copy.contains(1, 65));
    }

    #[test]
    fn a_check_that_damage_overtook_does_not_count() {
        let damage = DamageFound::default();
        let verified = VerifiedBits::new(&damage, 1, 10, true);
        assert!(verified.contains(0, 3) && verified.contains_all(0));
        let began = verified.begin();
        damage.note();
        verified.insert(0, 3, began);
        verified.begin();
        assert!(!verified.contains(0, 3));
    }
}
