//! The same rows, read elsewhere: near, from other copies or replicas, or where they were written anew.
//!
//! Invariant: a segment is immutable. Each of these makes another one, and readers of the former keep what they read.

use std::collections::BTreeMap;
use std::sync::Arc;

use tierra_column::{Chunk, ChunkPlan, Encoding, LogicalType};
use tierra_memory::emulation::begin_read;
use tierra_memory::placement::{LineTimes, Uses};
use tierra_memory::{NearCopy, NearMemory};

use super::chunk_headers::ChunkHeaders;
use super::slots::Slots;
use super::{ChunkBytes, ChunkParts, Segment, far_bytes, rebuild};
use crate::error::{DamageError, ScanError, StorageError};
use crate::integrity::checked_copy::checked_copy;
use crate::manifest::{ChunkPlace, ReplicaNumber, SegmentEntry};
use crate::spec::TableSpec;
use crate::storage::extent::OwnedExtent;
use crate::storage::verified::VerifiedBits;

/// Texts take at most about so many times as much where they are plain as where they are packed.
const TEXTS_SHRINK: u64 = 4;

impl Segment {
    /// The same segment with near copies of all chunks that may have one, as far as there is room; columns that request one come
    /// first. None has to be encoded for it.
    pub(crate) fn with_near_copies(
        &self,
        spec: &TableSpec,
        near: &NearMemory,
    ) -> Result<Arc<Self>, StorageError> {
        let preference = |column: &usize| spec.columns[*column].near;
        let columns = 0..spec.columns.len();
        let asked_for = columns
            .clone()
            .filter(|column| preference(column) == Some(true));
        let others = columns.filter(|column| preference(column).is_none());
        let mut copies = Vec::new();
        for column in asked_for.chain(others) {
            if let Some(copy) = self.near_copy(spec, column, near, |_| true)? {
                copies.push((column, Some(copy)));
            }
        }
        Ok(self.with_near(spec, copies)?)
    }

    /// A near copy of a column's chunk, verified, in the encoding that the column's near copies have; `None` if there is one already,
    /// there is no room, or copying was stopped ([`checked_copy`]).
    pub(crate) fn near_copy(
        &self,
        spec: &TableSpec,
        column: usize,
        near: &NearMemory,
        mut goes_on: impl FnMut(usize) -> bool,
    ) -> Result<Option<Arc<NearCopy>>, ScanError> {
        let Some((_, read, range)) = self.far(column) else {
            return Ok(None);
        };
        self.restore_column(spec, column)?;
        if let Some(encoding) = self.near_encoding(spec, column) {
            if !near.has_room(self.near_bytes(spec, column)) {
                return Ok(None);
            }
            if let Some(bytes) = self.reencoded(spec, column, encoding)? {
                self.uses[column].note_near_bytes(bytes.len() as u64);
                let is_wanted = goes_on(0);
                let copy = is_wanted.then(|| near.copy_while(&bytes, goes_on));
                return Ok(copy.flatten().map(Arc::new));
            }
        }
        let check = |copy: &[u8]| self.check_copy(spec, column, copy);
        let repair = || self.verify_column(spec, column);
        checked_copy(near, &read[range.clone()], goes_on, check, repair)
    }

    /// The encoding that a near copy of a column's chunk is to have, where it is not the stored one.
    pub(super) fn near_encoding(&self, spec: &TableSpec, column: usize) -> Option<Encoding> {
        if self.is_placeholder(column) {
            return None;
        }
        let stored = self.stored_chunk(column).encoding();
        let wanted = spec.columns[column].near_encoding;
        // Indexes and groups speak of codes.
        wanted.filter(|wanted| *wanted != stored && !stored.uses_dictionary())
    }

    /// Bytes of a column's near copy, or of one that would be made. One in an encoding of its own is taken to be no smaller than its
    /// values are in memory until it was made once, so that no other copy is given up for one that then has no room.
    pub(crate) fn near_bytes(&self, spec: &TableSpec, column: usize) -> u64 {
        if let Some(copy) = self.near(column) {
            return copy.len() as u64;
        }
        let stored = self.stored_bytes(column);
        if self.near_encoding(spec, column).is_none() {
            return stored;
        }
        let unpacked = || match spec.columns[column].ty {
            LogicalType::Varchar => stored * TEXTS_SHRINK,
            ty => (self.rows() * ty.arrow().primitive_width().unwrap_or(1)) as u64,
        };
        let known = self.uses[column].near_bytes();
        known.unwrap_or_else(|| stored.max(unpacked()))
    }

    /// A column's chunk in another encoding; `None` if its values cannot be encoded so. Far memory is read once, and what was read is
    /// checked.
    fn reencoded(
        &self,
        spec: &TableSpec,
        column: usize,
        encoding: Encoding,
    ) -> Result<Option<Vec<u8>>, ScanError> {
        let Some((_, read, range)) = self.far(column) else {
            return Ok(None);
        };
        let copied = || {
            let stored = &read[range.clone()];
            let _transfer = begin_read(stored);
            stored.to_vec()
        };
        let mut stored = copied();
        if self.check_copy(spec, column, &stored).is_err() {
            self.verify_column(spec, column)?;
            stored = copied();
            self.check_copy(spec, column, &stored)?;
        }
        let (ty, head) = (spec.columns[column].ty, self.chunk_headers().of(column));
        let chunk = Chunk::with_header(head, &stored, ty);
        let chunk = chunk.map_err(|source| self.damaged(spec, column, 0, source))?;
        let values = [self.values_of(spec, column, &chunk, None)?];
        let plan = ChunkPlan::new(ty, &values, Some(encoding), None);
        let Ok(plan) = plan.inspect_err(|error| {
            let (table, column) = (&spec.name, &spec.columns[column].name);
            tracing::warn!(table, column, %error, "a near copy is encoded as its chunk is stored");
        }) else {
            return Ok(None);
        };
        // Others give way to plain.
        if plan.encoding() != encoding {
            return Ok(None);
        }
        let mut bytes = vec![0; plan.len_bytes()];
        plan.write(&mut bytes);
        Ok(Some(bytes))
    }

    /// A near copy as what a column is read from. A chunk says in which encoding it is.
    fn read_near(
        &self,
        spec: &TableSpec,
        column: usize,
        copy: Arc<NearCopy>,
    ) -> Option<ChunkBytes> {
        let replica = self.slots.replica(column);
        let chunk = Chunk::with_header(&copy, &copy, spec.columns[column].ty);
        let encoding = chunk.map(|chunk| chunk.encoding());
        match encoding.is_ok_and(|it| it != self.entry.replica(replica).encoding) {
            false => Some(ChunkBytes::Near(copy)),
            true => match far_bytes(&self.entry, &self.extents, replica)? {
                ChunkBytes::Far(read, place) => Some(ChunkBytes::Reencoded(copy, read, place)),
                _ => None,
            },
        }
    }

    /// The same segment with these columns read from other near copies, or from none.
    pub(crate) fn with_near(
        &self,
        spec: &TableSpec,
        copies: impl IntoIterator<Item = (usize, Option<Arc<NearCopy>>)>,
    ) -> Result<Arc<Self>, DamageError> {
        let mut bytes = self.bytes_in(&self.entry, &self.extents, |_| false);
        let mut gone = Vec::new();
        for (column, copy) in copies {
            if copy.is_none() {
                gone.push(column);
            }
            let other = match copy {
                Some(copy) => self.read_near(spec, column, copy),
                None => far_bytes(&self.entry, &self.extents, self.slots.replica(column)),
            };
            if let Some(other) = other {
                bytes[column] = other;
            }
        }
        let chunk_headers = self.chunk_headers().clone();
        let parts = ChunkParts {
            bytes,
            chunk_headers,
        };
        let (entry, extents) = (self.entry.clone(), self.extents.clone());
        // What was verified since damage was found somewhere was the near copy.
        let mut verified = self.verified.clone();
        verified.take_bits(&gone, None);
        self.of_same_rows(entry, parts, extents, spec, verified)
    }

    /// The same rows with other replicas of some chunks. Near copies of replicas that are still read stay.
    ///
    /// # Errors
    /// If a column could be read here and not there.
    pub(crate) fn with_replicas(
        &self,
        entry: Arc<SegmentEntry>,
        extents: Vec<Option<Arc<OwnedExtent>>>,
        spec: &TableSpec,
    ) -> Result<Arc<Self>, DamageError> {
        // Headers are read where they are stored; near ones are right.
        self.repair_headers();
        let opened = Self::open(entry, extents, spec, None, &BTreeMap::new())?;
        let mut placeholders = opened.placeholders.iter();
        let lost = placeholders.find(|(column, _)| !self.is_placeholder(**column));
        if let Some((column, _)) = lost {
            return Err(DamageError::Chunk {
                column: spec.columns[*column].name.clone(),
                segment: self.id(),
                source: rebuild::nowhere(),
            });
        }
        let is_same = |column: &usize| opened.place(*column) == self.place(*column);
        let columns = 0..self.slots.columns();
        let copies = columns.filter(is_same).filter_map(|column| {
            let copy = self.near(column)?;
            Some((column, Some(copy.clone())))
        });
        opened.with_near(spec, copies)
    }

    /// The same rows with the first replicas of `columns` rewritten and not near; other near copies stay.
    pub(crate) fn rewritten(
        &self,
        entry: Arc<SegmentEntry>,
        extents: Vec<Option<Arc<OwnedExtent>>>,
        spec: &TableSpec,
        columns: &[usize],
    ) -> Result<Arc<Self>, DamageError> {
        let verified = self.verified.clone();
        let began = verified.begin();
        let is_anew =
            |replica: ReplicaNumber| replica.number == 0 && columns.contains(&replica.column);
        for column in columns
            .iter()
            .filter(|column| is_anew(self.slots.replica(**column)))
        {
            (0..self.blocks()).for_each(|block| verified.insert(block, *column, began));
        }
        let bytes = self.bytes_in(&entry, &extents, is_anew);
        let chunk_headers = bytes.iter().zip(self.slots.iter()).enumerate();
        let chunk_headers: Vec<&[u8]> = chunk_headers
            .map(|(slot, (bytes, replica))| match is_anew(replica) {
                true => bytes.bytes(),
                false => self.chunk_headers().of(slot),
            })
            .collect();
        let chunk_headers = Arc::new(ChunkHeaders::read(self.rows(), chunk_headers.into_iter()));
        let parts = ChunkParts {
            bytes,
            chunk_headers,
        };
        self.of_same_rows(entry, parts, extents, spec, verified)
    }

    /// The same rows, read from the replicas whose extents are in the least trouble, of these the cheapest; `None` if they are already.
    /// Near copies of others go.
    pub(crate) fn read_elsewhere<T: Ord>(
        &self,
        spec: &TableSpec,
        trouble: impl Fn(&OwnedExtent) -> T,
        lines: impl Fn(&OwnedExtent) -> LineTimes,
    ) -> Result<Option<Arc<Self>>, DamageError> {
        // Without any copy there is nothing to be read.
        let trouble = |replica: ReplicaNumber| {
            let extent = self.entry.replica(replica).extent as usize;
            let extent = self.extents[extent].as_deref();
            (extent.is_none(), extent.map(&trouble))
        };
        let lines = |place: &ChunkPlace| {
            let extent = self.extents[place.extent as usize].as_deref();
            extent.map_or(LineTimes::USUAL, &lines)
        };
        let slots = self.slots.chosen_anew(&self.entry, trouble, lines);
        match slots == *self.slots {
            true => Ok(None),
            false => {
                let looked_up = self.looked_up.as_deref();
                let uses = self.uses.clone();
                self.with_slots(slots, spec, uses, looked_up).map(Some)
            }
        }
    }

    /// The same rows, read from the same replicas in other slots, with these counters. `other` are the same rows, read from others of them before.
    pub(super) fn with_slots(
        &self,
        slots: Slots,
        spec: &TableSpec,
        uses: Arc<[Arc<Uses>]>,
        other: Option<&Segment>,
    ) -> Result<Arc<Self>, DamageError> {
        let (mut bytes, mut places) = (Vec::new(), Vec::new());
        for (slot, replica) in slots.iter().enumerate() {
            let before = self.slots.of(replica);
            let before = before.expect("both have the same replicas");
            let now = &self.chunks.borrow_owner().bytes[before];
            // Only what is read, by column, has near copies.
            bytes.push(match now {
                now if slot == before => now.clone(),
                ChunkBytes::Near(_) => {
                    far_bytes(&self.entry, &self.extents, replica).unwrap_or_else(|| now.clone())
                }
                ChunkBytes::Reencoded(_, read, place) => {
                    ChunkBytes::Far(read.clone(), place.clone())
                }
                now => now.clone(),
            });
            places.push(before);
        }
        let chunk_headers = self.chunk_headers().in_slots(places.into_iter());
        let parts = ChunkParts {
            bytes,
            chunk_headers: Arc::new(chunk_headers),
        };
        let (entry, extents) = (self.entry.clone(), self.extents.clone());
        // What was verified of a column was so in the replica that was read.
        let mut verified = self.verified.clone();
        let reads_as = |it: &Segment, column| it.slots.replica(column) == slots.replica(column);
        let changed: Vec<usize> = (0..slots.columns())
            .filter(|column| !reads_as(self, *column))
            .collect();
        verified.take_bits(&changed, None);
        if let Some(other) = other {
            let columns = changed.into_iter();
            let theirs = columns.filter(|column| {
                // What was verified there of a near copy was not what is stored.
                reads_as(other, *column) && other.near(*column).is_none()
            });
            let theirs: Vec<usize> = theirs.collect();
            verified.take_bits(&theirs, Some(&other.verified));
        }
        let (slots, placeholders) = (Arc::new(slots), self.placeholders.clone());
        Self::of_parts(
            entry,
            slots,
            parts,
            extents,
            spec,
            uses,
            verified,
            placeholders,
            other,
        )
    }

    /// The same rows from other copies of the extents; near copies stay. What was verified of one copy is not of another.
    pub(crate) fn with_extents(
        &self,
        extents: Vec<Option<Arc<OwnedExtent>>>,
        spec: &TableSpec,
    ) -> Result<Arc<Self>, DamageError> {
        let bytes = self.bytes_in(&self.entry, &extents, |_| false);
        let before = self.chunks.borrow_owner().bytes.iter();
        let is_other = |pair: &(&ChunkBytes, &ChunkBytes)| match pair {
            (ChunkBytes::Far(before, _), ChunkBytes::Far(now, _)) => !Arc::ptr_eq(before, now),
            _ => false,
        };
        let pairs = before.zip(&bytes).enumerate();
        let moved = pairs.filter(|(_, pair)| is_other(pair));
        let mut moved: Vec<usize> = moved.map(|(slot, _)| slot).collect();
        let looked_up = self.looked_up.as_deref().filter(|_| moved.is_empty());
        moved.retain(|slot| *slot < self.slots.columns());
        let mut verified = self.verified.clone();
        verified.take_bits(&moved, None);
        let parts = ChunkParts {
            bytes,
            chunk_headers: self.chunk_headers().clone(),
        };
        let entry = self.entry.clone();
        self.read_from(entry, parts, extents, spec, verified, looked_up)
    }

    /// The bytes of each chunk: unchanged if it is near or a placeholder, otherwise in these extents. Replicas written `anew` are
    /// always read in these extents.
    fn bytes_in(
        &self,
        entry: &SegmentEntry,
        extents: &[Option<Arc<OwnedExtent>>],
        is_anew: impl Fn(ReplicaNumber) -> bool,
    ) -> Vec<ChunkBytes> {
        let now = self.chunks.borrow_owner().bytes.iter();
        let bytes = now.zip(self.slots.iter()).map(|(now, replica)| {
            let stays = matches!(now, ChunkBytes::Near(_) | ChunkBytes::Placeholder(_));
            if stays && !is_anew(replica) {
                return now.clone();
            }
            match (now, far_bytes(entry, extents, replica)) {
                (ChunkBytes::Reencoded(copy, ..), Some(ChunkBytes::Far(read, place)))
                    if !is_anew(replica) =>
                {
                    ChunkBytes::Reencoded(copy.clone(), read, place)
                }
                (now, stored) => stored.unwrap_or_else(|| now.clone()),
            }
        });
        bytes.collect()
    }

    /// The same rows, read elsewhere, and by lookups where they were.
    fn of_same_rows(
        &self,
        entry: Arc<SegmentEntry>,
        parts: ChunkParts,
        extents: Vec<Option<Arc<OwnedExtent>>>,
        spec: &TableSpec,
        verified: VerifiedBits,
    ) -> Result<Arc<Self>, DamageError> {
        let looked_up = self.looked_up.as_deref();
        self.read_from(entry, parts, extents, spec, verified, looked_up)
    }

    fn read_from(
        &self,
        entry: Arc<SegmentEntry>,
        parts: ChunkParts,
        extents: Vec<Option<Arc<OwnedExtent>>>,
        spec: &TableSpec,
        verified: VerifiedBits,
        looked_up: Option<&Segment>,
    ) -> Result<Arc<Self>, DamageError> {
        let (uses, placeholders) = (self.uses.clone(), self.placeholders.clone());
        let slots = self.slots.clone();
        Self::of_parts(
            entry,
            slots,
            parts,
            extents,
            spec,
            uses,
            verified,
            placeholders,
            looked_up,
        )
    }
}

#[cfg(test)]
mod tests;
