//! Chunks in the codes of another generation of their dictionary.

use super::block_data::Payload;
use super::{Chunk, ChunkPlan, Scratch};
use crate::bits::BLOCK_LEN;
use crate::dictionary::Remapping;
use crate::error::FormatError;
use crate::limits::NULL_CODE;

impl ChunkPlan {
    /// Plans the copy of a dictionary chunk in the codes of another generation.
    ///
    /// # Errors
    /// [`FormatError`] where the chunk is of another generation or holds codes it cannot have.
    pub fn remap(
        chunk: &Chunk<'_>,
        remapping: &Remapping,
        scratch: &mut Scratch,
    ) -> Result<ChunkPlan, FormatError> {
        if chunk.dictionary_generation() != Some(remapping.from()) {
            return Err(FormatError::Generation {
                needed: remapping.from(),
                given: chunk.dictionary_generation(),
            });
        }
        let mut codes = Vec::with_capacity(chunk.blocks() * BLOCK_LEN);
        for block in 0..chunk.blocks() {
            let data = chunk.block(block)?;
            let Payload::Packed(_) = data.payload else {
                return Err(FormatError::corrupt(
                    "a dictionary chunk",
                    "it is not packed",
                ));
            };
            for &stored in data.unpack(scratch.kernels, &mut scratch.codes)?.iter() {
                if stored < data.null_codes {
                    codes.push(NULL_CODE);
                    continue;
                }
                let old = stored - data.null_codes;
                let new = u32::try_from(old).ok().and_then(|old| remapping.get(old));
                codes.push(new.ok_or_else(|| {
                    FormatError::corrupt("a dictionary chunk", format!("code {old} has no value"))
                })?);
            }
        }
        let descriptor = chunk.descriptor;
        let min_max = (descriptor.min, descriptor.max);
        let plan = ChunkPlan::of_codes(descriptor.ty, remapping.to(), codes, min_max);
        // The values are the same.
        Ok(match chunk.value_checksums() {
            Some(checksums) => plan.with_checksums(&checksums),
            None => plan,
        })
    }
}
