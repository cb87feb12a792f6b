//! Running a group to its end: lookups that take turns until every input has been answered.
//!
//! A lane is refilled as soon as its lookup ends, so a long lookup delays nobody else, and the new
//! lookup runs to its first load before the next lane has its turn. When the inputs run out the
//! group thins until the last lookup has ended. The lanes themselves are in `lanes.rs`.
//!
//! Invariant: every input is answered exactly once, or something has panicked.

use core::iter::Fuse;
use core::marker::PhantomData;
use core::pin::pin;
use core::task::{Context, Poll, Waker};

use crate::group_size::GroupSize;
use crate::lanes::{Feed, Group};
use crate::load::Cx;
use crate::mode::{Mode, Plain};

/// What a group has done.
///
/// Counting costs an addition per turn of the whole group, so every group counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupReport {
    /// Lookups started; each has ended when [`for_each`] returns.
    pub lookups: u64,
    /// How often a lookup gave way to another: none in a plain mode.
    pub suspensions: u64,
}

impl core::ops::AddAssign for GroupReport {
    fn add_assign(&mut self, other: GroupReport) {
        self.lookups += other.lookups;
        self.suspensions += other.suspensions;
    }
}

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
pub fn for_each<M, I, F, Fut, D>(size: GroupSize, inputs: I, lookup: F, done: D) -> GroupReport
where
    M: Mode,
    I: IntoIterator,
    F: FnMut(Cx<M>, I::Item) -> Fut,
    Fut: Future,
    D: FnMut(usize, Fut::Output),
{
    if !M::INTERLEAVED {
        return one_by_one(0, inputs.into_iter(), lookup, done);
    }
    run(size, Work::new(inputs, done), lookup, usize::MAX).2
}

/// The plain loop: lookups in the order of their inputs, which are numbered from `first`.
#[inline(always)]
fn one_by_one<M, I, F, Fut, D>(first: usize, inputs: I, mut lookup: F, mut done: D) -> GroupReport
where
    M: Mode,
    I: Iterator,
    F: FnMut(Cx<M>, I::Item) -> Fut,
    Fut: Future,
    D: FnMut(usize, Fut::Output),
{
    let mut index = first;
    for input in inputs {
        done(index, run_alone(lookup(Cx::of_lookup(index), input)));
        index += 1;
    }
    GroupReport {
        lookups: (index - first) as u64,
        suspensions: 0,
    }
}

/// What a group works on: the inputs that are left, how many have been taken, and who gets the outputs.
pub(crate) struct Work<I, D> {
    inputs: Fuse<I>,
    taken: usize,
    done: D,
}

impl<I: Iterator, D> Work<I, D> {
    #[inline(always)]
    pub(crate) fn new(inputs: impl IntoIterator<IntoIter = I>, done: D) -> Self {
        Work {
            // Some iterators start again after their end; a group must not.
            inputs: inputs.into_iter().fuse(),
            taken: 0,
            done,
        }
    }
}

/// Works on up to `most` inputs, as [`for_each`] does. Fewer lookups in the report than that say that
/// there are no more.
///
/// Work and lookup come and go by value: what the loop reaches through references it would have to
/// read again behind every output that is written.
#[inline(always)]
pub(crate) fn run<M, I, F, Fut, D>(
    size: GroupSize,
    work: Work<I, D>,
    mut lookup: F,
    most: usize,
) -> (Work<I, D>, F, GroupReport)
where
    M: Mode,
    I: Iterator,
    F: FnMut(Cx<M>, I::Item) -> Fut,
    Fut: Future,
    D: FnMut(usize, Fut::Output),
{
    let Work {
        mut inputs,
        taken: first,
        mut done,
    } = work;
    let report = if M::INTERLEAVED {
        let mut group = pin!(Group::new(size));
        let mut feed = Inputs {
            inputs,
            lookup,
            taken: first,
            end: first.saturating_add(most),
            mode: PhantomData,
        };
        // A group takes inputs as long as there are any, so it is empty only when they have ended.
        while group.as_mut().turn_fed(&mut feed, &mut done) != 0 {}
        (inputs, lookup) = (feed.inputs, feed.lookup);
        group.report()
    } else {
        one_by_one(first, inputs.by_ref().take(most), &mut lookup, &mut done)
    };
    let work = Work {
        inputs,
        taken: first + report.lookups as usize,
        done,
    };
    (work, lookup, report)
}

/// Inputs that become lookups in mode `M`, numbered.
struct Inputs<M, I, F> {
    inputs: I,
    lookup: F,
    taken: usize,
    end: usize,
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
        if self.taken == self.end {
            return None;
        }
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
