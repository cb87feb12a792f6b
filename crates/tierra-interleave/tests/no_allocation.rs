//! The promise that running a group allocates nothing, checked with an allocator that counts. Alone
//! in its file, because a global allocator counts what other tests do too.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use std::pin::pin;

use tierra_interleave::{
    Cx, Gate, Group, GroupSize, Interleaved, Lookups, Mode, Plain, Scheduling, for_each, in_mode,
};

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: every call is passed on unchanged to the system's allocator; counting touches a
// thread-local without destructor, which allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller keeps the contract of `alloc`, which is the same here.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `dealloc`, and the block came from `System`.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

async fn chase<M: Mode>(cx: Cx<M>, ring: &[usize], start: usize) -> usize {
    let mut at = start;
    for _ in 0..5 {
        at = *cx.load(&ring[at]).await;
    }
    at
}

fn allocations_of(run: impl FnOnce()) -> usize {
    let before = ALLOCATIONS.get();
    run();
    ALLOCATIONS.get() - before
}

fn chase_all<M: Mode>(ring: &[usize], group: GroupSize) {
    let mut sum = 0;
    let lookup = |cx: Cx<M>, start| chase(cx, ring, start);
    for_each(group, 0..ring.len(), lookup, |_, end| sum += end);
    assert_eq!(
        sum,
        ring.len() * (ring.len() - 1) / 2,
        "a ring's ends are its starts"
    );
}

#[test]
fn a_group_allocates_nothing() {
    let ring: Vec<usize> = (0..1000).map(|i| (i + 7) % 1000).collect();
    for lanes in [1, 24, 64] {
        let group = GroupSize::new(lanes).unwrap();
        assert_eq!(allocations_of(|| chase_all::<Plain>(&ring, group)), 0);
        assert_eq!(allocations_of(|| chase_all::<Interleaved>(&ring, group)), 0);
    }
}

#[test]
fn a_group_fed_over_time_allocates_nothing() {
    let ring: Vec<usize> = (0..1000).map(|i| (i + 7) % 1000).collect();
    let allocations = allocations_of(|| {
        let cx = Cx::<Interleaved>::new();
        let mut group = pin!(Group::new(GroupSize::DEFAULT));
        let (mut started, mut ended) = (0, 0);
        for turn in 0.. {
            let until = ring.len().min(turn * 5);
            let next = || {
                (started < until).then(|| {
                    started += 1;
                    (started, chase(cx, &ring, started - 1))
                })
            };
            let under_way = group.as_mut().turn(next, |_, _| ended += 1);
            if under_way == 0 && started == ring.len() {
                break;
            }
        }
        assert_eq!(ended, ring.len());
    });
    assert_eq!(allocations, 0);
}

#[test]
fn gated_lookups_allocate_nothing() {
    let ring: Vec<usize> = (0..5000).map(|i| (i + 7) % 5000).collect();
    let gate = Gate::new(GroupSize::DEFAULT);
    let mut sum = 0;
    let allocations = allocations_of(|| {
        let mut lookups = Lookups::new(Scheduling::Auto);
        lookups.run(&gate, ring.len(), |execution, size, part| {
            in_mode!(execution, M => for_each(
                size,
                part,
                |cx: Cx<M>, start| chase(cx, &ring, start),
                |_, end| sum += end,
            ))
        });
    });
    assert_eq!((allocations, sum), (0, 5000 * 4999 / 2));
}

#[test]
fn the_allocator_does_count() {
    let mut kept = None;
    assert_eq!(allocations_of(|| kept = Some(Box::new(1u8))), 1);
    assert_eq!(kept.as_deref(), Some(&1));
}
