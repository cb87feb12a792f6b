//! A segment: the sealed chunks of all columns of a table that cover the same rows.
//!
//! Invariant: immutable. Its chunks are opened once, with the segment, and stay open as long as it lives, so that a lookup reads
//! no chunk header in far memory. Its extents stay allocated as long.

mod checks;
pub(crate) mod chunk_headers;
pub(crate) mod framed;
pub(crate) mod frames_ahead;
pub(crate) mod methods;
mod opening;
mod others;
mod pattern;
mod rebuild;
mod same_rows;
mod segments;
mod slots;
mod stored;

pub use self::pattern::ReadPattern;
pub(crate) use self::segments::Segments;

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use self_cell::self_cell;
use tierra_column::bits::BLOCK_LEN;
use tierra_column::{Chunk, Encoding};
use tierra_memory::emulation::FarMemory;
use tierra_memory::placement::{LineTimes, Uses};
use tierra_memory::{NearCopy, Speed};

use crate::error::ScanError;
use crate::integrity::placeholder::Placeholders;
use crate::manifest::row_id::RowId;
use crate::manifest::{ChunkPlace, ExtentId, ReplicaNumber, SegmentEntry};
use crate::segment::chunk_headers::ChunkHeaders;
use crate::segment::slots::Slots;
use crate::spec::TableSpec;
use crate::storage::extent::{ExtentCopy, OwnedExtent};
use crate::storage::verified::VerifiedBits;

/// The bytes of one chunk, near or far.
#[derive(Clone)]
enum ChunkBytes {
    Near(Arc<NearCopy>),
    /// A near copy in another encoding than that of the replica it was made of, which lies there.
    Reencoded(Arc<NearCopy>, Arc<ExtentCopy>, Range<usize>),
    Far(Arc<ExtentCopy>, Range<usize>),
    /// Takes the place of a chunk that cannot be read.
    Placeholder(Arc<[u8]>),
}

impl ChunkBytes {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Near(copy) | Self::Reencoded(copy, ..) => copy,
            Self::Far(extent, range) => &extent[range.clone()],
            Self::Placeholder(placeholder) => placeholder,
        }
    }

    fn near(&self) -> Option<&Arc<NearCopy>> {
        match self {
            Self::Near(copy) | Self::Reencoded(copy, ..) => Some(copy),
            Self::Far(..) | Self::Placeholder(_) => None,
        }
    }

    fn speed(&self) -> Speed {
        match self {
            Self::Near(_) | Self::Reencoded(..) => Speed::Near,
            Self::Far(..) | Self::Placeholder(_) => Speed::Far,
        }
    }
}

/// The bytes of a segment's chunks, by slot.
struct ChunkParts {
    bytes: Vec<ChunkBytes>,
    /// Of what is stored: also where a near copy in another encoding is read.
    chunk_headers: Arc<ChunkHeaders>,
}

/// The open chunks of a segment.
struct OpenChunks<'a> {
    /// By slot: those that are read, by column, and other replicas behind them.
    by_slot: Vec<Chunk<'a>>,
    /// The stored chunks of columns that are read from near copies in other encodings, in the order of the columns.
    stored: Vec<(usize, Chunk<'a>)>,
}

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
    /// Reads of each column's chunk, in any tier, that a near copy serves or would.
    uses: Arc<[Arc<Uses>]>,
    verified: VerifiedBits,
    /// In the order of the entry; kept allocated even if all reads use near copies. `None` if all copies are in missing tiers.
    extents: Vec<Option<Arc<OwnedExtent>>>,
    placeholders: Arc<Placeholders>,
    /// The same rows, read from the replicas in which single values are looked up; `None` if these are the ones that scans read.
    looked_up: Option<Arc<Segment>>,
    /// The same rows read in other tiers, made when they are first asked for.
    others: OnceLock<Box<[Arc<Segment>]>>,
}

impl Segment {
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

    /// The name of the tier from which a column's chunk is read; `None` for a near copy and for a placeholder.
    pub fn tier(&self, column: usize) -> Option<&str> {
        self.far(column).map(|(_, read, _)| &**read.tier_name())
    }

    /// How long lines of a column's chunk take where it is read.
    pub(crate) fn line_times(&self, column: usize) -> LineTimes {
        let far = self.far(column);
        far.map_or(LineTimes::USUAL, |(_, read, _)| read.line_times())
    }

    /// The id of one of its rows.
    ///
    /// # Panics
    /// If it has no such row.
    pub fn row_id(&self, row: usize) -> RowId {
        assert!(row < self.rows(), "row {row} of {}", self.rows());
        RowId::new(self.id(), row as u32)
    }

    /// The same rows for a reader that reads so.
    pub(crate) fn for_reading(self: &Arc<Self>, pattern: ReadPattern) -> &Arc<Segment> {
        let looked_up = self.looked_up.as_ref();
        looked_up.filter(|_| pattern.looks_up()).unwrap_or(self)
    }

    /// The same rows, to look up single values.
    #[inline]
    pub(crate) fn for_lookups(&self) -> &Segment {
        self.looked_up.as_deref().unwrap_or(self)
    }

    /// Bytes of the headers of its chunks, in near memory. Lookups in other replicas share them.
    pub(crate) fn header_bytes(&self) -> u64 {
        self.chunk_headers().len_bytes()
    }

    /// A column's chunk.
    #[inline]
    pub fn chunk(&self, column: usize) -> &Chunk<'_> {
        &self.chunks()[column]
    }

    /// The chunks of all columns.
    #[inline]
    pub(crate) fn chunks(&self) -> &[Chunk<'_>] {
        &self.chunks.borrow_dependent().by_slot[..self.slots.columns()]
    }

    /// The chunk in a slot as it is stored.
    fn slot_chunk(&self, slot: usize) -> &Chunk<'_> {
        let chunks = self.chunks.borrow_dependent();
        match chunks
            .stored
            .binary_search_by_key(&slot, |(column, _)| *column)
        {
            Ok(at) => &chunks.stored[at].1,
            Err(_) => &chunks.by_slot[slot],
        }
    }

    /// Bytes of a block as it is stored: what a near copy saves is counted in them, whatever it takes itself.
    pub(crate) fn stored_block_bytes(&self, column: usize, block: usize) -> u64 {
        self.slot_chunk(column).block_range(block).len() as u64
    }

    /// The chunk in a slot as it is read: near, where it has a near copy.
    fn read_chunk(&self, slot: usize) -> &Chunk<'_> {
        &self.chunks.borrow_dependent().by_slot[slot]
    }

    /// A column's chunk as it is stored, in the replica that is read.
    pub(crate) fn stored_chunk(&self, column: usize) -> &Chunk<'_> {
        self.slot_chunk(column)
    }

    /// Its near memory besides copies of chunks.
    pub(crate) fn chunk_headers(&self) -> &Arc<ChunkHeaders> {
        &self.chunks.borrow_owner().chunk_headers
    }

    /// Counters of the reads of each column's chunk.
    pub(crate) fn uses(&self) -> &Arc<[Arc<Uses>]> {
        &self.uses
    }

    /// The near copy of a column's chunk.
    pub(crate) fn near(&self, column: usize) -> Option<&Arc<NearCopy>> {
        self.chunks.borrow_owner().bytes[column].near()
    }

    /// A column's chunk in the stored copy that is read without a near one; empty for a placeholder.
    pub(crate) fn stored(&self, column: usize) -> &[u8] {
        let place = self.entry.replica(self.slots.replica(column));
        let extent = self.extents[place.extent as usize].as_ref();
        extent.map_or(&[], |extent| &extent.read()[range_of(place)])
    }

    /// The far memory that this copy is taken for now.
    pub(crate) fn stored_emulated(&self, column: usize) -> Option<FarMemory> {
        let place = self.entry.replica(self.slots.replica(column));
        let extent = self.extents[place.extent as usize].as_ref()?;
        extent.read().emulated()
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
            ChunkBytes::Far(read, place) => {
                let extent = self.entry.replica(self.slots.replica(slot)).extent as usize;
                Some((self.extents[extent].as_ref()?, read, place))
            }
            _ => None,
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

/// A chunk where it is stored; `None` if that is in missing tiers.
fn far_bytes(
    entry: &SegmentEntry,
    extents: &[Option<Arc<OwnedExtent>>],
    replica: ReplicaNumber,
) -> Option<ChunkBytes> {
    let place = entry.replica(replica);
    let extent = extents[place.extent as usize].as_ref()?;
    Some(ChunkBytes::Far(extent.read().clone(), range_of(place)))
}

/// The range of a chunk in its extent.
fn range_of(place: &ChunkPlace) -> Range<usize> {
    place.offset as usize..(place.offset + place.len_bytes) as usize
}

/// How long reading a line of a chunk takes where it is read if there is no near copy.
fn line_times(extents: &[Option<Arc<OwnedExtent>>], place: &ChunkPlace) -> LineTimes {
    let extent = extents[place.extent as usize].as_ref();
    extent.map_or(LineTimes::USUAL, |extent| extent.read().line_times())
}
