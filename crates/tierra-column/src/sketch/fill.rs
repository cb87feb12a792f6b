//! From values to registers. Hashing is a loop that the compiler vectorises, and a register is looked at
//! in five instructions: reading a column once more, this is a small part of what encoding it costs.
//!
//! ```text
//! ordinal   m(lower half * 0x9e3779b1 + upper half * 0x85ebca77)        of 32 bits, modulo 2^32
//! bytes     m(CRC32C of the bytes)                                      strings; wide DECIMALs, little-endian
//!
//! m(x)      x ^= x >> 16; x *= 0x85ebca6b; x ^= x >> 13; x *= 0xc2b2ae35; x ^= x >> 16; at most 2^32 - 2
//! ```

use super::{DistinctSketch, INDEX_BITS, RANK_BITS, SKETCH_BYTES};
use crate::bits::{BLOCK_LEN, Kernels};

/// Registers that are being filled.
pub(crate) struct SketchBuilder {
    kernels: Kernels,
    /// The least hash of each register, [`NO_HASH`] without one: its zeros are counted once, in the end.
    least: Box<[u32; SKETCH_BYTES]>,
}

/// Greater than every hash.
const NO_HASH: u32 = u32::MAX;

impl SketchBuilder {
    pub(crate) fn new(kernels: Kernels) -> SketchBuilder {
        SketchBuilder {
            kernels,
            least: Box::new([NO_HASH; SKETCH_BYTES]),
        }
    }

    /// Adds up to a block of ordinals. Returns whether a register changed.
    pub(crate) fn add_ordinals(&mut self, ordinals: &[u64]) -> bool {
        let mut hashes = [0; BLOCK_LEN];
        let hashes = &mut hashes[..ordinals.len()];
        self.kernels.compiled(|| {
            for (hash, ordinal) in hashes.iter_mut().zip(ordinals) {
                *hash = hash_of_ordinal(*ordinal);
            }
        });
        let mut has_changed = false;
        for hash in hashes.iter() {
            has_changed |= self.add(*hash);
        }
        has_changed
    }

    /// Adds a string, or another value's bytes.
    pub(crate) fn add_bytes(&mut self, bytes: &[u8]) {
        self.add(mixed(crc32c::crc32c(bytes)));
    }

    #[inline(always)]
    fn add(&mut self, hash: u32) -> bool {
        let least = &mut self.least[(hash >> RANK_BITS) as usize];
        // A store only where it changes something: the next value may have the same register.
        let is_less = hash < *least;
        if is_less {
            *least = hash;
        }
        is_less
    }

    pub(crate) fn finish(self) -> DistinctSketch {
        let mut sketch = DistinctSketch::new();
        for (register, least) in sketch.0.iter_mut().zip(self.least.iter()) {
            if *least != NO_HASH {
                // A one behind the last bit ends the zeros.
                let rest = *least << INDEX_BITS | 1 << (INDEX_BITS - 1);
                *register = rest.leading_zeros() as u8 + 1;
            }
        }
        sketch
    }
}

#[inline(always)]
fn hash_of_ordinal(ordinal: u64) -> u32 {
    let (low, high) = (ordinal as u32, (ordinal >> 32) as u32);
    mixed(
        low.wrapping_mul(0x9e37_79b1)
            .wrapping_add(high.wrapping_mul(0x85eb_ca77)),
    )
}

/// Each bit of `x` changes half of the bits.
#[inline(always)]
fn mixed(mut x: u32) -> u32 {
    x ^= x >> 16;
    x = x.wrapping_mul(0x85eb_ca6b);
    x ^= x >> 13;
    x = x.wrapping_mul(0xc2b2_ae35);
    x ^= x >> 16;
    x.min(NO_HASH - 1)
}
