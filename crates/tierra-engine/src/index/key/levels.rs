//! The near part of a key index: levels of hash tables from normalized key to row, for the rows that no run lists; and the cell
//! that holds them with a version's runs.
//!
//! Invariant: levels are immutable and shared between versions. Levels of similar size are merged, so a lookup probes
//! logarithmically many. Levels and runs of a cell together have every row of its version, and deleted rows beside them: who
//! finds a row by its key asks the version whether it is deleted.

use std::sync::{Arc, OnceLock};

use tierra_index::HashIndex;
use tierra_interleave::{Cx, Mode};

use super::hashed::rows_in;
use super::run::{KeyRun, KeyRuns};
use crate::deleted::Deletions;
use crate::manifest::row_id::RowId;

/// Larger levels are not merged: that would occupy the writer for too long.
const MERGE_MOST_ENTRIES: usize = 1 << 23;
/// Levels are merged until each is this many times as large as the next.
const LEVEL_RATIO: usize = 4;

/// The keys of some rows, by normalized key.
#[derive(Clone, Default)]
pub(crate) struct Level {
    pub(crate) index: Arc<HashIndex>,
    /// The segments of its rows, or their future segment while they are in the tail; ascending.
    pub(crate) segments: Vec<u32>,
}

/// The rows of a version that no run lists, by normalized key. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct KeyIndex {
    /// From the oldest, which is the largest, to the newest.
    pub(crate) levels: Vec<Level>,
}

impl KeyIndex {
    /// The index with another level, for rows of these segments. Merged levels forget rows that are deleted: a key that changes
    /// often must not fill them.
    pub(crate) fn with_level(
        &self,
        level: HashIndex,
        mut segments: Vec<u32>,
        deletions: &Deletions,
    ) -> Self {
        let mut levels = self.levels.clone();
        let mut newest = level;
        while let Some(older) = levels.pop_if(|older| {
            let both = older.index.len() + newest.len();
            older.index.len() < LEVEL_RATIO * newest.len() && both <= MERGE_MOST_ENTRIES
        }) {
            let both = older.index.iter().chain(newest.iter());
            let is_live = |(_, row): &(u64, u64)| !deletions.contains(RowId::from_number(*row));
            let entries: Vec<_> = both.filter(is_live).collect();
            let mut merged = HashIndex::with_capacity(entries.len());
            merged.insert_all(&entries);
            newest = merged;
            segments.extend(&older.segments);
        }
        segments.sort_unstable();
        segments.dedup();
        levels.push(Level {
            index: Arc::new(newest),
            segments,
        });
        Self { levels }
    }

    /// The index without the rows of segments that runs list. A large level keeps all rows until all of its segments are listed:
    /// filtering it would take the writer too long, and a row that is in both is found all the same.
    fn without(&self, is_listed: impl Fn(u32) -> bool) -> Self {
        let left = self.levels.iter().filter_map(|level| {
            let segments = level.segments.iter().copied();
            let segments: Vec<u32> = segments.filter(|id| !is_listed(*id)).collect();
            let is_large = level.index.len() > MERGE_MOST_ENTRIES && !segments.is_empty();
            if segments.len() == level.segments.len() || is_large {
                return Some(level.clone());
            }
            let stays = |(_, row): &(u64, u64)| {
                let segment = u32::try_from(RowId::from_number(*row).segment());
                segment.is_ok_and(|segment| segments.binary_search(&segment).is_ok())
            };
            let entries: Vec<_> = match segments.is_empty() {
                true => Vec::new(),
                false => level.index.iter().filter(stays).collect(),
            };
            if entries.is_empty() {
                return None;
            }
            let mut index = HashIndex::with_capacity(entries.len());
            index.insert_all(&entries);
            let index = Arc::new(index);
            Some(Level { index, segments })
        });
        Self {
            levels: left.collect(),
        }
    }

    /// The row of an exact normalized key. If the normalized key is a hash, a row with that hash.
    pub(crate) async fn get<M: Mode>(&self, cx: Cx<M>, normalized_key: u64) -> Option<RowId> {
        for level in &self.levels {
            if let Some(row) = level.index.get(cx, normalized_key).await {
                return Some(RowId::from_number(row));
            }
        }
        None
    }

    /// All rows whose keys have this normalized key.
    pub(crate) fn candidates(&self, normalized_key: u64) -> impl Iterator<Item = RowId> {
        self.levels
            .iter()
            .flat_map(move |level| rows_in(&level.index, normalized_key))
    }

    /// Its bytes of near memory.
    pub(crate) fn bytes(&self) -> usize {
        self.levels.iter().map(|level| level.index.bytes()).sum()
    }
}

/// A version's key index: its runs, and the near index of all other rows, which the first reader that needs it builds. Versions
/// with the same rows share the near index.
pub(crate) struct KeyIndexCell {
    pub(crate) near: Arc<OnceLock<KeyIndex>>,
    runs: KeyRuns,
}

impl KeyIndexCell {
    /// The cell of a table with these runs; the near index is not built.
    pub(crate) fn of(runs: impl Into<KeyRuns>) -> Self {
        Self {
            near: Arc::default(),
            runs: runs.into(),
        }
    }

    /// The runs, in the order in which they were made.
    pub(crate) fn runs(&self) -> &[Arc<KeyRun>] {
        &self.runs
    }

    /// The next version's cell: with the near index `index`, or with this one if no row was added or moved.
    pub(crate) fn next(&self, index: Option<KeyIndex>) -> Self {
        Self {
            near: index.map_or_else(|| self.near.clone(), |index| Arc::new(index.into())),
            runs: self.runs.clone(),
        }
    }

    /// The cell with other runs, which list the same rows, and maybe rows that the near index does not have.
    pub(crate) fn with_runs(&self, runs: impl Into<KeyRuns>) -> Self {
        Self {
            near: self.near.clone(),
            runs: runs.into(),
        }
    }

    /// The cell with other runs, which list more rows: the near index drops these.
    pub(crate) fn with_rows_in_runs(&self, runs: impl Into<KeyRuns>) -> Self {
        let runs: KeyRuns = runs.into();
        let is_listed = |segment| runs.iter().any(|run| run.covers(segment));
        let near = self.near.get().map(|near| near.without(is_listed));
        Self {
            near: Arc::new(near.map_or_else(OnceLock::new, OnceLock::from)),
            runs,
        }
    }

    /// Its bytes of near memory.
    pub(crate) fn near_bytes(&self) -> usize {
        let runs = self.runs.iter().map(|run| run.near_bytes());
        runs.sum::<usize>() + self.near.get().map_or(0, KeyIndex::bytes)
    }

    /// Whether a run lists the rows of a segment.
    pub(crate) fn is_in_runs(&self, segment: u32) -> bool {
        self.runs.iter().any(|run| run.covers(segment))
    }
}

impl std::fmt::Debug for KeyIndexCell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "KeyIndexCell({:?} levels, {:?})",
            self.near.get().map(|index| index.levels.len()),
            self.runs
        )
    }
}
