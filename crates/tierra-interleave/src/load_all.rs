//! Several places at once: all asked for, then one turn given away.
//!
//! Two loads in a row cost two turns and two misses, the second behind the first, although neither
//! needs the other. Joined they cost one of each.
//!
//! Invariant: every place is issued before the lookup gives way, and has arrived when it goes on.

use core::pin::Pin;
use core::task::{Context, Poll};

use crate::load::{Cx, issue};
use crate::mode::Mode;

impl<M: Mode> Cx<M> {
    /// Asks for several places that do not depend on each other and resolves to them when all have
    /// arrived: a tuple of two to four references, or an array of references.
    ///
    /// ```
    /// use tierra_interleave::run_plain;
    ///
    /// let (keys, rows) = ([10u32, 20, 30], [7u64, 8, 9]);
    /// let found = run_plain(|cx| async move {
    ///     let (key, row) = cx.load_all((&keys[1], &rows[1])).await;
    ///     let [first, last] = cx.load_all([&keys[0], &keys[2]]).await;
    ///     (*key, *row, first + last)
    /// });
    /// assert_eq!(found, (20, 8, 40));
    /// ```
    #[inline(always)]
    pub fn load_all<P: Places>(&self, places: P) -> LoadAll<P, M> {
        LoadAll {
            places,
            tickets: None,
            mode: self.mode(),
        }
    }
}

/// Several places in memory on their way to the processor. Made by [`Cx::load_all`].
#[must_use = "a load asks for memory only when it is awaited"]
pub struct LoadAll<P: Places, M: Mode> {
    places: P,
    tickets: Option<P::Tickets<M>>,
    mode: M,
}

impl<P: Places, M: Mode> Future for LoadAll<P, M> {
    type Output = P;

    #[inline(always)]
    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<P> {
        let load = &mut *self;
        let tickets = match load.tickets {
            Some(tickets) => tickets,
            None => {
                let tickets = load.places.issue(load.mode);
                if M::INTERLEAVED && load.places.bytes() != 0 {
                    load.tickets = Some(tickets);
                    return Poll::Pending;
                }
                tickets
            }
        };
        load.places.arrive(load.mode, tickets);
        Poll::Ready(load.places)
    }
}

// Nothing in a load refers to the load itself.
impl<P: Places, M: Mode> Unpin for LoadAll<P, M> {}

/// What [`Cx::load_all`] can ask for: tuples and arrays of references.
pub trait Places: Copy + sealed::Sealed {
    /// What a mode has to remember of each place until it arrives; nothing of one without a size.
    #[doc(hidden)]
    type Tickets<M: Mode>: Copy;

    #[doc(hidden)]
    fn bytes(self) -> usize;

    #[doc(hidden)]
    fn issue<M: Mode>(self, mode: M) -> Self::Tickets<M>;

    #[doc(hidden)]
    fn arrive<M: Mode>(self, mode: M, tickets: Self::Tickets<M>);
}

mod sealed {
    pub trait Sealed {}
}

#[inline(always)]
fn issue_sized<T: ?Sized, M: Mode>(mode: M, place: &T) -> Option<M::Ticket> {
    (size_of_val(place) != 0).then(|| issue(mode, place))
}

#[inline(always)]
fn arrive_sized<M: Mode>(mode: M, ticket: Option<M::Ticket>) {
    if let Some(ticket) = ticket {
        mode.arrive(ticket);
    }
}

impl<T: ?Sized, const N: usize> sealed::Sealed for [&T; N] {}

impl<T: ?Sized, const N: usize> Places for [&T; N] {
    type Tickets<M: Mode> = [Option<M::Ticket>; N];

    #[inline(always)]
    fn bytes(self) -> usize {
        self.iter().map(|&place| size_of_val(place)).sum()
    }

    #[inline(always)]
    fn issue<M: Mode>(self, mode: M) -> Self::Tickets<M> {
        self.map(|place| issue_sized(mode, place))
    }

    #[inline(always)]
    fn arrive<M: Mode>(self, mode: M, tickets: Self::Tickets<M>) {
        for ticket in tickets {
            arrive_sized(mode, ticket);
        }
    }
}

macro_rules! places_in_a_tuple {
    ($($place:ident $ticket:ident $type:ident),+) => {
        impl<$($type: ?Sized),+> sealed::Sealed for ($(&$type,)+) {}

        impl<$($type: ?Sized),+> Places for ($(&$type,)+) {
            type Tickets<M: Mode> = ($(places_in_a_tuple!(@ticket $type M),)+);

            #[inline(always)]
            fn bytes(self) -> usize {
                let ($($place,)+) = self;
                0 $(+ size_of_val($place))+
            }

            #[inline(always)]
            fn issue<M: Mode>(self, mode: M) -> Self::Tickets<M> {
                let ($($place,)+) = self;
                ($(issue_sized(mode, $place),)+)
            }

            #[inline(always)]
            fn arrive<M: Mode>(self, mode: M, ($($ticket,)+): Self::Tickets<M>) {
                $(arrive_sized(mode, $ticket);)+
            }
        }
    };
    (@ticket $type:ident $mode:ident) => { Option<$mode::Ticket> };
}

places_in_a_tuple!(a at A, b bt B);
places_in_a_tuple!(a at A, b bt B, c ct C);
places_in_a_tuple!(a at A, b bt B, c ct C, d dt D);
