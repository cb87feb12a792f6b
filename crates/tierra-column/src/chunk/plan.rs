//! Encoding a chunk in two steps, because its space is allocated between them: a plan decides the
//! encoding and every size, then writes into the space it was given.
//!
//! Planning reads the values once for their minima, maxima and NULLs, and again only where widths
//! depend on more than that (mini-blocks, differences). Writing reads them once more and packs.

use std::ops::Range;

use arrow::array::ArrayRef;

use crate::bits::PAD_BYTES;
use crate::block::Summary;
use crate::bytes::{LINE_BYTES, lines};
use crate::chunk::annex::Annex;
use crate::chunk::layout::{BlockEntry, DESCRIPTOR_BYTES, Descriptor, ENTRY_BYTES};
use crate::dictionary::DictionaryBuilder;
use crate::encoding::EncodeError;
use crate::encoding::format::{Plan, PlannedBlock, Writer};
use crate::encoding::source::{Arrays, Source};
use crate::encoding::value_checksums::ValueChecksums;
use crate::encoding::values::ChunkValues;
use crate::encoding::{Encoding, dictionary, estimate, plain, sketched};
use crate::limits::DATA_BYTES_MAX;
use crate::logical_type::LogicalType;
use crate::sketch::DistinctSketch;

/// A chunk about to be written: its encoding and sizes are settled.
pub struct ChunkPlan {
    descriptor: Descriptor,
    entries: Vec<BlockEntry>,
    sketch: Option<DistinctSketch>,
    checksums: Option<ValueChecksums>,
    source: Source,
    /// Blocks that planning had to encode.
    encoded: Vec<u8>,
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
            let remedy = if !encoding.supports(ty) {
                "choose plain, or leave the choice to Tierra"
            } else if encoding.uses_dictionary() && dictionary.is_none() {
                "give the column a dictionary"
            } else {
                ""
            };
            if !remedy.is_empty() {
                return Err(EncodeError::Unsupported {
                    ty,
                    encoding,
                    remedy,
                });
            }
        }
        let values = ChunkValues::new(ty, Source::Arrays(arrays));
        let wanted = encoding.unwrap_or_else(|| estimate::encoding(&values, dictionary.is_some()));
        if let Some(dictionary) = dictionary.filter(|_| wanted.uses_dictionary()) {
            let codes = dictionary.encode(values.source.arrays().arrays())?;
            let min_max = (values.total.min, values.total.max);
            return Ok(ChunkPlan::of_codes(
                ty,
                dictionary.generation(),
                codes,
                min_max,
            ));
        }
        let (encoding, plan) = match (wanted.format().plan)(&values)? {
            Some(plan) => (wanted, plan),
            None => (Encoding::Plain, plain::plan(&values)?),
        };
        let sketch = sketched::of_values(&values);
        let plan = ChunkPlan::place(encoding, values, plan, sketch);
        if plan.descriptor.len_bytes > DATA_BYTES_MAX {
            return Err(EncodeError::ChunkTooLong {
                rows: plan.rows(),
                bytes: plan.descriptor.len_bytes,
            });
        }
        Ok(plan)
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
        let codes = ChunkValues::new(ty, Source::Codes(codes));
        let plan = dictionary::plan(&codes);
        let mut plan = ChunkPlan::place(Encoding::Dictionary, codes, plan, None);
        plan.descriptor.generation = generation;
        (plan.descriptor.min, plan.descriptor.max) = min_max;
        plan
    }

    /// Places the blocks one after the other.
    fn place(
        encoding: Encoding,
        values: ChunkValues,
        plan: Plan,
        sketch: Option<DistinctSketch>,
    ) -> ChunkPlan {
        let ChunkValues { ty, source, .. } = values;
        let format = encoding.format();
        let mut entries: Vec<BlockEntry> = plan
            .blocks
            .iter()
            .map(|block| BlockEntry::new(block.summary, block.width))
            .collect();
        let nulls = entries.iter().map(|entry| u32::from(entry.null_count));
        let null_count: u32 = nulls.sum();
        let total = Summary::of_all(plan.blocks.iter().map(|block| &block.summary));
        let mut descriptor = Descriptor {
            ty,
            encoding,
            kind: (format.blocks)(ty.physical()).expect("the type was found to have the encoding"),
            base_of: format.base_of,
            nulls: (null_count > 0).then_some(format.nulls),
            width: plan.width,
            rows: source.rows() as u32,
            null_count,
            base: plan.base,
            generation: 0,
            data_offset: Annex::new(source.rows(), sketch.is_some(), false).header_bytes() as u64,
            len_bytes: 0,
            min: total.min,
            max: total.max,
        };
        let mut offset = 0;
        for (entry, block) in entries.iter_mut().zip(&plan.blocks) {
            let len = descriptor.bitmap_bytes() + block.len_bytes;
            entry.len_bytes = len as u32;
            entry.offset_lines = (offset / LINE_BYTES) as u32;
            offset += lines(len);
        }
        descriptor.len_bytes = descriptor.data_offset + (offset + PAD_BYTES) as u64;
        ChunkPlan {
            descriptor,
            entries,
            sketch,
            checksums: None,
            source,
            encoded: plan.encoded,
        }
    }

    /// The same chunk with the logical checksums of its values: one that has a replica in another encoding.
    ///
    /// # Panics
    /// If they are those of another number of blocks.
    #[must_use]
    pub fn with_checksums(mut self, checksums: &ValueChecksums) -> ChunkPlan {
        assert_eq!(
            checksums.blocks(),
            self.entries.len(),
            "checksums of other rows"
        );
        let before = self.descriptor.data_offset;
        self.checksums = (checksums.blocks() > 0).then(|| checksums.clone());
        let header_bytes = self.annex().header_bytes() as u64;
        self.descriptor.data_offset = header_bytes;
        self.descriptor.len_bytes = self.descriptor.len_bytes - before + header_bytes;
        self
    }

    fn annex(&self) -> Annex {
        Annex::new(self.rows(), self.sketch.is_some(), self.checksums.is_some())
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
        let write = self.descriptor.encoding.format().write;
        let mut writer = Writer::new(&self.source, &self.encoded);
        directory.fill(0);
        let mut end = 0;
        for (block, entry) in self.entries.iter().enumerate() {
            let from = entry.offset_lines as usize * LINE_BYTES;
            data[end..from].fill(0);
            end = from + entry.len_bytes as usize;
            let bytes = &mut data[from..end];
            let target = PlannedBlock {
                block,
                base: self.descriptor.block_base(entry),
                width: entry.width,
                null_codes: self.descriptor.null_codes(),
                bitmap_bytes: self.descriptor.bitmap_bytes(),
            };
            write(&mut writer, &target, bytes);
            let entry = BlockEntry {
                crc: crc32c::crc32c(bytes),
                ..*entry
            };
            entry.write(&mut directory[block * ENTRY_BYTES..][..ENTRY_BYTES]);
        }
        data[end..].fill(0);
        let annex = self.annex();
        let place =
            |range: Range<usize>| range.start - DESCRIPTOR_BYTES..range.end - DESCRIPTOR_BYTES;
        if let Some(sketch) = &self.sketch {
            directory[place(annex.sketch())].copy_from_slice(sketch.stored());
        }
        if let Some(checksums) = &self.checksums {
            checksums.write(&mut directory[place(annex.checksums())]);
        }
        let summary = &directory[..annex.end() - DESCRIPTOR_BYTES];
        self.descriptor.write(annex, summary, descriptor);
    }
}
