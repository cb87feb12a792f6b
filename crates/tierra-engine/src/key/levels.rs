//! The index itself: levels of hash tables from key image to row, and the cell that a version keeps
//! them in.
//!
//! Invariant: levels are immutable and shared between versions. Those of similar size are merged, so a
//! look-up probes logarithmically many.

use std::sync::{Arc, OnceLock};

use tierra_index::HashIndex;
use tierra_interleave::{Cx, Mode, Plain, run_plain};

use crate::version::RowId;

/// Indexes with more entries are not merged: that would keep the writer from its work.
const MERGE_MOST_ENTRIES: usize = 1 << 23;
/// Levels are merged until each is this many times as large as the next.
const LEVEL_RATIO: usize = 4;

/// The rows of a version, by the images of their keys. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct KeyIndex {
    /// From the oldest, which is the largest, to the newest.
    pub(super) levels: Vec<Arc<HashIndex>>,
}

impl KeyIndex {
    /// The index with more entries.
    pub(super) fn with_level(&self, level: HashIndex) -> Self {
        let mut levels = self.levels.clone();
        let mut newest = level;
        while let Some(older) = levels.pop_if(|older| {
            let both = older.len() + newest.len();
            older.len() < LEVEL_RATIO * newest.len() && both <= MERGE_MOST_ENTRIES
        }) {
            let mut merged = HashIndex::with_capacity(older.len() + newest.len());
            let entries: Vec<_> = older.iter().chain(newest.iter()).collect();
            merged.insert_all(&entries);
            newest = merged;
        }
        levels.push(Arc::new(newest));
        Self { levels }
    }

    /// The row of an image that stands for one key only.
    pub(super) async fn get<M: Mode>(&self, cx: Cx<M>, image: u64) -> Option<RowId> {
        for level in &self.levels {
            if let Some(row) = level.get(cx, image).await {
                return Some(RowId::from_number(row));
            }
        }
        None
    }

    /// Every row whose key has this image.
    pub(super) fn candidates(&self, image: u64) -> impl Iterator<Item = RowId> {
        self.levels
            .iter()
            .flat_map(move |level| candidates(level, image))
    }
}

/// Every row whose key has this image, in one level.
pub(super) fn candidates(level: &HashIndex, image: u64) -> impl Iterator<Item = RowId> {
    let mut candidates = level.candidates(image);
    std::iter::from_fn(move || run_plain(|cx: Cx<Plain>| candidates.next(cx)))
        .map(RowId::from_number)
}

/// A version's index, built by whoever needs it first. Versions with the same rows share it.
#[derive(Default)]
pub(crate) struct KeyIndexCell(pub(super) Arc<OnceLock<KeyIndex>>);

impl KeyIndexCell {
    /// Not built yet.
    pub(crate) fn empty() -> Self {
        Self::default()
    }

    /// That of the next version: `index`, or this one where no row was added or moved.
    pub(crate) fn next(&self, index: Option<KeyIndex>) -> Self {
        match index {
            Some(index) => Self(Arc::new(OnceLock::from(index))),
            None => Self(self.0.clone()),
        }
    }
}

impl std::fmt::Debug for KeyIndexCell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "KeyIndexCell({:?} levels)",
            self.0.get().map(|index| index.levels.len())
        )
    }
}
