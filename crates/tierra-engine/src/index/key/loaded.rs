//! The keys of a bulk load: unique among themselves, and ready to be joined with those of the table.
//!
//! Keys in ascending order, which is the usual case, become leaves of a run at once, segment by segment, and the load's manifest
//! names the run. Other keys go to a near hash table, and the writer makes runs of them in the background.
//!
//! Invariant: no two of its keys are equal.

use std::sync::Arc;

use tierra_index::HashIndex;

use super::run::{BuiltRun, KeyRun};
use crate::error::StorageError;
use crate::manifest::RunEntry;
use crate::segment::Segment;
use crate::spec::replicas::TierId;
use crate::storage::Storage;
use crate::storage::extent::Owner;

/// The keys of rows that a load has encoded.
#[derive(Default)]
pub(crate) struct LoadedKeys {
    /// Of segments with ascending keys, ordered; their key ranges do not overlap. Empty if any segment's keys do not fit in.
    ascending: Vec<BuiltRun>,
    pub(crate) index: HashIndex,
    pub(crate) segments: Vec<Arc<Segment>>,
    /// The stored run of `ascending`.
    pub(crate) run: Option<Arc<KeyRun>>,
}

impl LoadedKeys {
    /// Takes leaves over if their key range overlaps no other.
    pub(crate) fn take_ascending(&mut self, leaves: BuiltRun) -> Result<(), BuiltRun> {
        if !self.index.is_empty() || leaves.is_empty() {
            return Err(leaves);
        }
        let (first, last) = leaves.bounds();
        let at = self
            .ascending
            .partition_point(|other| other.bounds().0 < first);
        let before = at.checked_sub(1).map(|at| self.ascending[at].bounds().1);
        let behind = self.ascending.get(at).map(|other| other.bounds().0);
        if before.is_some_and(|before| before >= first)
            || behind.is_some_and(|behind| behind <= last)
        {
            return Err(leaves);
        }
        self.ascending.insert(at, leaves);
        Ok(())
    }

    /// Moves all keys into the hash table.
    pub(crate) fn spill(&mut self) {
        for leaves in std::mem::take(&mut self.ascending) {
            let entries: Vec<_> = leaves.iter().collect();
            self.index.insert_all(&entries);
        }
    }

    /// Stores keys that came in ascending order as a run, to be published with the rows.
    pub(crate) fn store(
        &mut self,
        storage: &Storage,
        table: u64,
        tier_ids: &[TierId],
    ) -> Result<(), StorageError> {
        let mut pieces = std::mem::take(&mut self.ascending).into_iter();
        let Some(mut built) = pieces.next() else {
            return Ok(());
        };
        pieces.for_each(|piece| built.append(piece));
        let mut segments: Vec<u32> = self.segments.iter().map(|segment| segment.id()).collect();
        segments.sort_unstable();
        self.run = Some(store_run(storage, table, tier_ids, segments, built)?);
        Ok(())
    }
}

/// Writes a run of some segments of the table with that id, in these tiers.
pub(crate) fn store_run(
    storage: &Storage,
    table: u64,
    tier_ids: &[TierId],
    segments: Vec<u32>,
    built: BuiltRun,
) -> Result<Arc<KeyRun>, StorageError> {
    let mut writer = storage.allocate(tier_ids, built.len_bytes() as u64, Owner::Index(table))?;
    built.write(&mut writer);
    let extent = writer.finish()?;
    let entry = RunEntry {
        segments,
        extent: extent.id(),
    };
    let calibration = &storage.calibration;
    Ok(KeyRun::written(Arc::new(entry), extent, built, calibration))
}
