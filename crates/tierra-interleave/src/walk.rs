//! A chain of loads, each found in the one before, without a state machine around them.
//!
//! Descending a tree, following a list, halving a sorted slice: load a place, look at it, go on to
//! the next. As an `async fn` that is a loop around an `await`, and the compiler keeps a state to
//! resume at and whatever the loop has at hand. A [`Walk`] keeps one place and the closure's own
//! variables, and a turn goes straight to the closure. `docs/interleaving.md` has the difference.
//!
//! Invariant: `step` sees each place once, after it has arrived.

use core::ops::ControlFlow;
use core::pin::Pin;
use core::task::{Context, Poll};

use crate::load::{Cx, issue};
use crate::mode::Mode;

impl<M: Mode> Cx<M> {
    /// Loads `first` and gives it to `step`, which answers with the next place to load or with the
    /// result.
    ///
    /// ```
    /// use core::hint::select_unpredictable;
    /// use core::ops::ControlFlow::{Break, Continue};
    /// use tierra_interleave::{Cx, Mode, run_plain};
    ///
    /// /// The index of the last value not above `key`, or 0. `sorted` is not empty.
    /// fn search<M: Mode>(cx: Cx<M>, sorted: &[u32], key: u32) -> impl Future<Output = usize> {
    ///     let (mut low, mut len) = (0, sorted.len());
    ///     cx.walk(&sorted[len / 2], move |probed| {
    ///         let half = len / 2;
    ///         low = select_unpredictable(*probed <= key, low + half, low);
    ///         len -= half;
    ///         if len > 1 { Continue(&sorted[low + len / 2]) } else { Break(low) }
    ///     })
    /// }
    ///
    /// assert_eq!(run_plain(|cx| search(cx, &[2, 3, 5, 7, 11], 6)), 2);
    /// ```
    #[inline(always)]
    pub fn walk<'a, T, F, U>(&self, first: &'a T, step: F) -> Walk<'a, T, M, F>
    where
        T: ?Sized,
        F: FnMut(&'a T) -> ControlFlow<U, &'a T>,
    {
        Walk {
            place: first,
            step,
            ticket: None,
            mode: self.mode(),
        }
    }
}

/// A chain of loads on its way. Made by [`Cx::walk`].
#[must_use = "a walk asks for memory only when it is awaited"]
pub struct Walk<'a, T: ?Sized, M: Mode, F> {
    place: &'a T,
    step: F,
    /// Of the place, once it has been asked for.
    ticket: Option<M::Ticket>,
    mode: M,
}

impl<'a, T: ?Sized, M: Mode, F, U> Future for Walk<'a, T, M, F>
where
    F: FnMut(&'a T) -> ControlFlow<U, &'a T>,
{
    type Output = U;

    #[inline(always)]
    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<U> {
        let walk = &mut *self;
        let mut asked = walk.ticket;
        loop {
            if size_of_val(walk.place) != 0 {
                let ticket = match asked.take() {
                    Some(ticket) => ticket,
                    None => {
                        let ticket = issue(walk.mode, walk.place);
                        if M::INTERLEAVED {
                            walk.ticket = Some(ticket);
                            return Poll::Pending;
                        }
                        ticket
                    }
                };
                walk.mode.arrive(ticket);
            }
            match (walk.step)(walk.place) {
                ControlFlow::Continue(next) => walk.place = next,
                ControlFlow::Break(found) => return Poll::Ready(found),
            }
        }
    }
}

// The closure is called, never pinned, and nothing refers to the walk itself.
impl<T: ?Sized, M: Mode, F> Unpin for Walk<'_, T, M, F> {}
