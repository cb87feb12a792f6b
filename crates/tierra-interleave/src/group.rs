//! Running a group to its end: lookups that take turns until every input has been answered.
//!
//! A lane is refilled as soon as its lookup ends, so a long lookup delays no other one, and the new
//! lookup runs to its first load before the next lane has its turn. When the inputs run out the
//! group thins until the last lookup has ended. The lanes themselves are in `lanes.rs`.
//!
//! Invariant: every input is answered exactly once, or something has panicked.

use core::marker::PhantomData;
use core::pin::pin;
use core::task::{Context, Poll, Waker};

use crate::group_size::GroupSize;
use crate::lanes::{Feed, Group};
use crate::load::Cx;
use crate::mode::{Mode, Plain};
use crate::report::GroupReport;

/// Runs `lookup` for every input, `size` of them taking turns, and calls `done` with the index of
/// each input and its output as soon as it is known, which is not the order of the inputs.
///
/// Allocates nothing: the lanes, [`MAX_LANES`](crate::MAX_LANES) times the size of one lookup, lie in
/// this function's frame. In a mode that is not interleaved it is a loop that runs one lookup after
/// the other.
///
/// A lookup should wait for nothing but loads. One that waits for something else is polled again and
/// again until that is ready.
///
/// If `inputs`, a lookup or `done` panics, the lookups under way are dropped and the panic goes on;
/// what `done` has already been given stands.
#[inline]
pub fn for_each<M, I, F, Fut, D>(size: GroupSize, inputs: I, lookup: F, mut done: D) -> GroupReport
where
    M: Mode,
    I: IntoIterator,
    F: FnMut(Cx<M>, I::Item) -> Fut,
    Fut: Future,
    D: FnMut(usize, Fut::Output),
{
    if !M::INTERLEAVED {
        return run_sequentially(inputs.into_iter(), lookup, done);
    }
    // Some iterators start again after their end; a group must not.
    let inputs = inputs.into_iter().fuse();
    let mut group = pin!(Group::new(size));
    let mut feed = Inputs {
        inputs,
        lookup,
        taken: 0,
        mode: PhantomData,
    };
    // A group takes inputs as long as there are any, so it is empty only when they have ended.
    while group.as_mut().turn_fed(&mut feed, &mut done) != 0 {}
    group.report()
}

/// The plain loop: lookups in the order of their inputs.
#[inline(always)]
fn run_sequentially<M, I, F, Fut, D>(inputs: I, mut lookup: F, mut done: D) -> GroupReport
where
    M: Mode,
    I: Iterator,
    F: FnMut(Cx<M>, I::Item) -> Fut,
    Fut: Future,
    D: FnMut(usize, Fut::Output),
{
    let mut index = 0;
    for input in inputs {
        done(index, run_alone(lookup(Cx::of_lookup(index), input)));
        index += 1;
    }
    GroupReport {
        lookups: index as u64,
        suspensions: 0,
    }
}

/// Inputs that become lookups in mode `M`, numbered.
struct Inputs<M, I, F> {
    inputs: I,
    lookup: F,
    taken: usize,
    mode: PhantomData<M>,
}

impl<M, I, F, Fut> Feed<usize, Fut> for Inputs<M, I, F>
where
    M: Mode,
    I: Iterator,
    F: FnMut(Cx<M>, I::Item) -> Fut,
{
    #[inline(always)]
    fn next(&mut self) -> Option<(usize, Fut)> {
        let input = self.inputs.next()?;
        let index = self.taken;
        self.taken += 1;
        Some((index, (self.lookup)(Cx::of_lookup(index), input)))
    }
}

/// [`for_each`] with the outputs in the order of the inputs: the output of input `i` replaces
/// `out[i]`. What lies beyond the last input stays as it is.
///
/// # Panics
///
/// If there are more inputs than places in `out`. Whatever panics, every place of `out` holds either
/// its previous value or its output.
#[inline]
pub fn map_into<M, I, F, Fut>(
    size: GroupSize,
    inputs: I,
    lookup: F,
    out: &mut [Fut::Output],
) -> GroupReport
where
    M: Mode,
    I: IntoIterator,
    F: FnMut(Cx<M>, I::Item) -> Fut,
    Fut: Future,
{
    for_each(size, inputs, lookup, |index, output| out[index] = output)
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
