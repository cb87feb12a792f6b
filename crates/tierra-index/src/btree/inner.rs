//! The near half: from a key to the number of the leaf that holds its range.
//!
//! ```text
//!  node, 3 lines: │ key 0 … key 7 │ key 8 … key 15 │ child 0 … child 15 │
//! ```
//! Child `i` has the keys up to and including `keys[i]` and above `keys[i - 1]`, so the number of keys less than
//! the one looked for is the child to go to. It is all in near memory and lost with the process: it is
//! rebuilt from the leaves.
//!
//! Invariants:
//! - A node's children are a beginning of its places, at least one; behind them every key is the greatest, which is
//!   less than none. The last child's key is the bound of the node, so whatever comes down finds a child.
//! - All leaves are equally deep. Nodes are freed when they are empty, as leaves are.

use tierra_interleave::LINE_BYTES;

use super::near::NONE;
use crate::lines::{Lines, Node};
use crate::tree::Compare16;

const FANOUT: usize = 16;
/// Children that a rebuilt node gets, so that the first splits find room.
const FILLED: usize = 13;
/// Levels that there can be: a node that was split has eight children, and leaves are fewer than 2^32.
const LEVELS_MOST: usize = 16;
/// Levels that together with those above take at most this are read without giving way, as those of a
/// [`SearchTree`](crate::SearchTree).
const RESIDENT_BYTES: usize = 256 << 10;

#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(super) struct Inner {
    keys: [u64; FANOUT],
    children: [u32; FANOUT],
}

const _: () = assert!(size_of::<Inner>() == 3 * LINE_BYTES);

// SAFETY: integers that fill three lines, aligned to them.
unsafe impl Node for Inner {
    const ZERO: Inner = Inner {
        keys: [0; FANOUT],
        children: [0; FANOUT],
    };
}

impl Inner {
    const EMPTY: Inner = Inner {
        keys: [u64::MAX; FANOUT],
        children: [NONE; FANOUT],
    };

    fn of(children: &[(u64, u32)]) -> Inner {
        let mut node = Inner::EMPTY;
        for (place, (bound, child)) in children.iter().enumerate() {
            (node.keys[place], node.children[place]) = (*bound, *child);
        }
        node
    }

    fn len(&self) -> usize {
        let vacant = self.children.iter().position(|&child| child == NONE);
        vacant.unwrap_or(FANOUT)
    }

    fn bound(&self) -> u64 {
        self.keys[self.len() - 1]
    }

    fn insert(&mut self, place: usize, bound: u64, child: u32) {
        debug_assert!(self.len() < FANOUT);
        self.keys.copy_within(place..FANOUT - 1, place + 1);
        self.children.copy_within(place..FANOUT - 1, place + 1);
        (self.keys[place], self.children[place]) = (bound, child);
    }

    fn remove(&mut self, place: usize) {
        self.keys.copy_within(place + 1.., place);
        self.children.copy_within(place + 1.., place);
        (self.keys[FANOUT - 1], self.children[FANOUT - 1]) = (u64::MAX, NONE);
    }

    /// Gives the upper half to the node returned.
    fn split(&mut self) -> Inner {
        let mut upper = Inner::EMPTY;
        upper.keys[..FANOUT / 2].copy_from_slice(&self.keys[FANOUT / 2..]);
        upper.children[..FANOUT / 2].copy_from_slice(&self.children[FANOUT / 2..]);
        self.keys[FANOUT / 2..].fill(u64::MAX);
        self.children[FANOUT / 2..].fill(NONE);
        upper
    }
}

/// A way from the root to a leaf: nodes and the places taken in them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Path {
    steps: [(u32, u32); LEVELS_MOST],
    pub(super) leaf: u32,
}

/// The inner nodes.
pub(super) struct InnerNodes {
    nodes: Lines<Inner>,
    /// Of `nodes`, those behind them were never used.
    used: usize,
    /// Nodes of no level, to be used again.
    vacant: Vec<u32>,
    root: u32,
    /// Nodes of each level, the root's first.
    levels: Vec<usize>,
    /// How many levels from the root take at most [`RESIDENT_BYTES`].
    resident: usize,
    compare: Compare16,
}

impl InnerNodes {
    /// Over leaves in the order of their keys, each with the greatest key it may hold; at least one.
    pub(super) fn over(leaves: impl Iterator<Item = (u64, u32)>) -> InnerNodes {
        let mut tree = InnerNodes {
            nodes: Lines::zeroed(FANOUT),
            used: 0,
            vacant: Vec::new(),
            root: 0,
            levels: Vec::new(),
            resident: 0,
            compare: Compare16::fastest(),
        };
        let mut below: Vec<(u64, u32)> = leaves.collect();
        while tree.levels.is_empty() || below.len() > 1 {
            let made = below.chunks(FILLED).map(Inner::of);
            below = made.map(|node| (node.bound(), tree.add(node))).collect();
            tree.levels.insert(0, below.len());
        }
        tree.root = below[0].1;
        tree.find_resident();
        tree
    }

    fn find_resident(&mut self) {
        let mut len_bytes = 0;
        let fits = |nodes: &&usize| {
            len_bytes += **nodes * size_of::<Inner>();
            len_bytes <= RESIDENT_BYTES
        };
        self.resident = self.levels.iter().take_while(fits).count();
    }

    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.nodes) + self.vacant.capacity() * size_of::<u32>()
    }

    pub(super) fn root(&self) -> u32 {
        self.root
    }

    /// Levels that a lookup reads as they stand, and those it gives way at.
    #[inline(always)]
    pub(super) fn levels(&self) -> (usize, usize) {
        (self.resident, self.levels.len() - self.resident)
    }

    #[inline(always)]
    pub(super) fn node(&self, number: u32) -> &Inner {
        &self.nodes[number as usize]
    }

    /// The child that has `key`.
    #[inline(always)]
    pub(super) fn child(&self, node: &Inner, key: u64) -> u32 {
        // Less than 16: the last key is no less than any that comes down to this node.
        node.children[self.compare.less(&node.keys, key) % FANOUT]
    }

    /// The leaf that has `key`, and the way to it.
    pub(super) fn path(&self, key: u64) -> Path {
        let mut path = Path {
            steps: [(0, 0); LEVELS_MOST],
            leaf: self.root,
        };
        for step in &mut path.steps[..self.levels.len()] {
            let node = self.node(path.leaf);
            let place = self.compare.less(&node.keys, key) % FANOUT;
            *step = (path.leaf, place as u32);
            path.leaf = node.children[place];
        }
        path
    }

    /// The leaf before that of the path, `None` if there is none.
    pub(super) fn before(&self, path: &Path) -> Option<u32> {
        let steps = &path.steps[..self.levels.len()];
        let level = steps.iter().rposition(|&(_, place)| place > 0)?;
        let (node, place) = steps[level];
        let mut child = self.node(node).children[place as usize - 1];
        for _ in level + 1..steps.len() {
            let node = self.node(child);
            child = node.children[node.len() - 1];
        }
        Some(child)
    }

    /// The leaf of the path keeps the keys up to `bound`; those above are the new leaf's.
    pub(super) fn split(&mut self, path: &Path, bound: u64, new: u32) {
        let mut upper = (bound, new);
        let mut level = self.levels.len();
        loop {
            if level == 0 {
                // The root was split.
                let old = (upper.0, self.root);
                let bound = self.node(upper.1).bound();
                self.root = self.add(Inner::of(&[old, (bound, upper.1)]));
                self.levels.insert(0, 1);
                break;
            }
            level -= 1;
            let (number, place) = path.steps[level];
            let place = place as usize;
            let node = &mut self.nodes[number as usize];
            // The child's bound falls to that of its lower part, and what it was is the upper part's.
            let bound = std::mem::replace(&mut node.keys[place], upper.0);
            if node.len() < FANOUT {
                node.insert(place + 1, bound, upper.1);
                break;
            }
            let mut half = node.split();
            match place < FANOUT / 2 {
                true => node.insert(place + 1, bound, upper.1),
                false => half.insert(place + 1 - FANOUT / 2, bound, upper.1),
            }
            let lower_bound = node.bound();
            upper = (lower_bound, self.add(half));
            self.levels[level] += 1;
        }
        self.find_resident();
    }

    /// The leaf of the path goes; its keys are those of the leaf before it, which there is.
    pub(super) fn merge(&mut self, path: &Path) {
        let depth = self.levels.len();
        let (bottom, place) = path.steps[depth - 1];
        let bound = self.node(bottom).keys[place as usize];
        let steps = &path.steps[..depth];
        let level = steps.iter().rposition(|&(_, place)| place > 0);
        let level = level.expect("the first leaf of all is never taken out");
        let (mut node, mut left) = (steps[level].0, steps[level].1 as usize - 1);
        for below in level + 1..=depth {
            let this = &mut self.nodes[node as usize];
            this.keys[left] = bound;
            node = this.children[left];
            if below < depth {
                left = self.node(node).len() - 1;
            }
        }
        for level in (0..depth).rev() {
            let (number, place) = path.steps[level];
            let node = &mut self.nodes[number as usize];
            node.remove(place as usize);
            if node.len() > 0 {
                break;
            }
            self.vacant.push(number);
            self.levels[level] -= 1;
        }
        while self.levels.len() > 1 && self.node(self.root).len() == 1 {
            self.vacant.push(self.root);
            self.root = self.node(self.root).children[0];
            self.levels.remove(0);
        }
        self.find_resident();
    }

    fn add(&mut self, node: Inner) -> u32 {
        if let Some(number) = self.vacant.pop() {
            self.nodes[number as usize] = node;
            return number;
        }
        if self.used == self.nodes.len() {
            let mut larger = Lines::zeroed(2 * self.used);
            larger[..self.used].copy_from_slice(&self.nodes);
            self.nodes = larger;
        }
        self.nodes[self.used] = node;
        self.used += 1;
        self.used as u32 - 1
    }
}
