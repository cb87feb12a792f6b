//! Counting the memory accesses of lookups, in any mode, on request.
//!
//! A group counts its suspensions anyway ([`GroupReport`](crate::GroupReport)). Loads and lines are
//! counted where they are issued, which costs a few instructions each, so it is a mode that one asks
//! for: [`Counted<Interleaved>`](Counted) runs as `Interleaved` does and counts besides.
//!
//! Invariant: counting changes neither when a lookup runs nor what it answers.

use core::cell::Cell;

use crate::mode::{LINE_BYTES, Mode};

/// The mode `M`, with its loads counted and its lookups numbered ([`Cx::id`](crate::Cx::id)).
///
/// ```
/// use tierra_interleave::{Counted, Counts, Cx, GroupSize, Interleaved, Mode, for_each};
///
/// async fn pair<M: Mode>(cx: Cx<M>, places: &[u64], at: usize) -> u64 {
///     let first = *cx.load(&places[at]).await;
///     if first > 2 {
///         eprintln!("lookup {:?} found {first}", cx.id()); // Some(its index): the mode is counted
///     }
///     first + *cx.load(&places[at + 1]).await
/// }
///
/// let places = [1u64, 2, 3, 4];
/// let mut sum = 0;
/// let (report, counts) = Counts::of(|| {
///     let lookup = |cx: Cx<Counted<Interleaved>>, at| pair(cx, &places, at);
///     for_each(GroupSize::DEFAULT, [0, 2], lookup, |_, pair| sum += pair)
/// });
/// assert_eq!((sum, report.suspensions), (10, 4));
/// assert_eq!(counts, Counts { loads: 4, lines: 4 });
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Counted<M> {
    mode: M,
    id: Option<usize>,
}

impl<M: Mode> Mode for Counted<M> {
    const INTERLEAVED: bool = M::INTERLEAVED;
    const NAME: &'static str = M::NAME;
    type Ticket = M::Ticket;

    #[inline]
    fn for_lookup(index: usize) -> Self {
        Counted {
            mode: M::for_lookup(index),
            id: Some(index),
        }
    }

    #[inline]
    fn id(self) -> Option<usize> {
        self.id
    }

    #[inline]
    fn issue(self, address: *const u8, len_bytes: usize) -> M::Ticket {
        let lines = (address.addr() % LINE_BYTES + len_bytes).div_ceil(LINE_BYTES);
        COUNTS.set(Counts {
            loads: COUNTS.get().loads + 1,
            lines: COUNTS.get().lines + lines as u64,
        });
        self.mode.issue(address, len_bytes)
    }

    #[inline]
    fn arrive(self, ticket: M::Ticket) {
        self.mode.arrive(ticket);
    }
}

/// What counted lookups of one thread have asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Places asked for.
    pub loads: u64,
    /// Lines they lie in; one that several loads touch counts each time.
    pub lines: u64,
}

thread_local! {
    static COUNTS: Cell<Counts> = const { Cell::new(Counts { loads: 0, lines: 0 }) };
}

impl Counts {
    /// Runs `work` and counts what the [`Counted`] lookups that it runs on this thread ask for.
    pub fn of<R>(work: impl FnOnce() -> R) -> (R, Counts) {
        let before = COUNTS.get();
        let result = work();
        let after = COUNTS.get();
        let counts = Counts {
            loads: after.loads - before.loads,
            lines: after.lines - before.lines,
        };
        (result, counts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cx, Interleaved, Plain};

    #[test]
    fn lines_are_those_that_the_bytes_lie_in() {
        #[repr(align(64))]
        struct Aligned([u8; 256]);
        let bytes = &Aligned([0; 256]).0;
        for (range, lines) in [(0..1, 1), (0..64, 1), (63..65, 2), (1..129, 3), (5..5, 0)] {
            let load = |cx: Cx<Counted<Plain>>| cx.load_bytes(&bytes[range.clone()]);
            let ((), counts) = Counts::of(|| {
                crate::for_each(
                    crate::GroupSize::DEFAULT,
                    [()],
                    |cx, ()| load(cx),
                    |_, _| {},
                );
            });
            let loads = u64::from(lines != 0);
            assert_eq!(counts, Counts { loads, lines }, "{range:?}");
        }
    }

    #[test]
    fn only_counted_lookups_know_their_number() {
        assert_eq!(Cx::<Counted<Interleaved>>::of_lookup(7).id(), Some(7));
        assert_eq!(Cx::<Interleaved>::of_lookup(7).id(), None);
        assert_eq!(size_of::<Cx<Interleaved>>(), 0);
    }
}
