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

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::FarMemory;
use super::lines::Lines;
use crate::{LINE_BYTES, arch};

const WAYS: usize = 4;
const TAG_BITS: u32 = 16;
const TAG_MASK: u64 = (1 << TAG_BITS) - 1;
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

/// Whether blocks of scans may be cached: only what was fetched for another core is.
static FETCHED: AtomicBool = AtomicBool::new(false);

/// Reads of blocks look into the cache from now on, until it is cleared.
pub(super) fn note_fetched() {
    if !has_fetched() {
        FETCHED.store(true, Ordering::Relaxed);
    }
}

/// Whether reads of blocks look into the cache.
#[inline]
pub(super) fn has_fetched() -> bool {
    FETCHED.load(Ordering::Relaxed)
}

/// Eights of sets of a cache of `bytes`.
pub(super) fn sets_of(bytes: usize) -> usize {
    (bytes / SETS_BYTES).min(SETS.len())
}

/// Empties sets.
pub(super) fn clear(sets: &[Sets]) {
    FETCHED.store(false, Ordering::Relaxed);
    for set in sets.iter().flat_map(|sets| &sets.0) {
        set.store(0, Ordering::Relaxed);
    }
}

/// What the sets of some lines hold.
enum State {
    /// None of them.
    Missed,
    /// Each as the newest: touching it changes nothing.
    InFront,
    Mixed,
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

    /// Looks these lines up, without a branch for each.
    #[inline(always)]
    fn state(&self, lines: Lines) -> State {
        let (mut found, mut behind) = (0, 0);
        for line in lines.first..=lines.last() {
            let tags = self.set(line).load(Ordering::Relaxed);
            found |= ways_of(tags, self.tag);
            behind |= (tags ^ self.tag) & TAG_MASK;
        }
        match (found, behind) {
            (0, _) => State::Missed,
            (_, 0) => State::InFront,
            _ => State::Mixed,
        }
    }

    /// Puts these lines, which are in none of their sets, in front.
    #[inline(always)]
    fn push(&self, lines: Lines) {
        for line in lines.first..=lines.last() {
            let set = self.set(line);
            set.store(
                set.load(Ordering::Relaxed) << TAG_BITS | self.tag,
                Ordering::Relaxed,
            );
        }
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
        tag: (mixed & TAG_MASK).max(1),
        first: mixed >> TAG_BITS,
    })
}

/// Fetches the sets of lines that will be touched soon.
pub(super) fn prepare(sets: &[Sets], lines: Lines) {
    for_eights(lines, |eight| {
        if let Some(neighbours) = neighbours(sets, eight.first) {
            arch::prefetch(std::ptr::from_ref(neighbours.sets).cast());
        }
    });
}

/// Tells, of some lines, those that are not cached, in runs as long as can be; all are from now on. A cache of no sets holds
/// nothing.
#[inline]
pub(super) fn touch(sets: &[Sets], lines: Lines, mut missed: impl FnMut(Lines)) {
    let mut run = Lines {
        first: lines.first,
        count: 0,
    };
    let mut end = |run: &mut Lines, next| {
        if run.count > 0 {
            missed(*run);
        }
        *run = Lines {
            first: next,
            count: 0,
        };
    };
    for_eights(lines, |eight| {
        let Some(neighbours) = neighbours(sets, eight.first) else {
            run.count += eight.count;
            return;
        };
        // Lines of an object are mostly all missed or all used a moment ago.
        match neighbours.state(eight) {
            State::Missed => {
                neighbours.push(eight);
                run.count += eight.count;
            }
            State::InFront => end(&mut run, eight.last() + 1),
            State::Mixed => {
                for line in eight.first..=eight.last() {
                    match touch_one(neighbours.set(line), neighbours.tag) {
                        true => run.count += 1,
                        false => end(&mut run, line + 1),
                    }
                }
            }
        }
    });
    end(&mut run, lines.last() + 1);
}

/// How many of some lines are not cached. Nothing changes.
pub(super) fn missing(sets: &[Sets], lines: Lines) -> u64 {
    let mut missing = 0;
    for_eights(lines, |eight| {
        let Some(neighbours) = neighbours(sets, eight.first) else {
            missing += eight.count;
            return;
        };
        let is_missing = |line: &u64| {
            let tags = neighbours.set(*line).load(Ordering::Relaxed);
            way_of(tags, neighbours.tag).is_none()
        };
        missing += (eight.first..=eight.last()).filter(is_missing).count() as u64;
    });
    missing
}

/// These lines are no longer cached.
pub(super) fn remove(sets: &[Sets], lines: Lines) {
    for_eights(lines, |eight| {
        if let Some(neighbours) = neighbours(sets, eight.first) {
            for line in eight.first..=eight.last() {
                let (set, tag) = (neighbours.set(line), neighbours.tag);
                let tags = set.load(Ordering::Relaxed);
                if let Some(way) = way_of(tags, tag) {
                    // What was used before it moves up; the last way is empty.
                    let kept = !(u64::MAX << (way * TAG_BITS));
                    let behind = tags.checked_shr((way + 1) * TAG_BITS).unwrap_or(0);
                    let left = tags & kept | behind << (way * TAG_BITS);
                    set.store(left, Ordering::Relaxed);
                }
            }
        }
    });
}

/// Cuts lines at multiples of eight.
#[inline(always)]
fn for_eights(lines: Lines, mut each: impl FnMut(Lines)) {
    let (mut first, end) = (lines.first, lines.last() + 1);
    while first < end {
        let next = end.min((first | (NEIGHBOURS as u64 - 1)) + 1);
        each(Lines {
            first,
            count: next - first,
        });
        first = next;
    }
}

/// 0 if no way of a set holds a tag; otherwise the lowest bit set lies in the way that does.
#[inline(always)]
fn ways_of(tags: u64, tag: u64) -> u64 {
    const ONES: u64 = 0x0001_0001_0001_0001;
    let apart = tags ^ (tag * ONES);
    apart.wrapping_sub(ONES) & !apart & (ONES << (TAG_BITS - 1))
}

/// The way of a set that holds a tag.
#[inline(always)]
fn way_of(tags: u64, tag: u64) -> Option<u32> {
    let ways = ways_of(tags, tag);
    (ways != 0).then(|| ways.trailing_zeros() / TAG_BITS)
}

/// Whether a set lacks a tag; it has it from now on, in front.
#[inline(always)]
fn touch_one(set: &AtomicU64, tag: u64) -> bool {
    let tags = set.load(Ordering::Relaxed);
    let Some(way) = way_of(tags, tag) else {
        set.store(tags << TAG_BITS | tag, Ordering::Relaxed);
        return true;
    };
    if way > 0 {
        // Those in front of it step back by one, those behind stay.
        let back = way * TAG_BITS;
        let in_front = tags & !(u64::MAX << back);
        let behind = tags & (u64::MAX << back << (TAG_BITS - 1) << 1);
        let touched = behind | in_front << TAG_BITS | tag;
        set.store(touched, Ordering::Relaxed);
    }
    false
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

    fn run(first: u64, count: u64) -> Lines {
        Lines { first, count }
    }

    fn hits(cache: &[Sets], line: u64) -> bool {
        let mut hits = true;
        touch(cache, run(line, 1), |missed| {
            assert_eq!(missed, run(line, 1));
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
    fn runs_of_missed_lines_are_told_at_once() {
        let sets = cache(1 << 6);
        for cached in [100, 101, 105, 117] {
            hits(&sets, cached);
        }
        let mut missed = Vec::new();
        touch(&sets, run(98, 22), |lines| {
            missed.push((lines.first, lines.count))
        });
        let expected = [(98, 2), (102, 3), (106, 11), (118, 2)];
        assert_eq!(missed, expected);
        touch(&sets, run(98, 22), |_| unreachable!("all are cached"));
    }

    #[test]
    fn what_was_removed_is_missed_and_nothing_else() {
        let sets = cache(1 << 6);
        for line in 100..130 {
            assert!(!hits(&sets, line));
        }
        remove(&sets, run(110, 10));
        for line in 100..130 {
            assert_eq!(hits(&sets, line), !(110..120).contains(&line), "{line}");
        }
        remove(&[], run(0, 11));
    }

    #[test]
    fn a_set_is_a_list_in_order_of_use() {
        // Against the list itself: touching and removing tags 1 to 6 in a set of four ways.
        let (set, mut list) = (AtomicU64::new(0), Vec::new());
        let mut seed = 1_u64;
        for _ in 0..10_000 {
            seed = mix(seed.wrapping_add(0x9E37_79B9_7F4A_7C15));
            let tag = seed % 6 + 1;
            let held = list.iter().position(|held| *held == tag);
            list.retain(|held| *held != tag);
            if seed >> 32 & 7 == 0 {
                let one = [Sets::empty()];
                // Of line 8, whose tag is none of the six.
                let place = neighbours(&one, 8).unwrap();
                place
                    .set(8)
                    .store(set.load(Ordering::Relaxed), Ordering::Relaxed);
                let as_line = |tags: u64, from: u64, to: u64| {
                    (0..WAYS as u32).fold(0, |all, way| {
                        let tag = tags >> (way * TAG_BITS) & 0xFFFF;
                        all | (if tag == from { to } else { tag }) << (way * TAG_BITS)
                    })
                };
                let tags = as_line(set.load(Ordering::Relaxed), tag, place.tag);
                place.set(8).store(tags, Ordering::Relaxed);
                remove(&one, run(8, 1));
                set.store(place.set(8).load(Ordering::Relaxed), Ordering::Relaxed);
            } else {
                assert_eq!(touch_one(&set, tag), held.is_none());
                list.insert(0, tag);
                list.truncate(WAYS);
            }
            let expected = list
                .iter()
                .rev()
                .fold(0, |tags, tag| tags << TAG_BITS | tag);
            assert_eq!(set.load(Ordering::Relaxed), expected, "{list:?}");
        }
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
                        touch(
                            &sets,
                            Lines {
                                first: at * step,
                                count: run,
                            },
                            |lines| missed += lines.count,
                        );
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
