//! The last-level cache: which far lines are near already.
//!
//! ```text
//!   line number ── eighth of it, mixed ──▶ sets of eight neighbours ── low bits ──▶ set
//!   set: │ tag │ tag │ tag │ tag │   one u64: newest tag in the low bits
//! ```
//!
//! Four ways of 16-bit tags to a set: a cache of 38.5 MiB is a table of 1.2 MiB, whose own misses are short
//! beside those it saves. Neighbouring lines go to neighbouring sets, as they do in processors' caches, and the sets of
//! eight are one line here, so that asking for an object of many lines takes little of the time in which real far
//! memory would leave the core alone. Shifting the word is the replacement: a new tag pushes the oldest out, a tag found
//! moves to the front (least recently used). Two lines of one set share a tag once in 16,000 lookups.
//!
//! One for the process, as the cores of a socket share theirs. Invariant: threads that race lose an update,
//! nothing more.

use std::sync::atomic::{AtomicU64, Ordering};

use super::FarMemory;
use crate::{LINE_BYTES, arch};

const WAYS: usize = 4;
const TAG_BITS: u32 = 16;
/// Lines whose sets lie beside each other.
const NEIGHBOURS: usize = 8;
const SETS_BYTES: usize = NEIGHBOURS * WAYS * LINE_BYTES;

/// The sets of eight neighbouring lines.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Sets([AtomicU64; NEIGHBOURS]);

impl Sets {
    const fn empty() -> Sets {
        Sets([const { AtomicU64::new(0) }; NEIGHBOURS])
    }
}

/// Sets of the largest cache; only those in use are ever touched.
pub(super) static SETS: [Sets; FarMemory::MAX_CACHE_BYTES / SETS_BYTES] =
    [const { Sets::empty() }; FarMemory::MAX_CACHE_BYTES / SETS_BYTES];

/// Eights of sets of a cache of `bytes`.
pub(super) fn sets_of(bytes: usize) -> usize {
    (bytes / SETS_BYTES).min(SETS.len())
}

/// Empties sets.
pub(super) fn clear(sets: &[Sets]) {
    for set in sets.iter().flat_map(|sets| &sets.0) {
        set.store(0, Ordering::Relaxed);
    }
}

/// Where the sets of a line and its neighbours are.
struct Neighbours<'a> {
    sets: &'a Sets,
    /// The same for all, as their sets differ.
    tag: u64,
    /// Which set the first of them has: another one elsewhere, or lines that are eight apart would share one.
    first: u64,
}

impl Neighbours<'_> {
    #[inline(always)]
    fn set(&self, line: u64) -> &AtomicU64 {
        &self.sets.0[(line.wrapping_add(self.first)) as usize % NEIGHBOURS]
    }
}

/// The sets of a line and its neighbours; none where there is no cache.
#[inline(always)]
fn neighbours(sets: &[Sets], line: u64) -> Option<Neighbours<'_>> {
    let mixed = mix(line / NEIGHBOURS as u64);
    let number = ((mixed >> 32) * sets.len() as u64) >> 32;
    Some(Neighbours {
        sets: sets.get(number as usize)?,
        // No line has tag 0, which stands for an empty way.
        tag: (mixed & 0xFFFF).max(1),
        first: mixed >> TAG_BITS,
    })
}

/// Fetches the sets of the lines from `first` to `last`, which will be touched soon.
pub(super) fn prepare(sets: &[Sets], first: u64, last: u64) {
    for line in (first..=last | (NEIGHBOURS as u64 - 1)).step_by(NEIGHBOURS) {
        if let Some(neighbours) = neighbours(sets, line) {
            arch::prefetch(std::ptr::from_ref(neighbours.sets).cast());
        }
    }
}

/// Tells, of the lines from `first` to `last`, those that are not cached; all are from now on. A cache of no sets holds
/// nothing.
#[inline]
pub(super) fn touch(sets: &[Sets], first: u64, last: u64, mut missed: impl FnMut(u64)) {
    let mut line = first;
    while line <= last {
        let end = last.min(line | (NEIGHBOURS as u64 - 1));
        match neighbours(sets, line) {
            Some(neighbours) => {
                for line in line..=end {
                    if !touch_one(neighbours.set(line), neighbours.tag) {
                        missed(line);
                    }
                }
            }
            None => (line..=end).for_each(&mut missed),
        }
        line = end + 1;
    }
}

/// Whether a set holds a tag; it does from now on.
#[inline(always)]
fn touch_one(set: &AtomicU64, tag: u64) -> bool {
    const ONES: u64 = 0x0001_0001_0001_0001;
    let tags = set.load(Ordering::Relaxed);
    if tags & 0xFFFF == tag {
        return true;
    }
    let apart = tags ^ (tag * ONES);
    // The lowest 16 bits that are all zero are the way that holds the tag.
    let zeros = apart.wrapping_sub(ONES) & !apart & (ONES << (TAG_BITS - 1));
    if zeros == 0 {
        set.store(tags << TAG_BITS | tag, Ordering::Relaxed);
        return false;
    }
    let way = zeros.trailing_zeros() / TAG_BITS;
    // Those in front of it step back by one, those behind stay.
    let in_front = tags & ((1 << (way * TAG_BITS)) - 1);
    let behind = tags & (!0u64).checked_shl((way + 1) * TAG_BITS).unwrap_or(0);
    set.store(behind | in_front << TAG_BITS | tag, Ordering::Relaxed);
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

    fn cache(sets: usize) -> Vec<Sets> {
        (0..sets).map(|_| Sets::empty()).collect()
    }

    fn hits(cache: &[Sets], line: u64) -> bool {
        let mut hits = true;
        touch(cache, line, line, |missed| {
            assert_eq!(missed, line);
            hits = false;
        });
        hits
    }

    #[test]
    fn the_least_recently_used_line_goes() {
        let one = cache(1);
        // Lines of one set with different tags, so that the set is all that decides.
        let place = |line| neighbours(&one, line).unwrap();
        let in_first = |line: &u64| std::ptr::eq(place(*line).set(*line), &one[0].0[0]);
        let lines: Vec<u64> = (0..).filter(in_first).take(5).collect();
        let tags: Vec<u64> = lines.iter().map(|line| place(*line).tag).collect();
        assert!(
            tags.iter()
                .all(|tag| tags.iter().filter(|t| *t == tag).count() == 1)
        );

        let [first, second, third, fourth, fifth] = lines[..].try_into().unwrap();
        assert!(lines[..4].iter().all(|line| !hits(&one, *line)));
        assert!(lines[..4].iter().all(|line| hits(&one, *line)));
        // The first is the oldest; used again it is the newest, and the second has to go for the fifth.
        assert!(hits(&one, first));
        assert!(!hits(&one, fifth));
        assert!(
            [fifth, first, fourth, third]
                .iter()
                .all(|line| hits(&one, *line))
        );
        assert!(!hits(&one, second));
    }

    #[test]
    fn a_cache_holds_about_as_many_lines_as_it_has_places() {
        let sets = cache(1 << 9);
        let places = (sets.len() * NEIGHBOURS * WAYS) as u64;
        // Lines far from each other, and runs of lines.
        for (step, run) in [(1000, 1), (1, 1), (101, 19)] {
            let share = |lines: u64| {
                clear(&sets);
                let mut missed = 0;
                for _ in 0..2 {
                    missed = 0;
                    for at in 0..lines / run {
                        touch(&sets, at * step, at * step + run - 1, |_| missed += 1);
                    }
                }
                1.0 - missed as f64 / (lines / run * run) as f64
            };
            assert!(
                share(places / 4) > 0.9,
                "{step} {run}: {}",
                share(places / 4)
            );
            assert!(share(places * 8) < 0.01);
        }
        assert!(!hits(&[], 7) && !hits(&[], 7));
    }

    #[test]
    fn the_size_is_what_was_asked() {
        assert_eq!(sets_of(0), 0);
        assert_eq!(sets_of(2047), 0);
        assert_eq!(sets_of(2048), 1);
        assert_eq!(sets_of(FarMemory::MAX_CACHE_BYTES), SETS.len());
        assert_eq!(sets_of(usize::MAX), SETS.len());
    }
}
