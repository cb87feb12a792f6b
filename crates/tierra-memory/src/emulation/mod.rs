//! Far memory emulated over near memory: latency, bandwidth, misses in flight, and writes.
//!
//! A machine without far memory can still show what a query costs on it. Code that touches memory that
//! *counts as far* is held up until the modelled memory would have answered:
//!
//! * **Loads of lookups** pass through [`Emulated`], a [`Mode`](tierra_interleave::Mode) around the
//!   native one. It prefetches the line, gives it a completion time, and waits for that time when the
//!   lookup uses the line ([`misses`](self) describes how times are given).
//! * **Objects fetched ahead** ([`begin_fetch`]) have their lines join these misses; the user of one
//!   waits then for what is left of its time.
//! * **Sequential reads** are charged per block: [`begin_read`] before the block is read, and the
//!   [`Transfer`] that it returns waits, when dropped, for whatever is left of the time the block takes. What of its beginning was
//!   [prefetched](crate::prefetch()) is on its way since then.
//! * **Stores** wait for their lines, as loads do, and take write bandwidth: where lines leave the caches, by
//!   [`persist`](crate::persist)'s flushes, fences and streaming copies, and by pools whose medium needs none
//!   ([`begin_write`]); and where objects are stored that are not flushed ([`begin_store`]).
//!
//! Several far memories can be emulated at once, each over memory of its own ([`FarDevice`]). Each belongs to a
//! socket, and a thread to another if it says so ([`run_on`]). Bandwidths are those of a whole memory; a process whose
//! cores are fewer than those they were measured with has its [share](Scale).
//!
//! ```
//! use tierra_memory::emulation::{self, FarMemory};
//!
//! let optane: FarMemory = "optane,cache=0B".parse()?;
//! assert_eq!(optane.latency_ns, 300.0);
//! emulation::set(Some(optane))?; // from now on far pools are slow
//! assert!(emulation::is_on());
//! emulation::set(None)?; // and now they are not
//! # Ok::<(), emulation::EmulationError>(())
//! ```
//!
//! Invariants: emulation changes when something happens, never what is read or written. Real time is
//! what passes: a wait ends when the processor's clock says so, and what a load, a copy or a fence
//! really takes elapses within the wait, not in addition to it. Where the real memory is slower than
//! what was asked, the real time shows. What asking and waiting take by themselves is measured once, and waits end as
//! much earlier. While emulation is off the native modes run, chosen once per
//! group by [`in_mode!`](crate::in_mode), and everything else costs one load of a flag per block,
//! flush or fence.
//!
//! # What a figure means
//! A plain load waits alone, where a processor may overlap neighbouring loads that do not depend on each
//! other: a plain figure is an **upper bound**. With [`FarMemory::plain_overlap`] set to k a plain load
//! waits only for the one issued k - 1 loads earlier, as if all k fitted one reorder window and depended
//! on nothing: with k = [`FarMemory::misses_in_flight`] no processor with as many could be faster, so it is
//! a **lower bound**; a k in between (instructions the window holds, divided by those per load) is tighter.
//! An interleaved figure needs no such care: its loads are independent by construction.
//!
//! # Unlike other emulators
//! Delays injected at intervals by a kernel module cannot tell one lookup's misses from another's overlap;
//! throttled memory controllers change bandwidth, not latency; a remote socket is one fixed point. Here
//! every miss of a lookup is modelled by itself, without privileges, at the cost that only memory asked
//! for through a lookup's context, a block or a persist is slow: an ordinary load in between is not.

mod cache;
mod channel;
mod clock;
mod core;
mod costs;
mod description;
mod device;
mod error;
pub(crate) mod far;
mod lines;
mod local;
mod misses;
mod mode;
mod numbers;
mod own_work;
mod prefetched;
mod presets;
mod socket;
mod stalled;
mod streams;
mod switch;
mod text;
mod transfer;

pub use description::{FarMemory, Scale};
pub use device::{FarDevice, FarRange, count_as_far};
pub use error::EmulationError;
pub use mode::{Arrival, Emulated};
pub use socket::run_on;
pub use stalled::stalled_ns;
pub use switch::{current, is_on, set};
pub use text::parse;
pub use transfer::{Fetch, Transfer, begin_fetch, begin_read, begin_store, begin_write};

pub(crate) use local::{end_recording, start_recording};
pub(crate) use switch::{emulated, hold_on, last_emulated, release};
pub(crate) use transfer::{fenced, fetch_for_others, flushed, prefetched, streamed};

/// What [`in_mode!`](crate::in_mode) refers to.
#[doc(hidden)]
pub mod modes {
    pub use tierra_interleave::{Execution, Interleaved, Plain};
}

/// Evaluates an expression with a type name bound to the mode that an
/// [`Execution`](tierra_interleave::Execution) asks for, emulated while emulation is on.
///
/// [`tierra_interleave::in_mode!`] for callers whose memory may be far: the expression is compiled four
/// times, and dispatch costs one load of a flag and two branches per group of lookups.
///
/// ```
/// use tierra_interleave::{Cx, Execution, GroupSize, for_each};
/// use tierra_memory::in_mode;
///
/// let places = [10u64, 20, 30];
/// let mut sum = 0;
/// in_mode!(Execution::Interleaved, M => for_each(
///     GroupSize::DEFAULT,
///     &places,
///     |cx: Cx<M>, place| cx.load(place),
///     |_, value| sum += *value,
/// ));
/// assert_eq!(sum, 60);
/// ```
#[macro_export]
macro_rules! in_mode {
    ($execution:expr, $mode:ident => $body:expr) => {
        match ($execution, $crate::emulation::is_on()) {
            ($crate::emulation::modes::Execution::Plain, false) => {
                type $mode = $crate::emulation::modes::Plain;
                $body
            }
            ($crate::emulation::modes::Execution::Interleaved, false) => {
                type $mode = $crate::emulation::modes::Interleaved;
                $body
            }
            ($crate::emulation::modes::Execution::Plain, true) => {
                type $mode = $crate::emulation::Emulated<$crate::emulation::modes::Plain>;
                $body
            }
            ($crate::emulation::modes::Execution::Interleaved, true) => {
                type $mode = $crate::emulation::Emulated<$crate::emulation::modes::Interleaved>;
                $body
            }
        }
    };
}
