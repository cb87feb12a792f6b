//! A segment: the sealed chunks of all columns of a table that cover the same rows.
//!
//! Invariant: immutable. Its chunks are opened once, when the segment is, and stay open as long as
//! it lives, so that a lookup pays for no descriptor; its extents stay allocated as long.

mod checks;
mod stored;
mod verified;

use std::ops::Range;
use std::sync::Arc;

use self_cell::self_cell;
use tierra_column::bits::BLOCK_LEN;
use tierra_column::{Chunk, Encoding, FormatError, LogicalType};
use tierra_memory::{Budget, Speed};

use crate::absent::{self, Absence, Absent};
use crate::error::{DamageError, ScanError, StorageError, UnavailableError};
use crate::heads::Heads;
use crate::manifest::{ChunkPlace, SegmentEntry};
use crate::mend;
use crate::near::{self, CopyAt, NearCopy};
use crate::space::{ExtentCopy, OwnedExtent};
use crate::spec::TableSpec;
use verified::VerifiedBlocks;

/// Rows a segment has at most.
pub const SEGMENT_ROWS: usize = 1 << 20;

/// The bytes of one chunk, near or far.
#[derive(Clone)]
enum ChunkBytes {
    Near(Arc<NearCopy>, Range<usize>),
    Far(Arc<ExtentCopy>, Range<usize>),
    /// What stands in for a chunk that is not there.
    Absent(Arc<[u8]>),
}

impl ChunkBytes {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Near(copy, range) => &copy[range.clone()],
            Self::Far(extent, range) => &extent[range.clone()],
            Self::Absent(stand_in) => stand_in,
        }
    }

    fn speed(&self) -> Speed {
        match self {
            Self::Near(..) => Speed::Near,
            Self::Far(..) | Self::Absent(_) => Speed::Far,
        }
    }
}

/// What the chunks of a segment are made of, by column.
struct ChunkParts {
    bytes: Vec<ChunkBytes>,
    heads: Arc<Heads>,
}

/// The open chunks of a segment, by column.
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
    chunks: ChunkCell,
    speeds: Vec<Speed>,
    verified: VerifiedBlocks,
    /// In the order of the entry; kept allocated even where all reads go to near copies. `None` where all copies lie in tiers
    /// that are missing.
    extents: Vec<Option<Arc<OwnedExtent>>>,
    absent: Arc<Absent>,
}

impl Segment {
    /// Opens the chunks of a segment that another process wrote, where they lie. Those whose extents are `None` lie in tiers that
    /// are missing, as `missing` says; these, and those whose heads are damaged in all copies, are absent from then on.
    pub(crate) fn open(
        entry: Arc<SegmentEntry>,
        extents: Vec<Option<Arc<OwnedExtent>>>,
        spec: &TableSpec,
        missing: Option<&UnavailableError>,
    ) -> Result<Arc<Self>, DamageError> {
        let is_gone = |place: &ChunkPlace| extents[place.extent as usize].is_none();
        let places = entry.chunks.iter().enumerate();
        let gone = places.filter(|(_, place)| is_gone(place));
        let gone = gone.filter_map(|(column, _)| {
            let why = missing.cloned().map(Absence::Missing)?;
            Some((column, why))
        });
        let gone: Absent = gone.collect();
        let open = |absent: Absent| {
            let verified = VerifiedBlocks::new(&entry, false);
            let (entry, extents) = (entry.clone(), extents.clone());
            let (none, absent) = (Budget::new(0), Arc::new(absent));
            Self::with_verified(
                entry,
                extents,
                spec,
                (&none, &|_| false),
                verified,
                None,
                absent,
            )
        };
        let error = match open(gone.clone()) {
            Err(error) => error,
            opened => return opened,
        };
        let mut absent = gone;
        for (column, place) in entry.chunks.iter().enumerate() {
            let Some(extent) = &extents[place.extent as usize] else {
                continue;
            };
            mend_head(&entry, column, extent, spec);
            let bytes = &extent.first()[range_of(place)];
            let ty = spec.columns[column].ty;
            let opened = open_bytes(bytes, bytes, ty, spec, column, &entry);
            // One of another format is whole, and for another build to read.
            if let Err(DamageError::Chunk { source, .. }) = opened
                && !matches!(source, FormatError::Version { .. })
            {
                tracing::error!(%error, "a chunk is lost: all else can be read");
                absent.insert(column, Absence::Damaged(source));
            }
        }
        open(absent)
    }

    /// The same segment with near copies, as far as the budget allows, of bytes that are known to be right.
    pub(crate) fn with_near_copies(
        &self,
        spec: &TableSpec,
        budget: &Budget,
    ) -> Result<Arc<Self>, StorageError> {
        // What has no room is not copied, and need not be read.
        let left_bytes = budget.limit().saturating_sub(budget.used());
        let fits = |extent: usize| {
            let extent = self.extents[extent].as_ref();
            extent.is_some_and(|extent| extent.first().len() as u64 <= left_bytes)
        };
        let mut columns = (0..spec.columns.len())
            .filter(|column| !self.is_absent(*column))
            .filter(|column| fits(self.entry.chunks[*column].extent as usize));
        columns.try_for_each(|column| self.verify_column(spec, column))?;
        let (entry, extents) = (self.entry.clone(), self.extents.clone());
        let (verified, heads) = (self.verified.clone(), Some(self.heads().clone()));
        Ok(Self::with_verified(
            entry,
            extents,
            spec,
            (budget, &fits),
            verified,
            heads,
            self.absent.clone(),
        )?)
    }

    /// The same for chunks written a moment ago, which need no checksum.
    pub(crate) fn written(
        entry: Arc<SegmentEntry>,
        extents: Vec<Arc<OwnedExtent>>,
        spec: &TableSpec,
    ) -> Result<Arc<Self>, DamageError> {
        let verified = VerifiedBlocks::new(&entry, true);
        let (none, extents) = (Budget::new(0), extents.into_iter().map(Some).collect());
        let absent = Arc::default();
        Self::with_verified(
            entry,
            extents,
            spec,
            (&none, &|_| false),
            verified,
            None,
            absent,
        )
    }

    /// The same rows with the chunks of `columns` written anew, none of them near yet.
    pub(crate) fn rewritten(
        &self,
        entry: Arc<SegmentEntry>,
        extents: Vec<Option<Arc<OwnedExtent>>>,
        spec: &TableSpec,
        columns: &[usize],
    ) -> Result<Arc<Self>, DamageError> {
        let verified = self.verified.clone();
        for column in columns {
            (0..self.blocks()).for_each(|block| verified.insert(block, *column));
        }
        let heads = (0..entry.chunks.len()).map(|column| {
            let place = &entry.chunks[column];
            match &extents[place.extent as usize] {
                Some(extent) if columns.contains(&column) => &extent.first()[range_of(place)],
                _ => self.heads().of(column),
            }
        });
        let heads = Some(Arc::new(Heads::read(self.rows(), heads)));
        let (none, absent) = (Budget::new(0), self.absent.clone());
        Self::with_verified(
            entry,
            extents,
            spec,
            (&none, &|_| false),
            verified,
            heads,
            absent,
        )
    }

    /// The same rows from other copies of the extents; near copies stay.
    pub(crate) fn with_extents(
        &self,
        extents: Vec<Option<Arc<OwnedExtent>>>,
        spec: &TableSpec,
    ) -> Result<Arc<Self>, DamageError> {
        let places = self.entry.chunks.iter();
        let bytes = self.chunks.borrow_owner().bytes.iter().zip(places);
        let bytes = bytes.map(
            |(bytes, place)| match (bytes, &extents[place.extent as usize]) {
                (ChunkBytes::Far(_, range), Some(extent)) => {
                    ChunkBytes::Far(extent.first().clone(), range.clone())
                }
                (as_it_was, _) => as_it_was.clone(),
            },
        );
        let parts = ChunkParts {
            bytes: bytes.collect(),
            heads: self.heads().clone(),
        };
        let (entry, verified) = (self.entry.clone(), self.verified.clone());
        Self::of_parts(entry, parts, extents, spec, verified, self.absent.clone())
    }

    /// Near copies come out of a budget, of those extents that may have one. `heads` where they are known.
    fn with_verified(
        entry: Arc<SegmentEntry>,
        extents: Vec<Option<Arc<OwnedExtent>>>,
        spec: &TableSpec,
        (budget, may_be_near): (&Budget, &dyn Fn(usize) -> bool),
        verified: VerifiedBlocks,
        heads: Option<Arc<Heads>>,
        absent: Arc<Absent>,
    ) -> Result<Arc<Self>, DamageError> {
        let mut wishes = vec![None; extents.len()];
        for (place, column) in entry.chunks.iter().zip(&spec.columns) {
            // Columns that share an extent share the wish.
            let extent = place.extent as usize;
            wishes[extent] = if may_be_near(extent) {
                column.near
            } else {
                Some(false)
            };
        }
        // Those that are there, and which of them an extent is.
        let there = extents.iter().zip(wishes);
        let there = there.filter_map(|(extent, wish)| Some((extent.as_ref()?, wish)));
        let (read, wishes): (Vec<_>, Vec<_>) = there
            .map(|(extent, wish)| (extent.first().clone(), wish))
            .unzip();
        let numbers = extents.iter().scan(0, |next, extent| {
            let number = *next;
            *next += usize::from(extent.is_some());
            Some(number)
        });
        let numbers: Vec<usize> = numbers.collect();
        let (copy, copied_at) = near::copy_extents(budget, &read, &wishes);
        let rows = entry.rows as usize;
        let stand_in = (!absent.is_empty()).then(|| absent::stand_in(rows));
        let bytes = entry.chunks.iter().enumerate().map(|(column, place)| {
            if let Some(stand_in) = stand_in.as_ref().filter(|_| absent.contains_key(&column)) {
                return ChunkBytes::Absent(stand_in.clone());
            }
            let (number, range) = (numbers[place.extent as usize], range_of(place));
            match (&copy, copied_at[number]) {
                (Some(copy), Some(CopyAt(at))) => {
                    ChunkBytes::Near(copy.clone(), at + range.start..at + range.end)
                }
                _ => ChunkBytes::Far(read[number].clone(), range),
            }
        });
        let bytes: Vec<ChunkBytes> = bytes.collect();
        let heads = heads
            .unwrap_or_else(|| Arc::new(Heads::read(rows, bytes.iter().map(ChunkBytes::bytes))));
        let parts = ChunkParts { bytes, heads };
        Self::of_parts(entry, parts, extents, spec, verified, absent)
    }

    fn of_parts(
        entry: Arc<SegmentEntry>,
        parts: ChunkParts,
        extents: Vec<Option<Arc<OwnedExtent>>>,
        spec: &TableSpec,
        verified: VerifiedBlocks,
        absent: Arc<Absent>,
    ) -> Result<Arc<Self>, DamageError> {
        let speeds = parts.bytes.iter().map(ChunkBytes::speed).collect();
        let chunks = ChunkCell::try_new(parts, |ChunkParts { bytes, heads }| {
            let columns = bytes.iter().enumerate();
            let opened = columns.map(|(column, bytes)| {
                let (head, bytes) = (heads.of(column), bytes.bytes());
                let ty = match absent.contains_key(&column) {
                    true => absent::STAND_IN_TYPE,
                    false => spec.columns[column].ty,
                };
                open_bytes(head, bytes, ty, spec, column, &entry)
            });
            opened.collect::<Result<_, _>>().map(OpenChunks)
        });
        Ok(Arc::new(Self {
            entry,
            chunks: chunks?,
            speeds,
            verified,
            extents,
            absent,
        }))
    }

    /// Unique in its table, never reused.
    pub fn id(&self) -> u32 {
        self.entry.id
    }

    /// Rows, at most [`SEGMENT_ROWS`].
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

    /// The encoding of a column's chunk; `None` of one that is not there.
    pub fn encoding(&self, column: usize) -> Option<Encoding> {
        (!self.is_absent(column)).then(|| self.chunk(column).encoding())
    }

    /// Whether a column's chunk is not there: its tiers are missing, or its head is damaged in all of them.
    #[inline]
    pub(crate) fn is_absent(&self, column: usize) -> bool {
        !self.absent.is_empty() && self.absent.contains_key(&column)
    }

    /// Whether all chunks are there.
    #[inline]
    pub(crate) fn is_whole(&self) -> bool {
        self.absent.is_empty()
    }

    /// Whether a block of a column can be there at all.
    pub(crate) fn check_there(
        &self,
        spec: &TableSpec,
        column: usize,
        block: usize,
    ) -> Result<(), ScanError> {
        match self.absent.get(&column) {
            None => Ok(()),
            Some(absence) => Err(absence.error(spec, column, self.id(), block)),
        }
    }

    /// Bytes of a column's chunk in the pool.
    pub fn stored_bytes(&self, column: usize) -> u64 {
        self.entry.chunks[column].len_bytes
    }

    /// Where a column's chunk is read from.
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
        &self.chunks.borrow_dependent().0
    }

    /// What it keeps in near memory beside copies of its chunks.
    pub(crate) fn heads(&self) -> &Arc<Heads> {
        &self.chunks.borrow_owner().heads
    }

    /// The far copy of an extent that a column is read from, and where its chunk lies there; `None` where the chunk is read near.
    fn far(&self, column: usize) -> Option<(&Arc<OwnedExtent>, &Arc<ExtentCopy>, &Range<usize>)> {
        match &self.chunks.borrow_owner().bytes[column] {
            ChunkBytes::Near(..) | ChunkBytes::Absent(_) => None,
            ChunkBytes::Far(read, place) => {
                let extent = self.entry.chunks[column].extent as usize;
                Some((self.extents[extent].as_ref()?, read, place))
            }
        }
    }

    pub(crate) fn entry(&self) -> &Arc<SegmentEntry> {
        &self.entry
    }

    /// Its extents in the order of the entry; `None` for those of which no copy is there.
    pub(crate) fn extents(&self) -> &[Option<Arc<OwnedExtent>>] {
        &self.extents
    }
}

impl std::fmt::Debug for Segment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Segment({}, {} rows)", self.id(), self.rows())
    }
}

/// Puts the head of a chunk right from another copy, if it cannot be opened.
fn mend_head(entry: &SegmentEntry, column: usize, extent: &OwnedExtent, spec: &TableSpec) {
    let ty = spec.columns[column].ty;
    let open = |bytes| open_bytes(bytes, bytes, ty, spec, column, entry);
    mend::head(
        extent,
        extent.first(),
        range_of(&entry.chunks[column]),
        open,
    );
}

/// Where a chunk lies in its extent.
fn range_of(place: &ChunkPlace) -> Range<usize> {
    place.offset as usize..(place.offset + place.len_bytes) as usize
}

fn open_bytes<'a>(
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
    let chunk = Chunk::with_head(head, bytes, ty).map_err(damaged)?;
    if chunk.rows() != entry.rows as usize {
        return Err(damaged(FormatError::Corrupt {
            what: "the chunk",
            why: format!("it has {} rows, its segment {}", chunk.rows(), entry.rows),
        }));
    }
    Ok(chunk)
}
