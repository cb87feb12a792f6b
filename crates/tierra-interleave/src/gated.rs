//! Groups behind a [`Gate`]: the clock around stretches of lookups, run plain or interleaved as the
//! gate says.
//!
//! Invariant: every input is answered exactly once, whatever the gate chooses.

use core::iter::FusedIterator;

use crate::arch::ticks;
use crate::gate::Gate;
use crate::group::{GroupReport, for_each};
use crate::load::Cx;
use crate::mode::{Execution, Mode};

/// [`for_each`], plain or interleaved as `gate` finds cheaper: cached data runs the plain loop.
///
/// The lookup is given twice, once per mode, because a closure cannot be generic; both must answer
/// alike. `P` must be a plain mode and `L` an interleaved one. The clock is read every two thousand
/// lookups and around each call, about 20 ns, so a call should have tens of lookups.
///
/// ```
/// use tierra_interleave::{Cx, Gate, GroupSize, Interleaved, Plain, for_each_gated};
///
/// let places: Vec<u64> = (0..10_000).collect();
/// let gate = Gate::new(GroupSize::DEFAULT); // kept beside `places`
/// let mut sum = 0;
/// for_each_gated(
///     &gate,
///     0..places.len(),
///     |cx: Cx<Plain>, at| cx.load(&places[at]),
///     |cx: Cx<Interleaved>, at| cx.load(&places[at]),
///     |_, place| sum += *place,
/// );
/// assert_eq!(sum, 49_995_000);
/// ```
pub fn for_each_gated<P, L, I, F, Fut, G, Gut, D>(
    gate: &Gate,
    inputs: I,
    mut plain: F,
    mut interleaved: G,
    mut done: D,
) -> GroupReport
where
    P: Mode,
    L: Mode,
    I: IntoIterator,
    F: FnMut(Cx<P>, I::Item) -> Fut,
    Fut: Future,
    G: FnMut(Cx<L>, I::Item) -> Gut,
    Gut: Future<Output = Fut::Output>,
    D: FnMut(usize, Fut::Output),
{
    const {
        assert!(
            !P::INTERLEAVED && L::INTERLEAVED,
            "a plain mode, then an interleaved one"
        );
    }
    let mut inputs = inputs.into_iter();
    let mut total = GroupReport::default();
    let mut ended = false;
    while !ended {
        let choice = gate.choose();
        let first = total.lookups as usize;
        let stretch = Stretch {
            inputs: &mut inputs,
            left: choice.lookups,
            ended: &mut ended,
        };
        let done = |index, output| done(first + index, output);
        let start = ticks();
        let report = match choice.execution {
            Execution::Plain => for_each(gate.size(), stretch, &mut plain, done),
            Execution::Interleaved => for_each(gate.size(), stretch, &mut interleaved, done),
        };
        let spent = ticks().saturating_sub(start);
        gate.report(choice, report.lookups as usize, spent);
        total += report;
    }
    total
}

/// The next few inputs. Notes when there are no more, for some iterators start again after their end.
struct Stretch<'a, I> {
    inputs: &'a mut I,
    left: usize,
    ended: &'a mut bool,
}

impl<I: Iterator> Iterator for Stretch<'_, I> {
    type Item = I::Item;

    #[inline(always)]
    fn next(&mut self) -> Option<I::Item> {
        self.left = self.left.checked_sub(1)?;
        let input = self.inputs.next();
        if input.is_none() {
            self.left = 0;
            *self.ended = true;
        }
        input
    }
}

impl<I: Iterator> FusedIterator for Stretch<'_, I> {}

/// [`for_each_gated`] with the outputs in the order of the inputs: the output of input `i` replaces
/// `out[i]`. What lies beyond the last input stays as it is.
///
/// # Panics
///
/// If there are more inputs than places in `out`.
pub fn map_into_gated<P, L, I, F, Fut, G, Gut>(
    gate: &Gate,
    inputs: I,
    plain: F,
    interleaved: G,
    out: &mut [Fut::Output],
) -> GroupReport
where
    P: Mode,
    L: Mode,
    I: IntoIterator,
    F: FnMut(Cx<P>, I::Item) -> Fut,
    Fut: Future,
    G: FnMut(Cx<L>, I::Item) -> Gut,
    Gut: Future<Output = Fut::Output>,
{
    for_each_gated(gate, inputs, plain, interleaved, |index, output| {
        out[index] = output;
    })
}
