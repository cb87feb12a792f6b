//! When two replies are the same: byte for byte or, where nature says nothing, in part.

use crate::support::Reply;

/// How replies are compared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Compare {
    Exactly,
    /// The elements in any order.
    Unordered,
    /// Pairs in any order.
    UnorderedPairs,
    /// Chosen at random: as many of the same type.
    Shape,
    /// Times: two seconds apart at most, in the unit of the command.
    Near(i64),
}

use Compare::{Exactly, Near, Shape, Unordered, UnorderedPairs};

/// The elements of a reply, or its pairs, in order; `None` where it has none.
pub(crate) fn sorted(reply: &Reply, pairs: bool) -> Option<Vec<Vec<Reply>>> {
    let (Reply::Array(elements) | Reply::Map(elements) | Reply::Set(elements)) = reply else {
        return None;
    };
    let mut elements: Vec<_> = elements
        .chunks(if pairs { 2 } else { 1 })
        .map(<[Reply]>::to_vec)
        .collect();
    elements.sort();
    Some(elements)
}

fn shape(reply: &Reply) -> Option<usize> {
    match reply {
        Reply::Array(elements) | Reply::Map(elements) => Some(elements.len()),
        _ => None,
    }
}

/// Whether they are.
pub(crate) fn agree(compare: Compare, redis: &Reply, ours: &Reply) -> bool {
    if redis == ours {
        return true;
    }
    match (compare, redis, ours) {
        (Unordered, ..) => {
            sorted(redis, false).is_some() && sorted(redis, false) == sorted(ours, false)
        }
        (UnorderedPairs, ..) => {
            sorted(redis, true).is_some() && sorted(redis, true) == sorted(ours, true)
        }
        (Shape, Reply::Bulk(_), Reply::Bulk(_)) => true,
        (Shape, ..) => shape(redis).is_some() && shape(redis) == shape(ours),
        (Near(most), Reply::Integer(a), Reply::Integer(b)) => {
            *a >= 0 && *b >= 0 && (a - b).abs() <= most
        }
        _ => false,
    }
}

/// The comparison itself must be able to fail.
#[test]
fn differences_are_seen() {
    let bulk = |text: &str| Reply::Bulk(text.into());
    let array = |texts: &[&str]| Reply::Array(texts.iter().map(|text| bulk(text)).collect());
    assert!(!agree(Exactly, &bulk("a"), &bulk("b")));
    assert!(!agree(Exactly, &array(&["a", "b"]), &array(&["b", "a"])));
    assert!(agree(Unordered, &array(&["a", "b"]), &array(&["b", "a"])));
    assert!(!agree(Unordered, &array(&["a", "b"]), &array(&["b", "b"])));
    assert!(agree(
        UnorderedPairs,
        &array(&["a", "1", "b", "2"]),
        &array(&["b", "2", "a", "1"])
    ));
    assert!(!agree(
        UnorderedPairs,
        &array(&["a", "1", "b", "2"]),
        &array(&["b", "1", "a", "2"])
    ));
    assert!(!agree(Shape, &array(&["a"]), &array(&["a", "b"])));
    assert!(!agree(Near(2), &Reply::Integer(-2), &Reply::Integer(-1)));
    assert!(!agree(Near(2), &Reply::Integer(10), &Reply::Integer(13)));
}
