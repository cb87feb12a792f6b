//! Beginnings of blocks that were asked for before the blocks are read.
//!
//! Invariant: as many are remembered as a core follows streams, for that is how many columns a scan can expect to be read ahead; one
//! more displaces one of them. What was asked for twice is on its way once.

/// Beginnings that one core has asked for at a time.
const MOST: usize = 32;

/// What one core has asked for and not read.
#[derive(Debug)]
pub(super) struct Prefetched {
    begun: [Begun; MOST],
    len: usize,
    /// The one that is displaced next.
    displaced: usize,
}

#[derive(Clone, Copy, Debug)]
struct Begun {
    start: usize,
    end: usize,
    arrives: u64,
}

impl Prefetched {
    pub(super) const fn new() -> Prefetched {
        let none = Begun {
            start: 0,
            end: 0,
            arrives: 0,
        };
        Prefetched {
            begun: [none; MOST],
            len: 0,
            displaced: 0,
        }
    }

    /// Whether bytes that begin there were asked for.
    pub(super) fn has(&self, start: usize) -> bool {
        self.place(start).is_some()
    }

    /// Notes that `[start, end)` arrives at a time.
    pub(super) fn note(&mut self, start: usize, end: usize, arrives: u64) {
        let place = if self.len < MOST {
            self.len += 1;
            self.len - 1
        } else {
            self.displaced = (self.displaced + 1) % MOST;
            self.displaced
        };
        self.begun[place] = Begun {
            start,
            end,
            arrives,
        };
    }

    /// Takes what begins there: where it ends, and when it arrives.
    #[inline]
    pub(super) fn take(&mut self, start: usize) -> Option<(usize, u64)> {
        let place = self.place(start)?;
        let Begun { end, arrives, .. } = self.begun[place];
        self.len -= 1;
        self.begun[place] = self.begun[self.len];
        Some((end, arrives))
    }

    #[inline]
    fn place(&self, start: usize) -> Option<usize> {
        let begun = &self.begun[..self.len];
        begun.iter().position(|begun| begun.start == start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_asked_for_is_taken_once_and_does_not_pile_up() {
        let mut prefetched = Prefetched::new();
        assert_eq!(prefetched.take(64), None);
        for at in 1..=MOST {
            prefetched.note(at * 64, at * 64 + 32, at as u64);
        }
        assert_eq!(prefetched.take(128), Some((160, 2)));
        assert!(!prefetched.has(128) && prefetched.has(64));
        assert_eq!(prefetched.take(128), None);
        // Room for one; the next displaces another.
        for at in MOST + 1..=MOST + 2 {
            prefetched.note(at * 64, at * 64 + 32, at as u64);
            assert!(prefetched.has(at * 64));
        }
        let left = (1..=MOST + 2).filter(|at| prefetched.has(at * 64)).count();
        assert_eq!(left, MOST);
    }
}
