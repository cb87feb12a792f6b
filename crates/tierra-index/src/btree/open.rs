//! Creating and opening a tree. Opening reads every leaf of every extent; there is no list of leaves.
//!
//! Everything is validated. A leaf's first line says where its range begins, and is trusted only if its checksum
//! matches. The leaves of the tree are those whose ranges follow each other from key 0 on, and every line of them is
//! validated. One other leaf may be in use, left over from a split or a merge that a crash interrupted: it is freed.
//! Two are damage, because no crash leaves two.
//!
//! Invariant: a tree that was opened is valid, and everything read of it is durable, since opening a
//! [`ReplicaSet`] flushes it.

use std::collections::HashMap;

use tierra_interleave::{Gate, GroupSize};
use tierra_memory::replication::ReplicaSet;

use super::inner::InnerNodes;
use super::leaf_line::{LINE_SLOTS, ZEROED};
use super::summary::{LEAF_SLOTS, LeafSummary, NONE};
use super::{
    Extent, LEAF_BITS, LEAF_BYTES, LEAF_LINES, MAX_EXTENT_BYTES, MAX_EXTENTS, PersistentTree,
    TreeError, locate,
};
use crate::node_array::NodeArray;

impl PersistentTree {
    /// Makes an empty tree in new logs, all zero. `id` is part of every checksum; two trees whose extents
    /// could be mistaken for each other need different ones.
    ///
    /// # Errors
    /// [`TreeError::Extents`], [`TreeError::Length`], [`TreeError::NotEmpty`], [`TreeError::Replication`].
    pub fn create(id: u64, sets: Vec<ReplicaSet>) -> Result<PersistentTree, TreeError> {
        let mut tree = PersistentTree::over(id, sets)?;
        for extent in 0..tree.extents.len() {
            tree.refuse_unless_empty(extent)?;
        }
        tree.free = tree.numbers().collect();
        tree.free.reverse();
        tree.free.pop();
        tree.write_leaf(tree.first, (0, u64::MAX), &[])?;
        tree.build(&[(u64::MAX, 0)]);
        Ok(tree)
    }

    /// Opens a tree from its extents, in the order in which they were added. Reads all leaves; a leaf left over
    /// from a crash is freed.
    ///
    /// # Errors
    /// [`TreeError::Extents`], [`TreeError::Length`], [`TreeError::Damaged`], [`TreeError::Missing`],
    /// [`TreeError::Replication`].
    pub fn open(id: u64, sets: Vec<ReplicaSet>) -> Result<PersistentTree, TreeError> {
        let mut tree = PersistentTree::over(id, sets)?;
        // Leaves by the key that their range begins with.
        let mut by_least = HashMap::new();
        let mut leftover = Vec::new();
        for leaf in tree.numbers() {
            let line = tree.line(leaf, 0);
            if line.is_free() {
                tree.free.push(leaf);
            } else if !line.is_valid(tree.seed(leaf, 0)) {
                leftover.push(leaf);
            } else if let Some(other) = by_least.insert(line.leaf_word(), leaf) {
                return Err(
                    tree.damaged(leaf.max(other), "its range begins where another one's does")
                );
            }
        }
        let mut leaves = Vec::with_capacity(by_least.len());
        let mut least = Some(0);
        while let Some(from) = least {
            let Some(leaf) = by_least.remove(&from) else {
                // Most likely it is the one that cannot be read.
                return Err(match leftover.first() {
                    Some(&leaf) => tree.damaged(leaf, "its first line fails its check"),
                    None => TreeError::Missing { key: from },
                });
            };
            let greatest = tree.read_leaf(leaf, from)?;
            leaves.push((greatest, leaf));
            least = greatest.checked_add(1);
        }
        leftover.extend(by_least.into_values());
        leftover.sort_unstable();
        if let [_, second, ..] = leftover[..] {
            return Err(tree.damaged(
                second,
                "a second leaf that is in use but holds no keys of the tree",
            ));
        }
        for leaf in leftover {
            tree.store(leaf, 0, &ZEROED)?;
            tree.free.push(leaf);
        }
        tree.free.sort_unstable_by(|one, other| other.cmp(one));
        tree.build(&leaves);
        Ok(tree)
    }

    /// Gives the tree more leaves: a new log, all zero, that its owner has published as the last of its extents.
    ///
    /// # Errors
    /// As [`create`](Self::create); the tree is as before.
    pub fn add_extent(&mut self, set: ReplicaSet) -> Result<(), TreeError> {
        let number = self.extents.len();
        if number == MAX_EXTENTS {
            return Err(TreeError::Extents {
                extents: number + 1,
            });
        }
        self.extents.push(Extent::new(number, set)?);
        if let Err(error) = self.refuse_unless_empty(number) {
            self.extents.pop();
            return Err(error);
        }
        let first = (number as u32) << LEAF_BITS;
        let new = first..first + self.extents[number].summaries.len() as u32;
        // Leaves of earlier extents are used first.
        self.free.splice(0..0, new.rev());
        Ok(())
    }

    /// A tree without leaves.
    fn over(id: u64, sets: Vec<ReplicaSet>) -> Result<PersistentTree, TreeError> {
        let extents = sets.len();
        if extents == 0 || extents > MAX_EXTENTS {
            return Err(TreeError::Extents { extents });
        }
        let extents = sets.into_iter().enumerate();
        let extents = extents.map(|(number, set)| Extent::new(number, set));
        Ok(PersistentTree {
            id,
            extents: extents.collect::<Result<_, _>>()?,
            inner: InnerNodes::over([(u64::MAX, 0)].into_iter()),
            first: 0,
            free: Vec::new(),
            len: 0,
            gate: Gate::new(GroupSize::DEFAULT),
        })
    }

    /// Every leaf.
    fn numbers(&self) -> impl Iterator<Item = u32> + use<> {
        let lens: Vec<u32> = self
            .extents
            .iter()
            .map(|e| e.summaries.len() as u32)
            .collect();
        let extents = lens.into_iter().enumerate();
        extents
            .flat_map(|(extent, len)| (0..len).map(move |leaf| (extent as u32) << LEAF_BITS | leaf))
    }

    fn refuse_unless_empty(&self, extent: usize) -> Result<(), TreeError> {
        let lines = self.extents[extent].lines();
        let in_use = lines
            .iter()
            .step_by(LEAF_LINES)
            .position(|line| !line.is_free());
        match in_use {
            None => Ok(()),
            Some(leaf) => Err(TreeError::NotEmpty {
                extent,
                leaf: leaf as u32,
            }),
        }
    }

    /// Checks a leaf whose range begins with `least`, counts its entries and makes its summary. Returns the
    /// greatest key of its range.
    fn read_leaf(&mut self, leaf: u32, least: u64) -> Result<u64, TreeError> {
        let lines = self.leaf(leaf);
        for (number, line) in lines.iter().enumerate() {
            if !line.is_valid(self.seed(leaf, number)) {
                return Err(self.damaged(leaf, "a line fails its check"));
            }
            if number > 1 && line.leaf_word() != 0 {
                return Err(self.damaged(leaf, "a word that is to be zero is not"));
            }
        }
        let greatest = lines[1].leaf_word();
        if greatest < least {
            return Err(self.damaged(leaf, "its range ends before it begins"));
        }
        let mut summary = LeafSummary::of(&[], NONE);
        let mut keys = [0; LEAF_SLOTS];
        let mut len = 0;
        for leaf_slot in 0..LEAF_SLOTS {
            let (line, slot) = (&lines[leaf_slot / LINE_SLOTS], leaf_slot % LINE_SLOTS);
            let key = line.key(slot);
            if line.occupied() >> slot & 1 == 1 && (least..=greatest).contains(&key) {
                summary.add(leaf_slot, key);
                keys[len] = key;
                len += 1;
            }
        }
        keys[..len].sort_unstable();
        if keys[..len].windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(self.damaged(leaf, "it has a key twice"));
        }
        *self.summary_mut(leaf) = summary;
        self.len += len;
        Ok(greatest)
    }

    /// Links the summaries of the leaves, given in the order of their keys, and builds the inner nodes.
    fn build(&mut self, leaves: &[(u64, u32)]) {
        self.first = leaves[0].1;
        for pair in leaves.windows(2) {
            self.summary_mut(pair[0].1).next = pair[1].1;
        }
        let (_, last) = leaves[leaves.len() - 1];
        self.summary_mut(last).next = NONE;
        self.inner = InnerNodes::over(leaves.iter().copied());
    }

    fn damaged(&self, leaf: u32, what: &'static str) -> TreeError {
        let (extent, leaf) = locate(leaf);
        TreeError::Damaged {
            extent,
            leaf: leaf as u32,
            what,
        }
    }
}

impl Extent {
    fn new(number: usize, set: ReplicaSet) -> Result<Extent, TreeError> {
        let len_bytes = set.bytes(0).len() as u64;
        if !(LEAF_BYTES..=MAX_EXTENT_BYTES).contains(&len_bytes) {
            return Err(TreeError::Length {
                extent: number,
                len_bytes,
            });
        }
        Ok(Extent {
            set,
            summaries: NodeArray::zeroed((len_bytes / LEAF_BYTES) as usize),
        })
    }
}
