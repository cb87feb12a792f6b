//! Replicas in encodings of their own: made of the rows that are there until each chunk has those that its table's placement names.
//!
//! Invariant: a manifest names a replica only once it is whole and durable. It drops one only if all that are to stay are there, in
//! their tiers, and were made or verified since. So an interruption, or a tier that is full, leaves the replicas that there were.

use std::sync::Arc;

use tierra_column::{ChunkPlan, EncodeError, ValueChecksums};
use tierra_memory::PoolError;

use super::choose::TierCosts;
use super::state::Writer;
use crate::error::{ScanError, StorageError};
use crate::manifest::{ChunkPlace, ExtentId, ReplicaNumber, SegmentEntry, TableEntry};
use crate::segment::Segment;
use crate::spec::replicas::{ReplicaPlacement, TierId};
use crate::storage::extent::{OwnedExtent, Owner};
use crate::table::Table;
use crate::table::requests::PlacingStep;
use crate::table::version::TableVersion;
use crate::write::encode::{plan_further, write_chunks, write_side_by_side};

/// A segment to come, and its extents, of which some are new.
struct NextSegment {
    entry: SegmentEntry,
    extents: Vec<Option<Arc<OwnedExtent>>>,
    fresh: Vec<Arc<OwnedExtent>>,
}

impl NextSegment {
    fn add(&mut self, extent: Arc<OwnedExtent>) {
        self.entry.extents.push(extent.id());
        self.extents.push(Some(extent.clone()));
        self.fresh.push(extent);
    }
}

/// A segment with other replicas, and their new extents.
type Reopened = (Arc<Segment>, Vec<Arc<OwnedExtent>>);

/// What is to become of a column's replicas.
struct NextReplicas {
    /// Of the replicas that the column should have: the number of the stored one that it is.
    kept: Vec<Option<usize>>,
    /// Numbers of stored replicas that are not kept.
    surplus: Vec<usize>,
}

impl Writer {
    /// Makes the next step for a table. Returns where it is then; `None` if everything is as it should be.
    ///
    /// # Errors
    /// What stops it; at the end the first damage, which did not.
    pub(super) fn place_next(
        &mut self,
        table: &Arc<Table>,
        step: PlacingStep,
    ) -> Result<Option<PlacingStep>, StorageError> {
        let mut step = step.or_first(table);
        let done = self.change_replicas_after(table, &mut step)?;
        if done.is_some() {
            return Ok(Some(PlacingStep {
                after: done,
                ..step
            }));
        }
        self.copy_missing(table, &mut step)?;
        if step.gives_up {
            return step.end().map(|()| None);
        }
        Ok(Some(PlacingStep {
            after: None,
            gives_up: true,
            ..step
        }))
    }

    /// Encodes the missing replicas of the next segment that lacks any, or gives up its surplus ones. Returns the segment's id;
    /// `None` if no segment is left. Damaged segments are left out.
    fn change_replicas_after(
        &mut self,
        table: &Arc<Table>,
        step: &mut PlacingStep,
    ) -> Result<Option<u32>, StorageError> {
        if self.is_begun(table) || table.check_complete().is_err() {
            return Ok(None);
        }
        let current = table.current();
        for segment in current.segments.iter() {
            let id = segment.id();
            if step.after.is_some_and(|after| id <= after) || step.leaves_out(id) {
                continue;
            }
            if self.storage.is_closing() {
                return Err(StorageError::Closed);
            }
            // Codes that are given out below must not be forgotten before they are published.
            let _pass = table.load_merge_lock().enter_seal();
            let reopen = || self.reopened(table, &current, segment, step);
            let reopened = self.storage.read_validated(reopen);
            match reopened.unwrap_or_else(|error| Err(error.into())) {
                Ok(None) => {}
                Ok(Some((next, fresh))) => {
                    self.publish_replicas(table, next, fresh)?;
                    return Ok(Some(id));
                }
                Err(error) if is_damage(&error) => leave_out(table, step, Some(id), error),
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// The segment with other replicas, opened, and their new extents; `None` if nothing changes.
    fn reopened(
        &self,
        table: &Table,
        version: &TableVersion,
        segment: &Segment,
        step: &PlacingStep,
    ) -> Result<Option<Reopened>, StorageError> {
        let Some(next) = self.changed(table, version, segment, step)? else {
            return Ok(None);
        };
        let opened = segment.with_replicas(Arc::new(next.entry), next.extents, table.spec())?;
        // What lies in a tier that was lost is still mapped, and was opened as well.
        let elsewhere = TierCosts::now(&self.storage).read_elsewhere(table, &opened)?;
        Ok(Some((elsewhere.unwrap_or(opened), next.fresh)))
    }

    fn publish_replicas(
        &mut self,
        table: &Arc<Table>,
        segment: Arc<Segment>,
        mut fresh: Vec<Arc<OwnedExtent>>,
    ) -> Result<(), StorageError> {
        let mut entry = TableEntry::clone(&*self.entry(table)?);
        let (current, id) = (table.current(), segment.id());
        let segments = current.segments.iter().map(|old| match old.id() == id {
            true => segment.clone(),
            false => old.clone(),
        });
        let segments = segments.collect();
        let known = &current.dictionaries;
        let (dictionaries, pieces) = self.name_segments(table, &mut entry, &segments, known)?;
        fresh.extend(pieces);
        let next = self.published.with_table(entry);
        self.publish(next, fresh)?;
        table.publish(TableVersion {
            segments,
            dictionaries,
            ..current.next()
        });
        table.ask_for_near_copies([id]);
        Ok(())
    }

    /// The segment with the replicas that its chunks lack or, if they have them, without surplus ones; `None` if nothing changes.
    fn changed(
        &self,
        table: &Table,
        version: &TableVersion,
        segment: &Segment,
        step: &PlacingStep,
    ) -> Result<Option<NextSegment>, StorageError> {
        let (before, placement) = (segment.entry(), &*step.placement);
        let mut next = NextSegment {
            entry: SegmentEntry::clone(before),
            extents: segment.extents().to_vec(),
            fresh: Vec::new(),
        };
        let mut is_changed = false;
        for column in 0..before.chunks.len() {
            let stored: Vec<ChunkPlace> = before.replicas(column).copied().collect();
            let is_asked = stored.len() > 1 || placement.names_encodings(column);
            if !is_asked || segment.is_placeholder(column) {
                continue;
            }
            let replicas = self.next_replicas(segment, placement, column, &stored);
            let is_same = replicas
                .kept
                .iter()
                .copied()
                .eq((0..stored.len()).map(Some));
            if is_same {
                continue;
            }
            let of_column = (segment, column, &stored[..]);
            let encoded =
                self.encode_missing(table, version, placement, of_column, replicas, &mut next)?;
            let places = match encoded {
                Encoded::New(made) => with_new(&stored, made),
                Encoded::Nothing(replicas) if step.gives_up => {
                    match self.verify_kept_replicas(table, of_column, &replicas)? {
                        true => replicas.places(&stored),
                        false => continue,
                    }
                }
                Encoded::Nothing(_) => continue,
            };
            if places != stored {
                next.entry.set_replicas(column, &places);
                is_changed = true;
            }
        }
        if !is_changed {
            return Ok(None);
        }
        self.move_others(table, segment, &mut next)?;
        let kept = next.entry.drop_unused_extents();
        next.extents = kept
            .into_iter()
            .map(|old| next.extents[old].clone())
            .collect();
        Ok(Some(next))
    }

    /// Moves chunks out of extents that others leave: these would take space, and damage in them would look like damage of what is
    /// there. Chunks that cannot be verified stay.
    fn move_others(
        &self,
        table: &Table,
        segment: &Segment,
        next: &mut NextSegment,
    ) -> Result<(), StorageError> {
        let before = segment.entry();
        for extent in 0..before.extents.len() {
            let stay: Vec<ReplicaNumber> = next.entry.replicas_in(extent).collect();
            if stay.is_empty() || stay.len() == before.replicas_in(extent).count() {
                continue;
            }
            let image = |replica: &ReplicaNumber| {
                let place = next.entry.replica(*replica);
                let mut stored = before.replicas(replica.column);
                let stored = ReplicaNumber {
                    number: stored.position(|stored| stored == place)?,
                    ..*replica
                };
                segment.verify_replica(table.spec(), stored).ok()?;
                segment.image(stored)
            };
            let images: Option<Vec<Vec<u8>>> = stay.iter().map(image).collect();
            let id = before.extents[extent];
            let Some((images, entry)) = images.zip(self.published.manifest().extents.get(&id))
            else {
                continue;
            };
            let tiers: Vec<TierId> = entry.copies.iter().map(|copy| copy.tier).collect();
            let owner = Owner::Segment(table.id());
            let lens = images.iter().map(Vec::len);
            let write = |at: usize, out: &mut [u8]| out.copy_from_slice(&images[at]);
            let (moved, places) = write_side_by_side(&self.storage, &tiers, owner, lens, write)?;
            for (replica, place) in stay.into_iter().zip(places) {
                let place = ChunkPlace {
                    extent: next.extents.len() as u32,
                    offset: place.start as u64,
                    ..*next.entry.replica(replica)
                };
                next.entry.move_replica(replica, place);
            }
            next.add(moved);
        }
        Ok(())
    }

    /// Which stored replicas of a column are kept. Those that are lost count as surplus.
    fn next_replicas(
        &self,
        segment: &Segment,
        placement: &ReplicaPlacement,
        column: usize,
        stored: &[ChunkPlace],
    ) -> NextReplicas {
        let is_left = |number: &usize| {
            let replica = ReplicaNumber {
                column,
                number: *number,
            };
            let extent = segment.entry().extents[stored[*number].extent as usize];
            segment.is_open(replica) || self.is_away(extent)
        };
        let left: Vec<usize> = (0..stored.len()).filter(is_left).collect();
        let kept = segment.matched(placement, column, &left);
        let surplus = (0..stored.len()).filter(|number| !kept.contains(&Some(*number)));
        NextReplicas {
            surplus: surplus.collect(),
            kept,
        }
    }

    /// Whether all copies of an extent are in missing tiers.
    fn is_away(&self, extent: ExtentId) -> bool {
        let (tiers, manifest) = (self.storage.tiers(), self.published.manifest());
        let entry = manifest.extents.get(&extent);
        entry.is_some_and(|entry| {
            let mut copies = entry.copies.iter();
            copies.all(|copy| tiers.get(copy.tier).is_none())
        })
    }

    /// Encodes and writes the missing replicas of a column.
    fn encode_missing(
        &self,
        table: &Table,
        version: &TableVersion,
        placement: &ReplicaPlacement,
        (segment, column, stored): (&Segment, usize, &[ChunkPlace]),
        replicas: NextReplicas,
        next: &mut NextSegment,
    ) -> Result<Encoded, StorageError> {
        let NextReplicas {
            mut kept,
            mut surplus,
        } = replicas;
        let spec = &table.spec().columns[column];
        let failed = |source: EncodeError| StorageError::Encode {
            column: spec.name.clone(),
            source,
        };
        let mut made: Vec<ChunkPlace> = Vec::new();
        if kept.contains(&None) {
            segment.verify_column(table.spec(), column)?;
            let values = segment.values(table.spec(), column, version.dictionary(column))?;
            let values = std::slice::from_ref(&values);
            let checksums = match kept.len() {
                1 => None,
                _ => Some(ValueChecksums::new(spec.ty, values).map_err(failed)?),
            };
            for (number, (encoding, tiers)) in placement.replicas(column).enumerate() {
                if kept[number].is_some() {
                    continue;
                }
                let plan = match number {
                    0 => {
                        let encoding = encoding.or(spec.encoding);
                        table.dictionaries().plan(column, spec, encoding, values)
                    }
                    _ => plan_further(spec, encoding, values),
                };
                let plan = plan.map_err(failed)?;
                // Values that cannot be encoded so are plain, as they may be already.
                let is_in_place = |at: &usize| {
                    let replica = ReplicaNumber {
                        column,
                        number: *at,
                    };
                    let extent = segment.entry().extents[stored[*at].extent as usize];
                    stored[*at].encoding == plan.encoding()
                        && (segment.is_open(replica) || self.is_away(extent))
                };
                if encoding.is_some_and(|encoding| encoding != plan.encoding())
                    && let Some(at) = surplus.iter().position(is_in_place)
                {
                    kept[number] = Some(surplus.swap_remove(at));
                    continue;
                }
                let plan = match &checksums {
                    Some(checksums) => plan.with_checksums(checksums),
                    None => plan,
                };
                let owner = Owner::Segment(table.id());
                let (extent, places) = write_chunks(&self.storage, tiers, owner, &[&plan])?;
                made.push(place_of(&plan, next.extents.len(), places[0].len()));
                next.add(extent);
            }
        }
        Ok(match made.is_empty() {
            true => Encoded::Nothing(NextReplicas { kept, surplus }),
            false => Encoded::New(made),
        })
    }

    /// Verifies the replicas that stay, before others are given up. Returns whether there is one that can be read.
    fn verify_kept_replicas(
        &self,
        table: &Table,
        (segment, column, stored): (&Segment, usize, &[ChunkPlace]),
        replicas: &NextReplicas,
    ) -> Result<bool, StorageError> {
        let mut is_there = replicas.surplus.is_empty();
        for number in replicas.kept.iter().flatten() {
            let replica = ReplicaNumber {
                column,
                number: *number,
            };
            let extent = segment.entry().extents[stored[*number].extent as usize];
            // What a tier had that was lost meanwhile is still mapped, and not there.
            let is_kept = segment.is_open(replica) && !self.is_away(extent);
            if !replicas.surplus.is_empty() && is_kept {
                segment.verify_replica(table.spec(), replica)?;
                is_there = true;
            }
        }
        Ok(is_there)
    }
}

/// What was encoded of a column.
enum Encoded {
    /// These replicas.
    New(Vec<ChunkPlace>),
    /// It has all that it should have.
    Nothing(NextReplicas),
}

impl NextReplicas {
    /// The places of those that are kept.
    fn places(&self, stored: &[ChunkPlace]) -> Vec<ChunkPlace> {
        let kept = self.kept.iter().flatten();
        kept.map(|number| stored[*number]).collect()
    }
}

/// Whether an error is damage of what is stored, which does not concern the rest of a table.
pub(super) fn is_damage(error: &StorageError) -> bool {
    match error {
        StorageError::Scan(error) => matches!(**error, ScanError::Damaged { .. }),
        StorageError::Pool(error) => matches!(error, PoolError::BadExtent { .. }),
        StorageError::Damage(_) | StorageError::Copy { .. } => true,
        _ => false,
    }
}

/// Leaves something damaged as it is, of a segment where one is named.
pub(super) fn leave_out(
    table: &Table,
    step: &mut PlacingStep,
    segment: Option<u32>,
    error: StorageError,
) {
    let (table, said) = (&table.spec().name, error.to_string());
    if step.leave_out(segment, error) {
        tracing::warn!(
            table,
            segment,
            error = said,
            "what is damaged keeps the copies and replicas that it has, until it is repaired"
        );
    }
}

/// All replicas that are stored, and new ones. Codes of a dictionary come first; if there are new ones, those that are stored are lost.
fn with_new(stored: &[ChunkPlace], made: Vec<ChunkPlace>) -> Vec<ChunkPlace> {
    let (mut all, others): (Vec<_>, Vec<_>) = made
        .into_iter()
        .partition(|place| place.encoding.uses_dictionary());
    let has_codes = !all.is_empty();
    let is_left = |place: &&ChunkPlace| !has_codes || !place.encoding.uses_dictionary();
    all.extend(stored.iter().filter(is_left));
    all.extend(others);
    all
}

/// The place of a chunk that has an extent to itself.
fn place_of(plan: &ChunkPlan, extent: usize, len_bytes: usize) -> ChunkPlace {
    ChunkPlace {
        extent: extent as u32,
        offset: 0,
        len_bytes: len_bytes as u64,
        encoding: plan.encoding(),
    }
}

#[cfg(test)]
mod tests;
