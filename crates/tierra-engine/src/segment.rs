//! A segment: the sealed chunks of all columns of a table that cover the same rows.
//!
//! Invariant: immutable. Its chunks are opened once, when the segment is, and stay open as long as
//! it lives, so that a lookup pays for no descriptor; its extents stay allocated as long.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use self_cell::self_cell;
use tierra_column::bits::BLOCK_LEN;
use tierra_column::{Chunk, Encoding, FormatError, LogicalType};
use tierra_memory::{Budget, Speed};

use crate::absent::{self, Absence, Absent};
use crate::error::{DamageError, ScanError, StorageError, UnavailableError};
use crate::heads::Heads;
use crate::manifest::{ChunkPlace, ExtentId, SegmentEntry};
use crate::mend;
use crate::near::{self, CopyAt, NearCopy};
use crate::space::{ExtentCopy, OwnedExtent, any_doubt};
use crate::spec::TableSpec;
use crate::verify::VerifyReads;

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

    /// Checks a block's checksum unless that was done before, and once is enough.
    #[inline]
    pub(crate) fn verify(
        &self,
        spec: &TableSpec,
        column: usize,
        block: usize,
    ) -> Result<(), ScanError> {
        if self.verified.contains(block, column) && !any_doubt() {
            return Ok(());
        }
        self.verify_slow(spec, column, block)
    }

    /// [`Segment::verify`] of many columns' blocks of the same rows.
    pub(crate) fn verify_columns(
        &self,
        spec: &TableSpec,
        columns: &[usize],
        block: usize,
    ) -> Result<(), ScanError> {
        if self.verified.contains_all(block) && !any_doubt() {
            return Ok(());
        }
        let mut columns = columns.iter();
        columns.try_for_each(|column| self.verify(spec, *column, block))
    }

    #[cold]
    fn verify_slow(&self, spec: &TableSpec, column: usize, block: usize) -> Result<(), ScanError> {
        if any_doubt() {
            self.restore_lost(spec, column, block)?;
        }
        if self.verified.contains(block, column) && !self.checks_every(column) {
            return Ok(());
        }
        self.verify_again(spec, column, block)?;
        self.verified.insert(block, column);
        Ok(())
    }

    /// Whether what is read of a column is checked every time.
    #[inline]
    pub(crate) fn checks_every(&self, column: usize) -> bool {
        any_doubt()
            && self
                .far(column)
                .is_some_and(|(extent, ..)| extent.all_losses().checks.get() == VerifyReads::Every)
    }

    /// After a block was read: whether that is to be believed. If not, the block is right now, to be read again.
    #[inline]
    pub(crate) fn is_right(
        &self,
        spec: &TableSpec,
        column: usize,
        block: usize,
    ) -> Result<bool, ScanError> {
        match self.checks_every(column) {
            false => Ok(true),
            true => self.verify_again(spec, column, block),
        }
    }

    /// After a block could not be read: the error, unless the block was damaged and is right now, to be read again.
    #[cold]
    pub(crate) fn doubt(
        &self,
        spec: &TableSpec,
        column: usize,
        block: usize,
        source: FormatError,
    ) -> Result<(), ScanError> {
        match self.verify_again(spec, column, block)? {
            true => Err(self.damaged(spec, column, block * BLOCK_LEN, source)),
            false => Ok(()),
        }
    }

    /// Checks a block's checksum whether that was done before or not. A damaged one is put right from
    /// another copy, if there is one. Whether it was right before.
    pub(crate) fn verify_again(
        &self,
        spec: &TableSpec,
        column: usize,
        block: usize,
    ) -> Result<bool, ScanError> {
        self.check_there(spec, column, block)?;
        let chunk = self.chunk(column);
        let Err(source) = chunk.verify_block(block) else {
            return Ok(true);
        };
        // What was copied near was right, and nobody writes there.
        if let Some((extent, read, place)) = self.far(column)
            && mend::block(extent, read, place.start, chunk, block)
        {
            return Ok(false);
        }
        Err(self.damaged(spec, column, block * BLOCK_LEN, source))
    }

    /// Has a block there, if it was lost.
    fn restore_lost(&self, spec: &TableSpec, column: usize, block: usize) -> Result<(), ScanError> {
        let Some((extent, read, place)) = self.far(column) else {
            return Ok(());
        };
        let chunk = self.chunk(column);
        let range = chunk.block_range(block);
        let range = place.start + range.start..place.start + range.end;
        if read.is_lost(&range) && !mend::block(extent, read, place.start, chunk, block) {
            let why = "its page was lost, and no other copy has it".to_owned();
            let what = "a block";
            let source = FormatError::Corrupt { what, why };
            return Err(self.damaged(spec, column, block * BLOCK_LEN, source));
        }
        Ok(())
    }

    /// What lies in a range of one of its extents: which columns' chunks, and rows of which blocks.
    pub(crate) fn rows_at(
        &self,
        extent: ExtentId,
        range: &Range<usize>,
    ) -> Option<(Vec<usize>, Range<usize>)> {
        let number = self.entry.extents.iter().position(|id| *id == extent)?;
        let (mut columns, mut rows) = (Vec::new(), self.rows()..0);
        for (column, place) in self.entry.chunks.iter().enumerate() {
            let chunk = range_of(place);
            let is_met = chunk.start < range.end && range.start < chunk.end;
            if place.extent as usize != number || !is_met {
                continue;
            }
            columns.push(column);
            let met = range.start.max(chunk.start) - chunk.start..range.end - chunk.start;
            let met = self.rows_of(column, &met);
            rows = rows.start.min(met.start)..rows.end.max(met.end);
        }
        (!columns.is_empty() && !rows.is_empty()).then_some((columns, rows))
    }

    /// Rows of the blocks that have a byte in a range of a chunk; all rows where the head is concerned.
    fn rows_of(&self, column: usize, range: &Range<usize>) -> Range<usize> {
        let chunk = self.chunk(column);
        if range.start < chunk.head_bytes() || self.is_absent(column) {
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

    /// Whether all that lies in one of its extents has its checksums, and padding is zero.
    pub(crate) fn is_whole_in(&self, extent: &OwnedExtent) -> bool {
        let number = self.entry.extents.iter().position(|id| *id == extent.id());
        let lies_there =
            |column: &usize| Some(self.entry.chunks[*column].extent as usize) == number;
        let columns = Vec::from_iter((0..self.entry.chunks.len()).filter(lies_there));
        let mut blocks =
            (0..self.blocks()).flat_map(|block| columns.iter().map(move |column| (block, *column)));
        let is_right = |(block, column): (usize, usize)| {
            !self.is_absent(column) && self.chunk(column).verify_block(block).is_ok()
        };
        let bytes = extent.first();
        let is_zero = |range: &Range<usize>| bytes[range.clone()].iter().all(|byte| *byte == 0);
        blocks.all(is_right) && self.padding(&columns, extent).iter().all(is_zero)
    }

    /// What of the extent is padding: what no chunk of `columns`, which are all that lie there, reads.
    pub(crate) fn padding(&self, columns: &[usize], extent: &OwnedExtent) -> Vec<Range<usize>> {
        let used = columns.iter().flat_map(|column| {
            let place = &self.entry.chunks[*column];
            let start = place.offset as usize;
            // Nobody knows what of it means something.
            let all = self
                .is_absent(*column)
                .then_some(0..place.len_bytes as usize);
            let used = (!self.is_absent(*column)).then(|| self.chunk(*column).used());
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
    pub(crate) fn is_stored(&self, column: usize, block: usize, extent: &OwnedExtent) -> bool {
        let range = self.stored_range(column, block);
        let mut copies = extent.copies().iter().filter(|_| !self.is_absent(column));
        copies.any(|copy| self.chunk(column).is_block(block, &copy[range.clone()]))
    }

    /// Puts the block right in the extent's first copy, from whichever copy has it. Whether it is right then.
    pub(crate) fn mend_stored(&self, column: usize, block: usize, extent: &OwnedExtent) -> bool {
        if self.is_absent(column) {
            return false;
        }
        let range = self.stored_range(column, block);
        mend::stored(extent, range, |bytes| {
            self.chunk(column).is_block(block, bytes)
        })
    }

    /// Puts the head of a chunk right in the extent's first copy, from the one in near memory.
    pub(crate) fn mend_head(&self, column: usize, extent: &OwnedExtent) {
        if self.is_absent(column) {
            return;
        }
        let start = self.entry.chunks[column].offset as usize;
        mend::near(extent, start, self.heads().of(column));
    }

    /// Where the block lies in the extent of its chunk.
    fn stored_range(&self, column: usize, block: usize) -> Range<usize> {
        let start = self.entry.chunks[column].offset as usize;
        let range = self.chunk(column).block_range(block);
        start + range.start..start + range.end
    }

    /// Checks all blocks of a column, whether that was done before or not: what is made of them lasts.
    pub(crate) fn verify_column(&self, spec: &TableSpec, column: usize) -> Result<(), ScanError> {
        for block in 0..self.blocks() {
            if any_doubt() {
                self.restore_lost(spec, column, block)?;
            }
            self.verify_again(spec, column, block)?;
            self.verified.insert(block, column);
        }
        Ok(())
    }

    /// The error that names the block of a row.
    pub(crate) fn damaged(
        &self,
        spec: &TableSpec,
        column: usize,
        row: usize,
        source: FormatError,
    ) -> ScanError {
        let (table, column) = (spec.name.clone(), spec.columns[column].name.clone());
        ScanError::Damaged {
            table,
            column,
            segment: self.id(),
            block: row / BLOCK_LEN,
            source,
        }
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

/// Which blocks have passed their checksum: a bit per column, those of one block side by side, so
/// that reading one row of 1,000 columns looks at two lines of bits.
struct VerifiedBlocks {
    words_per_block: usize,
    words: Box<[AtomicU64]>,
}

impl VerifiedBlocks {
    fn new(entry: &SegmentEntry, all: bool) -> Self {
        let blocks = (entry.rows as usize).div_ceil(BLOCK_LEN);
        let words_per_block = entry.chunks.len().div_ceil(64);
        let word = |column: usize| match entry.chunks.len().saturating_sub(column) {
            _ if all => u64::MAX,
            // Bits that no column has are set, so that words tell whether all are.
            columns @ 0..64 => u64::MAX << columns,
            _ => 0,
        };
        let words = (0..blocks * words_per_block)
            .map(|at| AtomicU64::new(word(at % words_per_block * 64)))
            .collect();
        Self {
            words_per_block,
            words,
        }
    }

    // Relaxed, here and below: a stale zero only verifies once more, and the bytes themselves never
    // change.
    fn contains(&self, block: usize, column: usize) -> bool {
        let word = self.words[block * self.words_per_block + column / 64].load(Ordering::Relaxed);
        word >> (column % 64) & 1 == 1
    }

    fn contains_all(&self, block: usize) -> bool {
        let words = &self.words[block * self.words_per_block..][..self.words_per_block];
        words
            .iter()
            .all(|word| word.load(Ordering::Relaxed) == u64::MAX)
    }

    fn insert(&self, block: usize, column: usize) {
        self.words[block * self.words_per_block + column / 64]
            .fetch_or(1 << (column % 64), Ordering::Relaxed);
    }
}

impl Clone for VerifiedBlocks {
    fn clone(&self) -> Self {
        let word = |word: &AtomicU64| AtomicU64::new(word.load(Ordering::Relaxed));
        Self {
            words_per_block: self.words_per_block,
            words: self.words.iter().map(word).collect(),
        }
    }
}
