//! Changing the tree: one line and one fence for an entry; a split and a merge by steps that each leave a valid
//! tree.
//!
//! ```text
//!  put, remove     line                                                  one fence
//!  split           all of the new leaf │ greatest key of the old leaf    two
//!  merge           lines of the previous leaf with stale entries │ its greatest key │ line 0 of the empty leaf
//! ```
//! Invariant: near data changes after far data is durable. If a copy could not be written, near data is as
//! before and the set refuses further writes; opening the tree shows what it holds.

use std::cmp::Ordering;

use tierra_interleave::{Cx, Execution, GroupSize, map_into};
use tierra_memory::{LINE_BYTES, emulation, in_mode};

use super::inner::Path;
use super::leaf_line::{LINE_SLOTS, LeafLine, Word, ZEROED};
use super::summary::{FULL, LEAF_SLOTS, LeafSummary, NONE};
use super::{LEAF_BYTES, LEAF_LINES, ONE_FENCE, PersistentTree, TreeError, locate};

/// Where a leaf's greatest key is noted.
const GREATEST_LINE: usize = 1;

impl PersistentTree {
    /// Gives `key` a value, durably on return. Returns the previous value.
    ///
    /// # Errors
    /// [`TreeError::Full`]: nothing has changed. [`TreeError::Replication`]: what the tree holds shows when
    /// it is opened again; until then nothing is written any more.
    pub fn put(&mut self, key: u64, value: u64) -> Result<Option<u64>, TreeError> {
        let path = self.inner.path(key);
        let leaf = path.leaf;
        if let Some((leaf_slot, line)) = self.find(leaf, key) {
            let (number, slot) = (leaf_slot / LINE_SLOTS, leaf_slot % LINE_SLOTS);
            let before = line.value(slot);
            if before != value {
                let live = self.summary(leaf).live(number);
                let words = line.update(self.seed(leaf, number), live, slot, value);
                self.store(leaf, number, &words)?;
            }
            return Ok(Some(before));
        }
        match self.summary(leaf).occupied {
            FULL => self.split(&path, (key, value))?,
            _ => self.insert(leaf, (key, value))?,
        }
        self.len += 1;
        Ok(None)
    }

    /// Removes `key`, durably on return. Returns its value.
    ///
    /// # Errors
    /// [`TreeError::Replication`], as for [`put`](Self::put).
    pub fn remove(&mut self, key: u64) -> Result<Option<u64>, TreeError> {
        let path = self.inner.path(key);
        let leaf = path.leaf;
        let Some((leaf_slot, line)) = self.find(leaf, key) else {
            return Ok(None);
        };
        let (number, slot) = (leaf_slot / LINE_SLOTS, leaf_slot % LINE_SLOTS);
        let live = self.summary(leaf).live(number) & !(1 << slot);
        let words = line.retain(self.seed(leaf, number), live);
        self.store(leaf, number, &words)?;
        self.summary_mut(leaf).remove(leaf_slot);
        self.len -= 1;
        if self.summary(leaf).occupied == 0 && leaf != self.first {
            self.merge(&path)?;
        }
        Ok(Some(line.value(slot)))
    }

    /// The slot of `key` in a leaf, and its line.
    fn find(&self, leaf: u32, key: u64) -> Option<(usize, LeafLine)> {
        let mut slots = self.summary(leaf).candidates(key);
        while slots != 0 {
            let leaf_slot = slots.trailing_zeros() as usize;
            let line = self.fetch(leaf, leaf_slot / LINE_SLOTS);
            if line.key(leaf_slot % LINE_SLOTS) == key {
                return Some((leaf_slot, line));
            }
            slots &= slots - 1;
        }
        None
    }

    /// Reads a line that will probably be changed: the copies' lines are prefetched with it.
    #[inline(always)]
    fn fetch(&self, leaf: u32, line: usize) -> LeafLine {
        let (extent, _) = locate(leaf);
        self.extents[extent].set.prefetch_line(at(leaf, line));
        let line = self.line(leaf, line);
        if emulation::is_on() {
            return far(line);
        }
        *line
    }

    /// Adds an entry to a leaf that has room and does not have the key.
    fn insert(&mut self, leaf: u32, entry: (u64, u64)) -> Result<(), TreeError> {
        let leaf_slot = self.summary(leaf).vacant();
        let (number, slot) = (leaf_slot / LINE_SLOTS, leaf_slot % LINE_SLOTS);
        let line = self.fetch(leaf, number);
        let live = self.summary(leaf).live(number);
        let insertion = line.insert(self.seed(leaf, number), live, slot, entry);
        self.store(leaf, number, insertion.words())?;
        self.summary_mut(leaf).add(leaf_slot, entry.0);
        Ok(())
    }

    /// Makes two leaves of a full one, and adds the entry.
    fn split(&mut self, path: &Path, entry: (u64, u64)) -> Result<(), TreeError> {
        let old = path.leaf;
        let Some(&new) = self.free.last() else {
            let (_, leaves) = self.leaves();
            return Err(TreeError::Full { leaves });
        };
        let (entries, len) = self.sorted(old);
        debug_assert_eq!(len, LEAF_SLOTS, "a leaf is split when it is full");
        let next = self.summary(old).next;
        // Keys that come in ascending order leave full leaves behind.
        let is_ascending = next == NONE && entry.0 > entries[LEAF_SLOTS - 1].0;
        let kept = if is_ascending {
            LEAF_SLOTS
        } else {
            LEAF_SLOTS / 2
        };
        let least = entries.get(kept).map_or(entry.0, |(key, _)| *key);
        let mut moved = [(0, 0); LEAF_SLOTS];
        let mut moved_len = LEAF_SLOTS - kept;
        moved[..moved_len].copy_from_slice(&entries[kept..]);
        if entry.0 >= least {
            moved[moved_len] = entry;
            moved_len += 1;
        }
        let moved = &moved[..moved_len];

        let greatest = self.line(old, GREATEST_LINE).leaf_word();
        self.write_leaf(new, (least, greatest), moved)?;
        let line = self.fetch(old, GREATEST_LINE);
        // What moves is counted until the range says that it has moved.
        let live = self.summary(old).live(GREATEST_LINE);
        let words = line.set_leaf_word(self.seed(old, GREATEST_LINE), live, least - 1);
        self.store(old, GREATEST_LINE, &words)?;

        self.free.pop();
        *self.summary_mut(new) = LeafSummary::of(moved, next);
        for leaf_slot in 0..LEAF_SLOTS {
            if self
                .line(old, leaf_slot / LINE_SLOTS)
                .key(leaf_slot % LINE_SLOTS)
                >= least
            {
                self.summary_mut(old).remove(leaf_slot);
            }
        }
        self.summary_mut(old).next = new;
        self.inner.split(path, least - 1, new);
        match entry.0.cmp(&least) {
            Ordering::Less => self.insert(old, entry),
            Ordering::Equal | Ordering::Greater => Ok(()),
        }
    }

    /// Gives the range of an empty leaf, which is not the first, to the one before it.
    fn merge(&mut self, path: &Path) -> Result<(), TreeError> {
        let empty = path.leaf;
        let before = self.inner.before(path);
        let before = before.expect("only the first leaf has none before it");
        // Entries left behind by a split would be in the range again.
        for number in 0..LEAF_LINES {
            let live = self.summary(before).live(number);
            if self.line(before, number).occupied() != live {
                let line = self.fetch(before, number);
                let words = line.retain(self.seed(before, number), live);
                self.store(before, number, &words)?;
            }
        }
        let greatest = self.line(empty, GREATEST_LINE).leaf_word();
        let line = self.fetch(before, GREATEST_LINE);
        let live = self.summary(before).live(GREATEST_LINE);
        let words = line.set_leaf_word(self.seed(before, GREATEST_LINE), live, greatest);
        self.store(before, GREATEST_LINE, &words)?;
        self.store(empty, 0, &ZEROED)?;
        self.summary_mut(before).next = self.summary(empty).next;
        self.inner.merge(path);
        self.free.push(empty);
        Ok(())
    }

    /// Writes a leaf whole that nothing leads to yet.
    pub(super) fn write_leaf(
        &mut self,
        leaf: u32,
        (least, greatest): (u64, u64),
        entries: &[(u64, u64)],
    ) -> Result<(), TreeError> {
        let mut bytes = [0; LEAF_BYTES as usize];
        let mut rest = entries;
        for (number, to) in bytes.chunks_exact_mut(LINE_BYTES).enumerate() {
            let (these, behind) = rest.split_at(rest.len().min(LINE_SLOTS));
            rest = behind;
            let leaf_word = match number {
                0 => least,
                GREATEST_LINE => greatest,
                _ => 0,
            };
            let line = LeafLine::new(self.seed(leaf, number), leaf_word, these);
            to.copy_from_slice(&line.bytes());
        }
        let (extent, _) = locate(leaf);
        let set = &mut self.extents[extent].set;
        set.write(&ONE_FENCE, at(leaf, 0), &bytes)?;
        Ok(())
    }

    /// Stores words of a line, in their order, durably.
    #[inline(always)]
    pub(super) fn store(
        &mut self,
        leaf: u32,
        line: usize,
        words: &[Word],
    ) -> Result<(), TreeError> {
        let (extent, _) = locate(leaf);
        let set = &mut self.extents[extent].set;
        set.write_line(&ONE_FENCE, at(leaf, line), words)?;
        Ok(())
    }
}

/// Where a line of a leaf begins in its extent.
fn at(leaf: u32, line: usize) -> u64 {
    let (_, index) = locate(leaf);
    index as u64 * LEAF_BYTES + (line * LINE_BYTES) as u64
}

/// A line, as slow as emulated far memory.
#[cold]
fn far(line: &LeafLine) -> LeafLine {
    const ALONE: GroupSize = GroupSize::new(1).expect("one is a size");
    let mut read = [line];
    in_mode!(Execution::Plain, M => map_into(
        ALONE, [line], |cx: Cx<M>, line| cx.load(line), &mut read));
    *read[0]
}
