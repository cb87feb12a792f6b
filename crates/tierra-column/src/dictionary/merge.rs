//! The next generation: main and delta merged into one order, and what that does to old codes.
//!
//! Merging makes new objects only; the old generation answers for its chunks until the manifest
//! that names the re-encoded ones is published.

use std::sync::Arc;

use arrow::array::StringViewArray;
use arrow::buffer::ScalarBuffer;

use super::{Dictionary, Values};
use crate::NULL_CODE;
use crate::bits::BLOCK_LEN;
use crate::chunk::block_data::Payload;
use crate::chunk::{Chunk, ChunkPlan, Scratch};
use crate::error::FormatError;

/// Old code to new code, from one generation to the next.
#[derive(Debug, Clone)]
pub struct Remapping {
    from: u64,
    to: u64,
    codes: Vec<u32>,
}

impl Remapping {
    /// The generation whose codes it takes.
    pub fn from(&self) -> u64 {
        self.from
    }

    /// The generation whose codes it gives.
    pub fn to(&self) -> u64 {
        self.to
    }

    /// The new code of an old one; `None` where there was no such code.
    pub fn get(&self, code: u32) -> Option<u32> {
        self.codes.get(code as usize).copied()
    }
}

impl Dictionary {
    /// The next generation, all values in its main part, and where each old code went.
    pub fn merge(&self, generation: u64) -> (Dictionary, Remapping) {
        let mut order = Vec::with_capacity(self.len());
        let (mut main, mut delta) = (0, 0);
        while main < self.main.len() || delta < self.delta.len() {
            let from_main = delta == self.delta.len()
                || main < self.main.len()
                    && self.is_less(self.main.code(main), self.delta.code(delta));
            if from_main {
                order.push(self.main.code(main));
                main += 1;
            } else {
                order.push(self.delta.code(delta));
                delta += 1;
            }
        }
        let mut codes = vec![0; order.len()];
        for (rank, &code) in order.iter().enumerate() {
            codes[code as usize] = rank as u32;
        }
        let values = match &self.values {
            Values::Ordinals(values) => Values::Ordinals(Arc::new(
                order.iter().map(|&code| values[code as usize]).collect(),
            )),
            Values::Strings(values) => {
                let views: Vec<u128> = order
                    .iter()
                    .map(|&code| values.views()[code as usize])
                    .collect();
                let buffers = values.data_buffers().to_vec();
                Values::Strings(StringViewArray::new(
                    ScalarBuffer::from(views),
                    buffers,
                    None,
                ))
            }
        };
        let main_len = values.len();
        let remapping = Remapping {
            from: self.generation,
            to: generation,
            codes,
        };
        (
            Dictionary::new(self.ty, generation, values, main_len, self.gate.clone()),
            remapping,
        )
    }

    fn is_less(&self, a: u32, b: u32) -> bool {
        match &self.values {
            Values::Ordinals(values) => values[a as usize] < values[b as usize],
            Values::Strings(values) => values.value(a as usize) < values.value(b as usize),
        }
    }
}

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
        if chunk.dictionary_generation() != Some(remapping.from) {
            return Err(FormatError::Generation {
                needed: remapping.from,
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
            for &stored in data.unpack(scratch.kernels, &mut scratch.codes).iter() {
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
        let descriptor = chunk.descriptor();
        Ok(ChunkPlan::of_codes(
            descriptor.ty,
            remapping.to,
            codes,
            (descriptor.min, descriptor.max),
        ))
    }
}
