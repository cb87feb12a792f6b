//! The inner nodes, all near: from a key to the number of the leaf that holds its range.
//!
//! ```text
//!  node, 3 lines: │ key 0 … key 7 │ key 8 … key 15 │ child 0 … child 15 │
//! ```
//! Child `i` has the keys up to and including `keys[i]` and above `keys[i - 1]`, so the number of keys less than
//! the one looked for is the child to go to. Inner nodes are lost with the process and rebuilt from the
//! leaves when the tree is opened.
//!
//! Invariants:
//! - A node's children fill its first slots, at least one; every key after them is the greatest, which is
//!   less than none. The last child's key is the bound of the node, so every key that reaches the node finds a child.
//! - All leaves are equally deep. Nodes are freed when they are empty, as leaves are.

use tierra_interleave::LINE_BYTES;

use super::summary::NONE;
use crate::node_array::{Node, NodeArray};
use crate::tree::{Compare16, RESIDENT_BYTES};

const FANOUT: usize = 16;
/// Children that a rebuilt node gets, so that the first splits find room.
const REBUILT_CHILDREN: usize = 13;
/// The most levels: a node that was split has eight children, and leaves are fewer than 2^32.
const MAX_LEVELS: usize = 16;

#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(super) struct InnerNode {
    keys: [u64; FANOUT],
    children: [u32; FANOUT],
}

const _: () = assert!(size_of::<InnerNode>() == 3 * LINE_BYTES);

// SAFETY: integers that fill three lines, aligned to them.
unsafe impl Node for InnerNode {
    const ZERO: InnerNode = InnerNode {
        keys: [0; FANOUT],
        children: [0; FANOUT],
    };
}

impl InnerNode {
    const EMPTY: InnerNode = InnerNode {
        keys: [u64::MAX; FANOUT],
        children: [NONE; FANOUT],
    };

    fn of(children: &[(u64, u32)]) -> InnerNode {
        let mut node = InnerNode::EMPTY;
        for (index, (bound, child)) in children.iter().enumerate() {
            (node.keys[index], node.children[index]) = (*bound, *child);
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

    fn insert(&mut self, index: usize, bound: u64, child: u32) {
        debug_assert!(self.len() < FANOUT);
        self.keys.copy_within(index..FANOUT - 1, index + 1);
        self.children.copy_within(index..FANOUT - 1, index + 1);
        (self.keys[index], self.children[index]) = (bound, child);
    }

    fn remove(&mut self, index: usize) {
        self.keys.copy_within(index + 1.., index);
        self.children.copy_within(index + 1.., index);
        (self.keys[FANOUT - 1], self.children[FANOUT - 1]) = (u64::MAX, NONE);
    }

    /// Gives the upper half to the node returned.
    fn split(&mut self) -> InnerNode {
        let mut upper = InnerNode::EMPTY;
        upper.keys[..FANOUT / 2].copy_from_slice(&self.keys[FANOUT / 2..]);
        upper.children[..FANOUT / 2].copy_from_slice(&self.children[FANOUT / 2..]);
        self.keys[FANOUT / 2..].fill(u64::MAX);
        self.children[FANOUT / 2..].fill(NONE);
        upper
    }
}

/// A path from the root to a leaf: nodes and the index of the child taken in each.
#[derive(Clone, Copy, Debug)]
pub(super) struct Path {
    steps: [(u32, u32); MAX_LEVELS],
    pub(super) leaf: u32,
}

/// The inner nodes.
pub(super) struct InnerNodes {
    nodes: NodeArray<InnerNode>,
    /// How many of `nodes` were ever used.
    used: usize,
    /// Freed nodes, to be used again.
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
            nodes: NodeArray::zeroed(FANOUT),
            used: 0,
            vacant: Vec::new(),
            root: 0,
            levels: Vec::new(),
            resident: 0,
            compare: Compare16::fastest(),
        };
        let mut below: Vec<(u64, u32)> = leaves.collect();
        while tree.levels.is_empty() || below.len() > 1 {
            let made = below.chunks(REBUILT_CHILDREN).map(InnerNode::of);
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
            len_bytes += **nodes * size_of::<InnerNode>();
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

    /// The number of levels that a lookup reads directly, and of those at which it suspends.
    #[inline(always)]
    pub(super) fn levels(&self) -> (usize, usize) {
        (self.resident, self.levels.len() - self.resident)
    }

    #[inline(always)]
    pub(super) fn node(&self, number: u32) -> &InnerNode {
        &self.nodes[number as usize]
    }

    /// The child that has `key`.
    #[inline(always)]
    pub(super) fn child(&self, node: &InnerNode, key: u64) -> u32 {
        // Less than 16: the last key is no less than any that comes down to this node.
        node.children[self.compare.less(&node.keys, key) % FANOUT]
    }

    /// The leaf that has `key`, and the way to it.
    pub(super) fn path(&self, key: u64) -> Path {
        let mut path = Path {
            steps: [(0, 0); MAX_LEVELS],
            leaf: self.root,
        };
        for step in &mut path.steps[..self.levels.len()] {
            let node = self.node(path.leaf);
            let index = self.compare.less(&node.keys, key) % FANOUT;
            *step = (path.leaf, index as u32);
            path.leaf = node.children[index];
        }
        path
    }

    /// The leaf before that of the path, `None` if there is none.
    pub(super) fn before(&self, path: &Path) -> Option<u32> {
        let steps = &path.steps[..self.levels.len()];
        let level = steps.iter().rposition(|&(_, index)| index > 0)?;
        let (node, index) = steps[level];
        let mut child = self.node(node).children[index as usize - 1];
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
                self.root = self.add(InnerNode::of(&[old, (bound, upper.1)]));
                self.levels.insert(0, 1);
                break;
            }
            level -= 1;
            let (number, index) = path.steps[level];
            let index = index as usize;
            let node = &mut self.nodes[number as usize];
            // The child's bound falls to that of its lower part, and what it was is the upper part's.
            let bound = std::mem::replace(&mut node.keys[index], upper.0);
            if node.len() < FANOUT {
                node.insert(index + 1, bound, upper.1);
                break;
            }
            let mut half = node.split();
            match index < FANOUT / 2 {
                true => node.insert(index + 1, bound, upper.1),
                false => half.insert(index + 1 - FANOUT / 2, bound, upper.1),
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
        let (bottom, index) = path.steps[depth - 1];
        let bound = self.node(bottom).keys[index as usize];
        let steps = &path.steps[..depth];
        let level = steps.iter().rposition(|&(_, index)| index > 0);
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
            let (number, index) = path.steps[level];
            let node = &mut self.nodes[number as usize];
            node.remove(index as usize);
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

    fn add(&mut self, node: InnerNode) -> u32 {
        if let Some(number) = self.vacant.pop() {
            self.nodes[number as usize] = node;
            return number;
        }
        if self.used == self.nodes.len() {
            let mut larger = NodeArray::zeroed(2 * self.used);
            larger[..self.used].copy_from_slice(&self.nodes);
            self.nodes = larger;
        }
        self.nodes[self.used] = node;
        self.used += 1;
        self.used as u32 - 1
    }
}
