//! Groups behind a [`Gate`]: the clock around stretches of lookups, run plain or interleaved as the
//! gate says.
//!
//! Invariant: every input is answered exactly once, whatever the gate chooses.

use crate::arch::ticks;
use crate::gate::Gate;
use crate::group::{GroupReport, Work, run};
use crate::group_size::GroupSize;
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
    done: D,
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
    let mut work = Work::new(inputs, done);
    let mut total = GroupReport::default();
    loop {
        let choice = gate.choose();
        let (size, most) = (choice.size, choice.lookups);
        let report;
        let start = ticks();
        match choice.execution {
            Execution::Plain => (work, plain, report) = stretch(size, work, plain, most),
            Execution::Interleaved => {
                (work, interleaved, report) = stretch(size, work, interleaved, most);
            }
        }
        let spent = ticks().saturating_sub(start);
        gate.report(choice, report.lookups as usize, spent);
        total += report;
        if report.lookups < most as u64 {
            return total;
        }
    }
}

/// [`run`] in a function of its own, so that each mode's loop is compiled as if it were the only one.
#[inline(never)]
fn stretch<M, I, F, Fut, D>(
    size: GroupSize,
    work: Work<I, D>,
    lookup: F,
    most: usize,
) -> (Work<I, D>, F, GroupReport)
where
    M: Mode,
    I: Iterator,
    F: FnMut(Cx<M>, I::Item) -> Fut,
    Fut: Future,
    D: FnMut(usize, Fut::Output),
{
    run(size, work, lookup, most)
}

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
