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
//! - A lane's `input` is `Some` exactly while it holds a lookup. It is set after the lookup has been
//!   written and cleared before the lookup is dropped, so that whatever panics (the inputs, a lookup,
//!   `done`, a destructor), each lookup is dropped once and no vacant lane is read.
//! - A lookup stays where it was written until it is dropped there: the lanes are pinned in the frame
//!   of [`for_each`] and give access to a lookup only as a pinned reference.

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
    for (index, input) in inputs.by_ref().take(group.get()) {
        let started = lookup(Cx::new(), input);
        lanes.as_mut().open(index, started);
    }
    let mut busy = lanes.opened;
    while busy != 0 {
        for mut lane in lanes.as_mut().opened() {
            if lane.input.is_none() {
                continue;
            }
            // SAFETY: `input` is `Some`: it was above, and the loop is left unless a lookup has been
            // started again.
            while let Poll::Ready(output) = unsafe { lane.as_mut().lookup() }.poll(&mut task) {
                // SAFETY: the lookup that has just been polled is still there.
                let index = unsafe { lane.as_mut().end() };
                done(index, output);
                let Some((index, input)) = inputs.next() else {
                    busy -= 1;
                    break;
                };
                let started = lookup(Cx::new(), input);
                // SAFETY: `end` has made the lane vacant, and nothing since could reach it.
                unsafe { lane.as_mut().start(index, started) };
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

/// A place for one lookup.
struct Lane<Fut> {
    /// The index of the input being looked up; `None` while the lane is vacant.
    input: Option<usize>,
    lookup: MaybeUninit<Fut>,
}

impl<Fut> Lane<Fut> {
    /// Puts a lookup into this lane.
    ///
    /// # Safety
    ///
    /// `input` is `None`: a lookup that is overwritten is never dropped, which pinning forbids.
    #[inline(always)]
    unsafe fn start(self: Pin<&mut Self>, index: usize, lookup: Fut) {
        debug_assert!(self.input.is_none());
        // SAFETY: nothing is moved out of the lane; a vacant one is written.
        let lane = unsafe { self.get_unchecked_mut() };
        lane.lookup.write(lookup);
        lane.input = Some(index);
    }

    /// The lookup, ready to be polled.
    ///
    /// # Safety
    ///
    /// `input` is `Some`.
    #[inline(always)]
    unsafe fn lookup(self: Pin<&mut Self>) -> Pin<&mut Fut> {
        debug_assert!(self.input.is_some());
        // SAFETY: the lane holds a lookup, as the caller has made sure. It is pinned structurally:
        // lanes do not move, only this function gives mutable access to a lookup, and `end` drops it
        // in place before the lane is written again.
        unsafe { self.map_unchecked_mut(|lane| lane.lookup.assume_init_mut()) }
    }

    /// Drops the lookup and returns the index of its input.
    ///
    /// # Safety
    ///
    /// `input` is `Some`.
    #[inline(always)]
    unsafe fn end(self: Pin<&mut Self>) -> usize {
        // SAFETY: nothing is moved out of the lane; the lookup is dropped in place.
        let lane = unsafe { self.get_unchecked_mut() };
        // Vacant from here on, so that a destructor that panics is not run again by `Lanes::drop`.
        // SAFETY: the caller has made sure that `input` is `Some`.
        let index = unsafe { lane.input.take().unwrap_unchecked() };
        // SAFETY: the lane held a lookup, and nobody reads or drops it after this.
        unsafe { lane.lookup.assume_init_drop() };
        index
    }
}

/// The lanes of a group. The first `opened` of them are initialised.
struct Lanes<Fut> {
    opened: usize,
    lanes: [MaybeUninit<Lane<Fut>>; MAX_LANES],
    // Lookups are pinned inside, so the whole must not move once pinned, whatever `Fut` is.
    _pinned: PhantomPinned,
}

impl<Fut> Lanes<Fut> {
    #[inline(always)]
    fn new() -> Self {
        let lanes = [const { MaybeUninit::uninit() }; MAX_LANES];
        Lanes {
            opened: 0,
            lanes,
            _pinned: PhantomPinned,
        }
    }

    /// Starts a lookup in a lane that has not been used before.
    #[inline(always)]
    fn open(self: Pin<&mut Self>, index: usize, lookup: Fut) {
        // SAFETY: nothing is moved out: a lane that holds nothing yet is written.
        let this = unsafe { self.get_unchecked_mut() };
        let lookup = MaybeUninit::new(lookup);
        this.lanes[this.opened].write(Lane {
            input: Some(index),
            lookup,
        });
        this.opened += 1;
    }

    /// Every lane that has been opened, busy or vacant.
    #[inline(always)]
    fn opened(self: Pin<&mut Self>) -> impl Iterator<Item = Pin<&mut Lane<Fut>>> {
        // SAFETY: lanes are handed out pinned only, so nothing is moved.
        let this = unsafe { self.get_unchecked_mut() };
        let opened = &mut this.lanes[..this.opened];
        opened.iter_mut().map(|lane| {
            // SAFETY: the first `opened` lanes are initialised, and lanes are pinned structurally:
            // they stay where they are as long as `Lanes`, which is pinned.
            unsafe { Pin::new_unchecked(lane.assume_init_mut()) }
        })
    }
}

impl<Fut> Drop for Lanes<Fut> {
    /// Only a panic leaves lookups under way.
    fn drop(&mut self) {
        // SAFETY: `self` is not used again but through this, and was pinned before any lookup
        // started.
        let this = unsafe { Pin::new_unchecked(self) };
        for lane in this.opened() {
            if lane.input.is_some() {
                // SAFETY: just checked.
                unsafe { lane.end() };
            }
        }
    }
}
