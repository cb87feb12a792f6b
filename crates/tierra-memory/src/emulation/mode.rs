//! The emulated modes: a native mode around which far lines take their time.
//!
//! Invariant: an emulated mode gives way exactly where its native one does, and prefetches every far line, so
//! that the real memory's time elapses within the emulated one's.

use tierra_interleave::{Interleaved, Mode};

use super::{far, local};

/// `M` on emulated far memory. Chosen at run time by [`in_mode!`](crate::in_mode).
///
/// A load of near memory costs a look at a table; the rest is [`emulation`](super)'s documentation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Emulated<M>(M);

/// A load under way on emulated memory.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<T> {
    native: T,
    /// When the line arrives, on the processor's clock; 0 if nothing is to be waited for.
    time: u64,
}

impl<M: Mode> Mode for Emulated<M> {
    const INTERLEAVED: bool = M::INTERLEAVED;
    const NAME: &'static str = if M::INTERLEAVED {
        "interleaved, emulated far"
    } else {
        "plain, emulated far"
    };
    type Ticket = Arrival<M::Ticket>;

    #[inline(always)]
    fn for_lookup(index: usize) -> Self {
        Emulated(M::for_lookup(index))
    }

    #[inline(always)]
    fn id(self) -> Option<usize> {
        self.0.id()
    }

    #[inline(always)]
    fn issue(self, address: *const u8, len_bytes: usize) -> Self::Ticket {
        let native = self.0.issue(address, len_bytes);
        let mut time = 0;
        if far::concerns_load(address.addr()) {
            if !M::INTERLEAVED {
                Interleaved.issue(address, len_bytes);
            }
            time = local::load(address.addr(), len_bytes);
        }
        Arrival { native, time }
    }

    #[inline(always)]
    fn arrive(self, ticket: Self::Ticket) {
        if ticket.time != 0 {
            if M::INTERLEAVED {
                local::wait_until(ticket.time);
            } else {
                local::wait_in_place();
            }
        }
        self.0.arrive(ticket.native);
    }
}
