//! Replica placement: copies are made and dropped until each extent has those that its table's placement asks for.
//!
//! Invariant: a manifest names a copy only once it is whole and durable. It drops one only if it names another that was verified
//! since. So an interruption at any moment leaves a table as readable as it was, and the next round continues.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use tierra_column::Encoding;
use tierra_memory::emulation::begin_read;
use tierra_memory::{ExtentWriter, PoolError};

use super::encodings::{is_damage, leave_out};
use super::state::Writer;
use crate::error::{StorageError, TableError};
use crate::index::inverted::InvertedPart;
use crate::index::key::KeyRun;
use crate::integrity::repair;
use crate::manifest::{ChunkPlace, ExtentId, SegmentEntry, TableEntry};
use crate::segment::Segment;
use crate::spec::replicas::{COPIES_MOST, ReplicaPlacement, Replicas, ReplicasError, TierId};
use crate::storage::extent::{ExtentCopy, OwnedExtent, Owner};
use crate::storage::tier::Tier;
use crate::storage::tiers::Tiers;
use crate::table::Table;
use crate::table::requests::{PlacingStep, Request, TableExtents};
use crate::table::version::TableVersion;

/// Bytes copied between two publications: the work that an interruption can lose.
const ROUND_BYTES: u64 = 256 << 20;

/// An extent of a table, and the tiers it should have copies in.
struct DesiredPlacement {
    extent: ExtentId,
    placement: Vec<TierId>,
}

impl Writer {
    /// Changes a table's placement. The copies of its extents are to be made then.
    pub(super) fn place(
        &mut self,
        table: &Arc<Table>,
        replicas: &Replicas,
    ) -> Result<(), TableError> {
        let mut entry = TableEntry::clone(&*self.entry(table)?);
        let placement = self.storage.tiers().settle(replicas, table.spec())?;
        check_room(table, &placement)?;
        if !self.is_begun(table) {
            entry.placement = placement.clone();
            let next = self.published.with_table(entry);
            self.publish(next, Vec::new())?;
        }
        table.move_to(placement);
        Ok(())
    }

    /// Makes the replicas and copies that a table lacks, and gives up others; then answers. After each step other requests have
    /// their turn.
    pub(super) fn go_on_placing(
        &mut self,
        table: Arc<Table>,
        step: PlacingStep,
        reply: SyncSender<Result<(), TableError>>,
    ) {
        match self.writing(|this| this.place_next(&table, step)) {
            Ok(None) => drop(reply.send(Ok(()))),
            Ok(Some(step)) => self.requests.send(Request::GoOnPlacing {
                table,
                step,
                reply: Some(reply),
            }),
            Err(error) => drop(reply.send(Err(error.into()))),
        }
    }

    /// Begins to make the missing replicas and copies of a table, for which no caller waits.
    pub(super) fn place_in_background(&mut self, table: Arc<Table>) {
        if self.storage.is_settled() {
            self.placing += 1;
            let step = PlacingStep::first(&table);
            self.go_on_in_turns(table, step);
        }
    }

    /// As [`Writer::go_on_placing`], but no caller waits.
    pub(super) fn go_on_in_turns(&mut self, table: Arc<Table>, step: PlacingStep) {
        match self.place_next(&table, step) {
            Ok(Some(step)) => {
                return self.requests.send(Request::GoOnPlacing {
                    table,
                    step,
                    reply: None,
                });
            }
            Ok(None) | Err(StorageError::Closed | StorageError::Dropped { .. }) => {}
            Err(error) => {
                let table = &table.spec().name;
                tracing::warn!(table, %error, "not all copies of a table could be made");
            }
        }
        self.placing -= 1;
    }

    /// Makes the missing replicas and copies of a table, as far as the tiers are present, and drops the surplus ones.
    pub(super) fn make_missing_copies(&mut self, table: &Arc<Table>) -> Result<(), StorageError> {
        let mut step = PlacingStep::first(table);
        while let Some(next) = self.place_next(table, step)? {
            step = next;
        }
        Ok(())
    }

    /// Makes the missing copies of a table's extents, and drops the surplus ones. Damaged extents are left out.
    pub(super) fn copy_missing(
        &mut self,
        table: &Arc<Table>,
        step: &mut PlacingStep,
    ) -> Result<(), StorageError> {
        if self.is_begun(table) || table.check_complete().is_err() {
            return Ok(());
        }
        let mut entry = self.entry(table)?;
        let changes = |desired: &DesiredPlacement| {
            let extent = self.published.extent(desired.extent);
            let extent = extent.filter(|extent| matches!(extent.owner(), Owner::Log(_)));
            extent.is_some_and(|extent| self.changes(extent, desired))
        };
        if desired_placements(&entry, &table.placement())
            .iter()
            .any(changes)
        {
            // Afterwards its records are right in all copies, or in a segment.
            self.check_log(table, true)?;
            entry = self.entry(table)?;
        }
        let desired = desired_placements(&entry, &table.placement());
        let mut changed: Vec<Arc<OwnedExtent>> = Vec::new();
        let mut copied_bytes = 0;
        for desired in desired {
            if self.storage.is_closing() {
                return Err(StorageError::Closed);
            }
            let Some(extent) = self.published.extent(desired.extent).cloned() else {
                continue;
            };
            let made = match self.make_copies_of(&extent, &desired) {
                Err(error) if is_damage(&error) => {
                    let mut segments = entry.segments.iter();
                    let segment = segments.find(|it| it.extents.contains(&desired.extent));
                    leave_out(table, step, segment.map(|segment| segment.id), error);
                    continue;
                }
                made => made?,
            };
            let Some((complete, copied)) = made else {
                continue;
            };
            changed.push(complete);
            copied_bytes += copied;
            if copied_bytes >= ROUND_BYTES {
                self.publish_copies(table, std::mem::take(&mut changed))?;
                copied_bytes = 0;
            }
        }
        match changed.is_empty() {
            true => Ok(()),
            false => self.publish_copies(table, changed),
        }
    }

    /// All extents, by table.
    pub(super) fn extents(&self) -> Vec<TableExtents> {
        let of_table = |entry: &Arc<TableEntry>| {
            let ids: BTreeSet<_> = entry.extents().collect();
            let held = ids.into_iter().filter_map(|id| self.published.extent(id));
            TableExtents {
                entry: entry.clone(),
                extents: held.cloned().collect(),
            }
        };
        let tables = self.published.manifest().tables.iter();
        tables.map(of_table).collect()
    }

    /// Stops reads and writes of copies in tiers that were lost, if there are other copies.
    pub(super) fn leave_lost_tiers(&mut self) -> Result<(), StorageError> {
        let tiers = self.storage.tiers();
        for entry in self.published.manifest().tables.clone() {
            let extents: BTreeSet<_> = entry.extents().collect();
            let extents = extents
                .into_iter()
                .filter_map(|id| self.published.extent(id));
            let is_log = |extent: &OwnedExtent| {
                let mut logs = entry.tail.logs.iter();
                logs.any(|log| log.extent == extent.id())
            };
            let left: Vec<_> = extents
                .filter_map(|extent| without_lost(extent, is_log(extent), &tiers))
                .collect();
            let table = self.catalog.table(&entry.spec.name);
            if let Some(table) = table.filter(|_| !left.is_empty()) {
                self.publish_copies(&table, left)?;
            }
        }
        self.choose_replicas();
        Ok(())
    }

    /// Whether an extent's copies differ from its placement.
    fn changes(&self, extent: &OwnedExtent, desired: &DesiredPlacement) -> bool {
        let tiers = self.storage.tiers();
        let placement = tiers.open_among(&desired.placement);
        let there = extent.copies().iter().map(|copy| copy.tier());
        let mut elsewhere = extent.elsewhere().iter();
        let has_all = there.clone().count() == placement.len()
            && placement
                .iter()
                .all(|tier| there.clone().any(|id| id == tier.id));
        let has_first = extent.copies()[0].tier() == placement[0].id;
        !has_all || !has_first || elsewhere.any(|copy| !desired.placement.contains(&copy.tier))
    }

    /// The extent with the copies that it should have, and the bytes copied; `None` if it has them.
    fn make_copies_of(
        &self,
        extent: &Arc<OwnedExtent>,
        desired: &DesiredPlacement,
    ) -> Result<Option<(Arc<OwnedExtent>, u64)>, StorageError> {
        if !self.changes(extent, desired) {
            return Ok(None);
        }
        let tiers = self.storage.tiers();
        let placement = tiers.open_among(&desired.placement);
        let elsewhere = extent.elsewhere().iter();
        let elsewhere: Vec<_> = elsewhere
            .filter(|copy| desired.placement.contains(&copy.tier))
            .copied()
            .collect();
        let is_kept = |copy: &Arc<ExtentCopy>| placement.iter().any(|tier| tier.id == copy.tier());
        let lets_go =
            !extent.copies().iter().all(is_kept) || elsewhere.len() < extent.elsewhere().len();
        let mut copies = Vec::with_capacity(placement.len());
        let mut copied_bytes = 0;
        for tier in placement {
            let there = extent.copies().iter().find(|copy| copy.tier() == tier.id);
            copies.push(match there {
                Some(copy) => {
                    if lets_go {
                        self.storage
                            .read_validated(|| verify_kept(extent, copy))??;
                    }
                    copy.clone()
                }
                None => {
                    copied_bytes += extent.len_bytes();
                    self.storage
                        .read_validated(|| self.copy_to(extent, tier))??
                }
            });
        }
        let complete = extent.with_copies(copies, elsewhere);
        Ok(Some((complete, copied_bytes)))
    }

    /// Copies an extent into a tier from a whole copy.
    fn copy_to(&self, extent: &OwnedExtent, tier: &Tier) -> Result<Arc<ExtentCopy>, StorageError> {
        let (source, owner) = (whole_copy(extent)?, extent.owner());
        let bytes: &[u8] = source;
        let mut writer = tier.pool.allocate(extent.len_bytes(), owner.tag())?;
        if let Owner::Log(_) = owner {
            let finished = writer.finish_log()?;
            let copy = ExtentCopy::of(tier, &finished);
            tier.pool.write(copy.extent(), 0, bytes)?;
            return match **copy == *bytes {
                true => Ok(copy),
                false => Err(not_copied(tier, &copy)),
            };
        }
        let reading = begin_read(bytes);
        writer.copy_from_slice(bytes);
        drop(reading);
        let finished = ExtentWriter::finish(writer)?;
        let copy = ExtentCopy::of(tier, &finished);
        // The new copy's checksum is that of the bytes read, which may have changed since the source was sealed.
        let label = tier.pool.label(copy.extent())?;
        match label == source.pool().label(source.extent())? {
            true => tier
                .pool
                .verify_extent(copy.extent())
                .map(|_| copy)
                .map_err(Into::into),
            false => Err(not_copied(tier, &copy)),
        }
    }

    /// Publishes extents with other copies, and makes all readers use those.
    fn publish_copies(
        &mut self,
        table: &Arc<Table>,
        changed: Vec<Arc<OwnedExtent>>,
    ) -> Result<(), StorageError> {
        let next = self.published.manifest().clone();
        self.publish(next, changed.clone())?;
        let find = |id: ExtentId| changed.iter().find(|extent| extent.id() == id);
        let current = table.current();
        let segment = |segment: &Arc<Segment>| {
            let extents = segment.extents().iter();
            let mut there = extents.clone().flatten();
            match there.any(|extent| find(extent.id()).is_some()) {
                false => Ok(segment.clone()),
                true => {
                    let changed = |old: &Arc<OwnedExtent>| find(old.id()).unwrap_or(old).clone();
                    let extents = extents.map(|old| old.as_ref().map(changed));
                    segment.with_extents(extents.collect(), table.spec())
                }
            }
        };
        let segments = current.segments.iter().map(segment);
        let segments = segments.collect::<Result<Vec<_>, _>>()?;
        let part = |part: &Arc<InvertedPart>| match find(part.extent().id()) {
            Some(extent) => part.with_extent(extent.clone()),
            None => part.clone(),
        };
        let indexes: Vec<_> = current.indexes.iter().map(part).collect();
        let run = |run: &Arc<KeyRun>| match find(run.extent().id()) {
            Some(extent) => run.with_extent(extent.clone()),
            None => run.clone(),
        };
        let runs: Vec<_> = current.keys.runs().iter().map(run).collect();
        if let Some(log) = self.logs.get_mut(&table.id())
            && let Some((id, _)) = log.filling()
            && let Some(extent) = find(id)
        {
            log.change_copies(extent)?;
        }
        table.publish(TableVersion {
            segments: segments.into_iter().collect(),
            indexes: indexes.into(),
            keys: current.keys.with_runs(runs),
            ..current.next()
        });
        Ok(())
    }
}

/// Checks that manifests can name all replicas of a table's chunks while it is brought to a placement.
fn check_room(table: &Table, placement: &ReplicaPlacement) -> Result<(), ReplicasError> {
    for segment in table.current().segments.iter() {
        let entry = segment.entry();
        for (column, spec) in table.spec().columns.iter().enumerate() {
            let stored = entry.replicas(column).map(|place| place.encoding);
            placement.check_room(column, &stored.collect::<Vec<_>>(), spec)?;
        }
    }
    Ok(())
}

/// The extent without copies in tiers that are lost; `None` if it has none there, or no others. A log forgets these copies: it
/// goes on without them, so a record written only to them must not come back.
fn without_lost(extent: &OwnedExtent, is_log: bool, tiers: &Tiers) -> Option<Arc<OwnedExtent>> {
    let is_there = |copy: &&Arc<ExtentCopy>| tiers.get(copy.tier()).is_some();
    let (there, lost): (Vec<_>, Vec<_>) = extent.copies().iter().partition(is_there);
    if lost.is_empty() || there.is_empty() {
        return None;
    }
    let lost = lost.iter().map(|copy| copy.entry()).filter(|_| !is_log);
    let elsewhere = extent.elsewhere().iter().copied().chain(lost);
    let there = there.into_iter().cloned().collect();
    Some(extent.with_copies(there, elsewhere.collect()))
}

/// A copy that differs from its source.
fn not_copied(tier: &Tier, copy: &ExtentCopy) -> StorageError {
    StorageError::Copy {
        path: tier.pool.path().to_owned(),
        offset: copy.extent().offset,
    }
}

/// Verifies a copy, or repairs it from another one, before others are dropped. A log's records were compared before.
fn verify_kept(extent: &OwnedExtent, copy: &Arc<ExtentCopy>) -> Result<(), PoolError> {
    if let Owner::Log(_) = extent.owner() {
        return Ok(());
    }
    let check_durable = || match copy.refuses_repair() {
        true => Err(PoolError::Poisoned {
            path: copy.pool().path().to_owned(),
        }),
        false => Ok(()),
    };
    check_durable()?;
    repair::lost_parts(extent, copy);
    if copy.pool().verify_extent(copy.extent()).is_err() {
        repair::copy(extent, copy, whole_copy(extent)?)?;
    }
    // A reader may have put something right in memory alone meanwhile.
    check_durable()
}

/// The first copy with a right checksum. A log's records have checksums of their own, and all its copies are kept equal.
fn whole_copy(extent: &OwnedExtent) -> Result<&Arc<ExtentCopy>, PoolError> {
    let verify = |copy| {
        repair::lost_parts(extent, copy);
        let verified = copy.pool().verify_extent(copy.extent());
        verified.map(|_| copy)
    };
    let mut copies = extent.copies().iter().map(verify);
    let first = copies.next().expect("an extent has a copy");
    match first {
        Err(error) => copies.find_map(Result::ok).ok_or(error),
        whole => whole,
    }
}

/// All extents of a table, each once, and the tiers for their copies.
fn desired_placements(entry: &TableEntry, placement: &ReplicaPlacement) -> Vec<DesiredPlacement> {
    let mut desired: Vec<DesiredPlacement> = Vec::new();
    let everywhere = placement.everywhere();
    let mut desire = |extent, placement: &[TierId]| {
        desired.push(DesiredPlacement {
            extent,
            placement: placement.to_vec(),
        });
    };
    for segment in &entry.segments {
        // Columns were written together and now have different placements: their extent gets all of these tiers.
        let mut unions: Vec<Vec<TierId>> = vec![Vec::new(); segment.extents.len()];
        for column in 0..segment.chunks.len() {
            for (place, tiers) in desired_tiers(segment, placement, column) {
                let union = &mut unions[place.extent as usize];
                for tier in tiers {
                    if !union.contains(tier) && union.len() < COPIES_MOST {
                        union.push(*tier);
                    }
                }
            }
        }
        for (extent, union) in segment.extents.iter().zip(&unions) {
            // A replica that waits to be given up stays where it is.
            if !union.is_empty() {
                desire(*extent, union);
            }
        }
    }
    for dictionary in entry.dictionaries.iter().flatten() {
        for piece in std::iter::once(&dictionary.main).chain(&dictionary.deltas) {
            desire(piece.extent, &everywhere);
        }
    }
    for part in &entry.parts {
        let placement = placement.of_column(part.column as usize);
        desire(part.extent, &placement);
    }
    for run in &entry.runs {
        desire(run.extent, &placement.of_column(entry.spec.primary_key[0]));
    }
    for deleted in entry.deleted.values() {
        desire(deleted.place.extent, &everywhere);
    }
    for log in &entry.tail.logs {
        desire(log.extent, &everywhere);
    }
    desired.sort_by_key(|desired| desired.extent);
    desired.dedup_by_key(|desired| desired.extent);
    desired
}

/// The replicas of a column's chunk that are wanted, and in which tiers.
fn desired_tiers<'a>(
    segment: &'a SegmentEntry,
    placement: &'a ReplicaPlacement,
    column: usize,
) -> impl Iterator<Item = (&'a ChunkPlace, &'a [TierId])> {
    let stored: Vec<&ChunkPlace> = segment.replicas(column).collect();
    let encodings: Vec<Encoding> = stored.iter().map(|place| place.encoding).collect();
    let matched = placement.matched(column, &encodings);
    let is_complete = matched.len() == stored.len();
    let desired = placement.replicas(column).zip(matched).enumerate();
    desired.filter_map(move |(number, ((_, tiers), matched))| {
        // What could not be encoded so is plain in its place.
        let at = matched.or(is_complete.then_some(number))?;
        Some((stored[at], tiers))
    })
}
