//! A block's bytes, made again of its values.
//!
//! Encoding is deterministic, and all but FSST encode each block by itself: its bytes follow from its values and the chunk's header.
//! FSST chooses its symbols for the chunk, so it needs all rows.
//!
//! Invariant: bytes that are handed out match the block's checksum.

use arrow::array::{Array, ArrayRef};
use tierra_interleave::Lookups;

use super::{Chunk, ChunkPlan};
use crate::dictionary::Dictionary;
use crate::encoding::format::{PlannedBlock, Writer};
use crate::encoding::source::{Arrays, Source};
use crate::encoding::values::ChunkValues;
use crate::limits::NULL_CODE;
use crate::value::Value;

impl Chunk<'_> {
    /// The bytes of a block that has these values; `None` if they are not the block's, or it takes other rows to encode them as it
    /// was ([`Chunk::rebuild_block_of`]). `dictionary` is that of the column; only dictionary chunks look at it.
    ///
    /// # Panics
    /// If there is no such block.
    pub fn rebuild_block(
        &self,
        block: usize,
        values: &ArrayRef,
        dictionary: Option<&Dictionary>,
    ) -> Option<Vec<u8>> {
        let (descriptor, entry) = (&self.descriptor, self.entry(block));
        if values.len() != self.block_rows(block) {
            return None;
        }
        let arrays = Arrays::new(descriptor.ty, std::slice::from_ref(values)).ok()?;
        let source = match descriptor.encoding.uses_dictionary() {
            true => Source::Codes(self.codes_of(values, dictionary)?),
            false => Source::Arrays(arrays),
        };
        let mut values = ChunkValues::new(descriptor.ty, source);
        values.null_codes = u64::from(descriptor.nulls.is_some());
        let format = descriptor.encoding.format();
        let plan = (format.plan)(&values).ok()??;
        let planned = plan.blocks.first()?;
        let len_bytes = descriptor.bitmap_bytes() + planned.len_bytes;
        // Codes of the chunk's width fit if least and greatest are those of the entry.
        let has_chunks_width = descriptor.stride_bytes().is_some();
        let is_it = planned.summary == entry.summary()
            && (has_chunks_width
                || (planned.width, len_bytes) == (entry.width, entry.len_bytes as usize));
        if !is_it {
            return None;
        }
        let mut bytes = vec![0; entry.len_bytes as usize];
        let target = PlannedBlock {
            block: 0,
            base: descriptor.block_base(&entry),
            width: entry.width,
            null_codes: descriptor.null_codes(),
            bitmap_bytes: descriptor.bitmap_bytes(),
        };
        let mut writer = Writer::new(&values.source, &plan.encoded);
        (format.write)(&mut writer, &target, &mut bytes);
        self.block_matches(block, &bytes).then_some(bytes)
    }

    /// The same with the values of all rows of the chunk: for encodings that encode no block by itself. Never of a dictionary chunk.
    ///
    /// # Panics
    /// If there is no such block.
    pub fn rebuild_block_of(&self, block: usize, all: &[ArrayRef]) -> Option<Vec<u8>> {
        let descriptor = &self.descriptor;
        let plan = ChunkPlan::new(descriptor.ty, all, Some(descriptor.encoding), None).ok()?;
        let mut bytes = vec![0; plan.len_bytes()];
        plan.write(&mut bytes);
        let rebuilt = Chunk::open(&bytes, descriptor.ty).ok()?;
        let is_it = rebuilt.rows() == self.rows() && rebuilt.encoding() == self.encoding();
        let stored = is_it.then(|| rebuilt.stored_block(block))?;
        (stored.len() == self.block_bytes(block) && self.block_matches(block, stored))
            .then(|| stored.to_vec())
    }

    /// The codes of values in the chunk's generation.
    fn codes_of(&self, values: &ArrayRef, dictionary: Option<&Dictionary>) -> Option<Vec<u32>> {
        let values = (0..values.len()).map(|row| Value::of_array(values, row));
        let values: Vec<Option<Value>> = values.collect();
        let known: Vec<Value> = values.iter().flatten().cloned().collect();
        let codes = match known.is_empty() {
            true => Vec::new(),
            false => {
                let dictionary = self.dictionary(dictionary).ok()?;
                dictionary.code_of_many(&known, &mut Lookups::default())
            }
        };
        let mut codes = codes.into_iter();
        let code = |value: &Option<Value>| match value {
            None => Some(NULL_CODE),
            Some(_) => codes.next()?,
        };
        values.iter().map(code).collect()
    }
}
