//! Building the levels above a sorted slice, each straight from the slice: a separator is the last
//! value below its child, and where that lies is arithmetic.

use super::{FANOUT, Key, LANES};
use crate::lines::Lines;

/// The nodes of all levels over `sorted`, root first, and the first node of each level. The first leaf
/// has `pad` values fewer than the others. A slice that one leaf holds has no level.
pub(super) fn build<K: Key>(sorted: &[K], pad: usize) -> (Lines<K::Node>, Box<[usize]>) {
    debug_assert!(pad < LANES);
    // Nodes of each level, leaves first.
    let mut counts = vec![(sorted.len() + pad).div_ceil(LANES)];
    while let Some(&below) = counts.last()
        && below > 1
    {
        counts.push(below.div_ceil(FANOUT));
    }
    let levels: Box<[usize]> = counts[1..]
        .iter()
        .rev()
        .scan(0, |first, count| {
            let this = *first;
            *first += count;
            Some(this)
        })
        .collect();
    let mut nodes = Lines::<K::Node>::zeroed(counts[1..].iter().sum());

    // Leaves below one child of the level.
    let mut leaves = 1;
    for (height, first) in levels.iter().rev().enumerate() {
        let (children, count) = (counts[height], counts[height + 1]);
        for (number, node) in nodes[*first..first + count].iter_mut().enumerate() {
            for (slot, separator) in node.as_mut().iter_mut().enumerate() {
                let after = number * FANOUT + slot + 1;
                *separator = if after < children {
                    // A child that is not the last has all its leaves, and none is the slice's last.
                    sorted[after * leaves * LANES - pad - 1]
                } else {
                    K::GREATEST
                };
            }
        }
        leaves *= FANOUT;
    }
    (nodes, levels)
}
