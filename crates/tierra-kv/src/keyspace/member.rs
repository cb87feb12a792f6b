//! Members of large sorted sets: each is a record whose value is its score.

use std::cmp::Ordering;

use super::heap::Heap;
use super::order::{Order, OrderPosition, Ranked};

/// The score that is the value of a member's record.
pub(super) fn score_of(value: &[u8]) -> f64 {
    f64::from_le_bytes(value.try_into().expect("a score"))
}

/// How an entry of an order compares with a member.
pub(super) fn compare<'a>(
    heap: &'a Heap,
    score: f64,
    member: &'a [u8],
) -> impl Fn(Ranked) -> Ordering + 'a {
    move |(other, record)| match other.partial_cmp(&score) {
        // Members are read only where scores are equal.
        Some(Ordering::Equal) | None => heap.key(record).cmp(member),
        Some(unequal) => unequal,
    }
}

/// The position in an order of the member that a record holds.
pub(super) fn member_position(order: &Order, heap: &Heap, record: u64) -> OrderPosition {
    let score = score_of(heap.value(record));
    let position = order.find(compare(heap, score, heap.key(record)));
    position.expect("a member has its place")
}
