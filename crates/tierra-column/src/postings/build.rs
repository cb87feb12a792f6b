//! Building postings: a counting sort of rows by code, slab by slab of codes, on all threads.
//!
//! A coarse histogram cuts the codes into *slabs* of about four million rows. A thread takes one
//! slab at a time, finds its rows in all chunks by range filters on packed codes, once to count
//! and once to place them, and packs the result; slabs know where theirs belong, so they can be
//! written in any order. Reading a chunk once more per slab costs less than scattering 100 million
//! rows over memory that no cache holds.
//!
//! Besides the output a thread takes 8 bytes for each row of its slab, 12 for each list and what these
//! take packed: some 100 MB, however large the table; more only where one code has more rows than a
//! slab.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::sync_channel;

use super::layout::{Kind, POSTINGS_CHUNKS_MAX, PostingsLayout, ROW_BITS};
use crate::bits::{Mask, packed_bytes};
use crate::chunk::block_data::Payload;
use crate::chunk::{Chunk, Scratch};
use crate::dictionary::Dictionary;
use crate::encoding::width_of;
use crate::error::FormatError;

/// Rows of a slab, about: its sort stays within a last-level cache.
const SLAB_ROWS: u64 = 1 << 22;
/// The coarse histogram has at most this many counts.
const HISTOGRAM_BITS: u8 = 16;
/// Codes of a count are at least 2^6, so that a slab's rows by code begin on a byte.
const LEAST_GRAIN_BITS: u8 = 6;
/// Packed values that fill whole bytes, whatever their width.
const RUN: u64 = 8;

/// Why postings were not built.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PostingsError {
    /// A chunk cannot be what was written.
    #[error("chunk {chunk}: {source}")]
    Chunk {
        /// Its number among those given.
        chunk: usize,
        /// What is wrong.
        source: FormatError,
    },
    /// Blocks hold codes that their minima and maxima deny.
    #[error(
        "the chunks contradict their directories about the rows of codes {first}..: restore them from another copy"
    )]
    Contradiction {
        /// The first code of the slab.
        first: u64,
    },
    /// The caller asked to stop.
    #[error("building was interrupted")]
    Interrupted,
}

/// How postings of some chunks are to be written.
#[derive(Debug)]
pub struct PostingsPlan<'c> {
    chunks: Vec<Chunk<'c>>,
    layout: PostingsLayout,
    slabs: Vec<Slab>,
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

/// A slab as it is to be stored.
struct Packed {
    slab: Slab,
    /// Of its buckets, whole bytes.
    directory: Vec<u8>,
    /// From the run of eight in which its first entry lies.
    entries: Vec<u8>,
}

impl<'c> PostingsPlan<'c> {
    /// Plans the postings of dictionary chunks, at most [`POSTINGS_CHUNKS_MAX`]. Reads all of their
    /// codes; whoever wants blocks' checksums compared has done so. Codes that the dictionary does not
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
            .max(LEAST_GRAIN_BITS);
        let grains = codes.div_ceil(1 << grain_bits) as usize;
        let mut histogram = vec![0_u64; grains];
        on_threads(
            threads,
            chunks.len(),
            stop,
            |chunk| {
                let mut counts = vec![0_u32; grains];
                visit(&chunks[chunk], 0..codes, |code, _| {
                    counts[(code >> grain_bits) as usize] += 1;
                })
                .map_err(|source| PostingsError::Chunk { chunk, source })?;
                Ok(counts)
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
        let slabs = slabs(&histogram, grain_bits, lists.shift, codes);
        let mut plan = PostingsPlan {
            layout: lists,
            slabs,
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
        let width = usize::from(layout.entry_width());
        on_threads(
            self.threads,
            self.slabs.len(),
            stop,
            |slab| self.pack(self.slabs[slab]),
            |packed| {
                let bucket = packed.slab.first >> layout.shift;
                let at = packed_bytes(bucket as usize, layout.offset_width);
                directory[at..at + packed.directory.len()].copy_from_slice(&packed.directory);
                let first = match layout.kind {
                    Kind::Lists => packed.slab.first_entry,
                    Kind::Rows => packed.slab.first,
                };
                let at = (first / RUN) as usize * width;
                join(
                    &mut entries[at..at + packed.entries.len()],
                    &packed.entries,
                    width,
                );
            },
        )?;
        self.layout.seal(out);
        Ok(())
    }

    /// Whether no code comes twice.
    fn is_unique(&self, stop: &AtomicBool) -> Result<bool, PostingsError> {
        let twice = AtomicBool::new(false);
        let look = |slab: usize| {
            let slab = self.slabs[slab];
            let mut seen = vec![0_u64; (slab.end - slab.first).div_ceil(64) as usize];
            self.rows_of(slab, &twice, |code, _| {
                let word = &mut seen[(code / 64) as usize];
                if *word >> (code % 64) & 1 == 1 {
                    twice.store(true, Ordering::Relaxed);
                }
                *word |= 1 << (code % 64);
            })
        };
        on_threads(self.threads, self.slabs.len(), stop, look, |()| {})?;
        Ok(!twice.into_inner())
    }

    /// Calls `each` with every row of a slab: its code, counted from the slab's first, and its
    /// position. Ascending within a code. Chunks are left out once `enough` is set.
    fn rows_of(
        &self,
        slab: Slab,
        enough: &AtomicBool,
        mut each: impl FnMut(u64, u64),
    ) -> Result<(), PostingsError> {
        for (at, chunk) in self.chunks.iter().enumerate() {
            if enough.load(Ordering::Relaxed) {
                break;
            }
            visit(chunk, slab.first..slab.end, |code, row| {
                each(code - slab.first, position(at, row));
            })
            .map_err(|source| PostingsError::Chunk { chunk: at, source })?;
        }
        Ok(())
    }

    fn pack(&self, slab: Slab) -> Result<Packed, PostingsError> {
        match self.layout.kind {
            Kind::Lists => self.pack_lists(slab),
            Kind::Rows => self.pack_rows(slab),
        }
    }

    fn pack_rows(&self, slab: Slab) -> Result<Packed, PostingsError> {
        let mut slots = vec![0_u64; (slab.end - slab.first) as usize];
        let mut rows = 0;
        self.rows_of(slab, &AtomicBool::new(false), |code, position| {
            slots[code as usize] = position + 1;
            rows += 1;
        })?;
        if rows != slab.entries {
            return Err(PostingsError::Contradiction { first: slab.first });
        }
        Ok(Packed {
            slab,
            directory: Vec::new(),
            entries: packed(&slots, self.layout.entry_width()),
        })
    }

    fn pack_lists(&self, slab: Slab) -> Result<Packed, PostingsError> {
        let PostingsLayout {
            shift,
            offset_width,
            position_width,
            ..
        } = self.layout;
        let contradiction = || PostingsError::Contradiction { first: slab.first };
        let go_on = AtomicBool::new(false);
        let buckets = (slab.end - slab.first).div_ceil(1 << shift) as usize;
        // First how many rows each bucket has, then where its next one goes.
        let mut places = vec![0_u32; buckets];
        self.rows_of(slab, &go_on, |code, _| {
            places[(code >> shift) as usize] += 1
        })?;
        let lead = slab.first_entry % RUN;
        let mut directory = Vec::with_capacity(buckets + 1);
        let mut next = lead;
        for place in &mut places {
            directory.push(slab.first_entry - lead + next);
            let rows = std::mem::replace(place, next as u32);
            next += u64::from(rows);
        }
        if next != lead + slab.entries {
            return Err(contradiction());
        }
        if slab.end == self.layout.codes {
            directory.push(self.layout.entries);
        }
        let mut entries = vec![0_u64; next as usize];
        let low = (1 << shift) - 1;
        let mut is_lost = false;
        self.rows_of(slab, &go_on, |code, position| {
            let place = &mut places[(code >> shift) as usize];
            match entries.get_mut(*place as usize) {
                Some(entry) => *entry = (code & low) << position_width | position,
                None => is_lost = true,
            }
            *place += 1;
        })?;
        if is_lost {
            return Err(contradiction());
        }
        Ok(Packed {
            slab,
            directory: packed(&directory, offset_width),
            entries: packed(&entries, self.layout.entry_width()),
        })
    }
}

/// Consecutive slabs that cover all codes. Each begins at a multiple of eight buckets.
fn slabs(histogram: &[u64], grain_bits: u8, shift: u8, codes: u64) -> Vec<Slab> {
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
        if cuts && (slab.entries + rows > SLAB_ROWS || lists >= SLAB_ROWS) && first > slab.first {
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

fn packed(values: &[u64], width: u8) -> Vec<u8> {
    let mut out = vec![0; packed_bytes(values.len(), width)];
    crate::bits::Kernels::best().pack(values, width, &mut out);
    out
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

/// Runs `tasks` tasks on some threads and hands each result to `each`, on this thread.
fn on_threads<T: Send>(
    threads: NonZeroUsize,
    tasks: usize,
    stop: &AtomicBool,
    run: impl Fn(usize) -> Result<T, PostingsError> + Sync,
    mut each: impl FnMut(T),
) -> Result<(), PostingsError> {
    let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    // As many results wait as there are threads: no more memory than that.
    let (results, arriving) = sync_channel(threads.get());
    std::thread::scope(|scope| {
        for _ in 0..threads.get().min(tasks) {
            let (results, next, failed, run) = (results.clone(), &next, &failed, &run);
            scope.spawn(move || {
                while !failed.load(Ordering::Relaxed) {
                    let task = next.fetch_add(1, Ordering::Relaxed);
                    if task >= tasks {
                        break;
                    }
                    let result = match stop.load(Ordering::Relaxed) {
                        true => Err(PostingsError::Interrupted),
                        false => run(task),
                    };
                    failed.fetch_or(result.is_err(), Ordering::Relaxed);
                    // The receiver outlives the threads.
                    let _ = results.send(result);
                }
            });
        }
        drop(results);
        let mut outcome = Ok(());
        for result in &arriving {
            match result {
                Ok(result) if outcome.is_ok() => each(result),
                Ok(_) => {}
                Err(error) => outcome = Err(error),
            }
        }
        outcome
    })
}
