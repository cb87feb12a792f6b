//! How the codes of a block lie in its bytes, for programs that unpack stored blocks by themselves.

use crate::chunk::Chunk;
use crate::encoding::format::BlockKind;

/// How a block of a chunk without NULLs is stored. A value's ordinal is its code plus the base, modulo 2^64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    /// Codes of so many bits each, one after the other, lowest bit first.
    Even {
        /// Bits of a code, up to 64.
        width: u8,
        /// What is added to each.
        base: u64,
    },
    /// The widths of all mini-blocks, a byte each, then the codes of one mini-block after the other.
    MiniBlocks {
        /// Codes of a mini-block; of each there are as many widths as a block of 1,024 codes needs.
        codes: usize,
        /// What is added to each.
        base: u64,
    },
    /// Anything else: the block has to be decoded as a whole.
    Coded,
}

impl Chunk<'_> {
    /// How a block is stored.
    ///
    /// # Panics
    /// If there is no such block.
    pub fn packing(&self, block: usize) -> Packing {
        let entry = self.entry(block);
        let base = self.descriptor.block_base(&entry);
        match self.descriptor.kind {
            _ if self.null_count() > 0 || self.encoding().uses_dictionary() => Packing::Coded,
            BlockKind::Packed => Packing::Even {
                width: entry.width,
                base,
            },
            BlockKind::MiniBlocks(minis) => Packing::MiniBlocks {
                codes: minis.values(),
                base,
            },
            BlockKind::Runs
            | BlockKind::Patched
            | BlockKind::Lz4
            | BlockKind::Snappy
            | BlockKind::Differences
            | BlockKind::Wide
            | BlockKind::Strings
            | BlockKind::Front
            | BlockKind::Fsst
            | BlockKind::Prefix => Packing::Coded,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int64Array};

    use super::*;
    use crate::bits::Kernels;
    use crate::chunk::ChunkPlan;
    use crate::encoding::Encoding;
    use crate::logical_type::LogicalType;
    use crate::ordinal;

    /// Values from a stored block, by what `packing` says alone.
    fn unpacked(chunk: &Chunk<'_>, block: usize) -> Option<Vec<i64>> {
        let (stored, rows) = (chunk.stored_block(block), chunk.block_rows(block));
        // A kernel may load a register behind the last code.
        let stored = [stored, &[0; 64]].concat();
        let value = |code: u64, base: u64| ordinal::to_i64(code.wrapping_add(base));
        let of = |packed: &[u8], width, rows, base| {
            let codes = (0..rows).map(move |row| Kernels::get(packed, width, row));
            codes.map(|code| value(code, base)).collect::<Vec<_>>()
        };
        match chunk.packing(block) {
            Packing::Even { width, base } => Some(of(&stored, width, rows, base)),
            Packing::MiniBlocks { codes, base } => {
                let (widths, mut rest) = stored.split_at(1024 / codes);
                let mut all = Vec::new();
                for (mini, width) in widths.iter().enumerate() {
                    let rows = rows.saturating_sub(mini * codes).min(codes);
                    all.extend(of(rest, *width, rows, base));
                    rest = &rest[(rows * usize::from(*width)).div_ceil(8)..];
                }
                Some(all)
            }
            Packing::Coded => None,
        }
    }

    #[test]
    fn a_program_that_knows_the_packing_can_unpack_blocks() {
        let values: Vec<i64> = (0..3000).map(|i| i * i % 977 - 400).collect();
        let array: ArrayRef = Arc::new(Int64Array::from(values.clone()));
        let mut packed = 0;
        for encoding in Encoding::ALL {
            if !encoding.supports(LogicalType::BigInt) || encoding.uses_dictionary() {
                continue;
            }
            let plan = ChunkPlan::new(
                LogicalType::BigInt,
                std::slice::from_ref(&array),
                Some(encoding),
                None,
            );
            let plan = plan.unwrap();
            let mut bytes = vec![0; plan.len_bytes()];
            plan.write(&mut bytes);
            let chunk = Chunk::open(&bytes, LogicalType::BigInt).unwrap();
            for block in 0..chunk.blocks() {
                if let Some(found) = unpacked(&chunk, block) {
                    let first = block * 1024;
                    assert_eq!(found, values[first..first + found.len()], "{encoding}");
                    assert_eq!(found.len(), chunk.block_rows(block));
                    packed += usize::from(chunk.encoding() == encoding);
                }
            }
        }
        // Plain, static, for, and the two dynamic ones.
        assert_eq!(packed, 5 * 3);
    }
}
