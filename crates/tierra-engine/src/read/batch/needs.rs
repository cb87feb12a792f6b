//! What one member of a batch still needs.
//!
//! Invariant: a piece that was taken is not needed again.

use std::time::Instant;

use super::pass::AT_A_TIME;
use super::pieces::{Pieces, Place};

/// What a member needs.
#[derive(Debug)]
pub(super) struct Needs {
    pub(super) pieces: Pieces,
    /// A bit for each piece that is not taken.
    todo: Box<[u64]>,
    pub(super) left: usize,
    pub(super) columns: Vec<usize>,
    /// Threads that may take pieces.
    pub(super) threads: usize,
    /// Whether they have begun: until then nothing is kept for it, because a scan may have to wait for other operators of its
    /// query. A member of a batch that waits for its queries begins with it.
    pub(super) is_at_work: bool,
    /// Whether its threads have all stopped.
    pub(super) is_over: bool,
    /// When it took a piece last, or began.
    pub(super) took_at: Instant,
    /// Whether others do not wait for it: it took nothing for too long, or lost a piece of the window, and has not caught up since.
    pub(super) lags: bool,
    /// The most queries that were at work at a time.
    pub(super) queries: usize,
}

/// How many pieces one of a scan's threads takes at a time if so many are left: fewer at the end, so that they end together.
pub(crate) fn at_a_time(left: usize, threads: usize) -> usize {
    (left / 8 / threads.max(1)).clamp(1, AT_A_TIME)
}

impl Needs {
    pub(super) fn new(pieces: Pieces, columns: Vec<usize>, is_at_work: bool) -> Self {
        let left = pieces.len();
        let mut todo = vec![u64::MAX; left.div_ceil(64)];
        if let (Some(last), 1..) = (todo.last_mut(), left % 64) {
            *last = (1 << (left % 64)) - 1;
        }
        Self {
            pieces,
            todo: todo.into(),
            left,
            columns,
            threads: 0,
            is_at_work,
            is_over: false,
            took_at: Instant::now(),
            lags: false,
            queries: 1,
        }
    }

    pub(super) fn needs(&self, place: Place) -> bool {
        let number = self.pieces.number(place);
        number.is_some_and(|number| self.has(number))
    }

    /// How many pieces a thread takes at a time.
    pub(super) fn at_a_time(&self) -> usize {
        at_a_time(self.left, self.threads)
    }

    pub(super) fn has(&self, number: usize) -> bool {
        let word = self.todo.get(number / 64);
        word.is_some_and(|word| word >> (number % 64) & 1 == 1)
    }

    pub(super) fn take(&mut self, number: usize) {
        debug_assert!(self.has(number));
        self.todo[number / 64] &= !(1 << (number % 64));
        self.left -= 1;
    }

    /// The pieces that are not taken: those behind a place, then those before it.
    pub(super) fn behind(&self, place: Option<Place>) -> impl Iterator<Item = usize> {
        let start = place.map_or(0, |place| self.pieces.behind(place));
        let todo = &self.todo;
        let from = move |first: usize, end: usize| {
            let words = first / 64..end.div_ceil(64);
            words.flat_map(move |word| {
                let mut bits = todo[word];
                std::iter::from_fn(move || {
                    let bit = bits.trailing_zeros() as usize;
                    bits &= bits.wrapping_sub(1);
                    (bit < 64).then_some(word * 64 + bit)
                })
                .filter(move |number| (first..end).contains(number))
            })
        };
        from(start, self.pieces.len()).chain(from(0, start))
    }
}
