//! Repair across encodings: a damaged block is made again of the same rows in another replica.
//!
//! ```text
//! replica b: block, checked ──► values, checked by their logical checksum ──► encoded as replica a's ──► checksum of a's block
//! ```
//!
//! Invariant: only bytes that match the block's checksum are written, as everywhere.

use std::sync::Arc;

use arrow::array::ArrayRef;
use tierra_column::bits::{BLOCK_LEN, Mask};
use tierra_column::{Chunk, ColumnReader, Dictionary, FormatError, Scratch};

use super::Segment;
use crate::error::ScanError;
use crate::integrity::repair;
use crate::manifest::ReplicaNumber;
use crate::spec::TableSpec;
use crate::storage::extent::OwnedExtent;

impl Segment {
    /// Repairs a block where it is read: from another copy of its extent, or of another replica. Returns whether it is right now, at
    /// least in memory.
    pub(super) fn repair_block(&self, slot: usize, block: usize) -> bool {
        let Some((extent, read, place)) = self.far(slot) else {
            return false;
        };
        let chunk = self.slot_chunk(slot);
        if repair::block(extent, read, place.start, chunk, block) {
            return true;
        }
        let range = chunk.block_range(block);
        let range = place.start + range.start..place.start + range.end;
        let rebuilt = self.rebuilt(slot, block);
        let is_right = rebuilt.is_some_and(|(bytes, from)| {
            repair::rebuilt(extent, read, range.clone(), &bytes, &from)
                || repair::in_memory(read, range.clone(), &bytes)
        });
        if !is_right {
            repair::lost(extent, read, &range);
        }
        is_right
    }

    /// Repairs the block in the copy of the extent that is read: from any copy that has it, or of another replica. Returns whether it is
    /// right then.
    pub(crate) fn repair_stored(&self, slot: usize, block: usize, extent: &OwnedExtent) -> bool {
        if self.is_placeholder(self.slots.replica(slot).column) {
            return false;
        }
        let range = self.stored_range(slot, block);
        let is_valid = |bytes: &[u8]| self.slot_chunk(slot).block_matches(block, bytes);
        let is_right = repair::of_copies(extent, range.clone(), is_valid) || {
            let rebuilt = self.rebuilt(slot, block);
            rebuilt.is_some_and(|(bytes, from)| {
                repair::rebuilt(extent, extent.read(), range.clone(), &bytes, &from)
            })
        };
        if !is_right && !self.is_in_another(slot, block) {
            repair::lost(extent, extent.read(), &range);
        }
        is_right
    }

    /// Whether another replica of the column has a block's rows.
    pub(crate) fn is_in_another(&self, slot: usize, block: usize) -> bool {
        let mut others = self.slots.others(slot);
        others.any(|other| {
            let extent = self.far(other).map(|(extent, ..)| extent);
            match extent {
                Some(extent) => self.is_stored(other, block, extent),
                None => self.read_chunk(other).verify_block(block).is_ok(),
            }
        })
    }

    /// Checks all blocks of a stored replica in the copy of its extent that is read, and repairs them and its header, because another replica
    /// is to be given up. What is right in memory alone does not do.
    pub(crate) fn verify_replica(
        &self,
        spec: &TableSpec,
        replica: ReplicaNumber,
    ) -> Result<(), ScanError> {
        let place = self.entry.replica(replica);
        let slot = self.slots.of(replica);
        let extent = self.extents[place.extent as usize].as_ref();
        let (Some(slot), Some(extent)) = (slot, extent) else {
            return Err(self.damaged(spec, replica.column, 0, nowhere()));
        };
        let check_durable = || match extent.read().refuses_repair() {
            true => Err(self.damaged(spec, replica.column, 0, not_durable())),
            false => Ok(()),
        };
        check_durable()?;
        self.repair_header(slot, extent);
        for block in 0..self.blocks() {
            if !self.repair_stored(slot, block, extent) {
                return Err(self.damaged(spec, replica.column, block * BLOCK_LEN, nowhere()));
            }
        }
        // A reader may have put a block right in memory alone meanwhile.
        check_durable()
    }

    /// All values of a column, of deleted rows as well. Its blocks have to be verified before.
    pub(crate) fn values(
        &self,
        spec: &TableSpec,
        column: usize,
        dictionary: Option<&Dictionary>,
    ) -> Result<ArrayRef, ScanError> {
        self.check_there(spec, column, 0)?;
        self.values_of(spec, column, self.chunk(column), dictionary)
    }

    /// All values of a chunk of a column.
    pub(super) fn values_of(
        &self,
        spec: &TableSpec,
        column: usize,
        chunk: &Chunk<'_>,
        dictionary: Option<&Dictionary>,
    ) -> Result<ArrayRef, ScanError> {
        let mut reader = ColumnReader::new(spec.columns[column].ty, self.rows());
        let mut scratch = Scratch::new();
        for block in 0..self.blocks() {
            let all = Mask::first(self.block_rows(block));
            let appended = reader.append(chunk, block, &all, dictionary, &mut scratch);
            appended.map_err(|source| self.damaged(spec, column, block * BLOCK_LEN, source))?;
        }
        Ok(reader.finish())
    }

    /// A block's bytes, made again of another replica, and which that is; `None` if no other has its rows.
    fn rebuilt(&self, slot: usize, block: usize) -> Option<(Vec<u8>, String)> {
        let chunk = self.slot_chunk(slot);
        let dictionary = self.dictionary_of(slot);
        let dictionary = dictionary.as_deref();
        let of_itself = |values: &ArrayRef| chunk.rebuild_block(block, values, dictionary);
        let mut others = self.slots.others(slot);
        others.find_map(|other| {
            let values = self.values_in(other, slot, block, dictionary)?;
            let bytes = of_itself(&values).or_else(|| self.rebuilt_of_all(slot, block))?;
            Some((bytes, self.name_of(other)))
        })
    }

    /// The same of the values of all rows, each block of which comes from any replica that has it.
    fn rebuilt_of_all(&self, slot: usize, block: usize) -> Option<Vec<u8>> {
        let chunk = self.slot_chunk(slot);
        if chunk.encoding().uses_dictionary() {
            return None;
        }
        let dictionary = self.dictionary_of(slot);
        let values = |at: usize| {
            let others = self.slots.others(slot);
            // Its own other blocks do as well.
            let mut all = others.chain((at != block).then_some(slot));
            all.find_map(|other| self.values_in(other, slot, at, dictionary.as_deref()))
        };
        let all: Option<Vec<ArrayRef>> = (0..self.blocks()).map(values).collect();
        chunk.rebuild_block_of(block, &all?)
    }

    /// The values of a block in a slot, if they are right there or in another copy of its extent, and are those that the slot `asked`
    /// was made of.
    fn values_in(
        &self,
        slot: usize,
        asked: usize,
        block: usize,
        dictionary: Option<&Dictionary>,
    ) -> Option<ArrayRef> {
        let chunk = self.read_chunk(slot);
        let is_lost = self.far(slot).is_some_and(|(_, read, place)| {
            let range = chunk.block_range(block);
            read.is_lost(&(place.start + range.start..place.start + range.end))
        });
        let is_right = !is_lost && chunk.verify_block(block).is_ok();
        if !is_right {
            let (extent, read, place) = self.far(slot)?;
            if !repair::block(extent, read, place.start, chunk, block) {
                return None;
            }
        }
        let values = decoded(chunk, block, dictionary)?;
        let asked = self.slot_chunk(asked).value_checksums();
        let checksums = asked.or_else(|| self.slot_chunk(slot).value_checksums());
        let ty = chunk.logical_type();
        let is_valid = checksums.is_none_or(|known| known.matches(block, ty, &values));
        if !is_valid {
            tracing::error!(
                segment = self.id(),
                block,
                replica = self.name_of(slot),
                "a block is intact, and does not have the values that another replica was made of: please report it"
            );
        }
        is_valid.then_some(values)
    }

    /// The dictionary of a slot's column, if a replica of it has codes.
    fn dictionary_of(&self, slot: usize) -> Option<Arc<Dictionary>> {
        let column = self.slots.replica(slot).column;
        let mut all = std::iter::once(slot).chain(self.slots.others(slot));
        all.find(|slot| self.slot_chunk(*slot).encoding().uses_dictionary())?;
        let extent = self.extents.iter().flatten().next()?;
        let log = &extent.all_losses().log;
        log.dictionary(extent.owner().table()?, column)
    }

    /// What a slot is read from: a tier and an encoding.
    pub(super) fn name_of(&self, slot: usize) -> String {
        let tier = self.far(slot).map(|(_, read, _)| read.tier_name().clone());
        let encoding = self.read_chunk(slot).encoding();
        format!("{}/{encoding}", tier.as_deref().unwrap_or("near memory"))
    }
}

/// All rows of a block.
pub(super) fn decoded(
    chunk: &Chunk<'_>,
    block: usize,
    dictionary: Option<&Dictionary>,
) -> Option<ArrayRef> {
    let rows = chunk.block_rows(block);
    let mut reader = ColumnReader::new(chunk.logical_type(), rows);
    let mut scratch = Scratch::new();
    let appended = reader.append(chunk, block, &Mask::first(rows), dictionary, &mut scratch);
    appended.ok().map(|()| reader.finish())
}

/// What is wrong with a stored block, which need not be the one that is read.
pub(super) fn nowhere() -> FormatError {
    FormatError::Corrupt {
        what: "a block",
        why: "no copy and no other replica has it".to_owned(),
    }
}

/// Why other replicas are needed beside one that is right in memory.
fn not_durable() -> FormatError {
    FormatError::Corrupt {
        what: "a block",
        why: "its tier cannot be written any more, so it may be right in memory alone".to_owned(),
    }
}
