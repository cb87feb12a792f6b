//! Replicas in encodings of their own: made of the rows that are there until each chunk has those that its table's placement names.
//!
//! Invariant: a manifest names a replica only once it is whole and durable. It drops one only if it names another that was made or
//! verified since. So an interruption, or a tier that is full, leaves the replicas that there were.

use std::sync::Arc;

use tierra_column::{ChunkPlan, EncodeError, Encoding, ValueChecksums};

use super::state::Writer;
use crate::error::StorageError;
use crate::manifest::{ChunkPlace, ExtentId, ReplicaNumber, SegmentEntry, TableEntry};
use crate::segment::Segment;
use crate::spec::replicas::ReplicaPlacement;
use crate::storage::extent::{OwnedExtent, Owner};
use crate::table::Table;
use crate::table::version::TableVersion;
use crate::write::encode::{plan_further, write_chunks};

/// A segment to come, and its extents, of which some are new.
struct NextSegment {
    entry: SegmentEntry,
    extents: Vec<Option<Arc<OwnedExtent>>>,
    fresh: Vec<Arc<OwnedExtent>>,
}

/// What becomes of a column's replicas.
struct NextReplicas {
    /// Of the replicas that the column should have: the number of the stored one that it is.
    kept: Vec<Option<usize>>,
    /// Numbers of stored replicas that are not kept.
    surplus: Vec<usize>,
}

impl Writer {
    /// Encodes the missing replicas of a table's next segment after this one that lacks any, and gives up its surplus ones. Returns
    /// the segment's id; `None` if no segment is left.
    pub(super) fn encode_replicas_after(
        &mut self,
        table: &Arc<Table>,
        after: Option<u32>,
    ) -> Result<Option<u32>, StorageError> {
        if self.is_begun(table) || table.check_complete().is_err() {
            return Ok(None);
        }
        let (current, placement) = (table.current(), table.placement());
        let left = current.segments.iter();
        for segment in left.filter(|segment| after.is_none_or(|after| segment.id() > after)) {
            if self.storage.is_closing() {
                return Err(StorageError::Closed);
            }
            // Codes that are given out below must not be forgotten before they are published.
            let _pass = table.load_merge_lock().enter_seal();
            let next = || self.with_missing_replicas(table, &current, segment, &placement);
            let Some(next) = self.storage.read_validated(next)?? else {
                continue;
            };
            self.publish_replicas(table, segment, next)?;
            return Ok(Some(segment.id()));
        }
        Ok(None)
    }

    fn publish_replicas(
        &mut self,
        table: &Arc<Table>,
        before: &Segment,
        next: NextSegment,
    ) -> Result<(), StorageError> {
        let NextSegment {
            entry,
            extents,
            mut fresh,
        } = next;
        let segment = before.with_replicas(Arc::new(entry), extents, table.spec())?;
        let mut entry = TableEntry::clone(&*self.entry(table)?);
        let current = table.current();
        let segments = current.segments.iter().map(|old| match old.id() {
            id if id == segment.id() => segment.clone(),
            _ => old.clone(),
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
        Ok(())
    }

    /// The segment with the replicas that its chunks should have; `None` if it has them.
    fn with_missing_replicas(
        &self,
        table: &Table,
        version: &TableVersion,
        segment: &Segment,
        placement: &ReplicaPlacement,
    ) -> Result<Option<NextSegment>, StorageError> {
        let before = segment.entry();
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
            let is_same = replicas.kept.iter().copied().eq((0..stored.len()).map(Some));
            if is_same {
                continue;
            }
            let places =
                self.encode_missing(table, version, segment, placement, column, replicas, &mut next)?;
            if let Some(places) = places.filter(|places| *places != stored) {
                next.entry.set_replicas(column, &places);
                is_changed = true;
            }
        }
        if !is_changed {
            return Ok(None);
        }
        let kept = next.entry.drop_unused_extents();
        next.extents = kept.into_iter().map(|old| next.extents[old].clone()).collect();
        Ok(Some(next))
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
        let encodings: Vec<Encoding> = left.iter().map(|at| stored[*at].encoding).collect();
        let matched = placement.matched(column, &encodings).into_iter();
        let kept: Vec<Option<usize>> = matched.map(|at| at.map(|at| left[at])).collect();
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

    /// The places of a column's replicas, of which missing ones are encoded and written; `None` if those that would stay may not
    /// be right, so that none can be given up yet.
    // All of these make it up.
    #[allow(clippy::too_many_arguments)]
    fn encode_missing(
        &self,
        table: &Table,
        version: &TableVersion,
        segment: &Segment,
        placement: &ReplicaPlacement,
        column: usize,
        replicas: NextReplicas,
        next: &mut NextSegment,
    ) -> Result<Option<Vec<ChunkPlace>>, StorageError> {
        let NextReplicas {
            mut kept,
            mut surplus,
        } = replicas;
        let spec = &table.spec().columns[column];
        let stored: Vec<ChunkPlace> = segment.entry().replicas(column).copied().collect();
        let failed = |source: EncodeError| StorageError::Encode {
            column: spec.name.clone(),
            source,
        };
        let mut made: Vec<Option<ChunkPlace>> = vec![None; kept.len()];
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
                let is_in_place = |at: &usize| stored[*at].encoding == plan.encoding();
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
                made[number] = Some(place_of(&plan, next.extents.len(), places[0].len()));
                next.entry.extents.push(extent.id());
                next.extents.push(Some(extent.clone()));
                next.fresh.push(extent);
            }
        }
        if !surplus.is_empty() {
            let replica = |number: usize| ReplicaNumber { column, number };
            let open = kept.iter().flatten().copied();
            let open: Vec<usize> = open
                .filter(|number| segment.is_open(replica(*number)))
                .collect();
            for number in &open {
                segment.verify_replica(table.spec(), replica(*number))?;
            }
            if open.is_empty() && made.iter().all(Option::is_none) {
                return Ok(None);
            }
        }
        let places = kept.iter().zip(made);
        let places = places.filter_map(|(kept, made)| kept.map(|number| stored[number]).or(made));
        Ok(Some(places.collect()))
    }
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
