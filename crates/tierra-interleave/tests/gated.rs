//! The promises of a gated group: it answers as an ungated one, whatever the gate chooses, and learns
//! from the real clock which mode is cheaper.

use std::cell::Cell;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use tierra_interleave::{
    Cx, Execution, Gate, GroupSize, Interleaved, Mode, Plain, for_each_gated, map_into_gated,
};

async fn hop<M: Mode>(cx: Cx<M>, ring: &[usize], start: usize, hops: usize) -> usize {
    let mut at = start;
    for _ in 0..hops {
        at = *cx.load(&ring[at]).await;
    }
    at
}

proptest! {
    #[test]
    fn every_input_is_answered_once_and_in_its_place(
        lens in prop::collection::vec(
            prop_oneof![0usize..100, 31usize..34, 190usize..194, 2000usize..9000],
            1..8,
        ),
    ) {
        let ring: Vec<usize> = (0..97).map(|i| (i + 7) % 97).collect();
        let gate = Gate::new(GroupSize::DEFAULT);
        for len in lens {
            let inputs: Vec<_> = (0..len).map(|i| (i % 97, i % 5)).collect();
            let mut out = vec![usize::MAX; len];
            let mut calls = 0;
            let report = for_each_gated(
                &gate,
                &inputs,
                |cx: Cx<Plain>, &(start, hops)| hop(cx, &ring, start, hops),
                |cx: Cx<Interleaved>, &(start, hops)| hop(cx, &ring, start, hops),
                |index, end| {
                    calls += 1;
                    out[index] = end;
                },
            );
            prop_assert_eq!((report.lookups, calls), (len as u64, len));
            for ((start, hops), end) in inputs.iter().zip(out) {
                prop_assert_eq!(end, (start + 7 * hops) % 97);
            }
        }
    }
}

#[test]
fn inputs_are_not_asked_again_after_their_end() {
    for end in [1, 2, 192, 193, 224, 225, 3000] {
        let mut asked = 0;
        let unruly = std::iter::from_fn(|| {
            asked += 1;
            (asked != end).then_some(asked)
        });
        let gate = Gate::new(GroupSize::DEFAULT);
        let mut out = vec![0; 5000];
        let report = map_into_gated(
            &gate,
            unruly,
            |_: Cx<Plain>, input| std::future::ready(input),
            |_: Cx<Interleaved>, input| std::future::ready(input),
            &mut out,
        );
        assert_eq!(report.lookups as usize, end - 1);
        assert!(out[..end - 1].iter().copied().eq(1..end));
    }
}

/// Modes whose cost is plain to see: one of them spins at each lookup.
#[test]
fn the_cheaper_mode_is_used() {
    for slow in Execution::ALL {
        let gate = Gate::new(GroupSize::DEFAULT);
        let spun = Cell::new(0);
        let spin = |execution| {
            if execution == slow {
                spun.set(spun.get() + 1);
                let start = Instant::now();
                while start.elapsed() < Duration::from_micros(2) {
                    std::hint::spin_loop();
                }
            }
        };
        for _ in 0..20 {
            for_each_gated(
                &gate,
                0..5000,
                |_: Cx<Plain>, input| {
                    spin(Execution::Plain);
                    std::future::ready(input)
                },
                |_: Cx<Interleaved>, input| {
                    spin(Execution::Interleaved);
                    std::future::ready(input)
                },
                |_, _: i32| {},
            );
        }
        assert_ne!(gate.execution(), slow);
        assert!(
            spun.get() < 10_000,
            "{} of 100,000 lookups were slow",
            spun.get()
        );
    }
}
