//! The stored form of a segment's chunks: their ranges in extents, the copies that have them, and their repair.
//!
//! Invariant: nothing is written to a placeholder's chunk, because its right content is unknown.

use std::ops::Range;

use tierra_column::bits::BLOCK_LEN;
use tierra_column::{Chunk, Encoding, LogicalType};

use super::{Segment, range_of};
use crate::integrity::repair;
use crate::manifest::{ExtentId, ReplicaNumber};
use crate::spec::replicas::ReplicaPlacement;
use crate::storage::extent::OwnedExtent;

impl Segment {
    /// The columns whose chunks lie in a range of one of its extents, and the rows of the affected blocks.
    pub(crate) fn rows_at(
        &self,
        extent: ExtentId,
        range: &Range<usize>,
    ) -> Option<(Vec<usize>, Range<usize>)> {
        let number = self.entry.extents.iter().position(|id| *id == extent)?;
        let (mut columns, mut rows) = (Vec::new(), self.rows()..0);
        for replica in self.entry.replicas_in(number) {
            let chunk = range_of(self.entry.replica(replica));
            if chunk.start >= range.end || range.start >= chunk.end {
                continue;
            }
            columns.push(replica.column);
            let met = range.start.max(chunk.start) - chunk.start..range.end - chunk.start;
            let met = self.rows_of(replica, &met);
            rows = rows.start.min(met.start)..rows.end.max(met.end);
        }
        columns.dedup();
        (!columns.is_empty() && !rows.is_empty()).then_some((columns, rows))
    }

    /// The slot of a replica that is open.
    fn open_slot(&self, replica: ReplicaNumber) -> Option<usize> {
        let slot = self.slots.of(replica);
        slot.filter(|_| !self.is_placeholder(replica.column))
    }

    /// Whether a replica can be read.
    pub(crate) fn is_open(&self, replica: ReplicaNumber) -> bool {
        self.open_slot(replica).is_some()
    }

    /// Which of some stored replicas of a column, by their numbers, each replica is that it should have. One whose encoding gives way to
    /// plain for these values ([`Chunk::gives_way`]) is a plain one that no other is.
    pub(crate) fn matched(
        &self,
        placement: &ReplicaPlacement,
        column: usize,
        among: &[usize],
    ) -> Vec<Option<usize>> {
        let encoding = |number: &usize| {
            let number = *number;
            let replica = ReplicaNumber { column, number };
            self.entry.replica(replica).encoding
        };
        let encodings: Vec<Encoding> = among.iter().map(encoding).collect();
        let matched = placement.matched(column, &encodings).into_iter();
        let mut matched: Vec<Option<usize>> = matched.map(|at| at.map(|at| among[at])).collect();
        for (wanted, (named, _)) in placement.replicas(column).enumerate() {
            let Some(named) = named.filter(|_| matched[wanted].is_none()) else {
                continue;
            };
            let stands_for_it = |number: &usize| {
                let number = *number;
                let replica = ReplicaNumber { column, number };
                let slot = self.open_slot(replica);
                encoding(&number) == Encoding::Plain
                    && !matched.contains(&Some(number))
                    && slot.is_some_and(|slot| self.slot_chunk(slot).gives_way(named))
            };
            matched[wanted] = among.iter().copied().find(stands_for_it);
        }
        matched
    }

    /// The slots of the open replicas that lie in one of its extents, and of those that have a placeholder.
    pub(crate) fn slots_in(&self, extent: ExtentId) -> Vec<usize> {
        let Some(number) = self.entry.extents.iter().position(|id| *id == extent) else {
            return Vec::new();
        };
        let replicas = self.entry.replicas_in(number);
        replicas
            .filter_map(|replica| self.slots.of(replica))
            .collect()
    }

    /// The column of a slot.
    pub(crate) fn slot_column(&self, slot: usize) -> usize {
        self.slots.replica(slot).column
    }

    /// Rows of the blocks with a byte in a range of a chunk; all rows if the header is affected.
    fn rows_of(&self, replica: ReplicaNumber, range: &Range<usize>) -> Range<usize> {
        let Some(slot) = self.open_slot(replica) else {
            return 0..self.rows();
        };
        let chunk = self.slot_chunk(slot);
        if range.start < chunk.header_bytes() {
            return 0..self.rows();
        }
        let is_met = |block: &usize| {
            let block = chunk.block_range(*block);
            block.start < range.end && range.start < block.end
        };
        let mut met = (0..self.blocks()).filter(is_met);
        let Some(first) = met.next() else { return 0..0 };
        let last = met.next_back().unwrap_or(first);
        first * BLOCK_LEN..last * BLOCK_LEN + self.block_rows(last)
    }

    /// Whether everything in one of its extents matches its checksums, and padding is zero.
    pub(crate) fn matches_in(&self, extent: &OwnedExtent) -> bool {
        let number = self.entry.extents.iter().position(|id| *id == extent.id());
        let replicas = number.map(|number| self.entry.replicas_in(number));
        let mut replicas = replicas.into_iter().flatten();
        let is_valid = |replica: ReplicaNumber| {
            let slot = self.open_slot(replica);
            let matches = |slot, block| self.slot_chunk(slot).verify_block(block).is_ok();
            slot.is_some_and(|slot| (0..self.blocks()).all(|block| matches(slot, block)))
        };
        let bytes = extent.read();
        let is_zero = |range: &Range<usize>| bytes[range.clone()].iter().all(|byte| *byte == 0);
        replicas.all(is_valid) && self.padding(extent).iter().all(is_zero)
    }

    /// The ranges of one of its extents that no chunk in it reads; none of another extent, whose use is unknown.
    pub(crate) fn padding(&self, extent: &OwnedExtent) -> Vec<Range<usize>> {
        let Some(number) = self.entry.extents.iter().position(|id| *id == extent.id()) else {
            return Vec::new();
        };
        let used = self.entry.replicas_in(number).flat_map(|replica| {
            let place = self.entry.replica(replica);
            let start = place.offset as usize;
            let slot = self.open_slot(replica);
            // It is unknown which of its bytes are used.
            let all = slot.is_none().then_some(0..place.len_bytes as usize);
            let used = slot.map(|slot| self.slot_chunk(slot).used());
            let used = all.into_iter().chain(used.into_iter().flatten());
            used.map(move |range| start + range.start..start + range.end)
        });
        let mut used: Vec<_> = used.collect();
        used.sort_unstable_by_key(|range| range.start);
        let mut at = 0;
        let end = extent.len_bytes() as usize;
        let mut padding = Vec::new();
        for range in used.into_iter().chain(std::iter::once(end..end)) {
            if at < range.start {
                padding.push(at..range.start);
            }
            at = at.max(range.end);
        }
        padding
    }

    /// Whether any copy of the chunk's extent has the block.
    pub(crate) fn is_stored(&self, slot: usize, block: usize, extent: &OwnedExtent) -> bool {
        let range = self.stored_range(slot, block);
        let is_there = !self.is_placeholder(self.slot_column(slot));
        let mut copies = extent.copies().iter().filter(|_| is_there);
        copies.any(|copy| {
            self.slot_chunk(slot)
                .block_matches(block, &copy[range.clone()])
        })
    }

    /// Repairs the headers of all open replicas where they are stored.
    pub(super) fn repair_headers(&self) {
        for slot in 0..self.slots.len() {
            let place = self.entry.replica(self.slots.replica(slot));
            if let Some(extent) = &self.extents[place.extent as usize] {
                self.repair_header(slot, extent);
            }
        }
    }

    /// Repairs the header of a chunk in the copy of the extent that is read, from the one in near memory.
    pub(crate) fn repair_header(&self, slot: usize, extent: &OwnedExtent) {
        if self.is_placeholder(self.slot_column(slot)) {
            return;
        }
        let start = self.entry.replica(self.slots.replica(slot)).offset as usize;
        // Behind a header that is shorter than the room for it lies something else.
        let header = &self.chunk_headers().of(slot)[..self.slot_chunk(slot).header_bytes()];
        repair::near(extent, start, header);
    }

    /// The block's range in the extent of its chunk.
    pub(super) fn stored_range(&self, slot: usize, block: usize) -> Range<usize> {
        let start = self.entry.replica(self.slots.replica(slot)).offset as usize;
        let range = self.slot_chunk(slot).block_range(block);
        start + range.start..start + range.end
    }

    /// The bytes of a chunk as they were written: its header from near memory, its blocks, which have to be verified before, from the
    /// copy of its extent that is read.
    pub(crate) fn image(&self, replica: ReplicaNumber) -> Option<Vec<u8>> {
        let slot = self.open_slot(replica)?;
        let place = self.entry.replica(replica);
        let stored = &self.extents[place.extent as usize].as_ref()?.read()[range_of(place)];
        let chunk = self.slot_chunk(slot);
        let mut image = vec![0; stored.len()];
        for used in chunk.used() {
            image[used.clone()].copy_from_slice(&stored[used]);
        }
        let header = 0..chunk.header_bytes();
        image[header.clone()].copy_from_slice(&self.chunk_headers().of(slot)[header]);
        Some(image)
    }

    /// A column's chunk in every copy of each of its replicas, as far as it can be opened.
    pub(crate) fn every_copy(&self, column: usize, ty: LogicalType) -> Vec<Chunk<'_>> {
        let slots = std::iter::once(column).chain(self.slots.others(column));
        let opened = slots.flat_map(|slot| {
            let place = self.entry.replica(self.slots.replica(slot));
            let extent = self.extents[place.extent as usize].iter();
            let copies = extent.flat_map(|extent| extent.copies());
            let head = self.chunk_headers().of(slot);
            copies.filter_map(move |copy| Chunk::with_header(head, &copy[range_of(place)], ty).ok())
        });
        opened.collect()
    }
}
