//! Combinators: lookups made of lookups, written by hand so that depth costs nothing.
//!
//! Each `async fn` between a group and a load is a state machine that every turn climbs through. A
//! function that awaits one thing and computes needs none: it is that thing, mapped. One that awaits
//! two things in a row is the first, then the second. What is here keeps no state but which of the two
//! is under way.
//!
//! Invariant: the parts are pinned with the whole and dropped in place.

use core::pin::Pin;
use core::task::{Context, Poll};

/// What any lookup can be continued with: every future, loads and `async fn`s alike.
///
/// The functions are called once, yet asked to be `FnMut`: one that could be called only once would
/// have to be marked as used, and a mark at each level is what makes depth cost.
///
/// ```
/// use tierra_interleave::{Chain, Cx, Mode, run_plain};
///
/// /// Two loads, the second found by the first; a function that returns a future, not an `async fn`.
/// fn decode<'a, M: Mode>(
///     cx: Cx<M>,
///     codes: &'a [u8],
///     values: &'a [u64],
///     row: usize,
/// ) -> impl Future<Output = u64> + 'a {
///     cx.load(&codes[row])
///         .then(move |code| cx.load(&values[usize::from(*code)]))
///         .map(|value| *value)
/// }
///
/// assert_eq!(run_plain(|cx| decode(cx, &[2, 0, 1], &[10, 20, 30], 0)), 30);
/// ```
pub trait Chain: Future + Sized {
    /// Applies `f` to the output as soon as it is there.
    #[inline(always)]
    fn map<F, U>(self, f: F) -> Map<Self, F>
    where
        F: FnMut(Self::Output) -> U,
    {
        Map { lookup: self, f }
    }

    /// Goes on with the lookup that `f` makes of the output, in the same turn.
    #[inline(always)]
    fn then<F, Next>(self, f: F) -> Then<Self, F, Next>
    where
        F: FnMut(Self::Output) -> Next,
        Next: Future,
    {
        Then {
            stage: Stage::First { lookup: self, f },
        }
    }
}

impl<Fut: Future> Chain for Fut {}

/// A lookup with a function applied to its output. Made by [`Chain::map`].
#[must_use = "a lookup does nothing unless it is awaited"]
pub struct Map<Fut, F> {
    lookup: Fut,
    f: F,
}

impl<Fut: Future, F, U> Future for Map<Fut, F>
where
    F: FnMut(Fut::Output) -> U,
{
    type Output = U;

    #[inline(always)]
    fn poll(self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<U> {
        // SAFETY: `lookup` is pinned structurally: nothing moves it, `Map` has no destructor of its
        // own and is `Unpin` only if both parts are. `f` is never pinned.
        let (lookup, f) = unsafe {
            let map = self.get_unchecked_mut();
            (Pin::new_unchecked(&mut map.lookup), &mut map.f)
        };
        match lookup.poll(task) {
            Poll::Ready(output) => Poll::Ready(f(output)),
            Poll::Pending => Poll::Pending,
        }
    }
}

/// A lookup and the one that follows it. Made by [`Chain::then`].
#[must_use = "a lookup does nothing unless it is awaited"]
pub struct Then<Fut, F, Next> {
    stage: Stage<Fut, F, Next>,
}

enum Stage<Fut, F, Next> {
    First { lookup: Fut, f: F },
    Second { lookup: Next },
}

impl<Fut, F, Next> Future for Then<Fut, F, Next>
where
    Fut: Future,
    F: FnMut(Fut::Output) -> Next,
    Next: Future,
{
    type Output = Next::Output;

    #[inline(always)]
    fn poll(self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Next::Output> {
        // SAFETY: both lookups are pinned structurally: they are reached only through this pin, `Then`
        // has no destructor of its own and is `Unpin` only if its parts are.
        let mut stage = unsafe { self.map_unchecked_mut(|then| &mut then.stage) };
        loop {
            // SAFETY: nothing is moved out; lookups are pinned again at once, and `f` is never pinned.
            let next = match unsafe { stage.as_mut().get_unchecked_mut() } {
                Stage::First { lookup, f } => {
                    // SAFETY: as above.
                    match unsafe { Pin::new_unchecked(lookup) }.poll(task) {
                        Poll::Ready(output) => f(output),
                        Poll::Pending => return Poll::Pending,
                    }
                }
                Stage::Second { lookup } => {
                    // SAFETY: as above.
                    return unsafe { Pin::new_unchecked(lookup) }.poll(task);
                }
            };
            // Drops the first in place.
            stage.set(Stage::Second { lookup: next });
        }
    }
}
