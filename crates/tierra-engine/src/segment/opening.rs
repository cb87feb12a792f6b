//! Opens a segment's chunks: those that another process wrote, whatever has become of them since, and those just written.
//!
//! Invariant: a chunk is read only if its header is as it was written and fits the manifest. What cannot be read has a
//! placeholder, unless another replica is read in its place.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use tierra_column::bits::BLOCK_LEN;
use tierra_column::{Chunk, FormatError, LogicalType, ValueChecksums};
use tierra_memory::placement::Uses;

use super::chunk_headers::ChunkHeaders;
use super::slots::Slots;
use super::{
    ChunkBytes, ChunkCell, ChunkParts, OpenChunks, Segment, far_bytes, line_times, range_of,
};
use crate::error::{DamageError, UnavailableError};
use crate::integrity::placeholder::{self, PlaceholderReason, Placeholders};
use crate::integrity::repair;
use crate::manifest::{ChunkPlace, ReplicaNumber, SegmentEntry};
use crate::spec::TableSpec;
use crate::storage::extent::OwnedExtent;
use crate::storage::faults::FaultKind;
use crate::storage::verified::{DamageFound, VerifiedBits};

impl Segment {
    /// Opens the chunks of a segment that another process wrote, in place. Extents that are `None` lie in missing tiers;
    /// `missing` has the reason. Their chunks, chunks whose headers are damaged in all copies, and chunks with codes of
    /// `withheld` columns become placeholders, unless the column has another replica.
    pub(crate) fn open(
        entry: Arc<SegmentEntry>,
        extents: Vec<Option<Arc<OwnedExtent>>>,
        spec: &TableSpec,
        missing: Option<&UnavailableError>,
        withheld: &BTreeMap<usize, UnavailableError>,
    ) -> Result<Arc<Self>, DamageError> {
        let is_gone = |place: &ChunkPlace| extents[place.extent as usize].is_none();
        let is_withheld = |column: usize, place: &ChunkPlace| {
            place.encoding.uses_dictionary() && withheld.contains_key(&column)
        };
        let readable = entry.all_replicas();
        let readable = readable
            .filter(|(replica, place)| !is_gone(place) && !is_withheld(replica.column, place));
        let mut readable: Vec<ReplicaNumber> = readable.map(|(replica, _)| replica).collect();
        let mut placeholders = Placeholders::new();
        for (column, place) in entry.chunks.iter().enumerate() {
            let why = match is_gone(place) {
                true => missing,
                false => withheld.get(&column),
            };
            if let Some(why) = why
                && !has_column(&readable, column)
            {
                placeholders.insert(column, PlaceholderReason::Withheld(why.clone()));
            }
        }
        let open = |readable: &[ReplicaNumber], placeholders: &Placeholders| {
            let verified = verified_bits(&entry, extents.iter().flatten(), false);
            let slots = Slots::new(&entry, readable, |place| line_times(&extents, place));
            let (entry, extents) = (entry.clone(), extents.clone());
            Self::with_verified(entry, slots, extents, spec, verified, placeholders.clone())
        };
        let opened = match open(&readable, &placeholders) {
            Ok(opened) => opened,
            Err(error) => {
                let damaged = damaged_headers(&entry, &extents, spec, &readable);
                readable.retain(|replica| !damaged.iter().any(|(other, _)| other == replica));
                for (replica, source) in damaged {
                    let (column, table) = (replica.column, &spec.name);
                    let name = &spec.columns[column].name;
                    if has_column(&readable, column) {
                        tracing::error!(table, column = name, %error, "a replica of a chunk is lost: another one is read");
                        continue;
                    }
                    tracing::error!(table, column = name, %error, "a chunk is lost: all else can be read");
                    let reason = PlaceholderReason::Damaged(source);
                    placeholders.entry(column).or_insert(reason);
                }
                open(&readable, &placeholders)?
            }
        };
        let disputed = opened.disputed(spec);
        if disputed.is_empty() {
            return Ok(opened);
        }
        readable.retain(|replica| !disputed.iter().any(|(other, _)| other == replica));
        for (ReplicaNumber { column, .. }, source) in disputed {
            if !has_column(&readable, column) {
                let reason = PlaceholderReason::Damaged(source);
                placeholders.entry(column).or_insert(reason);
            }
        }
        open(&readable, &placeholders)
    }

    /// Replicas of columns whose replicas have different values, by their logical checksums, and why they are not read: all but those
    /// with the values that more than half of them have. If none are, no replica of the column is believed.
    fn disputed(&self, spec: &TableSpec) -> Vec<(ReplicaNumber, FormatError)> {
        let mut disputed = Vec::new();
        let further = self.slots.columns()..self.slots.len();
        let mut columns: Vec<usize> = further.map(|slot| self.slot_column(slot)).collect();
        columns.dedup();
        for column in columns {
            let slots = std::iter::once(column).chain(self.slots.others(column));
            let known = slots.filter_map(|slot| {
                let checksums = self.slot_chunk(slot).value_checksums()?;
                Some((slot, checksums))
            });
            let known: Vec<(usize, ValueChecksums)> = known.collect();
            let like =
                |values: &ValueChecksums| known.iter().filter(|(_, it)| it == values).count();
            let most = known.iter().find(|(_, it)| 2 * like(it) > known.len());
            let is_outvoted = |(_, it): &&(usize, ValueChecksums)| {
                most.is_none_or(|(_, believed)| it != believed)
            };
            let outvoted: Vec<usize> = known.iter().filter(is_outvoted).map(|it| it.0).collect();
            if outvoted.is_empty() {
                continue;
            }
            let names: Vec<String> = known.iter().map(|(slot, _)| self.name_of(*slot)).collect();
            let names = names.join(", ");
            tracing::error!(
                table = spec.name,
                column = spec.columns[column].name,
                segment = self.id(),
                replicas = names,
                outvoted = outvoted.len(),
                "the replicas of a chunk have different values"
            );
            for slot in outvoted {
                self.report_disputed(slot, most.is_none());
                let why = format!(
                    "{names} have different values, and nothing tells which are right: without the tier of one of them, the other is read"
                );
                let what = "a chunk";
                disputed.push((self.slots.replica(slot), FormatError::Corrupt { what, why }));
            }
        }
        disputed
    }

    /// Reports a replica that does not have the values that it should have, or may not.
    fn report_disputed(&self, slot: usize, is_lost: bool) {
        if let Some((extent, read, place)) = self.far(slot) {
            let log = &extent.all_losses().log;
            log.found(extent, read, place.clone(), FaultKind::Checksum);
            if is_lost {
                log.lost(extent, read, place);
            }
        }
    }

    /// Opens chunks that were just written, which need no check.
    pub(crate) fn written(
        entry: Arc<SegmentEntry>,
        extents: Vec<Arc<OwnedExtent>>,
        spec: &TableSpec,
    ) -> Result<Arc<Self>, DamageError> {
        let verified = verified_bits(&entry, &extents, true);
        let extents: Vec<_> = extents.into_iter().map(Some).collect();
        let all: Vec<ReplicaNumber> = entry.all_replicas().map(|(replica, _)| replica).collect();
        let slots = Slots::new(&entry, &all, |place| line_times(&extents, place));
        Self::with_verified(entry, slots, extents, spec, verified, Placeholders::new())
    }

    /// A segment whose chunks are all read in place.
    fn with_verified(
        entry: Arc<SegmentEntry>,
        slots: Slots,
        extents: Vec<Option<Arc<OwnedExtent>>>,
        spec: &TableSpec,
        verified: VerifiedBits,
        placeholders: Placeholders,
    ) -> Result<Arc<Self>, DamageError> {
        let (columns, rows) = (0..entry.chunks.len(), entry.rows as usize);
        let uses = columns.map(|_| Arc::default()).collect();
        let placeholder = (!placeholders.is_empty()).then(|| placeholder::chunk(rows));
        let bytes = slots.iter().map(|replica| {
            let placeholder = placeholder
                .as_ref()
                .filter(|_| placeholders.contains_key(&replica.column));
            let placeholder =
                placeholder.map(|placeholder| ChunkBytes::Placeholder(placeholder.clone()));
            let bytes = placeholder.or_else(|| far_bytes(&entry, &extents, replica));
            bytes.expect("what is stored nowhere has a placeholder")
        });
        let bytes: Vec<ChunkBytes> = bytes.collect();
        let chunk_headers = Arc::new(ChunkHeaders::read(
            rows,
            bytes.iter().map(ChunkBytes::bytes),
        ));
        let parts = ChunkParts {
            bytes,
            chunk_headers,
        };
        Self::of_parts(
            entry,
            slots.into(),
            parts,
            extents,
            spec,
            uses,
            verified,
            placeholders.into(),
            None,
        )
    }

    /// `looked_up` is from where values of these rows were looked up before.
    // All of these make it up.
    #[allow(clippy::too_many_arguments)]
    pub(super) fn of_parts(
        entry: Arc<SegmentEntry>,
        slots: Arc<Slots>,
        parts: ChunkParts,
        extents: Vec<Option<Arc<OwnedExtent>>>,
        spec: &TableSpec,
        uses: Arc<[Arc<Uses>]>,
        verified: VerifiedBits,
        placeholders: Arc<Placeholders>,
        looked_up: Option<&Segment>,
    ) -> Result<Arc<Self>, DamageError> {
        let read = &parts.bytes[..slots.columns()];
        let speeds = read.iter().map(ChunkBytes::speed).collect();
        let chunks: Result<ChunkCell, DamageError> = ChunkCell::try_new(
            parts,
            |ChunkParts {
                 bytes,
                 chunk_headers,
             }| {
                let open = |slot, bytes| {
                    let (head, replica) = (chunk_headers.of(slot), slots.replica(slot));
                    match placeholders.contains_key(&replica.column) {
                        true => open_as(
                            head,
                            bytes,
                            placeholder::PLACEHOLDER_TYPE,
                            spec,
                            replica.column,
                            &entry,
                        ),
                        false => open_bytes(head, bytes, spec, replica, &entry),
                    }
                };
                let (mut by_slot, mut stored) = (Vec::with_capacity(bytes.len()), Vec::new());
                for (slot, bytes) in bytes.iter().enumerate() {
                    by_slot.push(match bytes {
                        ChunkBytes::Reencoded(copy, extent, place) => {
                            stored.push((slot, open(slot, &extent[place.clone()])?));
                            let column = slots.replica(slot).column;
                            open_as(copy, copy, spec.columns[column].ty, spec, column, &entry)?
                        }
                        bytes => open(slot, bytes.bytes())?,
                    });
                }
                Ok(OpenChunks { by_slot, stored })
            },
        );
        let mut opened = Self {
            entry,
            slots,
            chunks: chunks?,
            speeds,
            uses,
            verified,
            extents,
            placeholders,
            looked_up: None,
            others: OnceLock::new(),
        };
        // What is asked for near in an encoding of its own is so for lookups as well.
        let is_fixed = |column| match &opened.chunks.borrow_owner().bytes[column] {
            ChunkBytes::Near(_) => opened.slots.looks_up_near(column),
            ChunkBytes::Reencoded(..) | ChunkBytes::Placeholder(_) => true,
            ChunkBytes::Far(..) => false,
        };
        if let Some(slots) = opened.slots.for_lookups(is_fixed) {
            // A near copy is one of the replica that is scanned: lookups that stay in another one make no case for it.
            let elsewhere = Arc::<Uses>::default();
            let uses = opened.uses.iter().enumerate();
            let uses = uses.map(|(column, uses)| {
                let is_same = slots.replica(column) == opened.slots.replica(column);
                let counts = is_same
                    || opened.slots.looks_up_near(column)
                    || opened.near_encoding(spec, column).is_some();
                Arc::clone(if counts { uses } else { &elsewhere })
            });
            let uses = uses.collect();
            let looked_up = opened.with_slots(slots, spec, uses, looked_up)?;
            // Who reads these rows wants these replicas.
            let _ = looked_up.others.set(Box::default());
            opened.looked_up = Some(looked_up);
        }
        Ok(Arc::new(opened))
    }
}

/// Whether there is a replica of a column.
fn has_column(readable: &[ReplicaNumber], column: usize) -> bool {
    readable.iter().any(|replica| replica.column == column)
}

/// Repairs the headers of chunks that cannot be opened, from other copies; those that cannot be repaired, and why.
fn damaged_headers(
    entry: &SegmentEntry,
    extents: &[Option<Arc<OwnedExtent>>],
    spec: &TableSpec,
    readable: &[ReplicaNumber],
) -> Vec<(ReplicaNumber, FormatError)> {
    let damaged = readable.iter().filter_map(|replica| {
        let place = entry.replica(*replica);
        let extent = extents[place.extent as usize].as_ref()?;
        let open = |bytes| open_bytes(bytes, bytes, spec, *replica, entry);
        repair::header(extent, extent.read(), range_of(place), open);
        match open(&extent.read()[range_of(place)]) {
            // A chunk of another format is whole, but only another build can read it.
            Err(DamageError::Chunk {
                source: FormatError::Version { .. } | FormatError::Unknown { .. },
                ..
            }) => None,
            Err(DamageError::Chunk { source, .. }) => Some((*replica, source)),
            _ => None,
        }
    });
    damaged.collect()
}

/// Opens a column's chunk, and checks it against the manifest.
fn open_bytes<'a>(
    head: &'a [u8],
    bytes: &'a [u8],
    spec: &TableSpec,
    replica: ReplicaNumber,
    entry: &SegmentEntry,
) -> Result<Chunk<'a>, DamageError> {
    let column = replica.column;
    let chunk = open_as(head, bytes, spec.columns[column].ty, spec, column, entry)?;
    let written_as = entry.replica(replica).encoding;
    if chunk.encoding() != written_as {
        let why = format!("it has encoding {}, not {written_as}", chunk.encoding());
        return Err(DamageError::Chunk {
            column: spec.columns[column].name.clone(),
            segment: entry.id,
            source: FormatError::Corrupt {
                what: "the chunk",
                why,
            },
        });
    }
    Ok(chunk)
}

fn open_as<'a>(
    head: &'a [u8],
    bytes: &'a [u8],
    ty: LogicalType,
    spec: &TableSpec,
    column: usize,
    entry: &SegmentEntry,
) -> Result<Chunk<'a>, DamageError> {
    let damaged = |source| DamageError::Chunk {
        column: spec.columns[column].name.clone(),
        segment: entry.id,
        source,
    };
    let chunk = Chunk::with_header(head, bytes, ty).map_err(damaged)?;
    if chunk.rows() != entry.rows as usize {
        return Err(damaged(FormatError::Corrupt {
            what: "the chunk",
            why: format!("it has {} rows, its segment {}", chunk.rows(), entry.rows),
        }));
    }
    Ok(chunk)
}

/// A bit per column, those of one block side by side, so that reading one row of 1,000 columns touches two lines of bits.
pub(super) fn verified_bits<'e>(
    entry: &SegmentEntry,
    extents: impl IntoIterator<Item = &'e Arc<OwnedExtent>>,
    all: bool,
) -> VerifiedBits {
    let first = extents.into_iter().next();
    // Without any extent, nothing is read.
    let damage = first.map_or_else(DamageFound::default, |extent| {
        extent.all_losses().log.damage.clone()
    });
    let blocks = (entry.rows as usize).div_ceil(BLOCK_LEN);
    VerifiedBits::new(&damage, blocks, entry.chunks.len(), all)
}

#[cfg(test)]
mod tests;
