//! Making a tree, and finding it again: every leaf of every extent is looked at, none is found by a list.
//!
//! Nothing is believed unchecked: a leaf's first line says what range it begins, and is taken for one only if
//! its check agrees; the leaves of the tree are those whose ranges follow each other from key 0 on; of
//! these every line is checked. One leaf besides may hold something, from a split or a merge that a crash
//! cut short: it is freed. Two are damage, for no crash leaves two.
//!
//! Invariant: a tree that was opened is whole, and everything believed of it durable, since opening a
//! [`ReplicaSet`] flushes it.

use std::collections::HashMap;

use tierra_interleave::{Gate, GroupSize};
use tierra_memory::replication::ReplicaSet;

use super::inner::InnerNodes;
use super::line::{FREE, SLOTS};
use super::near::{NONE, PLACES, Summary};
use super::{
    EXTENT_BYTES_MOST, EXTENTS_MOST, Extent, LEAF_BITS, LEAF_BYTES, LEAF_LINES, ONE_FENCE,
    PersistentTree, TreeError, place,
};
use crate::lines::Lines;

impl PersistentTree {
    /// Makes an empty tree in new logs, all zero. `id` goes into every check; two trees whose extents
    /// could be mistaken for each other have different ones.
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

    /// Opens a tree from its extents, in the order in which it got them. Looks at all leaves; a leaf that a
    /// crash left halfway is freed.
    ///
    /// # Errors
    /// [`TreeError::Extents`], [`TreeError::Length`], [`TreeError::Damaged`], [`TreeError::Missing`],
    /// [`TreeError::Replication`].
    pub fn open(id: u64, sets: Vec<ReplicaSet>) -> Result<PersistentTree, TreeError> {
        let mut tree = PersistentTree::over(id, sets)?;
        // Leaves by the key that their range begins with.
        let mut by_least = HashMap::new();
        let mut halfway = Vec::new();
        for leaf in tree.numbers() {
            let line = tree.line(leaf, 0);
            if line.is_free() {
                tree.free.push(leaf);
            } else if !line.is_whole(tree.seed(leaf, 0)) {
                halfway.push(leaf);
            } else if let Some(other) = by_least.insert(line.note(), leaf) {
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
                return Err(match halfway.first() {
                    Some(&leaf) => tree.damaged(leaf, "its first line fails its check"),
                    None => TreeError::Missing { key: from },
                });
            };
            let greatest = tree.read_leaf(leaf, from)?;
            leaves.push((greatest, leaf));
            least = greatest.checked_add(1);
        }
        halfway.extend(by_least.into_values());
        halfway.sort_unstable();
        if let [_, second, ..] = halfway[..] {
            return Err(tree.damaged(
                second,
                "a second leaf that is in use but holds no keys of the tree",
            ));
        }
        for leaf in halfway {
            tree.store(leaf, 0, &FREE)?;
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
        if number == EXTENTS_MOST {
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
        // What there was is used first.
        self.free.splice(0..0, new.rev());
        Ok(())
    }

    /// Without leaves in the tree.
    fn over(id: u64, sets: Vec<ReplicaSet>) -> Result<PersistentTree, TreeError> {
        let extents = sets.len();
        if extents == 0 || extents > EXTENTS_MOST {
            return Err(TreeError::Extents { extents });
        }
        let extents = sets.into_iter().enumerate();
        let extents = extents.map(|(number, set)| Extent::new(number, set));
        Ok(PersistentTree {
            id,
            method: ONE_FENCE,
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
            if !line.is_whole(self.seed(leaf, number)) {
                return Err(self.damaged(leaf, "a line fails its check"));
            }
            if number > 1 && line.note() != 0 {
                return Err(self.damaged(leaf, "a word that is to be zero is not"));
            }
        }
        let greatest = lines[1].note();
        if greatest < least {
            return Err(self.damaged(leaf, "its range ends before it begins"));
        }
        let mut summary = Summary::of(&[], NONE);
        let mut keys = [0; PLACES];
        let mut len = 0;
        for place in 0..PLACES {
            let (line, slot) = (&lines[place / SLOTS], place % SLOTS);
            let key = line.key(slot);
            if line.occupied() >> slot & 1 == 1 && (least..=greatest).contains(&key) {
                summary.add(place, key);
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

    /// Makes what is near of leaves whose summaries are made, in the order of their keys.
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
        let (extent, leaf) = place(leaf);
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
        if !(LEAF_BYTES..=EXTENT_BYTES_MOST).contains(&len_bytes) {
            return Err(TreeError::Length {
                extent: number,
                len_bytes,
            });
        }
        Ok(Extent {
            set,
            summaries: Lines::zeroed((len_bytes / LEAF_BYTES) as usize),
        })
    }
}
