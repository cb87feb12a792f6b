//! The levels above a sorted slice, each built straight from the slice: a separator is the last
//! value below its child, and where that lies is arithmetic.

use super::node::{FANOUT, LANES, Value};
use crate::node_array::NodeArray;

/// A lookup by itself reads levels where they stand, without giving way, as long as all of them
/// together with those above take at most this: they stay in the cache next to the core, 1 MiB and more
/// on the processors this is made for, and giving way costs more than reading from there. Of 64, 256, 600
/// and 1,400 KiB this was best or near it everywhere: the least cost 1.5 ns over 64 MB, the others 2 ns
/// over 4 MB.
pub(crate) const RESIDENT_BYTES: usize = 256 << 10;

/// The same for a batch, where fetching a node ahead costs little: what stays in the nearest cache.
const NEAREST_BYTES: usize = 32 << 10;

/// All levels, root first.
pub struct Levels<K: Value> {
    pub(super) nodes: NodeArray<K::Node>,
    /// The number of the first node of each level.
    pub(super) firsts: Box<[usize]>,
    /// How many of the levels, from the root, take at most [`RESIDENT_BYTES`].
    pub(super) resident: usize,
    /// How many take at most [`NEAREST_BYTES`].
    pub(super) nearest: usize,
    /// Values that the first leaf lacks.
    pad: usize,
}

impl<K: Value> Levels<K> {
    /// Those over `sorted`, which is in ascending order.
    pub(super) fn over(sorted: &[K]) -> Self {
        let node_bytes = LANES * size_of::<K>();
        let pad = sorted.as_ptr().addr() % node_bytes / size_of::<K>();
        let (nodes, firsts) = build(sorted, pad);
        let level_end = |level: usize| firsts.get(level + 1).copied().unwrap_or(nodes.len());
        let within = |len_bytes: usize| {
            (0..firsts.len())
                .take_while(|&level| level_end(level) * node_bytes <= len_bytes)
                .count()
        };
        Levels {
            resident: within(RESIDENT_BYTES),
            nearest: within(NEAREST_BYTES),
            nodes,
            firsts,
            pad,
        }
    }

    /// Bytes of memory behind it.
    pub(super) fn len_bytes(&self) -> usize {
        size_of_val(&*self.nodes) + size_of_val(&*self.firsts)
    }

    /// Where the window of leaf `leaf` begins in a slice of `len` values, at least as long as a window.
    #[inline(always)]
    pub(super) fn leaf_start(&self, leaf: usize, len: usize) -> usize {
        let start = (leaf * LANES).saturating_sub(self.pad);
        start.min(len - LANES)
    }
}

/// The nodes of all levels over `sorted`, root first, and the first node of each level. The first leaf
/// has `pad` values fewer than the others. A slice that one leaf holds has no level.
fn build<K: Value>(sorted: &[K], pad: usize) -> (NodeArray<K::Node>, Box<[usize]>) {
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
    let mut nodes = NodeArray::<K::Node>::zeroed(counts[1..].iter().sum());

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
