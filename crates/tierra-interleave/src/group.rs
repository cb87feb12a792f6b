//! Groups: lookups that take turns until every input has been answered.
//!
//! ```text
//!   inputs ──next──▶ lane 0 │ lane 1 │ … │ lane g-1      lanes: an array in the caller's frame
//!                      ▲ poll in turn; ready? ──▶ done(index, output), next input into the lane
//! ```
//!
//! A lane is refilled as soon as its lookup ends, so a long lookup delays nobody else, and the new
//! lookup runs to its first load before the next lane has its turn. When the inputs run out the
//! group thins until the last lookup has ended.
//!
//! Invariants:
//! - A bit of `busy` is set exactly while its lane holds a lookup. It is set after the lookup has
//!   been written and cleared before the lookup is dropped, so that whatever panics (the inputs, a
//!   lookup, `done`, a destructor), each lookup is dropped once and no lane is read while empty.
//! - A lookup stays where it was written until it is dropped there: the group is pinned in the frame
//!   of [`for_each`] and hands out lanes only as pinned references.

use core::marker::PhantomPinned;
use core::mem::MaybeUninit;
use core::pin::{Pin, pin};
use core::task::{Context, Poll, Waker};

use crate::group_size::{GroupSize, MAX_LANES};
use crate::load::Cx;
use crate::mode::{Mode, Plain};

/// Runs `lookup` for every input, `group` of them taking turns, and calls `done` with the index of
/// each input and its output as soon as it is known, which is not the order of the inputs.
///
/// Allocates nothing: the lanes, [`MAX_LANES`] times the size of one lookup, lie in this function's
/// frame. In a mode that is not interleaved it is a loop that runs one lookup after the other.
///
/// A lookup should wait for nothing but [`Cx::load`]. One that waits for something else is polled
/// again and again until that is ready.
///
/// If `inputs`, a lookup or `done` panics, the lookups under way are dropped and the panic goes on;
/// what `done` has already been given stands.
#[inline]
pub fn for_each<M, I, F, Fut, D>(group: GroupSize, inputs: I, mut lookup: F, mut done: D)
where
    M: Mode,
    I: IntoIterator,
    F: FnMut(Cx<M>, I::Item) -> Fut,
    Fut: Future,
    D: FnMut(usize, Fut::Output),
{
    // Some iterators start again after their end; a group must not.
    let mut inputs = inputs.into_iter().fuse().enumerate();
    if !M::INTERLEAVED {
        for (index, input) in inputs {
            done(index, run_alone(lookup(Cx::new(), input)));
        }
        return;
    }

    let mut task = Context::from_waker(Waker::noop());
    let mut lanes = pin!(Lanes::<Fut>::new());
    for lane in 0..group.get() {
        let Some((index, input)) = inputs.next() else {
            break;
        };
        let started = lookup(Cx::new(), input);
        // SAFETY: `lane` < MAX_LANES by GroupSize's invariant, and every lane starts vacant.
        unsafe { lanes.as_mut().start(lane, index, started) };
    }
    while lanes.busy != 0 {
        let mut round = lanes.busy;
        while round != 0 {
            let lane = round.trailing_zeros() as usize;
            round &= round - 1;
            // SAFETY: the lane's bit was set when the round began, only this loop clears it, and it
            // is left when it has not set it again.
            while let Poll::Ready(output) = unsafe { lanes.as_mut().lookup(lane) }.poll(&mut task) {
                // SAFETY: the lane was busy in the condition above.
                let index = unsafe { lanes.as_mut().end(lane) };
                done(index, output);
                let Some((next, input)) = inputs.next() else {
                    break;
                };
                let started = lookup(Cx::new(), input);
                // SAFETY: `end` has just made the lane vacant.
                unsafe { lanes.as_mut().start(lane, next, started) };
            }
        }
    }
}

/// [`for_each`] with the outputs in the order of the inputs: the output of input `i` replaces
/// `out[i]`. Returns the number of inputs.
///
/// # Panics
///
/// If there are more inputs than places in `out`. Whatever panics, every place of `out` holds either
/// its previous value or its output.
#[inline]
pub fn map_into<M, I, F, Fut>(
    group: GroupSize,
    inputs: I,
    lookup: F,
    out: &mut [Fut::Output],
) -> usize
where
    M: Mode,
    I: IntoIterator,
    F: FnMut(Cx<M>, I::Item) -> Fut,
    Fut: Future,
{
    let mut answered = 0;
    for_each(group, inputs, lookup, |index, output| {
        out[index] = output;
        answered += 1;
    });
    answered
}

/// Runs one lookup where it stands, with nothing to take turns with.
#[inline]
pub fn run_plain<F, Fut>(lookup: F) -> Fut::Output
where
    F: FnOnce(Cx<Plain>) -> Fut,
    Fut: Future,
{
    run_alone(lookup(Cx::new()))
}

#[inline(always)]
fn run_alone<Fut: Future>(lookup: Fut) -> Fut::Output {
    let mut lookup = pin!(lookup);
    let mut task = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(output) = lookup.as_mut().poll(&mut task) {
            return output;
        }
    }
}

/// A lookup under way and the index of its input.
struct Lane<Fut> {
    lookup: Fut,
    index: usize,
}

/// The lanes of a group and which of them hold a lookup.
struct Lanes<Fut> {
    busy: u64,
    lanes: [MaybeUninit<Lane<Fut>>; MAX_LANES],
    // Lookups are pinned inside, so the whole must not move once it is pinned, whatever `Fut` is.
    _pinned: PhantomPinned,
}

const _: () = assert!(
    MAX_LANES == u64::BITS as usize,
    "`busy` has one bit per lane"
);

impl<Fut> Lanes<Fut> {
    #[inline(always)]
    fn new() -> Self {
        Lanes {
            busy: 0,
            lanes: [const { MaybeUninit::uninit() }; MAX_LANES],
            _pinned: PhantomPinned,
        }
    }

    /// Puts a lookup into a lane.
    ///
    /// # Safety
    ///
    /// `lane` is below [`MAX_LANES`]. A lane that is busy would leak its lookup without running its
    /// destructor, which pinning forbids.
    #[inline(always)]
    unsafe fn start(self: Pin<&mut Self>, lane: usize, index: usize, lookup: Fut) {
        debug_assert!(self.busy >> lane & 1 == 0);
        // SAFETY: nothing is moved out of the pinned lanes: a vacant one is written.
        let this = unsafe { self.get_unchecked_mut() };
        // SAFETY: the caller keeps `lane` in range.
        unsafe { this.lanes.get_unchecked_mut(lane) }.write(Lane { lookup, index });
        this.busy |= 1 << lane;
    }

    /// The lookup in a lane, ready to be polled.
    ///
    /// # Safety
    ///
    /// The lane is busy.
    #[inline(always)]
    unsafe fn lookup(self: Pin<&mut Self>, lane: usize) -> Pin<&mut Fut> {
        debug_assert!(self.busy >> lane & 1 == 1);
        // SAFETY: a busy lane is in range and holds a lookup. Lookups are pinned structurally: the
        // lanes never move while `Lanes` is pinned, nothing else gives mutable access to a lookup,
        // and each is dropped where it lies, by `end` or `drop`, before its lane is written again.
        unsafe {
            let lane = self
                .get_unchecked_mut()
                .lanes
                .get_unchecked_mut(lane)
                .assume_init_mut();
            Pin::new_unchecked(&mut lane.lookup)
        }
    }

    /// Drops the lookup in a lane and returns the index of its input.
    ///
    /// # Safety
    ///
    /// The lane is busy.
    #[inline(always)]
    unsafe fn end(self: Pin<&mut Self>, lane: usize) -> usize {
        debug_assert!(self.busy >> lane & 1 == 1);
        // SAFETY: nothing is moved out of the pinned lanes: the lookup is dropped in place.
        let this = unsafe { self.get_unchecked_mut() };
        // First, so that a destructor that panics is not run again by `drop`.
        this.busy &= !(1 << lane);
        // SAFETY: the lane was busy, so it is in range and holds a lookup; its bit is clear now, so
        // nobody drops or reads it again.
        unsafe {
            let lane = this.lanes.get_unchecked_mut(lane);
            let index = lane.assume_init_ref().index;
            lane.assume_init_drop();
            index
        }
    }
}

impl<Fut> Drop for Lanes<Fut> {
    /// Only a panic leaves lookups under way.
    fn drop(&mut self) {
        // SAFETY: `self` is never used again, and it was pinned if any lookup was ever started.
        let mut this = unsafe { Pin::new_unchecked(self) };
        while this.busy != 0 {
            let lane = this.busy.trailing_zeros() as usize;
            // SAFETY: the lane's bit is set.
            unsafe { this.as_mut().end(lane) };
        }
    }
}
