//! The last-level cache: which far lines are near already.
//!
//! ```text
//!   line number ── mixed ──▶ set ─▶ │ tag │ tag │ tag │ tag │   one u64: newest tag in the low bits
//! ```
//!
//! Four ways of 16-bit tags to a set: a cache of 38.5 MiB is a table of 1.2 MiB, whose own misses are short
//! beside those it saves. Shifting the word is the replacement: a new tag pushes the oldest out, a tag found
//! moves to the front (least recently used). Two lines of one set share a tag once in 16,000 look-ups.
//!
//! One for the process, as the cores of a socket share theirs. Invariant: threads that race lose an update,
//! nothing more.

use std::sync::atomic::{AtomicU64, Ordering};

use super::FarMemory;
use crate::LINE_BYTES;

const WAYS: usize = 4;
const TAG_BITS: u32 = 16;
const SET_BYTES: usize = WAYS * LINE_BYTES;

/// Sets of the largest cache; only those in use are ever touched.
pub(super) static SETS: [AtomicU64; FarMemory::MAX_CACHE_BYTES / SET_BYTES] =
    [const { AtomicU64::new(0) }; FarMemory::MAX_CACHE_BYTES / SET_BYTES];

/// Sets of a cache of `bytes`.
pub(super) fn sets_of(bytes: usize) -> usize {
    (bytes / SET_BYTES).min(SETS.len())
}

/// Empties sets.
pub(super) fn clear(sets: &[AtomicU64]) {
    for set in sets {
        set.store(0, Ordering::Relaxed);
    }
}

/// Whether a line is cached; it is from now on. A cache of no sets holds nothing.
#[inline]
pub(super) fn touch(sets: &[AtomicU64], line: u64) -> bool {
    const ONES: u64 = 0x0001_0001_0001_0001;
    let mixed = mix(line);
    let number = ((mixed >> 32) * sets.len() as u64) >> 32;
    let Some(set) = sets.get(number as usize) else {
        return false;
    };
    // No line has tag 0, which stands for an empty way.
    let tag = (mixed & 0xFFFF).max(1);
    let tags = set.load(Ordering::Relaxed);
    let apart = tags ^ (tag * ONES);
    // The lowest 16 bits that are all zero are the way that holds the tag.
    let zeros = apart.wrapping_sub(ONES) & !apart & (ONES << (TAG_BITS - 1));
    if zeros == 0 {
        set.store(tags << TAG_BITS | tag, Ordering::Relaxed);
        return false;
    }
    let way = zeros.trailing_zeros() / TAG_BITS;
    if way > 0 {
        // Those in front of it step back by one, those behind stay.
        let in_front = tags & ((1 << (way * TAG_BITS)) - 1);
        let behind = tags & (!0u64).checked_shl((way + 1) * TAG_BITS).unwrap_or(0);
        set.store(behind | in_front << TAG_BITS | tag, Ordering::Relaxed);
    }
    true
}

/// Spreads neighbouring lines over sets and tags (the finalizer of MurmurHash3, which is a bijection).
#[inline]
fn mix(line: u64) -> u64 {
    let mut mixed = line;
    mixed = (mixed ^ mixed >> 33).wrapping_mul(0xFF51_AFD7_ED55_8CCD);
    mixed = (mixed ^ mixed >> 33).wrapping_mul(0xC4CE_B9FE_1A85_EC53);
    mixed ^ mixed >> 33
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache(sets: usize) -> Vec<AtomicU64> {
        (0..sets).map(|_| AtomicU64::new(0)).collect()
    }

    #[test]
    fn the_least_recently_used_line_goes() {
        let one_set = cache(1);
        // Lines with different tags, so that the set is all that decides.
        let lines = [1, 2, 3, 4, 5];
        let tags: Vec<u64> = lines.iter().map(|line| mix(*line) & 0xFFFF).collect();
        assert!(
            tags.iter()
                .all(|tag| tags.iter().filter(|t| *t == tag).count() == 1)
        );

        assert!(lines[..4].iter().all(|line| !touch(&one_set, *line)));
        assert!(lines[..4].iter().all(|line| touch(&one_set, *line)));
        // 1 is the oldest; used again it is the newest, and 2 has to go for 5.
        assert!(touch(&one_set, 1));
        assert!(!touch(&one_set, 5));
        assert!([5, 1, 4, 3].iter().all(|line| touch(&one_set, *line)));
        assert!(!touch(&one_set, 2));
    }

    #[test]
    fn a_cache_holds_about_as_many_lines_as_it_has_places() {
        let sets = cache(1 << 12);
        let places = (sets.len() * WAYS) as u64;
        let hits = |lines: u64| {
            clear(&sets);
            (0..lines).for_each(|line| _ = touch(&sets, line));
            (0..lines).filter(|line| touch(&sets, *line)).count() as f64 / lines as f64
        };
        assert!(hits(places / 4) > 0.95);
        assert!(hits(places * 8) < 0.01);
        assert!(!touch(&[], 7) && !touch(&[], 7));
    }

    #[test]
    fn the_size_is_what_was_asked() {
        assert_eq!(sets_of(0), 0);
        assert_eq!(sets_of(255), 0);
        assert_eq!(sets_of(256), 1);
        assert_eq!(sets_of(FarMemory::MAX_CACHE_BYTES), SETS.len());
        assert_eq!(sets_of(usize::MAX), SETS.len());
    }
}
