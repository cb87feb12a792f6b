//! Changing the tree: one line and one fence for an entry; a split and a merge by steps that each leave a whole
//! tree.
//!
//! ```text
//!  put, remove     line                                                  one fence
//!  split           new leaf, whole │ greatest key of the old leaf        two
//!  merge           lines of the leaf before that count too much │ its greatest key │ line 0 of the empty leaf
//! ```
//! Invariant: what is near changes when what is far is durable. Where a copy could not be written the
//! near part is as before; the set writes no more, and opening says what the tree holds.

use std::cmp::Ordering;

use tierra_interleave::{Cx, Execution, GroupSize, map_into};
use tierra_memory::{LINE_BYTES, emulation, in_mode};

use super::inner::Path;
use super::line::{FREE, Line, SLOTS, Word};
use super::near::{FULL, NONE, PLACES, Summary};
use super::{LEAF_BYTES, LEAF_LINES, PersistentTree, TreeError, place};

/// Where a leaf's greatest key is noted.
const GREATEST_LINE: usize = 1;

impl PersistentTree {
    /// Gives `key` a value, durably on return; the value that it had.
    ///
    /// # Errors
    /// [`TreeError::Full`]: nothing has changed. [`TreeError::Replication`]: what the tree holds shows when
    /// it is opened again; until then nothing is written any more.
    pub fn put(&mut self, key: u64, value: u64) -> Result<Option<u64>, TreeError> {
        let path = self.inner.path(key);
        let leaf = path.leaf;
        if let Some((place, line)) = self.find(leaf, key) {
            let (number, slot) = (place / SLOTS, place % SLOTS);
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

    /// Takes `key` out, durably on return; the value that it had.
    ///
    /// # Errors
    /// [`TreeError::Replication`], as for [`put`](Self::put).
    pub fn remove(&mut self, key: u64) -> Result<Option<u64>, TreeError> {
        let path = self.inner.path(key);
        let leaf = path.leaf;
        let Some((place, line)) = self.find(leaf, key) else {
            return Ok(None);
        };
        let (number, slot) = (place / SLOTS, place % SLOTS);
        let live = self.summary(leaf).live(number) & !(1 << slot);
        let words = line.keep(self.seed(leaf, number), live);
        self.store(leaf, number, &words)?;
        self.summary_mut(leaf).remove(place);
        self.len -= 1;
        if self.summary(leaf).occupied == 0 && leaf != self.first {
            self.merge(&path)?;
        }
        Ok(Some(line.value(slot)))
    }

    /// Where a leaf has `key`, and the line it is in.
    fn find(&self, leaf: u32, key: u64) -> Option<(usize, Line)> {
        let mut places = self.summary(leaf).candidates(key);
        while places != 0 {
            let place = places.trailing_zeros() as usize;
            let line = self.fetch(leaf, place / SLOTS);
            if line.key(place % SLOTS) == key {
                return Some((place, line));
            }
            places &= places - 1;
        }
        None
    }

    /// A line that is probably going to be changed: the copies' lines are fetched with it.
    #[inline(always)]
    fn fetch(&self, leaf: u32, line: usize) -> Line {
        let (extent, _) = place(leaf);
        self.extents[extent].set.prefetch_line(at(leaf, line));
        let line = self.line(leaf, line);
        if emulation::is_on() {
            return far(line);
        }
        *line
    }

    /// Adds an entry to a leaf that has room and does not have the key.
    fn insert(&mut self, leaf: u32, entry: (u64, u64)) -> Result<(), TreeError> {
        let place = self.summary(leaf).vacant();
        let (number, slot) = (place / SLOTS, place % SLOTS);
        let line = self.fetch(leaf, number);
        let live = self.summary(leaf).live(number);
        let insertion = line.insert(self.seed(leaf, number), live, slot, entry);
        self.store(leaf, number, insertion.words())?;
        self.summary_mut(leaf).add(place, entry.0);
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
        debug_assert_eq!(len, PLACES, "a leaf is split when it is full");
        let next = self.summary(old).next;
        // Keys that come in ascending order leave full leaves behind.
        let is_ascending = next == NONE && entry.0 > entries[PLACES - 1].0;
        let kept = if is_ascending { PLACES } else { PLACES / 2 };
        let least = entries.get(kept).map_or(entry.0, |(key, _)| *key);
        let mut moved = [(0, 0); PLACES];
        let mut moved_len = PLACES - kept;
        moved[..moved_len].copy_from_slice(&entries[kept..]);
        if entry.0 >= least {
            moved[moved_len] = entry;
            moved_len += 1;
        }
        let moved = &moved[..moved_len];

        let greatest = self.line(old, GREATEST_LINE).note();
        self.write_leaf(new, (least, greatest), moved)?;
        let line = self.fetch(old, GREATEST_LINE);
        // What moves is counted until the range says that it has moved.
        let live = self.summary(old).live(GREATEST_LINE);
        let words = line.renote(self.seed(old, GREATEST_LINE), live, least - 1);
        self.store(old, GREATEST_LINE, &words)?;

        self.free.pop();
        *self.summary_mut(new) = Summary::of(moved, next);
        for place in 0..PLACES {
            if self.line(old, place / SLOTS).key(place % SLOTS) >= least {
                self.summary_mut(old).remove(place);
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
        // What a split left behind would be in the range again.
        for number in 0..LEAF_LINES {
            let live = self.summary(before).live(number);
            if self.line(before, number).occupied() != live {
                let line = self.fetch(before, number);
                let words = line.keep(self.seed(before, number), live);
                self.store(before, number, &words)?;
            }
        }
        let greatest = self.line(empty, GREATEST_LINE).note();
        let line = self.fetch(before, GREATEST_LINE);
        let live = self.summary(before).live(GREATEST_LINE);
        let words = line.renote(self.seed(before, GREATEST_LINE), live, greatest);
        self.store(before, GREATEST_LINE, &words)?;
        self.store(empty, 0, &FREE)?;
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
            let (these, behind) = rest.split_at(rest.len().min(SLOTS));
            rest = behind;
            let note = match number {
                0 => least,
                GREATEST_LINE => greatest,
                _ => 0,
            };
            let line = Line::new(self.seed(leaf, number), note, these);
            to.copy_from_slice(&line.bytes());
        }
        let (extent, _) = place(leaf);
        let set = &mut self.extents[extent].set;
        set.write(&self.method, at(leaf, 0), &bytes)?;
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
        let (extent, _) = place(leaf);
        let set = &mut self.extents[extent].set;
        set.write_line(&self.method, at(leaf, line), words)?;
        Ok(())
    }
}

/// Where a line of a leaf begins in its extent.
fn at(leaf: u32, line: usize) -> u64 {
    let (_, index) = place(leaf);
    index as u64 * LEAF_BYTES + (line * LINE_BYTES) as u64
}

/// A line, as slow as emulated far memory.
#[cold]
fn far(line: &Line) -> Line {
    const ALONE: GroupSize = GroupSize::new(1).expect("one is a size");
    let mut read = [line];
    in_mode!(Execution::Plain, M => map_into(
        ALONE, [line], |cx: Cx<M>, line| cx.load(line), &mut read));
    *read[0]
}
