//! Hide memory latency by letting independent lookups take turns at their cache misses.
//!
//! A lookup in a large structure spends most of its time waiting: a binary search in a gigabyte
//! misses the caches a dozen times, one miss after the other, 80 ns each in near memory and 300 ns
//! in far memory. A single lookup cannot help it, but a query has thousands of them, and a processor
//! serves tens of misses at once. So each lookup is written as a coroutine that asks for the memory
//! it needs, gives way, and continues when its turn comes again, by which time the memory is near.
//!
//! ```
//! use tierra_interleave::{Cx, GroupSize, Interleaved, Mode, map_into};
//!
//! /// The rank of `key`: written once, run in any mode.
//! async fn rank<M: Mode>(cx: Cx<M>, sorted: &[u64], key: u64) -> usize {
//!     let (mut low, mut len) = (0, sorted.len());
//!     while len > 0 {
//!         let half = len / 2;
//!         let probed = *cx.load(&sorted[low + half]).await; // the only suspension
//!         (low, len) = if probed < key { (low + half + 1, len - half - 1) } else { (low, half) };
//!     }
//!     low
//! }
//!
//! let sorted: Vec<u64> = (0..1000).map(|i| 2 * i).collect();
//! let keys = [0, 7, 8, 1998, 5000];
//! let mut ranks = [0; 5];
//! map_into(
//!     GroupSize::DEFAULT,
//!     keys,
//!     |cx: Cx<Interleaved>, key| rank(cx, &sorted, key),
//!     &mut ranks,
//! );
//! assert_eq!(ranks, [0, 4, 4, 999, 1000]);
//! ```
//!
//! # The parts
//!
//! - [`Cx::load`] is a lookup's access to memory that it may wait for: a [`Load`], a future of a
//!   pointer and a bit, written by hand because every suspension passes through it. [`Cx::walk`]
//!   follows a chain of them, and [`Chain`] continues any lookup; neither costs a state machine.
//! - A [`Mode`] decides what a load does: [`Plain`] makes it at once, [`Interleaved`] prefetches
//!   and gives way, [`Counted`] counts besides. A lookup is generic over it; [`Execution`] and
//!   [`in_mode!`] choose at run time.
//! - [`for_each`] and [`map_into`] run a group of lookups: [`GroupSize`] of them at a time, in lanes
//!   that lie in the caller's frame, each refilled as soon as its lookup ends. A [`Group`] takes
//!   lookups that arrive over time. No heap, no queue, no wakers, no threads.
//! - A [`Gate`] finds out by the clock which mode is cheaper: cached data is looked up by the plain
//!   loop. [`Lookups`] is what a statement takes along to the gates of everything that it looks into:
//!   it runs what they say, and counts.
//!
//! Where to begin: `examples/btree.rs`, an ordinary B+-tree changed to hide its misses.
//!
//! # How it differs
//!
//! - *`FuturesUnordered`, `buffer_unordered`, an async runtime*: made for waits of microseconds and
//!   more. They allocate per future and poll only what has been woken. A cache miss wakes no task and
//!   is over before a queue has been touched; here polling in turn is the schedule.
//! - *Group prefetching, asynchronous memory access chaining*: the same overlap, with each lookup
//!   rewritten by hand as stages of an explicit state machine. Faster by a few instructions where a
//!   lookup is a short loop, and a second implementation of every data structure to keep correct.
//!   Here the compiler makes the state machine from the plain code.
//! - *Simultaneous multithreading*: two to eight lookups at a time, and only where the hardware and
//!   its operator allow that.
//!
//! How to write a lookup that stays fast is in
//! `docs/interleaving.md`.
//!
//! It needs no operating system in particular, and prefetches on x86-64 and aarch64; on others `Interleaved` only takes turns.

mod arch;
mod chain;
mod counted;
mod gate;
mod group;
mod group_size;
mod lanes;
mod load;
mod lookups;
mod mode;
mod report;
mod size_search;
mod walk;

pub use chain::{Chain, Map, Then};
pub use counted::{Counted, Counts};
pub use gate::{Choice, Gate};
pub use group::{for_each, map_into, run_plain};
pub use group_size::{GroupSize, MAX_LANES, ParseGroupSizeError};
pub use lanes::Group;
pub use load::{Cx, Load, LoadBytes};
pub use lookups::{Lookups, ParseSchedulingError, Scheduling};
pub use mode::{Execution, Interleaved, LINE_BYTES, Mode, ParseExecutionError, Plain};
pub use report::GroupReport;
pub use walk::Walk;
