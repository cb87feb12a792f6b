//! A segment: the sealed chunks of all columns of a table that cover the same rows.
//!
//! Invariant: immutable. Its chunks are opened once, with the segment, and stay open as long as it lives, so that a lookup reads
//! no chunk header in far memory. Its extents stay allocated as long.

pub(crate) mod chunk_headers;
pub(crate) mod framed;
pub(crate) mod frames_ahead;
pub(crate) mod methods;
mod rebuild;
mod segments;
mod slots;

pub(crate) use self::segments::Segments;

mod checks;
mod stored;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use self_cell::self_cell;
use tierra_column::bits::BLOCK_LEN;
use tierra_column::{Chunk, Encoding, FormatError, LogicalType};
use tierra_memory::placement::Uses;
use tierra_memory::{NearCopy, NearMemory, Speed};

use crate::error::{DamageError, ScanError, StorageError, UnavailableError};
use crate::integrity::checked_copy::checked_copy;
use crate::integrity::placeholder::{self, PlaceholderReason, Placeholders};
use crate::integrity::repair;
use crate::manifest::{ChunkPlace, ExtentId, ReplicaNumber, SegmentEntry};
use crate::segment::chunk_headers::ChunkHeaders;
use crate::segment::slots::Slots;
use crate::spec::TableSpec;
use crate::storage::extent::{ExtentCopy, OwnedExtent};
use crate::storage::verified::{DamageFound, VerifiedBits};

/// The bytes of one chunk, near or far.
#[derive(Clone)]
enum ChunkBytes {
    Near(Arc<NearCopy>),
    Far(Arc<ExtentCopy>, Range<usize>),
    /// Takes the place of a chunk that cannot be read.
    Placeholder(Arc<[u8]>),
}

impl ChunkBytes {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Near(copy) => copy,
            Self::Far(extent, range) => &extent[range.clone()],
            Self::Placeholder(placeholder) => placeholder,
        }
    }

    fn speed(&self) -> Speed {
        match self {
            Self::Near(..) => Speed::Near,
            Self::Far(..) | Self::Placeholder(_) => Speed::Far,
        }
    }
}

/// The bytes of a segment's chunks, by slot.
struct ChunkParts {
    bytes: Vec<ChunkBytes>,
    chunk_headers: Arc<ChunkHeaders>,
}

/// The open chunks of a segment, by slot: those that are read, by column, and other replicas behind them.
struct OpenChunks<'a>(Vec<Chunk<'a>>);

self_cell!(
    struct ChunkCell {
        owner: ChunkParts,
        #[covariant]
        dependent: OpenChunks,
    }
);

/// Sealed rows of a table.
pub struct Segment {
    entry: Arc<SegmentEntry>,
    slots: Arc<Slots>,
    chunks: ChunkCell,
    speeds: Vec<Speed>,
    /// Reads of each column's chunk, in any tier.
    uses: Arc<[Uses]>,
    verified: VerifiedBits,
    /// In the order of the entry; kept allocated even if all reads use near copies. `None` if all copies are in missing tiers.
    extents: Vec<Option<Arc<OwnedExtent>>>,
    placeholders: Arc<Placeholders>,
}

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
            let slots = Slots::new(&entry, readable);
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
        let strange = opened.other_values(spec);
        if strange.is_empty() {
            return Ok(opened);
        }
        readable.retain(|replica| !strange.contains(replica));
        open(&readable, &placeholders)
    }

    /// Replicas that have other values than the one that is read, by their logical checksums: one of the two was never right.
    fn other_values(&self, spec: &TableSpec) -> Vec<ReplicaNumber> {
        let others = self.slots.columns()..self.slots.len();
        let is_other = |slot: &usize| {
            let column = self.slots.replica(*slot).column;
            let checksums = |slot: usize| self.slot_chunk(slot).value_checksums();
            let (read, other) = (checksums(column), checksums(*slot));
            read.is_some() && other.is_some() && read != other
        };
        let strange = others.filter(is_other).map(|slot| {
            let replica = self.slots.replica(slot);
            let column = &spec.columns[replica.column].name;
            tracing::error!(
                table = spec.name,
                column,
                segment = self.id(),
                "two replicas of a chunk have different values: one is not used any more"
            );
            replica
        });
        strange.collect()
    }

    /// The same segment with near copies of all chunks that may have one, as far as there is room; columns that request one come
    /// first.
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

    /// A near copy of a column's chunk, verified; `None` if there is one already, there is no room, or copying was stopped
    /// ([`checked_copy`]).
    pub(crate) fn near_copy(
        &self,
        spec: &TableSpec,
        column: usize,
        near: &NearMemory,
        goes_on: impl FnMut(usize) -> bool,
    ) -> Result<Option<Arc<NearCopy>>, ScanError> {
        let Some((_, read, range)) = self.far(column) else {
            return Ok(None);
        };
        self.restore_column(spec, column)?;
        let check = |copy: &[u8]| self.check_copy(spec, column, copy);
        let repair = || self.verify_column(spec, column);
        checked_copy(near, &read[range.clone()], goes_on, check, repair)
    }

    /// The same segment with these columns read from other near copies, or from none.
    pub(crate) fn with_near(
        &self,
        spec: &TableSpec,
        copies: impl IntoIterator<Item = (usize, Option<Arc<NearCopy>>)>,
    ) -> Result<Arc<Self>, DamageError> {
        let mut bytes = self.bytes_in(&self.entry, &self.extents, |_| false);
        for (column, copy) in copies {
            let stored = far_bytes(&self.entry, &self.extents, self.slots.replica(column));
            if let Some(other) = copy.map(ChunkBytes::Near).or(stored) {
                bytes[column] = other;
            }
        }
        let chunk_headers = self.chunk_headers().clone();
        let parts = ChunkParts {
            bytes,
            chunk_headers,
        };
        let (entry, extents) = (self.entry.clone(), self.extents.clone());
        self.of_same_rows(entry, parts, extents, spec, self.verified.clone())
    }

    /// Opens chunks that were just written, which need no check.
    pub(crate) fn written(
        entry: Arc<SegmentEntry>,
        extents: Vec<Arc<OwnedExtent>>,
        spec: &TableSpec,
    ) -> Result<Arc<Self>, DamageError> {
        let verified = verified_bits(&entry, &extents, true);
        let extents = extents.into_iter().map(Some).collect();
        let all: Vec<ReplicaNumber> = entry.all_replicas().map(|(replica, _)| replica).collect();
        let slots = Slots::new(&entry, &all);
        Self::with_verified(entry, slots, extents, spec, verified, Placeholders::new())
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

    /// The same rows from other copies of the extents; near copies stay.
    pub(crate) fn with_extents(
        &self,
        extents: Vec<Option<Arc<OwnedExtent>>>,
        spec: &TableSpec,
    ) -> Result<Arc<Self>, DamageError> {
        let parts = ChunkParts {
            bytes: self.bytes_in(&self.entry, &extents, |_| false),
            chunk_headers: self.chunk_headers().clone(),
        };
        let (entry, verified) = (self.entry.clone(), self.verified.clone());
        self.of_same_rows(entry, parts, extents, spec, verified)
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
            let moves = matches!(now, ChunkBytes::Far(..)) || is_anew(replica);
            let stored = moves.then(|| far_bytes(entry, extents, replica)).flatten();
            stored.unwrap_or_else(|| now.clone())
        });
        bytes.collect()
    }

    /// The same rows, read elsewhere.
    fn of_same_rows(
        &self,
        entry: Arc<SegmentEntry>,
        parts: ChunkParts,
        extents: Vec<Option<Arc<OwnedExtent>>>,
        spec: &TableSpec,
        verified: VerifiedBits,
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
        )
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
        let uses = columns.map(|_| Uses::default()).collect();
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
        )
    }

    // All of these make it up.
    #[allow(clippy::too_many_arguments)]
    fn of_parts(
        entry: Arc<SegmentEntry>,
        slots: Arc<Slots>,
        parts: ChunkParts,
        extents: Vec<Option<Arc<OwnedExtent>>>,
        spec: &TableSpec,
        uses: Arc<[Uses]>,
        verified: VerifiedBits,
        placeholders: Arc<Placeholders>,
    ) -> Result<Arc<Self>, DamageError> {
        let read = &parts.bytes[..slots.columns()];
        let speeds = read.iter().map(ChunkBytes::speed).collect();
        let chunks = ChunkCell::try_new(
            parts,
            |ChunkParts {
                 bytes,
                 chunk_headers,
             }| {
                let by_slot = bytes.iter().zip(slots.iter()).enumerate();
                let opened = by_slot.map(|(slot, (bytes, replica))| {
                    let (head, bytes) = (chunk_headers.of(slot), bytes.bytes());
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
                });
                opened.collect::<Result<_, _>>().map(OpenChunks)
            },
        );
        Ok(Arc::new(Self {
            entry,
            slots,
            chunks: chunks?,
            speeds,
            uses,
            verified,
            extents,
            placeholders,
        }))
    }

    /// Unique in its table, never reused.
    pub fn id(&self) -> u32 {
        self.entry.id
    }

    /// Rows, deleted or not, at most [`SEGMENT_ROWS`](crate::SEGMENT_ROWS).
    pub fn rows(&self) -> usize {
        self.entry.rows as usize
    }

    /// Blocks of each of its chunks.
    pub fn blocks(&self) -> usize {
        self.rows().div_ceil(BLOCK_LEN)
    }

    /// Rows of one block: [`BLOCK_LEN`] for all but the last.
    pub fn block_rows(&self, block: usize) -> usize {
        (self.rows() - block * BLOCK_LEN).min(BLOCK_LEN)
    }

    /// The encoding of a column's chunk; `None` for a placeholder.
    pub fn encoding(&self, column: usize) -> Option<Encoding> {
        (!self.is_placeholder(column)).then(|| self.chunk(column).encoding())
    }

    /// Whether a column's chunk is a placeholder: missing tiers, a header damaged in all copies, or an unreadable dictionary.
    #[inline]
    pub(crate) fn is_placeholder(&self, column: usize) -> bool {
        !self.placeholders.is_empty() && self.placeholders.contains_key(&column)
    }

    /// Whether no chunk is a placeholder.
    #[inline]
    pub(crate) fn has_no_placeholder(&self) -> bool {
        self.placeholders.is_empty()
    }

    /// Fails if a column's chunk is a placeholder; the error names the block.
    pub(crate) fn check_there(
        &self,
        spec: &TableSpec,
        column: usize,
        block: usize,
    ) -> Result<(), ScanError> {
        match self.placeholders.get(&column) {
            None => Ok(()),
            Some(absence) => Err(absence.error(spec, column, self.id(), block)),
        }
    }

    /// Whether a replica of a column holds codes of its dictionary and is not the one that is read.
    pub(crate) fn hides_codes(&self, column: usize) -> bool {
        self.entry.chunks[column].encoding.uses_dictionary()
            && self.slots.replica(column).number != 0
    }

    /// Bytes of a column's chunk in the pool, in the replica that is read.
    pub fn stored_bytes(&self, column: usize) -> u64 {
        self.entry.replica(self.slots.replica(column)).len_bytes
    }

    /// The tier from which a column's chunk is read.
    pub fn speed(&self, column: usize) -> Speed {
        self.speeds[column]
    }

    /// A column's chunk.
    #[inline]
    pub fn chunk(&self, column: usize) -> &Chunk<'_> {
        &self.chunks()[column]
    }

    /// The chunks of all columns.
    #[inline]
    pub(crate) fn chunks(&self) -> &[Chunk<'_>] {
        &self.chunks.borrow_dependent().0[..self.slots.columns()]
    }

    /// The chunk in a slot.
    fn slot_chunk(&self, slot: usize) -> &Chunk<'_> {
        &self.chunks.borrow_dependent().0[slot]
    }

    /// Its near memory besides copies of chunks.
    pub(crate) fn chunk_headers(&self) -> &Arc<ChunkHeaders> {
        &self.chunks.borrow_owner().chunk_headers
    }

    /// Counters of the reads of each column's chunk.
    pub(crate) fn uses(&self) -> &Arc<[Uses]> {
        &self.uses
    }

    /// The near copy of a column's chunk.
    pub(crate) fn near(&self, column: usize) -> Option<&Arc<NearCopy>> {
        match &self.chunks.borrow_owner().bytes[column] {
            ChunkBytes::Near(copy) => Some(copy),
            ChunkBytes::Far(..) | ChunkBytes::Placeholder(_) => None,
        }
    }

    /// A column's chunk in the first stored copy; empty for a placeholder.
    pub(crate) fn stored(&self, column: usize) -> &[u8] {
        let place = self.entry.replica(self.slots.replica(column));
        let extent = self.extents[place.extent as usize].as_ref();
        extent.map_or(&[], |extent| &extent.first()[range_of(place)])
    }

    /// The stored place of a column's chunk. It identifies the content, because stored chunks are never overwritten.
    pub(crate) fn place(&self, column: usize) -> (ExtentId, u64) {
        let replica = self.slots.replica(column);
        let ChunkPlace { extent, offset, .. } = *self.entry.replica(replica);
        (self.entry.extents[extent as usize], offset)
    }

    /// The extent and far copy from which a column, or another slot, is read, and the chunk's range in it; `None` if the chunk is
    /// read near.
    fn far(&self, slot: usize) -> Option<(&Arc<OwnedExtent>, &Arc<ExtentCopy>, &Range<usize>)> {
        match &self.chunks.borrow_owner().bytes[slot] {
            ChunkBytes::Near(..) | ChunkBytes::Placeholder(_) => None,
            ChunkBytes::Far(read, place) => {
                let extent = self.entry.replica(self.slots.replica(slot)).extent as usize;
                Some((self.extents[extent].as_ref()?, read, place))
            }
        }
    }

    pub(crate) fn entry(&self) -> &Arc<SegmentEntry> {
        &self.entry
    }

    /// Its extents in the order of the entry; `None` for those without any copy.
    pub(crate) fn extents(&self) -> &[Option<Arc<OwnedExtent>>] {
        &self.extents
    }
}

impl std::fmt::Debug for Segment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Segment({}, {} rows)", self.id(), self.rows())
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
        repair::header(extent, extent.first(), range_of(place), open);
        match open(&extent.first()[range_of(place)]) {
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

/// A chunk where it is stored; `None` if that is in missing tiers.
fn far_bytes(
    entry: &SegmentEntry,
    extents: &[Option<Arc<OwnedExtent>>],
    replica: ReplicaNumber,
) -> Option<ChunkBytes> {
    let place = entry.replica(replica);
    let extent = extents[place.extent as usize].as_ref()?;
    Some(ChunkBytes::Far(extent.first().clone(), range_of(place)))
}

/// The range of a chunk in its extent.
fn range_of(place: &ChunkPlace) -> Range<usize> {
    place.offset as usize..(place.offset + place.len_bytes) as usize
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
fn verified_bits<'e>(
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
