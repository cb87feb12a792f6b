//! The key-value store: a B+-tree whose leaves are far and have copies. Keys are put one by one, each durable before the
//! next.
//!
//! Keys are loaded in an order that makes leaves as full as random inserts do.

use std::collections::HashMap;
use std::time::Instant;

use tierra_index::PersistentTree;
use tierra_interleave::{Execution, Lookups};
use tierra_memory::persist::Flush;
use tierra_memory::replication::ReplicaSet;

use super::{CHECKED, OURS};
use crate::error::{Context, LabError};
use crate::experiments::kv::{TREE, create, key};
use crate::lab::Lab;
use crate::replicas::Copies;

/// An odd stride, coprime to every power of two.
const STRIDE: u64 = 0x9e37_79b1;

/// A tree and the copies of its leaves.
pub(super) struct Tree {
    tree: PersistentTree,
    copies: Copies,
    /// Entries inserted in addition to those loaded.
    inserted: u64,
    /// For the entries put last, each key with its last value.
    last: HashMap<u64, u64>,
}

impl Tree {
    pub(super) fn load(
        lab: &Lab,
        replicas: usize,
        bytes: usize,
        key_bits: u32,
        flush: Flush,
    ) -> Result<Tree, LabError> {
        let copies = Copies::create(lab, 1 + replicas, bytes, flush)?;
        let mut tree = create(copies.set(replicas)?)?;
        for at in 0..1_u64 << key_bits {
            let number = at * STRIDE % (1 << key_bits);
            tree.put(key(number), number).by(OURS, "loading a tree")?;
        }
        Ok(Tree {
            tree,
            copies,
            inserted: 0,
            last: HashMap::new(),
        })
    }

    /// Gives loaded keys other values.
    pub(super) fn update(&mut self, numbers: &[u32], value: u32) -> Result<u64, LabError> {
        let entries = numbers.iter().zip(0_u64..);
        // No key had this value before, not even within the same sample.
        let entries =
            entries.map(|(&number, at)| (key(number.into()), u64::from(value) << 32 | at));
        self.put(entries.collect())
    }

    /// Puts new keys behind loaded ones.
    pub(super) fn insert(&mut self, numbers: &[u32]) -> Result<u64, LabError> {
        let from = self.inserted + 1;
        let entries = numbers.iter().zip(from..);
        let entries = entries.map(|(&number, at)| (key(number.into()) + at, at));
        self.inserted += numbers.len() as u64;
        self.put(entries.collect())
    }

    fn put(&mut self, entries: Vec<(u64, u64)>) -> Result<u64, LabError> {
        let start = Instant::now();
        for &(key, value) in &entries {
            self.tree.put(key, value).by(OURS, "putting to a tree")?;
        }
        let time = start.elapsed();
        let last = entries.len().saturating_sub(CHECKED);
        self.last = entries[last..].iter().copied().collect();
        self.check(&self.tree, "the tree")?;
        Ok(time.as_nanos() as u64)
    }

    /// Checks that each copy alone is the complete tree.
    pub(super) fn check_copies(self) -> Result<(), LabError> {
        let len = self.tree.len();
        for (copy, member) in self.copies.members().iter().enumerate() {
            let doing = "opening a copy of a tree";
            let alone = ReplicaSet::open(std::slice::from_ref(member)).by(OURS, doing)?;
            let alone = PersistentTree::open(TREE, vec![alone]).by(OURS, doing)?;
            let what = format!("copy {copy} of the tree");
            if alone.len() != len {
                return Err(LabError::AnswersDiffer {
                    what,
                    left: format!("{} entries", alone.len()),
                    right: format!("{len} entries"),
                    detail: "of all copies together".to_owned(),
                });
            }
            self.check(&alone, &what)?;
        }
        Ok(())
    }

    /// Checks that a tree has the entries put last.
    fn check(&self, tree: &PersistentTree, who: &str) -> Result<(), LabError> {
        let (keys, values): (Vec<u64>, Vec<u64>) = self.last.iter().unzip();
        let mut found = vec![None; keys.len()];
        tree.get_all(&mut Lookups::new(Execution::Plain), &keys, &mut found);
        for ((key, value), found) in keys.iter().zip(values).zip(found) {
            if found != Some(value) {
                return Err(LabError::AnswersDiffer {
                    what: format!("key {key} of a tree"),
                    left: "what was put".to_owned(),
                    right: who.to_owned(),
                    detail: format!("{value} and {found:?}"),
                });
            }
        }
        Ok(())
    }
}
