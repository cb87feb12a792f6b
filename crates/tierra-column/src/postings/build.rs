//! Building postings: a counting sort of rows by code, slab by slab of codes, on all threads.
//!
//! A coarse histogram cuts the codes into *slabs* of about four million rows. A thread takes one
//! slab at a time, finds its rows in all chunks by range filters on packed codes, once to count
//! and once to place them, and packs the result. The output range of each slab is known, so slabs are
//! written in any order. Reading a chunk once more per slab costs less than scattering 100 million
//! rows over memory that no cache holds. But the time grows with rows times slabs, so many more rows
//! should be split over several postings.
//!
//! A code is never split over slabs, and the histogram counts several codes together: a slab is larger where
//! few codes have many rows. Its rows are then sorted some chunks at a time, and each list is written in as
//! many pieces.
//!
//! Besides the output a thread takes 8 bytes for each row that it sorts, 12 for each list and what these
//! take packed: some 100 MB, however large the table, and whatever its values are.

use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use super::error::PostingsError;
use super::layout::{POSTINGS_CHUNKS_MAX, PostingsKind, PostingsLayout, ROW_BITS};
use super::threads::{Results, on_threads};
use crate::bits::{Kernels, Mask, packed_bytes, width_of};
use crate::chunk::block_data::Payload;
use crate::chunk::{Chunk, Scratch};
use crate::dictionary::Dictionary;
use crate::error::FormatError;

/// Rows of a slab, about: its sort stays within a last-level cache.
const SLAB_ROWS: u64 = 1 << 22;
/// The coarse histogram has at most this many counts.
const HISTOGRAM_BITS: u8 = 16;
/// Codes of a count are at least 2^6, so that a slab's rows by code begin on a byte.
const MIN_GRAIN_BITS: u8 = 6;
/// Packed values that fill whole bytes, whatever their width.
const RUN: u64 = 8;

/// How postings of some chunks are to be written.
#[derive(Debug)]
pub struct PostingsPlan<'c> {
    chunks: Vec<Chunk<'c>>,
    layout: PostingsLayout,
    slabs: Vec<Slab>,
    /// The most rows that are sorted at once.
    slab_rows: u64,
    threads: NonZeroUsize,
}

/// A run of codes, and where its rows are entered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Slab {
    first: u64,
    end: u64,
    first_entry: u64,
    entries: u64,
}

/// Packed values as they are to be stored.
struct PackedPiece {
    of: Section,
    /// The number of its first value: a multiple of eight.
    first: u64,
    bytes: Vec<u8>,
}

#[derive(Clone, Copy)]
enum Section {
    Directory,
    Entries,
}

impl PackedPiece {
    /// Packs values from number `first` on. Earlier values that share their first bytes are packed as zeros.
    fn new(of: Section, first: u64, values: &[u64], width: u8) -> PackedPiece {
        let lead = first % RUN;
        if lead == 0 {
            return PackedPiece::aligned(of, first, values, width);
        }
        let mut aligned = vec![0; lead as usize];
        aligned.extend_from_slice(values);
        PackedPiece::aligned(of, first - lead, &aligned, width)
    }

    /// Packs values from number `first` on, a multiple of eight.
    fn aligned(of: Section, first: u64, values: &[u64], width: u8) -> PackedPiece {
        let mut bytes = vec![0; packed_bytes(values.len(), width)];
        Kernels::best().pack(values, width, &mut bytes);
        PackedPiece { of, first, bytes }
    }
}

impl<'c> PostingsPlan<'c> {
    /// Plans the postings of dictionary chunks, at most [`POSTINGS_CHUNKS_MAX`]. Reads all of their
    /// codes; the caller has compared the blocks' checksums, if it wants to. Codes that the dictionary does not
    /// have are in no list. `stop` ends it early.
    ///
    /// # Errors
    /// [`PostingsError`]: a chunk that is not encoded by this generation of the dictionary, or
    /// damaged; or `stop` was set.
    ///
    /// # Panics
    /// If there are more chunks.
    pub fn new(
        chunks: Vec<Chunk<'c>>,
        dictionary: &Dictionary,
        threads: NonZeroUsize,
        stop: &AtomicBool,
    ) -> Result<PostingsPlan<'c>, PostingsError> {
        Self::with_slabs(chunks, dictionary, threads, stop, SLAB_ROWS)
    }

    /// With slabs of `slab_rows` rows. What is written does not depend on it.
    fn with_slabs(
        chunks: Vec<Chunk<'c>>,
        dictionary: &Dictionary,
        threads: NonZeroUsize,
        stop: &AtomicBool,
        slab_rows: u64,
    ) -> Result<PostingsPlan<'c>, PostingsError> {
        assert!(
            chunks.len() <= POSTINGS_CHUNKS_MAX,
            "postings of {} chunks: at most {POSTINGS_CHUNKS_MAX} are possible",
            chunks.len()
        );
        let generation = dictionary.generation();
        for (at, chunk) in chunks.iter().enumerate() {
            let given = chunk.dictionary_generation();
            if given != Some(generation) && !chunk.is_all_null() {
                let needed = generation;
                let source = FormatError::Generation { needed, given };
                return Err(PostingsError::Chunk { chunk: at, source });
            }
        }
        let codes = dictionary.len() as u64;
        let grain_bits = width_of(codes)
            .saturating_sub(HISTOGRAM_BITS)
            .max(MIN_GRAIN_BITS);
        let grains = codes.div_ceil(1 << grain_bits) as usize;
        let mut histogram = vec![0_u64; grains];
        on_threads(
            threads,
            chunks.len(),
            stop,
            |chunk, results| {
                let mut counts = vec![0_u32; grains];
                visit(&chunks[chunk], 0..codes, |code, _| {
                    counts[(code >> grain_bits) as usize] += 1;
                })
                .map_err(|source| PostingsError::Chunk { chunk, source })?;
                results.send(counts)
            },
            |counts| {
                for (total, count) in histogram.iter_mut().zip(counts) {
                    *total += u64::from(count);
                }
            },
        )?;
        let entries = histogram.iter().sum();
        let last_position = chunks.last().map_or(0, |chunk| {
            position(chunks.len() - 1, (chunk.rows() as u32).saturating_sub(1))
        });
        let layout = |unique| {
            let chunks = chunks.len() as u32;
            PostingsLayout::new(generation, codes, entries, chunks, last_position, unique)
        };
        let lists = layout(false);
        let slabs = slabs(&histogram, grain_bits, lists.shift, codes, slab_rows);
        let mut plan = PostingsPlan {
            layout: lists,
            slabs,
            slab_rows,
            threads,
            chunks: Vec::new(),
        };
        // Rows by code pay while at least half of the codes have one.
        let unique = layout(true);
        plan.chunks = chunks;
        if entries <= codes && codes <= 2 * entries && plan.is_unique(stop)? {
            plan.layout = unique;
        }
        Ok(plan)
    }

    /// Bytes that [`PostingsPlan::write`] fills.
    pub fn len_bytes(&self) -> usize {
        self.layout.len_bytes()
    }

    /// Writes the postings to the start of `out`, whatever that held. `stop` ends it early.
    ///
    /// # Errors
    /// [`PostingsError`], as [`PostingsPlan::new`]; `out` holds anything then.
    ///
    /// # Panics
    /// If `out` is shorter than [`PostingsPlan::len_bytes`].
    pub fn write(&self, out: &mut [u8], stop: &AtomicBool) -> Result<(), PostingsError> {
        let layout = &self.layout;
        let out = &mut out[..layout.len_bytes()];
        let data = &mut out[layout.data_offset()..];
        data.fill(0);
        let (directory, entries) = data.split_at_mut(layout.entries_at());
        on_threads(
            self.threads,
            self.slabs.len(),
            stop,
            |slab, pieces| self.pack(self.slabs[slab], pieces),
            |pieces: Vec<PackedPiece>| {
                for piece in pieces {
                    let (section, width) = match piece.of {
                        Section::Directory => (&mut *directory, layout.offset_width),
                        Section::Entries => (&mut *entries, layout.entry_width()),
                    };
                    let run_bytes = usize::from(width);
                    let at = (piece.first / RUN) as usize * run_bytes;
                    let place = &mut section[at..at + piece.bytes.len()];
                    join(place, &piece.bytes, run_bytes);
                }
            },
        )?;
        self.layout.seal(out);
        Ok(())
    }

    /// Whether no code comes twice.
    fn is_unique(&self, stop: &AtomicBool) -> Result<bool, PostingsError> {
        let twice = AtomicBool::new(false);
        let look = |slab: usize, results: &Results<'_, ()>| {
            let slab = self.slabs[slab];
            let mut seen = vec![0_u64; (slab.end - slab.first).div_ceil(64) as usize];
            self.rows_of(slab, 0..self.chunks.len(), &twice, |code, _| {
                let word = &mut seen[(code / 64) as usize];
                if *word >> (code % 64) & 1 == 1 {
                    twice.store(true, Ordering::Relaxed);
                }
                *word |= 1 << (code % 64);
            })?;
            results.send(())
        };
        on_threads(self.threads, self.slabs.len(), stop, look, |()| {})?;
        Ok(!twice.into_inner())
    }

    /// Calls `each` with every row that a slab has in some chunks: its code, counted from the slab's
    /// first, and its position. Ascending within a code. Chunks are left out once `enough` is set.
    fn rows_of(
        &self,
        slab: Slab,
        chunks: Range<usize>,
        enough: &AtomicBool,
        mut each: impl FnMut(u64, u64),
    ) -> Result<(), PostingsError> {
        for at in chunks {
            if enough.load(Ordering::Relaxed) {
                break;
            }
            visit(&self.chunks[at], slab.first..slab.end, |code, row| {
                each(code - slab.first, position(at, row));
            })
            .map_err(|source| PostingsError::Chunk { chunk: at, source })?;
        }
        Ok(())
    }

    fn pack(
        &self,
        slab: Slab,
        pieces: &Results<'_, Vec<PackedPiece>>,
    ) -> Result<(), PostingsError> {
        match self.layout.kind {
            PostingsKind::Lists => self.pack_lists(slab, pieces),
            PostingsKind::Rows => self.pack_rows(slab, pieces),
        }
    }

    fn pack_rows(
        &self,
        slab: Slab,
        pieces: &Results<'_, Vec<PackedPiece>>,
    ) -> Result<(), PostingsError> {
        let mut slots = vec![0_u64; (slab.end - slab.first) as usize];
        let mut rows = 0;
        let go_on = AtomicBool::new(false);
        self.rows_of(slab, 0..self.chunks.len(), &go_on, |code, position| {
            slots[code as usize] = position + 1;
            rows += 1;
        })?;
        if rows != slab.entries {
            return Err(slab.contradiction());
        }
        let width = self.layout.entry_width();
        pieces.send(vec![PackedPiece::new(
            Section::Entries,
            slab.first,
            &slots,
            width,
        )])
    }

    fn pack_lists(
        &self,
        slab: Slab,
        pieces: &Results<'_, Vec<PackedPiece>>,
    ) -> Result<(), PostingsError> {
        let layout = &self.layout;
        let all = 0..self.chunks.len();
        let counts = self.count(slab, all.clone())?;
        // Of each bucket: the number of its first entry, later of its next one.
        let mut next_entries = Vec::with_capacity(counts.len() + 1);
        let mut next = slab.first_entry;
        for rows in &counts {
            next_entries.push(next);
            next += u64::from(*rows);
        }
        if next != slab.end_entry() {
            return Err(slab.contradiction());
        }
        if slab.end == layout.codes {
            next_entries.push(layout.entries);
        }
        let (bucket, width) = (slab.first >> layout.shift, layout.offset_width);
        pieces.send(vec![PackedPiece::new(
            Section::Directory,
            bucket,
            &next_entries,
            width,
        )])?;
        let width = layout.entry_width();
        if slab.entries <= self.slab_rows {
            let lead = slab.first_entry % RUN;
            let sorted = self.sorted(slab, all, &counts, lead)?;
            let first = slab.first_entry - lead;
            return pieces.send(vec![PackedPiece::aligned(
                Section::Entries,
                first,
                &sorted,
                width,
            )]);
        }
        drop(counts);
        for chunks in self.groups() {
            let counts = self.count(slab, chunks.clone())?;
            let sorted = self.sorted(slab, chunks, &counts, 0)?;
            let (mut lists, mut rest) = (Vec::new(), &sorted[..]);
            for (next, rows) in next_entries.iter_mut().zip(&counts) {
                let (list, others) = rest.split_at(*rows as usize);
                rest = others;
                if list.is_empty() {
                    continue;
                }
                lists.push(PackedPiece::new(Section::Entries, *next, list, width));
                *next += u64::from(*rows);
                // An undamaged chunk has the same rows when it is read again.
                if *next > slab.end_entry() {
                    return Err(slab.contradiction());
                }
            }
            pieces.send(lists)?;
        }
        Ok(())
    }

    /// How many rows each of a slab's buckets has in some chunks.
    fn count(&self, slab: Slab, chunks: Range<usize>) -> Result<Vec<u32>, PostingsError> {
        let shift = self.layout.shift;
        let mut counts = vec![0_u32; (slab.end - slab.first).div_ceil(1 << shift) as usize];
        self.rows_of(slab, chunks, &AtomicBool::new(false), |code, _| {
            counts[(code >> shift) as usize] += 1;
        })?;
        Ok(counts)
    }

    /// The entries that a slab has in some chunks, by bucket, each of which has as many as `counts`
    /// says; behind `lead` zeros.
    fn sorted(
        &self,
        slab: Slab,
        chunks: Range<usize>,
        counts: &[u32],
        lead: u64,
    ) -> Result<Vec<u64>, PostingsError> {
        let (shift, position_width) = (self.layout.shift, self.layout.position_width);
        let mut next = lead as usize;
        let mut next_entries = Vec::with_capacity(counts.len());
        for rows in counts {
            next_entries.push(next as u32);
            next += *rows as usize;
        }
        let mut sorted = vec![0_u64; next];
        let low = (1 << shift) - 1;
        let mut is_lost = false;
        self.rows_of(slab, chunks, &AtomicBool::new(false), |code, position| {
            let place = &mut next_entries[(code >> shift) as usize];
            match sorted.get_mut(*place as usize) {
                Some(entry) => *entry = (code & low) << position_width | position,
                None => is_lost = true,
            }
            *place += 1;
        })?;
        match is_lost {
            true => Err(slab.contradiction()),
            false => Ok(sorted),
        }
    }

    /// Consecutive chunks of at most as many rows as are sorted at once, one at least.
    fn groups(&self) -> Vec<Range<usize>> {
        let (mut groups, mut first, mut rows) = (Vec::new(), 0, 0);
        for (at, chunk) in self.chunks.iter().enumerate() {
            let more = chunk.rows() as u64;
            if rows + more > self.slab_rows && at > first {
                groups.push(first..at);
                (first, rows) = (at, 0);
            }
            rows += more;
        }
        groups.push(first..self.chunks.len());
        groups
    }
}

impl Slab {
    fn end_entry(&self) -> u64 {
        self.first_entry + self.entries
    }

    fn contradiction(&self) -> PostingsError {
        PostingsError::Contradiction { first: self.first }
    }
}

/// Consecutive slabs that cover all codes. Each begins at a multiple of eight buckets.
fn slabs(histogram: &[u64], grain_bits: u8, shift: u8, codes: u64, slab_rows: u64) -> Vec<Slab> {
    // Fewer rows than that have one slab.
    let cuts = shift + RUN.trailing_zeros() as u8 <= grain_bits;
    let mut slabs = Vec::new();
    let mut slab = Slab {
        first: 0,
        end: 0,
        first_entry: 0,
        entries: 0,
    };
    for (grain, rows) in histogram.iter().enumerate() {
        let first = (grain as u64) << grain_bits;
        let lists = (first - slab.first) >> shift;
        if cuts && (slab.entries + rows > slab_rows || lists >= slab_rows) && first > slab.first {
            slabs.push(Slab { end: first, ..slab });
            slab = Slab {
                first,
                end: first,
                first_entry: slab.first_entry + slab.entries,
                entries: 0,
            };
        }
        slab.entries += rows;
    }
    slabs.push(Slab { end: codes, ..slab });
    slabs
}

#[inline]
fn position(chunk: usize, row: u32) -> u64 {
    (chunk as u64) << ROW_BITS | u64::from(row)
}

/// Stores bytes of which the first and the last run may be shared with others.
fn join(out: &mut [u8], bytes: &[u8], run_bytes: usize) {
    let shared = run_bytes.min(bytes.len());
    let own = shared..bytes.len().saturating_sub(run_bytes).max(shared);
    out[own.clone()].copy_from_slice(&bytes[own.clone()]);
    for at in (0..own.start).chain(own.end..bytes.len()) {
        out[at] |= bytes[at];
    }
}

/// Calls `each` with the code and the row of every value whose code is in `codes`.
fn visit(
    chunk: &Chunk<'_>,
    codes: std::ops::Range<u64>,
    mut each: impl FnMut(u64, u32),
) -> Result<(), FormatError> {
    if chunk.is_all_null() || codes.is_empty() {
        return Ok(());
    }
    let mut scratch = Scratch::new();
    for block in 0..chunk.blocks() {
        let entry = chunk.entry(block);
        if entry.min > entry.max || entry.max < codes.start || entry.min >= codes.end {
            continue;
        }
        let data = chunk.block(block)?;
        let Payload::Packed(run) = data.payload else {
            return Err(FormatError::corrupt(
                "a dictionary chunk",
                "it is not packed",
            ));
        };
        let nulls = data.null_codes;
        let mut mask = Mask::first(data.rows);
        let (low, high) = (codes.start + nulls, codes.end - 1 + nulls);
        let kernels = scratch.kernels;
        kernels.select_between(run.packed, run.width, run.rows, low, high, &mut mask);
        let out = &mut scratch.selected[..];
        let found = kernels.unpack_selected_u64(run.packed, run.width, run.rows, &mask, out);
        let first_row = (block * crate::bits::BLOCK_LEN) as u32;
        for (row, stored) in mask.iter().zip(&out[..found]) {
            each(stored - nulls, first_row + row as u32);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int32Array};

    use super::*;
    use crate::chunk::ChunkPlan;
    use crate::dictionary::DictionaryBuilder;
    use crate::encoding::Encoding;
    use crate::logical_type::LogicalType;

    const TY: LogicalType = LogicalType::Integer;

    fn written(chunks: &[Vec<u8>], dictionary: &Dictionary, slab_rows: u64) -> Vec<u8> {
        let chunks = chunks.iter().map(|bytes| Chunk::open(bytes, TY).unwrap());
        let (chunks, go_on) = (chunks.collect(), AtomicBool::new(false));
        let threads = NonZeroUsize::new(2).unwrap();
        let plan = PostingsPlan::with_slabs(chunks, dictionary, threads, &go_on, slab_rows);
        let plan = plan.unwrap();
        let mut bytes = vec![0xa5; plan.len_bytes()];
        plan.write(&mut bytes, &go_on).unwrap();
        bytes
    }

    /// What takes bounded memory is what is written at once, whatever the values.
    #[test]
    fn slabs_that_are_sorted_in_pieces_become_the_same_bytes() {
        // One value, few values, one of many values in most rows, many values; and NULLs.
        let columns: [fn(i32) -> i32; 4] = [
            |_| 7,
            |row| row * 31 % 50,
            |row| if row % 10 == 0 { row % 9000 } else { 4321 },
            |row| row * 7919 % 10_007,
        ];
        for (at, value) in columns.into_iter().enumerate() {
            let mut builder = DictionaryBuilder::new(TY, 1);
            let chunk = |first: i32| {
                let rows = first..first + 1000 + first % 999;
                let values = rows.map(|row| (row % 13 != 5).then(|| value(row)));
                let values: ArrayRef = Arc::new(values.collect::<Int32Array>());
                let encoding = Some(Encoding::Dictionary);
                let plan = ChunkPlan::new(TY, &[values], encoding, Some(&mut builder)).unwrap();
                let mut bytes = vec![0; plan.len_bytes()];
                plan.write(&mut bytes);
                bytes
            };
            let chunks: Vec<_> = (0..20).map(|at| at * 2000).map(chunk).collect();
            let dictionary = builder.finish();
            let expected = written(&chunks, &dictionary, SLAB_ROWS);
            for slab_rows in [1, 700, 5000, 20_000] {
                let found = written(&chunks, &dictionary, slab_rows);
                assert!(found == expected, "column {at}, slabs of {slab_rows} rows");
            }
        }
    }
}
