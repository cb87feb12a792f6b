//! The promises of lookups behind a gate: they answer as others do, whatever the gate chooses, and it learns
//! from the real clock which mode is cheaper.

use std::cell::Cell;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use tierra_interleave::{
    Cx, Execution, Gate, GroupSize, Lookups, Mode, Scheduling, for_each, in_mode, map_into,
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
            let mut lookups = Lookups::new(Scheduling::Auto);
            lookups.run(&gate, len, |execution, size, part| {
                in_mode!(execution, M => map_into(
                    size,
                    &inputs[part.clone()],
                    |cx: Cx<M>, &(start, hops)| hop(cx, &ring, start, hops),
                    &mut out[part],
                ))
            });
            prop_assert_eq!(lookups.report().lookups, len as u64);
            for ((start, hops), end) in inputs.iter().zip(out) {
                prop_assert_eq!(end, (start + 7 * hops) % 97);
            }
        }
    }
}

/// Lookups of 100,000 that were slow where those of one mode spin, and whether that mode is used in the end.
fn slow_lookups(slow: Execution) -> (usize, bool) {
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
        Lookups::new(Scheduling::Auto).run(&gate, 5000, |execution, size, part| {
            in_mode!(execution, M => for_each(
                size,
                part,
                |_: Cx<M>, input| {
                    spin(execution);
                    std::future::ready(input)
                },
                |_, _| {},
            ))
        });
    }
    (spun.get(), gate.execution() == slow)
}

/// Modes whose cost is plain to see: one of them spins at each lookup. What pauses a machine may fall on the other one, so some
/// attempts may fail.
#[test]
fn the_cheaper_mode_is_used() {
    for slow in Execution::ALL {
        let mut all = Vec::new();
        while all
            .last()
            .is_none_or(|(spun, is_used)| *spun >= 10_000 || *is_used)
        {
            assert!(all.len() < 10, "{slow:?} is slow: {all:?}");
            all.push(slow_lookups(slow));
        }
    }
}
