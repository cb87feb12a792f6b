//! The crate `bitpacking`: unsigned 32-bit integers, with one width per 256 of them and no base.

use bitpacking::{BitPacker, BitPacker8x};

/// The encoding's name in results.
pub const ENCODING: &str = "crate bitpacking";

/// Integers packed block by block; each block begins with its width.
pub struct Packed {
    packer: BitPacker8x,
    bytes: Vec<u8>,
    blocks: usize,
}

impl Packed {
    /// Packs values whose number is a multiple of 256; `None` for any other number.
    pub fn new(values: &[u32]) -> Option<Packed> {
        let blocks = values.chunks_exact(BitPacker8x::BLOCK_LEN);
        if !blocks.remainder().is_empty() {
            return None;
        }
        let packer = BitPacker8x::new();
        let mut packed = Packed {
            packer,
            bytes: Vec::with_capacity(values.len() * 4),
            blocks: blocks.len(),
        };
        let mut scratch = [0; 4 * BitPacker8x::BLOCK_LEN];
        for block in blocks {
            let width = packer.num_bits(block);
            let len = packer.compress(block, &mut scratch, width);
            packed.bytes.push(width);
            packed.bytes.extend_from_slice(&scratch[..len]);
        }
        Some(packed)
    }

    /// Bytes, widths included.
    pub fn len_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Unpacks block by block.
    pub fn for_each_block(&self, mut use_block: impl FnMut(&[u32])) {
        let mut values = [0; BitPacker8x::BLOCK_LEN];
        let mut rest = &self.bytes[..];
        for _ in 0..self.blocks {
            let (width, packed) = (rest[0], &rest[1..]);
            let len = self.packer.decompress(packed, &mut values, width);
            use_block(&values);
            rest = &packed[len..];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gives_back_what_it_got() {
        let values: Vec<u32> = (0..1024).map(|n| n * 4_000_000).collect();
        let packed = Packed::new(&values).unwrap();
        let mut unpacked = Vec::new();
        packed.for_each_block(|block| unpacked.extend_from_slice(block));
        assert_eq!(unpacked, values);
        assert!(packed.len_bytes() <= 4 * values.len() + 4);
        assert!(Packed::new(&values[1..]).is_none());
    }
}
