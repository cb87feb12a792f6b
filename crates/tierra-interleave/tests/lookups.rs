//! The promises of what lookups are made of: chains, walks, lookups of several kinds in
//! one group, and groups fed over time. Each way of writing a lookup answers as the plain code does,
//! and gives way exactly as often as it says.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::hint::select_unpredictable;
use std::ops::ControlFlow::{Break, Continue};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll};

use proptest::prelude::*;
use tierra_interleave::{
    Chain, Counted, Counts, Cx, Execution, Group, GroupReport, GroupSize, Interleaved, Mode, Plain,
    for_each, in_mode, map_into, run_plain,
};

/// One lookup alone in an interleaved group, with what the group and the loads counted.
fn run_counted<Fut: Future>(
    lookup: impl Fn(Cx<Counted<Interleaved>>) -> Fut,
) -> (Fut::Output, GroupReport, Counts) {
    let mut output = None;
    let (report, counts) = Counts::of(|| {
        for_each(
            GroupSize::DEFAULT,
            [()],
            |cx, ()| lookup(cx),
            |_, found| output = Some(found),
        )
    });
    (output.expect("the one input is answered"), report, counts)
}

#[test]
fn a_chain_gives_way_once_per_load() {
    let (codes, values, names) = (&[3u8, 1, 2, 0], &[10u16, 11, 12, 13], b"abcdefghijklmno");
    let (name, report, counts) = run_counted(|cx| {
        cx.load(&codes[2])
            .then(move |code| cx.load(&values[usize::from(*code)]))
            .map(|value| usize::from(*value))
            .then(move |place| cx.load(&names[place]).map(|name| char::from(*name)))
    });
    assert_eq!(name, 'm');
    assert_eq!((report.suspensions, counts.loads), (3, 3));
}

#[test]
fn chains_continue_async_fns_too() {
    async fn sum<M: Mode>(cx: Cx<M>, places: &[u32]) -> u32 {
        let mut sum = 0;
        for place in places {
            sum += *cx.load(place).await;
        }
        sum
    }
    let places = [1, 2, 3];
    let (twice, report, _) = run_counted(|cx| {
        let places = &places;
        sum(cx, places).then(move |first| sum(cx, places).map(move |second| first + second))
    });
    assert_eq!((twice, report.suspensions), (12, 6));
}

#[test]
fn a_chain_drops_its_parts_once() {
    struct Noisy(Rc<Cell<usize>>, usize);
    impl Future for Noisy {
        type Output = ();
        fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
            match self.1.checked_sub(1) {
                Some(left) => {
                    self.1 = left;
                    Poll::Pending
                }
                None => Poll::Ready(()),
            }
        }
    }
    impl Drop for Noisy {
        fn drop(&mut self) {
            self.0.set(self.0.get() + 1);
        }
    }
    for polls in 0..6 {
        let drops = Rc::new(Cell::new(0));
        let (first, second) = (
            Noisy(drops.clone(), 2),
            Cell::new(Some(Noisy(drops.clone(), 2))),
        );
        let mut chain = Box::pin(
            first
                .then(|()| second.take().expect("a chain goes on once"))
                .map(|()| ()),
        );
        let mut task = Context::from_waker(std::task::Waker::noop());
        let mut ended = false;
        for _ in 0..polls {
            if !ended {
                ended = chain.as_mut().poll(&mut task).is_ready();
            }
        }
        assert_eq!(ended, polls >= 5);
        assert_eq!(drops.get(), usize::from(polls >= 3));
        drop(chain);
        drop(second);
        assert_eq!(drops.get(), 2, "after {polls} polls");
    }
}

fn search<M: Mode>(cx: Cx<M>, sorted: &[u32], key: u32) -> impl Future<Output = usize> {
    let (mut low, mut len) = (0, sorted.len());
    cx.walk(&sorted[len / 2], move |probed| {
        let half = len / 2;
        low = select_unpredictable(*probed <= key, low + half, low);
        len -= half;
        if len > 1 {
            Continue(&sorted[low + len / 2])
        } else {
            Break(low)
        }
    })
}

proptest! {
    #[test]
    fn a_walk_finds_what_the_library_finds(
        mut sorted in prop::collection::vec(0u32..500, 1..300),
        keys in prop::collection::vec(0u32..500, 0..100),
    ) {
        sorted.sort_unstable();
        let expected: Vec<usize> = keys
            .iter()
            .map(|key| sorted.partition_point(|value| value <= key).saturating_sub(1))
            .collect();
        for execution in Execution::ALL {
            let mut found = vec![usize::MAX; keys.len()];
            in_mode!(execution, M => map_into(
                GroupSize::DEFAULT,
                &keys,
                |cx: Cx<M>, &key| search(cx, &sorted, key),
                &mut found,
            ));
            prop_assert_eq!(&found, &expected);
        }
    }
}

#[test]
fn a_walk_gives_way_once_per_place() {
    let sorted: Vec<u32> = (0..1024).collect();
    let (found, report, counts) = run_counted(|cx| search(cx, &sorted, 700));
    assert_eq!(found, 700);
    assert_eq!((report.suspensions, counts.loads), (10, 10));
}

#[test]
fn a_walk_passes_places_without_a_size() {
    let words: [&str; 5] = ["", "two", "", "", "five"];
    let (all, report, counts) = run_counted(|cx| {
        let mut rest = words.iter();
        let mut all = String::new();
        let first = rest.next().expect("there are words");
        cx.walk::<str, _, _>(first, move |word| {
            all.push_str(word);
            rest.next()
                .map_or_else(|| Break(all.clone()), |word| Continue(*word))
        })
    });
    assert_eq!(all, "twofive");
    assert_eq!((report.suspensions, counts.loads), (2, 2));
}

/// Columns of different encodings: one lookup that matches, so that they share a group.
enum Column {
    Values(Vec<u64>),
    Dictionary { codes: Vec<u8>, values: Vec<u64> },
    Constant(u64),
}

impl Column {
    async fn get<M: Mode>(&self, cx: Cx<M>, row: usize) -> u64 {
        match self {
            Column::Values(values) => *cx.load(&values[row]).await,
            Column::Dictionary { codes, values } => {
                let code = *cx.load(&codes[row]).await;
                *cx.load(&values[usize::from(code)]).await
            }
            Column::Constant(value) => *value,
        }
    }
}

#[test]
fn lookups_of_different_kinds_share_a_group() {
    let columns: Vec<Column> = (0..100)
        .map(|i| match i % 3 {
            0 => Column::Values(vec![i, i + 1, i + 2]),
            1 => Column::Dictionary {
                codes: vec![2, 1, 0],
                values: vec![i + 2, i + 1, i],
            },
            _ => Column::Constant(i + 1),
        })
        .collect();
    let expected: Vec<u64> = (1..=100).collect();
    for execution in Execution::ALL {
        let mut row = vec![0; columns.len()];
        let report = in_mode!(execution, M => map_into(
            GroupSize::DEFAULT,
            &columns,
            |cx: Cx<M>, column| column.get(cx, 1),
            &mut row,
        ));
        assert_eq!(row, expected);
        let suspensions = [0, 34 + 2 * 33][usize::from(execution == Execution::Interleaved)];
        assert_eq!((report.lookups, report.suspensions), (100, suspensions));
    }
}

#[test]
fn one_input_and_a_million() {
    let ring: &Vec<usize> = &(0..1000).map(|i| (i + 7) % 1000).collect();
    for inputs in [1, 1_000_000] {
        for execution in Execution::ALL {
            let mut out = vec![usize::MAX; inputs];
            let report = in_mode!(execution, M => map_into(
                GroupSize::DEFAULT,
                0..inputs,
                |cx: Cx<M>, at| cx
                    .load(&ring[at % 1000])
                    .then(move |next| cx.load(&ring[*next]))
                    .map(|end| *end),
                &mut out,
            ));
            assert_eq!(report.lookups, inputs as u64);
            let right = |(at, end): (usize, &usize)| *end == (at + 14) % 1000;
            assert!(out.iter().enumerate().all(right));
        }
    }
}

#[test]
fn inputs_may_borrow_nothing_and_numbers_reach_the_lookup() {
    let place = 5u8;
    let mut numbers = [None; 4];
    map_into(
        GroupSize::new(2).unwrap(),
        0..4,
        |cx: Cx<Counted<Plain>>, _| cx.load(&place).map(move |_| cx.id()),
        &mut numbers,
    );
    assert_eq!(numbers, [Some(0), Some(1), Some(2), Some(3)]);
}

/// A group fed as a connection would feed it: now nothing, now a burst.
#[test]
fn lookups_that_arrive_over_time_share_lanes() {
    let ring: Vec<usize> = (0..97).map(|i| (i + 7) % 97).collect();
    let ring = &ring;
    let chase = |hops: usize| async move {
        let cx = Cx::<Interleaved>::new();
        let mut at = 0;
        for _ in 0..hops {
            at = *cx.load(&ring[at]).await;
        }
        at
    };
    let mut group = pin!(Group::new(GroupSize::new(4).unwrap()));
    let mut waiting = VecDeque::new();
    let mut answered = Vec::new();
    let mut arrived = 0;
    for turn in 0..200 {
        let burst = if turn < 120 {
            [0, 0, 5, 0, 1, 0][turn % 6]
        } else {
            0
        };
        waiting.extend(arrived..arrived + burst);
        arrived += burst;
        let before = group.len() + waiting.len();
        let next = || waiting.pop_front().map(|id| (id, chase(id % 7)));
        let answers = answered.len();
        let under_way = group
            .as_mut()
            .turn(next, |id, end| answered.push((id, end)));
        assert_eq!(under_way, group.len());
        assert!(under_way <= 4);
        assert_eq!(before, under_way + waiting.len() + answered.len() - answers);
        assert!(
            under_way == 4 || waiting.is_empty(),
            "a vacant lane takes what waits"
        );
    }
    assert!(group.is_empty());
    answered.sort_unstable();
    let expected: Vec<_> = (0..arrived).map(|id| (id, id % 7 * 7)).collect();
    assert_eq!(answered, expected);
    let suspensions = (0..arrived as u64).map(|id| id % 7).sum();
    let lookups = arrived as u64;
    assert_eq!(
        group.report(),
        GroupReport {
            lookups,
            suspensions
        }
    );
}

#[test]
fn a_group_dropped_midway_drops_lookups_and_tags_once() {
    let alive = Rc::new(());
    let place = 1u8;
    let cx = Cx::<Interleaved>::new();
    let mut group = Box::pin(Group::new(GroupSize::new(3).unwrap()));
    let mut left = 10;
    let mut answered = 0;
    let lookup = |alive: Rc<()>| async move {
        cx.load(&place).await;
        cx.load(&place).await;
        Rc::strong_count(&alive)
    };
    let mut turn = || {
        let next = || {
            left -= 1;
            (left > 0).then(|| (alive.clone(), lookup(alive.clone())))
        };
        group.as_mut().turn(next, |_, _| answered += 1)
    };
    assert_eq!((turn(), turn()), (3, 3));
    assert_eq!(Rc::strong_count(&alive), 1 + 2 * 3);
    drop(group);
    assert_eq!((Rc::strong_count(&alive), answered), (1, 0));
}

#[test]
fn a_group_is_empty_and_usable_after_a_panic() {
    let alive = Rc::new(());
    let place = 1u8;
    let cx = Cx::<Interleaved>::new();
    let lookup = |id: usize, alive: Rc<()>| async move {
        cx.load(&place).await;
        if id == 4 {
            resume_unwind(Box::new("planted"));
        }
        drop(alive);
        id
    };
    let answered = RefCell::new(Vec::new());
    let mut group = pin!(Group::new(GroupSize::new(3).unwrap()));
    let mut ids = 0..9;
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let mut next = || {
            ids.next()
                .map(|id| (alive.clone(), lookup(id, alive.clone())))
        };
        let done = |_, id| answered.borrow_mut().push(id);
        while group.as_mut().turn(&mut next, done) > 0 {}
    }));
    assert!(outcome.is_err());
    assert!(group.is_empty());
    assert_eq!(Rc::strong_count(&alive), 1);
    assert_eq!(answered.take(), [0, 1, 2, 3]);
    let mut next = || {
        ids.next()
            .map(|id| (alive.clone(), lookup(id, alive.clone())))
    };
    while group
        .as_mut()
        .turn(&mut next, |_, id| answered.borrow_mut().push(id))
        > 0
    {}
    // 6 had taken the lane of 3 when 4 panicked.
    assert_eq!(answered.take(), [7, 8]);
}

#[test]
fn run_plain_runs_chains() {
    let places = &[3usize, 0, 2, 1];
    let end = run_plain(|cx| {
        cx.load(&places[0])
            .then(move |next| cx.load(&places[*next]).map(|end| *end))
    });
    assert_eq!(end, 1);
}
