//! The promises of a group: every input answered once whatever the schedule, lanes refilled at
//! once, lookups pinned, and nothing lost or dropped twice when something panics.
//!
//! Miri checks what the compiler cannot, aliasing and initialisation of the lanes:
//! `cargo +nightly miri test -p tierra-interleave --test group -- --skip a_group_answers`.

use std::cell::{Cell, RefCell};
use std::marker::PhantomPinned;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use proptest::prelude::*;
use tierra_interleave::{
    Cx, GroupSize, Interleaved, MAX_LANES, Mode, Plain, for_each, map_into, run_plain,
};

fn group(lanes: usize) -> GroupSize {
    GroupSize::new(lanes).unwrap()
}

/// Follows `hops` pointers of a ring: a lookup with as many suspensions as one likes.
async fn hop<M: Mode>(cx: Cx<M>, ring: &[usize], start: usize, hops: usize) -> usize {
    let mut at = start;
    for _ in 0..hops {
        at = *cx.load(&ring[at]).await;
    }
    at
}

fn ring(len: usize) -> Vec<usize> {
    (0..len).map(|i| (i + 7) % len).collect()
}

fn answers<M: Mode>(lanes: usize, ring: &[usize], inputs: &[(usize, usize)]) -> Vec<usize> {
    let mut calls = vec![0; inputs.len()];
    let mut answers = vec![usize::MAX; inputs.len()];
    for_each(
        group(lanes),
        inputs,
        |cx: Cx<M>, &(start, hops)| hop(cx, ring, start, hops),
        |index, answer| {
            calls[index] += 1;
            answers[index] = answer;
        },
    );
    assert!(
        calls.iter().all(|&calls| calls == 1),
        "each input is answered exactly once"
    );
    answers
}

proptest! {
    #[test]
    fn a_group_answers_as_the_plain_loop(
        lanes in 1..=MAX_LANES,
        inputs in prop::collection::vec((0usize..97, 0usize..20), 0..300),
    ) {
        let ring = ring(97);
        let expected: Vec<usize> =
            inputs.iter().map(|&(start, hops)| (start + 7 * hops) % 97).collect();
        prop_assert_eq!(&answers::<Plain>(lanes, &ring, &inputs), &expected);
        prop_assert_eq!(&answers::<Interleaved>(lanes, &ring, &inputs), &expected);
    }
}

#[test]
fn fewer_as_many_and_more_inputs_than_lanes() {
    let ring = ring(97);
    for lanes in [1, 2, 63, 64] {
        for inputs in [0, 1, lanes - 1, lanes, lanes + 1, 3 * lanes + 1] {
            let inputs: Vec<_> = (0..inputs).map(|i| (i % 97, i % 5)).collect();
            let expected: Vec<_> = inputs
                .iter()
                .map(|(start, hops)| (start + 7 * hops) % 97)
                .collect();
            assert_eq!(answers::<Interleaved>(lanes, &ring, &inputs), expected);
        }
    }
}

#[test]
fn a_lane_is_refilled_as_soon_as_its_lookup_ends() {
    // Two lanes; the first lookup is as long as all others together, which must not wait for it.
    let ring = ring(97);
    let hops = [40, 3, 1, 2, 5, 1];
    let mut order = Vec::new();
    for_each(
        group(2),
        hops,
        |cx: Cx<Interleaved>, hops| hop(cx, &ring, 0, hops),
        |index, _| order.push(index),
    );
    assert_eq!(order, [1, 2, 3, 4, 5, 0]);
}

#[test]
fn at_most_a_group_is_under_way() {
    let ring = ring(97);
    let (now, most) = (Cell::new(0), Cell::new(0));
    for_each(
        group(5),
        0..100,
        |cx: Cx<Interleaved>, input| {
            now.set(now.get() + 1);
            most.set(most.get().max(now.get()));
            hop(cx, &ring, 0, input % 4)
        },
        |_, _| now.set(now.get() - 1),
    );
    assert_eq!((now.get(), most.get()), (0, 5));
}

#[test]
fn plain_runs_in_order_and_one_at_a_time() {
    let mut order = Vec::new();
    for_each(
        group(8),
        ["a", "b", "c"],
        |cx: Cx<Plain>, place: &'static str| cx.load(place),
        |index, place| order.push((index, place)),
    );
    assert_eq!(order, [(0, "a"), (1, "b"), (2, "c")]);
    assert_eq!(run_plain(|cx| hop(cx, &[1, 0], 0, 3)), 1);
}

#[test]
fn inputs_are_not_asked_again_after_their_end() {
    let mut asked = 0;
    let unruly = std::iter::from_fn(|| {
        asked += 1;
        (asked != 3).then_some(asked)
    });
    let mut out = [0; 2];
    let answered = map_into(
        group(2),
        unruly,
        |_: Cx<Interleaved>, input| async move { input },
        &mut out,
    );
    assert_eq!((answered.lookups, out), (2, [1, 2]));
}

/// A future that must stay where it was first polled, and counts how often it is dropped.
struct Pinned<'a> {
    drops: &'a Cell<usize>,
    polls_left: usize,
    at: usize,
    panics: bool,
    panics_in_drop: bool,
    _pinned: PhantomPinned,
}

impl<'a> Pinned<'a> {
    fn new(drops: &'a Cell<usize>, polls: usize) -> Self {
        let (panics, panics_in_drop) = (false, false);
        Pinned {
            drops,
            polls_left: polls,
            at: 0,
            panics,
            panics_in_drop,
            _pinned: PhantomPinned,
        }
    }
}

impl Future for Pinned<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        let address = std::ptr::from_ref(&*self).addr();
        // SAFETY: only plain fields are changed; nothing is moved.
        let this = unsafe { self.get_unchecked_mut() };
        assert!(
            this.at == 0 || this.at == address,
            "a pinned lookup has moved"
        );
        this.at = address;
        if this.panics {
            resume_unwind(Box::new("poll"));
        }
        match this.polls_left.checked_sub(1) {
            Some(left) => {
                this.polls_left = left;
                Poll::Pending
            }
            None => Poll::Ready(()),
        }
    }
}

impl Drop for Pinned<'_> {
    fn drop(&mut self) {
        let address = std::ptr::from_ref(self).addr();
        assert!(
            self.at == 0 || self.at == address,
            "a pinned lookup was dropped elsewhere"
        );
        self.drops.set(self.drops.get() + 1);
        if self.panics_in_drop && !std::thread::panicking() {
            resume_unwind(Box::new("drop"));
        }
    }
}

#[test]
fn lookups_never_move_and_are_dropped_once() {
    let drops = Cell::new(0);
    for_each(
        group(7),
        0..100,
        |_: Cx<Interleaved>, input| Pinned::new(&drops, input * 13 % 11),
        |_, ()| {},
    );
    assert_eq!(drops.get(), 100);
}

/// Where something goes wrong in a run of 100 lookups.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    Inputs,
    Start,
    Poll,
    Done,
    Drop,
}

#[test]
fn whatever_panics_every_lookup_is_dropped_once() {
    for lanes in [1, 2, 7, 64] {
        for at in [0, 1, 6, 50, 99] {
            for fault in [
                Fault::Inputs,
                Fault::Start,
                Fault::Poll,
                Fault::Done,
                Fault::Drop,
            ] {
                let (started, drops) = (Cell::new(0), Cell::new(0));
                let answered = RefCell::new(Vec::new());
                let fails = |here: Fault, index: usize| {
                    if here == fault && index == at {
                        resume_unwind(Box::new("planted"));
                    }
                };
                let outcome = catch_unwind(AssertUnwindSafe(|| {
                    for_each(
                        group(lanes),
                        (0..100).inspect(|&index| fails(Fault::Inputs, index)),
                        |_: Cx<Interleaved>, index| {
                            fails(Fault::Start, index);
                            started.set(started.get() + 1);
                            let mut lookup = Pinned::new(&drops, index * 13 % 11);
                            lookup.panics = fault == Fault::Poll && index == at;
                            lookup.panics_in_drop = fault == Fault::Drop && index == at;
                            lookup
                        },
                        |index, ()| {
                            fails(Fault::Done, index);
                            answered.borrow_mut().push(index);
                        },
                    );
                }));
                let case = format!("{fault:?} at {at}, {lanes} lanes");
                assert!(outcome.is_err(), "{case}: the panic goes on");
                assert_eq!(
                    drops.get(),
                    started.get(),
                    "{case}: each lookup dropped once"
                );
                let mut answered = answered.into_inner();
                assert!(!answered.contains(&at), "{case}");
                let len = answered.len();
                answered.sort_unstable();
                answered.dedup();
                assert_eq!(answered.len(), len, "{case}: nothing answered twice");
            }
        }
    }
}

#[test]
fn outputs_stay_whole_when_a_lookup_panics() {
    let mut out = vec![String::from("before"); 10];
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        map_into(
            group(3),
            0..10,
            |cx: Cx<Interleaved>, input: usize| async move {
                let input = *cx.load(&input).await;
                if input == 6 {
                    resume_unwind(Box::new("planted"));
                }
                input.to_string()
            },
            &mut out,
        )
    }));
    assert!(outcome.is_err());
    for (index, text) in out.iter().enumerate() {
        assert!(*text == index.to_string() || text == "before");
    }
    assert_eq!(out[..3], ["0", "1", "2"]);
}

#[test]
fn a_lookup_may_run_a_group_of_its_own() {
    let ring = ring(97);
    let mut out = [0; 20];
    let nested = |cx: Cx<Interleaved>, start: usize| {
        let ring = &ring;
        async move {
            let mut inner = [0; 3];
            map_into(
                group(2),
                0..3,
                |cx: Cx<Interleaved>, hops| hop(cx, ring, start, hops),
                &mut inner,
            );
            *cx.load(&ring[inner[2]]).await
        }
    };
    map_into(group(4), 0..20, nested, &mut out);
    assert_eq!(out, std::array::from_fn(|start| (start + 21) % 97));
}
