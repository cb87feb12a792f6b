//! Encoding a chunk in two steps, because its space is allocated between them: a plan decides the
//! encoding and every size, then writes into the space it was given.
//!
//! Planning reads the values once for their minima, maxima and NULLs, and again only where widths
//! depend on more than that (mini-blocks, differences). Writing reads them once more and packs.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::Decimal128Type;

use crate::bits::{BLOCK_LEN, Kernels, PAD_BYTES, packed_bytes};
use crate::block::{OrdinalBlock, Summary};
use crate::bytes::{LINE_BYTES, lines};
use crate::chunk::layout::{DESCRIPTOR_BYTES, Descriptor, ENTRY_BYTES, Entry};
use crate::dictionary::DictionaryBuilder;
use crate::encoding::{
    Encoding, delta, dictionary, dynamic, frame_of_reference, plain, plain_strings, static_packing,
};
use crate::error::EncodeError;
use crate::estimate;
use crate::logical_type::{LogicalType, Physical};
use crate::ordinal;
use crate::source::{Arrays, Source};

/// A chunk about to be written: its encoding and sizes are settled.
pub struct ChunkPlan {
    descriptor: Descriptor,
    entries: Vec<Entry>,
    source: Source,
}

impl ChunkPlan {
    /// Plans a chunk of `values`, consecutive arrays of `ty`'s arrow type with at most
    /// [`CHUNK_ROWS`](crate::CHUNK_ROWS) rows together.
    ///
    /// `encoding` is the wanted one, `None` the estimator's choice. Two wishes give way: values
    /// that span all 2^64 ordinals, and have NULLs besides, are stored plain; so is everything a
    /// dictionary cannot hold when the estimator, not the caller, wanted one. `dictionary` takes
    /// up the new values where the chunk ends up with dictionary codes.
    ///
    /// # Errors
    /// [`EncodeError`]: wrong array type, too many rows, an encoding the type does not have (or
    /// `Dictionary` without a dictionary), strings of more than 4 GiB in one block or 256 GiB in all.
    pub fn new(
        ty: LogicalType,
        values: &[ArrayRef],
        encoding: Option<Encoding>,
        dictionary: Option<&mut DictionaryBuilder>,
    ) -> Result<ChunkPlan, EncodeError> {
        let arrays = Arrays::new(ty, values)?;
        if let Some(encoding) = encoding {
            let remedy = match encoding {
                _ if !encoding.supports(ty) => "choose plain, or leave the choice to Tierra",
                Encoding::Dictionary if dictionary.is_none() => "give the column a dictionary",
                _ => "",
            };
            if !remedy.is_empty() {
                return Err(EncodeError::Unsupported {
                    ty,
                    encoding,
                    remedy,
                });
            }
        }
        match ty.physical() {
            Physical::Wide => Ok(plan_wide(arrays)),
            Physical::Bytes => {
                let wanted = encoding.unwrap_or_else(|| match &dictionary {
                    Some(_) => estimate::string_encoding(&arrays),
                    None => Encoding::Plain,
                });
                match (wanted, dictionary) {
                    (Encoding::Dictionary, Some(dictionary)) => plan_codes(arrays, dictionary),
                    _ => plan_strings(arrays),
                }
            }
            Physical::Ordinal => {
                let source = Source::Arrays(arrays);
                let summaries = summarise(&source);
                let wanted = encoding.unwrap_or_else(|| {
                    estimate::ordinal_encoding(ty, &source, &summaries, dictionary.is_some())
                });
                match (wanted, dictionary, source) {
                    (Encoding::Dictionary, Some(dictionary), Source::Arrays(arrays)) => {
                        let total = Summary::of_all(&summaries);
                        let mut plan = plan_codes(arrays, dictionary)?;
                        (plan.descriptor.min, plan.descriptor.max) = (total.min, total.max);
                        Ok(plan)
                    }
                    (wanted, _, source) => Ok(plan_ordinals(ty, source, &summaries, wanted)),
                }
            }
        }
    }

    /// Plans a dictionary chunk of codes that are at hand, [`NULL_CODE`](crate::NULL_CODE) for
    /// NULL: for merging generations. `min_max` are the ordinals of the least and greatest value,
    /// where the type has them.
    pub(crate) fn of_codes(
        ty: LogicalType,
        generation: u64,
        codes: Vec<u32>,
        min_max: (u64, u64),
    ) -> ChunkPlan {
        let source = Source::Codes(codes);
        let summaries = summarise(&source);
        let total = Summary::of_all(&summaries);
        let null_codes = u64::from(Summary::nulls_of(&summaries) > 0);
        let (base, width) = dictionary::base_and_width(total, null_codes);
        let entries: Vec<Entry> = summaries.iter().map(|&s| Entry::new(s, width)).collect();
        let mut plan = ChunkPlan::assemble(ty, Encoding::Dictionary, source, entries, total);
        plan.descriptor.base = base;
        plan.descriptor.width = width;
        plan.descriptor.generation = generation;
        (plan.descriptor.min, plan.descriptor.max) = min_max;
        plan.place(|descriptor, rows, _| packed_bytes(rows, descriptor.width));
        plan
    }

    fn assemble(
        ty: LogicalType,
        encoding: Encoding,
        source: Source,
        entries: Vec<Entry>,
        total: Summary,
    ) -> ChunkPlan {
        let null_count: u32 = entries
            .iter()
            .map(|entry| u32::from(entry.null_count))
            .sum();
        ChunkPlan {
            descriptor: Descriptor {
                ty,
                encoding,
                width: 0,
                has_nulls: null_count > 0,
                rows: source.rows() as u32,
                null_count,
                base: 0,
                generation: 0,
                data_offset: 0,
                len_bytes: 0,
                min: total.min,
                max: total.max,
            },
            entries,
            source,
        }
    }

    /// Places the blocks one after the other; `len` says how long each one is.
    fn place(&mut self, mut len: impl FnMut(&Descriptor, usize, &Entry) -> usize) {
        let data_offset = lines(DESCRIPTOR_BYTES + self.entries.len() * ENTRY_BYTES);
        let mut offset = 0;
        for (block, entry) in self.entries.iter_mut().enumerate() {
            let len = len(&self.descriptor, self.descriptor.block_rows(block), entry);
            entry.len_bytes = len as u32;
            entry.offset_lines = (offset / LINE_BYTES) as u32;
            offset += lines(len);
        }
        self.descriptor.data_offset = data_offset as u64;
        self.descriptor.len_bytes = (data_offset + offset + PAD_BYTES) as u64;
    }

    /// The encoding chosen.
    pub fn encoding(&self) -> Encoding {
        self.descriptor.encoding
    }

    /// Rows in the chunk.
    pub fn rows(&self) -> usize {
        self.descriptor.rows as usize
    }

    /// Bytes that [`ChunkPlan::write`] fills.
    pub fn len_bytes(&self) -> usize {
        self.descriptor.len_bytes as usize
    }

    /// Writes the chunk over the first [`ChunkPlan::len_bytes`] bytes of `out`, whatever they
    /// held.
    ///
    /// # Panics
    /// If `out` is shorter.
    pub fn write(&self, out: &mut [u8]) {
        let out = &mut out[..self.len_bytes()];
        let (head, data) = out.split_at_mut(self.descriptor.data_offset as usize);
        let (descriptor, directory) = head.split_at_mut(DESCRIPTOR_BYTES);
        let mut writer = BlockWriter {
            descriptor: &self.descriptor,
            kernels: Kernels::best(),
            block: OrdinalBlock::new(),
            codes: Box::new([0; BLOCK_LEN]),
        };
        directory.fill(0);
        let mut end = 0;
        for (block, entry) in self.entries.iter().enumerate() {
            let from = entry.offset_lines as usize * LINE_BYTES;
            data[end..from].fill(0);
            end = from + entry.len_bytes as usize;
            let bytes = &mut data[from..end];
            writer.write(&self.source, block, entry, bytes);
            let entry = Entry {
                crc: crc32c::crc32c(bytes),
                ..*entry
            };
            entry.write(&mut directory[block * ENTRY_BYTES..][..ENTRY_BYTES]);
        }
        data[end..].fill(0);
        let directory = &directory[..self.entries.len() * ENTRY_BYTES];
        self.descriptor.write(directory, descriptor);
    }
}

/// One block at a time into its place, with the buffers that takes.
struct BlockWriter<'p> {
    descriptor: &'p Descriptor,
    kernels: Kernels,
    block: OrdinalBlock,
    codes: Box<[u64; BLOCK_LEN]>,
}

impl BlockWriter<'_> {
    fn write(&mut self, source: &Source, block: usize, entry: &Entry, out: &mut [u8]) {
        let descriptor = self.descriptor;
        let null_codes = descriptor.null_codes();
        match (descriptor.encoding, descriptor.ty.physical(), source) {
            (Encoding::Plain, Physical::Bytes, Source::Arrays(arrays)) => {
                let rest = self.validity(arrays, block, out);
                plain_strings::write(self.kernels, arrays, block, entry.width, rest);
            }
            (Encoding::Plain, Physical::Wide, Source::Arrays(arrays)) => {
                let rest = self.validity(arrays, block, out);
                arrays.pieces(block, |array, from, len, at| {
                    let values = &array.as_primitive::<Decimal128Type>().values()[from..from + len];
                    let out = &mut rest[at * plain::WIDE_BYTES..];
                    for (bytes, value) in out.chunks_exact_mut(plain::WIDE_BYTES).zip(values) {
                        bytes.copy_from_slice(&value.to_le_bytes());
                    }
                });
            }
            (Encoding::Plain, ..) => {
                source.fill(block, &mut self.block);
                let (bitmap, rest) = out.split_at_mut(descriptor.bitmap_bytes());
                plain::write_validity(&self.block, bitmap);
                self.kernels.pack(self.block.values(), entry.width, rest);
            }
            (Encoding::Delta, ..) => {
                source.fill(block, &mut self.block);
                let (frame, _) = delta::plan(&self.block, null_codes)
                    .expect("planning gave up on delta where a block does not fit it");
                delta::codes(&self.block, frame, null_codes, &mut self.codes);
                frame.write(out);
                let codes = &self.codes[..self.block.rows];
                self.kernels
                    .pack(codes, entry.width, &mut out[delta::HEADER_BYTES..]);
            }
            (encoding, ..) => {
                source.fill(block, &mut self.block);
                self.block
                    .codes(descriptor.block_base(entry), &mut self.codes);
                let codes = &self.codes[..self.block.rows];
                if encoding == Encoding::Dynamic {
                    dynamic::write(self.kernels, codes, out);
                } else {
                    self.kernels.pack(codes, entry.width, out);
                }
            }
        }
    }

    /// Writes the validity bitmap, if the chunk has one, and returns the bytes behind it.
    fn validity<'o>(&mut self, arrays: &Arrays, block: usize, out: &'o mut [u8]) -> &'o mut [u8] {
        let (bitmap, rest) = out.split_at_mut(self.descriptor.bitmap_bytes());
        if !bitmap.is_empty() {
            arrays.nulls(block, &mut self.block);
            plain::write_validity(&self.block, bitmap);
        }
        rest
    }
}

fn summarise(source: &Source) -> Vec<Summary> {
    let kernels = Kernels::best();
    let mut block = OrdinalBlock::new();
    (0..source.rows().div_ceil(BLOCK_LEN))
        .map(|b| {
            source.fill(b, &mut block);
            block.summary(kernels)
        })
        .collect()
}

/// Plans `wanted`, or plain where it leaves NULL no code.
fn plan_ordinals(
    ty: LogicalType,
    source: Source,
    summaries: &[Summary],
    wanted: Encoding,
) -> ChunkPlan {
    let total = Summary::of_all(summaries);
    let null_codes = u64::from(Summary::nulls_of(summaries) > 0);
    let widths = match wanted {
        Encoding::Static => static_packing::base_and_width(total, null_codes)
            .map(|(_, width)| vec![width; summaries.len()]),
        Encoding::FrameOfReference => summaries
            .iter()
            .map(|&summary| frame_of_reference::width(summary, null_codes))
            .collect(),
        // The widths are the mini-blocks' own; only whether the codes fit is asked here.
        Encoding::Dynamic => summaries
            .iter()
            .map(|&summary| frame_of_reference::width(summary, null_codes).map(|_| 0))
            .collect(),
        Encoding::Delta => {
            let mut block = OrdinalBlock::new();
            (0..summaries.len())
                .map(|b| {
                    source.fill(b, &mut block);
                    Some(delta::plan(&block, null_codes)?.1)
                })
                .collect()
        }
        Encoding::Plain | Encoding::Dictionary => None,
    };
    let (encoding, widths) = match widths {
        Some(widths) => (wanted, widths),
        None => (Encoding::Plain, vec![ty.natural_width(); summaries.len()]),
    };
    let entries: Vec<Entry> = summaries
        .iter()
        .zip(widths)
        .map(|(&summary, width)| Entry::new(summary, width))
        .collect();
    let mut plan = ChunkPlan::assemble(ty, encoding, source, entries, total);
    match encoding {
        Encoding::Plain => plan.descriptor.width = ty.natural_width(),
        Encoding::Static => {
            (plan.descriptor.base, plan.descriptor.width) =
                static_packing::base_and_width(total, null_codes).unwrap_or((0, 0));
        }
        _ => {}
    }
    if encoding == Encoding::Dynamic {
        let lens = dynamic_lens(&plan.source, summaries, null_codes);
        let mut lens = lens.into_iter();
        plan.place(|_, _, _| lens.next().unwrap_or(0));
    } else {
        let head = if encoding == Encoding::Delta {
            delta::HEADER_BYTES
        } else {
            0
        };
        plan.place(|descriptor, rows, entry| {
            descriptor.bitmap_bytes() + head + packed_bytes(rows, entry.width)
        });
    }
    plan
}

fn dynamic_lens(source: &Source, summaries: &[Summary], null_codes: u64) -> Vec<usize> {
    let mut block = OrdinalBlock::new();
    let mut codes = Box::new([0; BLOCK_LEN]);
    summaries
        .iter()
        .enumerate()
        .map(|(b, &summary)| {
            source.fill(b, &mut block);
            block.codes(frame_of_reference::base(summary, null_codes), &mut codes);
            dynamic::block_bytes(&dynamic::widths(&codes[..block.rows]), block.rows)
        })
        .collect()
}

fn plan_codes(
    arrays: Arrays,
    dictionary: &mut DictionaryBuilder,
) -> Result<ChunkPlan, EncodeError> {
    let ty = arrays.ty;
    let codes = dictionary.encode(arrays.arrays())?;
    let none = (Summary::EMPTY.min, Summary::EMPTY.max);
    Ok(ChunkPlan::of_codes(
        ty,
        dictionary.generation(),
        codes,
        none,
    ))
}

fn plan_wide(arrays: Arrays) -> ChunkPlan {
    let ty = arrays.ty;
    let entries: Vec<Entry> = (0..arrays.rows().div_ceil(BLOCK_LEN))
        .map(|block| {
            let mut summary = Summary::EMPTY;
            arrays.pieces(block, |array, from, len, _| {
                let array = array.as_primitive::<Decimal128Type>();
                for row in from..from + len {
                    if array.is_valid(row) {
                        let image = ordinal::of_i128_saturating(array.value(row));
                        summary.min = summary.min.min(image);
                        summary.max = summary.max.max(image);
                    } else {
                        summary.null_count += 1;
                    }
                }
            });
            Entry::new(summary, 0)
        })
        .collect();
    let total = Summary::of_all(&entries.iter().map(Entry::summary).collect::<Vec<_>>());
    let mut plan = ChunkPlan::assemble(ty, Encoding::Plain, Source::Arrays(arrays), entries, total);
    plan.place(|descriptor, rows, _| descriptor.bitmap_bytes() + plain::WIDE_BYTES * rows);
    plan
}

fn plan_strings(arrays: Arrays) -> Result<ChunkPlan, EncodeError> {
    let ty = arrays.ty;
    let mut scratch = OrdinalBlock::new();
    let blocks = arrays.rows().div_ceil(BLOCK_LEN);
    let mut entries = Vec::with_capacity(blocks);
    let mut lens = Vec::with_capacity(blocks);
    for block in 0..blocks {
        let plan = plain_strings::plan(&arrays, block, &mut scratch)?;
        entries.push(Entry::new(plan.summary, plan.width));
        lens.push(plan.len_bytes);
    }
    let total = Summary::of_all(&entries.iter().map(Entry::summary).collect::<Vec<_>>());
    let mut plan = ChunkPlan::assemble(ty, Encoding::Plain, Source::Arrays(arrays), entries, total);
    let mut lens = lens.into_iter();
    plan.place(|descriptor, _, _| descriptor.bitmap_bytes() + lens.next().unwrap_or(0));
    // All other encodings stay far below.
    if plan.descriptor.len_bytes > crate::DATA_BYTES_MAX {
        return Err(EncodeError::ChunkTooLong {
            rows: plan.rows(),
            bytes: plan.descriptor.len_bytes,
        });
    }
    Ok(plan)
}
