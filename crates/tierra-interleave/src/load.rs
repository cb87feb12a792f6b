//! The leaf: one access to memory that a lookup may have to wait for.
//!
//! [`Load`] is a future written by hand because every suspension goes through it: as an `async fn`
//! it would carry a state machine of its own around a pointer and a bit (see
//! `docs/interleaving.md` for what that costs). Its first poll tells the mode which bytes are
//! wanted and gives way; its second returns the reference. In a mode that is not interleaved the
//! first poll returns it, and what the compiler leaves of the future is the plain load.
//!
//! Invariant: a load borrows the place it names, so the place outlives the suspension.

use core::pin::Pin;
use core::task::{Context, Poll};

use crate::mode::{LINE_BYTES, Mode};

/// What a lookup is handed besides its input: its way to memory.
///
/// Copied freely; it has no size in the native modes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cx<M: Mode> {
    mode: M,
}

impl<M: Mode> Cx<M> {
    /// A context outside any group, for a lookup that is polled by hand. Groups hand out their own.
    #[inline(always)]
    pub fn new() -> Self {
        Cx::default()
    }

    /// The context of the lookup of one input.
    #[inline(always)]
    pub(crate) fn of_lookup(index: usize) -> Self {
        let mode = M::for_lookup(index);
        Cx { mode }
    }

    /// How this lookup's loads behave.
    #[inline(always)]
    pub fn mode(&self) -> M {
        self.mode
    }

    /// Which lookup of its group this is, for messages: the index of its input, in a mode that keeps
    /// it, such as [`Counted`](crate::Counted). The native modes keep nothing.
    #[inline(always)]
    pub fn id(&self) -> Option<usize> {
        self.mode.id()
    }

    /// Asks for `place` and resolves to it: the only access that a lookup should have to wait for.
    ///
    /// What is read through the returned reference is near; what lies behind further pointers is
    /// not, and deserves a load of its own. A value that spans several lines is asked for as a
    /// whole, and the load gives way once.
    #[inline(always)]
    pub fn load<'a, T: ?Sized>(&self, place: &'a T) -> Load<'a, T, M> {
        Load {
            place,
            mode: self.mode,
            ticket: None,
        }
    }

    /// [`load`](Self::load) for a short run of bytes, such as a packed code or a string.
    ///
    /// Each line is prefetched, so the slice should be what the lookup uses, not what surrounds it.
    #[inline(always)]
    pub fn load_bytes<'a>(&self, bytes: &'a [u8]) -> LoadBytes<'a, M> {
        self.load(bytes)
    }
}

/// A place in memory on its way to the processor. Made by [`Cx::load`].
#[must_use = "a load asks for memory only when it is awaited"]
pub struct Load<'a, T: ?Sized, M: Mode> {
    place: &'a T,
    mode: M,
    ticket: Option<M::Ticket>,
}

/// Tells the mode that `place`, which has a size, is wanted.
#[inline(always)]
pub(crate) fn issue<T: ?Sized, M: Mode>(mode: M, place: &T) -> M::Ticket {
    let (bytes, align) = (size_of_val(place), align_of_val(place));
    debug_assert!(bytes > 0, "nothing is asked for");
    // A value no larger than its alignment never straddles two lines. Sizes are constants for all
    // but slices, so this folds to a single prefetch.
    let one_line = bytes <= align && bytes <= LINE_BYTES;
    let len_bytes = if one_line { 1 } else { bytes };
    mode.issue(core::ptr::from_ref(place).cast::<u8>(), len_bytes)
}

/// A short run of bytes on its way to the processor. Made by [`Cx::load_bytes`].
pub type LoadBytes<'a, M> = Load<'a, [u8], M>;

impl<'a, T: ?Sized, M: Mode> Future for Load<'a, T, M> {
    type Output = &'a T;

    #[inline(always)]
    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<&'a T> {
        if size_of_val(self.place) == 0 {
            return Poll::Ready(self.place);
        }
        let ticket = match self.ticket {
            Some(ticket) => ticket,
            None => {
                let ticket = issue(self.mode, self.place);
                if M::INTERLEAVED {
                    self.ticket = Some(ticket);
                    return Poll::Pending;
                }
                ticket
            }
        };
        self.mode.arrive(ticket);
        Poll::Ready(self.place)
    }
}

// Nothing in a load refers to the load itself, so it may move between polls whatever the mode holds.
impl<T: ?Sized, M: Mode> Unpin for Load<'_, T, M> {}

#[cfg(test)]
mod tests {
    use core::pin::pin;
    use core::task::Waker;
    use std::cell::RefCell;

    use super::*;
    use crate::{Interleaved, Plain};

    fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
        pin!(future).poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn plain_is_ready_at_once() {
        let value = 7u32;
        assert_eq!(poll(&mut Cx::<Plain>::new().load(&value)), Poll::Ready(&7));
    }

    #[test]
    fn interleaved_gives_way_exactly_once() {
        let value = 7u32;
        let mut load = Cx::<Interleaved>::new().load(&value);
        assert_eq!(poll(&mut load), Poll::Pending);
        assert_eq!(poll(&mut load), Poll::Ready(&7));
    }

    #[test]
    fn nothing_to_fetch_is_ready_at_once() {
        let cx = Cx::<Interleaved>::new();
        assert_eq!(poll(&mut cx.load_bytes(&[])), Poll::Ready(&[][..]));
        assert_eq!(poll(&mut cx.load(&())), Poll::Ready(&()));
    }

    #[test]
    fn context_and_state_stay_small() {
        assert_eq!(size_of::<Cx<Interleaved>>(), 0);
        assert_eq!(size_of::<Load<'_, u64, Interleaved>>(), 16);
    }

    thread_local! {
        static ISSUED: RefCell<Vec<(usize, usize)>> = const { RefCell::new(Vec::new()) };
        static ARRIVED: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
    }

    /// Stands for the emulated modes: it must see every address, and get its own ticket back.
    #[derive(Clone, Copy, Default)]
    struct Recording<const INTERLEAVED: bool>;

    impl<const I: bool> Mode for Recording<I> {
        const INTERLEAVED: bool = I;
        const NAME: &'static str = "recording";
        type Ticket = usize;

        fn issue(self, address: *const u8, len_bytes: usize) -> usize {
            ISSUED.with_borrow_mut(|issued| {
                issued.push((address.addr(), len_bytes));
                issued.len()
            })
        }

        fn arrive(self, ticket: usize) {
            ARRIVED.with_borrow_mut(|arrived| arrived.push(ticket));
        }
    }

    #[test]
    fn a_mode_sees_every_load_and_its_ticket() {
        let bytes = [0u8; 200];
        let number = 3u64;

        let cx = Cx::<Recording<true>>::new();
        let (mut first, mut second) = (cx.load_bytes(&bytes), cx.load(&number));
        assert!(poll(&mut first).is_pending());
        assert!(poll(&mut second).is_pending());
        assert!(poll(&mut second).is_ready());
        assert!(poll(&mut first).is_ready());
        assert!(poll(&mut Cx::<Recording<false>>::new().load(&number)).is_ready());

        let number_at = core::ptr::from_ref(&number).addr();
        assert_eq!(
            ISSUED.take(),
            [(bytes.as_ptr().addr(), 200), (number_at, 1), (number_at, 1)]
        );
        assert_eq!(ARRIVED.take(), [2, 1, 3]);
    }
}
