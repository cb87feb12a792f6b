//! The promise of the search tree: the rank that `partition_point` gives, whatever the slice and
//! however it lies, one by one or batched, in every mode and with every instruction set.

use std::cell::RefCell;
use std::fmt::Debug;

use proptest::prelude::*;
use tierra_interleave::{Cx, Execution, GroupSize, Interleaved, Plain, in_mode, map_into};

use super::levels::RESIDENT_BYTES;
use super::*;

fn check<K: Key + Debug>(sorted: &[K], keys: &[K]) {
    let tree = SearchTree::new(sorted);
    let searcher = tree.over(sorted);
    let expected: Vec<usize> = keys
        .iter()
        .map(|key| sorted.partition_point(|value| value < key))
        .collect();
    let len = sorted.len();
    for execution in Execution::ALL {
        let mut ranks = vec![usize::MAX; keys.len()];
        in_mode!(execution, M => map_into(
            GroupSize::DEFAULT,
            keys,
            |cx: Cx<M>, &key| searcher.lower_bound(cx, key),
            &mut ranks,
        ));
        assert!(ranks == expected, "{execution}, one by one, {len} values");
        for level in Available::all() {
            ranks.fill(usize::MAX);
            in_mode!(execution, M => searcher.lower_bounds_with::<M>(level, keys, &mut ranks));
            assert!(ranks == expected, "{execution}, {level:?}, {len} values");
        }
    }
}

/// Slices of lengths around those at which a leaf, a node or a level fills up, at every place relative
/// to a line; all values in them or a sample, their neighbours, and the extremes.
macro_rules! boundaries {
    ($name:ident, $key:ty) => {
        #[test]
        fn $name() {
            let full = [LANES, LANES * FANOUT, LANES * FANOUT * FANOUT];
            let lens = (0..=2 * LANES + 1)
                .chain(full.iter().flat_map(|len| len - 1..=len + 1))
                .chain([15, 255, 256, 257, 4095, 4096, 4097, 100_003]);
            for len in lens {
                let shifts = if len < 5000 { 0..LANES + 1 } else { 3..4 };
                for shift in shifts {
                    for step in [0, 1, 3, <$key>::MAX / (len + shift).max(1) as $key] {
                        let stored: Vec<$key> =
                            (0..(len + shift) as $key).map(|i| step * i).collect();
                        let sorted = &stored[shift..];
                        let mut keys = vec![0, 1, <$key>::MAX - 1, <$key>::MAX];
                        let every = (len / 300).max(1);
                        keys.extend(sorted.iter().step_by(every).flat_map(|value| {
                            [value.saturating_sub(1), *value, value.saturating_add(1)]
                        }));
                        check(sorted, &keys);
                    }
                }
            }
            for value in [0, <$key>::MAX] {
                for len in [1, LANES, LANES * FANOUT + 1, 1000] {
                    check(&vec![value; len], &[0, 1, <$key>::MAX - 1, <$key>::MAX]);
                }
            }
            // The greatest value is a separator in the middle of a node.
            let mut sorted: Vec<$key> = (0..500).collect();
            sorted[200..].fill(<$key>::MAX);
            check(&sorted, &[0, 199, 200, <$key>::MAX - 1, <$key>::MAX]);
        }
    };
}

boundaries!(boundaries_u32, u32);
boundaries!(boundaries_u64, u64);

#[test]
fn a_level_too_large_to_stay_near_is_waited_for() {
    let len = 40 * RESIDENT_BYTES / size_of::<u32>();
    let sorted: Vec<u32> = (0..len as u32).map(|i| 3 * i).collect();
    let tree = SearchTree::new(&sorted);
    assert!(tree.len_bytes() < len * size_of::<u32>() * 10 / 155);
    let keys: Vec<u32> = (0..3000u32).map(|i| i.wrapping_mul(2_654_435)).collect();
    check(&sorted, &keys);
    let mut ranks = [0; 10];
    let mut report = tree
        .over(&sorted)
        .lower_bounds::<Interleaved>(&keys[..10], &mut ranks);
    assert_eq!((report.lookups, report.suspensions), (10, 30));
    report = tree
        .over(&sorted)
        .lower_bounds::<Plain>(&keys[..10], &mut ranks);
    assert_eq!((report.lookups, report.suspensions), (10, 0));
}

thread_local! {
    static ISSUED: RefCell<Vec<(usize, usize)>> = const { RefCell::new(Vec::new()) };
    static ARRIVED: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// Stands for the modes that emulate slower memory.
#[derive(Clone, Copy, Default)]
struct Recording;

impl Mode for Recording {
    const INTERLEAVED: bool = true;
    const NAME: &'static str = "recording";
    type Ticket = usize;

    fn issue(self, address: *const u8, len_bytes: usize) -> usize {
        ISSUED.with_borrow_mut(|issued| {
            issued.push((address.addr(), len_bytes));
            issued.len() - 1
        })
    }

    fn arrive(self, ticket: usize) {
        ARRIVED.with_borrow_mut(|arrived| arrived.push(ticket));
    }
}

#[test]
fn a_mode_sees_every_node_of_a_batch_and_its_ticket() {
    let sorted: Vec<u32> = (0..1_000_000).collect();
    let tree = SearchTree::new(&sorted);
    // More than a batch, and not a multiple of one.
    let keys: Vec<u32> = (0..1000).map(|i| i * 999).collect();
    let report = tree
        .over(&sorted)
        .lower_bounds::<Recording>(&keys, &mut vec![0; keys.len()]);
    let (issued, mut arrived) = (ISSUED.take(), ARRIVED.take());
    assert_eq!(issued.len() as u64, report.suspensions);
    arrived.sort_unstable();
    assert!(
        arrived.iter().copied().eq(0..issued.len()),
        "each ticket comes back once"
    );
    let leaves = sorted.as_ptr_range();
    let leaves = leaves.start.addr()..leaves.end.addr();
    let of_leaves = issued
        .iter()
        .filter(|(address, _)| leaves.contains(address));
    assert_eq!(of_leaves.count(), keys.len());
    let is_inside = |&(address, len_bytes): &(usize, usize)| address + len_bytes <= leaves.end;
    assert!(
        issued
            .iter()
            .filter(|(address, _)| leaves.contains(address))
            .all(is_inside)
    );
}

#[test]
fn an_unsorted_slice_gives_some_rank() {
    let values: Vec<u64> = (0..10_000_u64)
        .map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15))
        .collect();
    let sorted: Vec<u64> = (0..10_000).collect();
    let tree = SearchTree::new(&sorted);
    let mut ranks = vec![usize::MAX; values.len()];
    tree.over(&values)
        .lower_bounds::<Interleaved>(&values, &mut ranks);
    assert!(ranks.iter().all(|&rank| rank <= values.len()));
}

#[test]
#[should_panic(expected = "a search tree belongs to one slice")]
fn another_slice_is_refused() {
    let tree = SearchTree::new(&[1_u32, 2, 3]);
    tree.over(&[1, 2]);
}

#[test]
#[should_panic(expected = "a place for each rank")]
fn too_few_places_are_refused() {
    let sorted: Vec<u32> = (0..100).collect();
    let tree = SearchTree::new(&sorted);
    tree.over(&sorted).lower_bounds::<Plain>(&[1, 2], &mut [0]);
}

proptest! {
    #[test]
    fn ranks_as_partition_point_does(
        mut values in prop::collection::vec(prop_oneof![0_u64..2000, any::<u64>()], 0..3000),
        keys in prop::collection::vec(prop_oneof![0_u64..2000, any::<u64>()], 0..300),
        shift in 0_usize..17,
    ) {
        values.sort_unstable();
        let shift = shift.min(values.len());
        check(&values[shift..], &keys);
        let narrow = |values: &[u64]| values.iter().map(|&v| v as u32).collect::<Vec<u32>>();
        let mut values = narrow(&values);
        values.sort_unstable();
        check(&values[shift..], &narrow(&keys));
    }
}
