//! Dictionary merges: a new generation in order, and the chunks in its codes.
//!
//! Invariant: copy on write. The old generation and its chunks stay whole until one manifest names the new ones instead, and
//! after that as long as a snapshot needs them.

use std::sync::Arc;

use tierra_column::{ChunkPlan, Dictionary, Encoding, Remapping, Scratch};

use super::state::Writer;
use crate::dictionaries::PieceExtent;
use crate::error::StorageError;
use crate::index::inverted::InvertedPart;
use crate::manifest::{ChunkPlace, SegmentEntry, TableEntry};
use crate::segment::Segment;
use crate::storage::extent::{OwnedExtent, Owner};
use crate::table::Table;
use crate::table::version::TableVersion;
use crate::write::encode::write_chunks;

/// One column's step to its next generation.
struct MergeStep {
    column: usize,
    dictionary: Arc<Dictionary>,
    remapping: Remapping,
}

/// Whether any dictionary is to be merged with its delta, and can be.
pub(super) fn wants_merge(version: &TableVersion) -> bool {
    let mut dictionaries = version.dictionaries.iter().enumerate();
    dictionaries.any(|(column, dictionary)| {
        let is_due = dictionary.as_ref().is_some_and(|it| it.wants_merge());
        is_due && has_all_codes(version, column)
    })
}

/// Whether all codes of a column can be read. Those that are unreadable now may come back, and would mean nothing after a merge.
fn has_all_codes(version: &TableVersion, column: usize) -> bool {
    let mut segments = version.segments.iter();
    !segments.any(|segment| segment.is_placeholder(column) || segment.hides_codes(column))
}

impl Writer {
    /// Merges the dictionaries whose delta exceeds a tenth, unless a load is running: then that load's commit tries again.
    pub(super) fn merge_if_due(&mut self, table: &Arc<Table>) {
        if !wants_merge(&table.current()) {
            return;
        }
        let Some(pass) = table.load_merge_lock().try_enter_merge() else {
            return;
        };
        let merged = self.merge_where(table, Dictionary::wants_merge);
        drop(pass);
        // At once: a caller that waits from now on waits for the indexes, too.
        self.index_in_background(table);
        if let Err(error) = merged {
            // No request waits for a merge, and nothing is lost: lookups go on through the delta.
            tracing::warn!(table = %table.spec().name, %error, "a dictionary could not be merged");
        }
    }

    /// Merges every dictionary that has a delta. The caller holds the merge pass.
    pub(super) fn merge(&mut self, table: &Arc<Table>) -> Result<(), StorageError> {
        self.merge_where(table, |dictionary| dictionary.delta_len() > 0)
    }

    fn merge_where(
        &mut self,
        table: &Arc<Table>,
        due: impl Fn(&Dictionary) -> bool,
    ) -> Result<(), StorageError> {
        let mut entry = TableEntry::clone(&*self.entry(table)?);
        let current = table.current();
        let mut steps = Vec::new();
        for (column, dictionary) in current.dictionaries.iter().enumerate() {
            let Some(dictionary) = dictionary.as_ref().filter(|dictionary| due(dictionary)) else {
                continue;
            };
            if !has_all_codes(&current, column) {
                continue;
            }
            let (dictionary, remapping) = dictionary.merge(dictionary.generation() + 1);
            steps.push(MergeStep {
                column,
                dictionary: Arc::new(dictionary),
                remapping,
            });
        }
        if steps.is_empty() {
            return Ok(());
        }
        let (segments, mut fresh) = self.storage.read_validated(|| {
            let mut fresh = Vec::new();
            let rewritten = current.segments.iter();
            let rewritten =
                rewritten.map(|segment| self.rewrite(table, segment, &steps, &mut fresh));
            let rewritten = rewritten.collect::<Result<Vec<_>, _>>()?;
            Ok::<_, StorageError>((rewritten, fresh))
        })??;
        // Parts of an index in old codes are useless: they are rebuilt.
        let is_kept =
            |part: &&Arc<InvertedPart>| steps.iter().all(|step| step.column != part.column());
        let indexes: Vec<_> = current.indexes.iter().filter(is_kept).cloned().collect();
        entry.parts = indexes.iter().map(|part| part.entry().clone()).collect();
        let mut pieces = PieceExtent::default();
        let mut dictionaries = current.dictionaries.to_vec();
        for step in steps {
            entry.dictionaries[step.column] = Some(pieces.add_generation(&step.dictionary));
            dictionaries[step.column] = Some(step.dictionary);
        }
        fresh.extend(pieces.write(
            &self.storage,
            entry.id,
            &entry.placement,
            &mut entry.dictionaries,
        )?);
        entry.segments = segments
            .iter()
            .map(|segment: &Arc<Segment>| segment.entry().clone())
            .collect();
        let next = self.published.with_table(entry);
        self.publish(next, fresh)?;
        let version = TableVersion {
            segments: segments.into_iter().collect(),
            dictionaries: dictionaries.into(),
            indexes: indexes.into(),
            ..current.next()
        };
        table.dictionaries().reset(&version.dictionaries);
        let ids: Vec<u32> = version
            .segments
            .iter()
            .map(|segment| segment.id())
            .collect();
        table.publish(version);
        table.ask_for_near_copies(ids);
        Ok(())
    }

    /// The segment with its dictionary chunks of these columns in new codes, or the same segment if it has none. Adds new extents
    /// to `fresh`.
    fn rewrite(
        &self,
        table: &Table,
        segment: &Arc<Segment>,
        steps: &[MergeStep],
        fresh: &mut Vec<Arc<OwnedExtent>>,
    ) -> Result<Arc<Segment>, StorageError> {
        let spec = table.spec();
        let mut scratch = Scratch::new();
        let mut plans: Vec<(usize, ChunkPlan)> = Vec::new();
        for step in steps.iter().filter(|step| {
            segment
                .encoding(step.column)
                .is_some_and(Encoding::uses_dictionary)
        }) {
            segment.verify_column(spec, step.column)?;
            let plan = ChunkPlan::remap(segment.chunk(step.column), &step.remapping, &mut scratch);
            let plan = plan.map_err(|source| segment.damaged(spec, step.column, 0, source))?;
            plans.push((step.column, plan));
        }
        if plans.is_empty() {
            return Ok(segment.clone());
        }
        let placement = table.placement();
        plans.sort_by_key(|(column, _)| placement.first(*column));
        let mut entry = SegmentEntry::clone(segment.entry());
        let mut extents = segment.extents().to_vec();
        for alike in plans.chunk_by(|a, b| placement.first(a.0) == placement.first(b.0)) {
            let of_chunks: Vec<&ChunkPlan> = alike.iter().map(|(_, plan)| plan).collect();
            let (owner, tiers) = (Owner::Segment(table.id()), placement.first(alike[0].0));
            let (extent, places) = write_chunks(&self.storage, tiers, owner, &of_chunks)?;
            for ((column, plan), place) in alike.iter().zip(places) {
                entry.chunks[*column] = ChunkPlace {
                    extent: extents.len() as u32,
                    offset: place.start as u64,
                    len_bytes: place.len() as u64,
                    encoding: plan.encoding(),
                };
            }
            entry.extents.push(extent.id());
            fresh.push(extent.clone());
            extents.push(Some(extent));
        }
        let kept = entry.drop_unused_extents();
        let extents = kept.into_iter().map(|old| extents[old].clone()).collect();
        let columns: Vec<usize> = plans.iter().map(|(column, ..)| *column).collect();
        let rewritten = segment.rewritten(Arc::new(entry), extents, spec, &columns);
        Ok(rewritten?)
    }
}
