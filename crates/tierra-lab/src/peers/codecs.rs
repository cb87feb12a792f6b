//! Crates that compress 32-bit integers, each as its authors would call it: `bitpacking`, `fastlanes`, `fastpfor`, LZ4's C library
//! and `snap`. All decode to the same kind of destination as Tierra: a few thousand values at a time, in memory of their own.
//!
//! `fastlanes` leaves the choice of instructions to the compiler. It is at its best only in a program that was built for this
//! processor: `RUSTFLAGS="-C target-cpu=native"`.

use bitpacking::{BitPacker, BitPacker4x, BitPacker8x};
use fastlanes::BitPacking;
use fastpfor::{AnyLenCodec, FastPFor128};
use lz4::block::{self, CompressionMode};
use zerocopy::{FromBytes, IntoBytes};

use crate::error::{Context, LabError};

/// Values that are handed over at a time.
pub const BATCH: usize = 8_192;

/// Takes decoded values, in order.
pub type Take<'t> = &'t mut dyn FnMut(&[i32]) -> Result<(), LabError>;

/// A way to compress 32-bit integers.
pub trait Codec: Sync {
    /// The contender's name in results.
    fn name(&self) -> String;

    /// Whether it takes only values in ascending order.
    fn needs_order(&self) -> bool {
        false
    }

    /// Bytes that so many values take at most.
    fn most_bytes(&self, values: usize) -> usize {
        values * 5 + (1 << 16)
    }

    /// Encodes values to the front of `out`, and returns the bytes that they take.
    ///
    /// # Errors
    /// The contender's own.
    fn encode(&self, values: &[i32], out: &mut [u8]) -> Result<usize, LabError>;

    /// Decodes that many values.
    ///
    /// # Errors
    /// The contender's own.
    fn decode(&self, bytes: &[u8], values: usize, take: Take<'_>) -> Result<(), LabError>;
}

/// The same integers, without their sign.
fn unsigned(values: &[i32]) -> &[u32] {
    <[u32]>::ref_from_bytes(values.as_bytes()).expect("integers of one size and alignment")
}

/// The same integers, with a sign.
pub(super) fn signed(values: &[u32]) -> &[i32] {
    <[i32]>::ref_from_bytes(values.as_bytes()).expect("integers of one size and alignment")
}

/// Calls `visit` for each block of that many values; the last one is filled with zeros.
pub(super) fn for_each_block<const BLOCK: usize>(
    values: &[i32],
    mut visit: impl FnMut(&[u32; BLOCK]),
) {
    let (blocks, rest) = unsigned(values).as_chunks::<BLOCK>();
    blocks.iter().for_each(&mut visit);
    if !rest.is_empty() {
        let mut last = [0; BLOCK];
        last[..rest.len()].copy_from_slice(rest);
        visit(&last);
    }
}

/// The crate `bitpacking`: 128 values at a time, as the papers' SIMD-BP128, with a byte for the width of each block.
#[derive(Clone, Copy, Debug)]
pub struct Bp128;

impl Codec for Bp128 {
    fn name(&self) -> String {
        "crate bitpacking, 128".to_owned()
    }

    fn encode(&self, values: &[i32], out: &mut [u8]) -> Result<usize, LabError> {
        let packer = BitPacker4x::new();
        let mut at = 0;
        for_each_block::<{ BitPacker4x::BLOCK_LEN }>(values, |block| {
            let width = packer.num_bits(block);
            out[at] = width;
            at += 1 + packer.compress(block, &mut out[at + 1..], width);
        });
        Ok(at)
    }

    fn decode(&self, bytes: &[u8], values: usize, take: Take<'_>) -> Result<(), LabError> {
        let packer = BitPacker4x::new();
        let mut rest = bytes;
        for first in (0..values).step_by(BATCH) {
            let count = BATCH.min(values - first);
            let blocks = count.div_ceil(BitPacker4x::BLOCK_LEN);
            let mut batch = vec![0_u32; blocks * BitPacker4x::BLOCK_LEN];
            for block in batch.chunks_exact_mut(BitPacker4x::BLOCK_LEN) {
                let (width, packed) = (rest[0], &rest[1..]);
                let len = packer.decompress(packed, block, width);
                rest = &packed[len..];
            }
            take(signed(&batch[..count]))?;
        }
        Ok(())
    }
}

/// The same crate on differences: each block's are from the last value of the one before it.
#[derive(Clone, Copy, Debug)]
pub struct Bp128Sorted;

impl Codec for Bp128Sorted {
    fn name(&self) -> String {
        "crate bitpacking, 128, sorted".to_owned()
    }

    fn needs_order(&self) -> bool {
        true
    }

    fn encode(&self, values: &[i32], out: &mut [u8]) -> Result<usize, LabError> {
        const BLOCK: usize = BitPacker4x::BLOCK_LEN;
        let packer = BitPacker4x::new();
        let (mut at, mut last) = (0, 0);
        let mut encode = |block: &[u32; BLOCK]| {
            let width = packer.num_bits_sorted(last, block);
            out[at] = width;
            at += 1 + packer.compress_sorted(last, block, &mut out[at + 1..], width);
            last = block[BLOCK - 1];
        };
        let (blocks, rest) = unsigned(values).as_chunks::<BLOCK>();
        blocks.iter().for_each(&mut encode);
        if let Some(greatest) = rest.last() {
            let mut block = [*greatest; BLOCK];
            block[..rest.len()].copy_from_slice(rest);
            encode(&block);
        }
        Ok(at)
    }

    fn decode(&self, bytes: &[u8], values: usize, take: Take<'_>) -> Result<(), LabError> {
        let packer = BitPacker4x::new();
        let (mut rest, mut last) = (bytes, 0);
        for first in (0..values).step_by(BATCH) {
            let count = BATCH.min(values - first);
            let blocks = count.div_ceil(BitPacker4x::BLOCK_LEN);
            let mut batch = vec![0_u32; blocks * BitPacker4x::BLOCK_LEN];
            for block in batch.chunks_exact_mut(BitPacker4x::BLOCK_LEN) {
                let (width, packed) = (rest[0], &rest[1..]);
                let len = packer.decompress_sorted(last, packed, block, width);
                last = block[BitPacker4x::BLOCK_LEN - 1];
                rest = &packed[len..];
            }
            take(signed(&batch[..count]))?;
        }
        Ok(())
    }
}

/// The crate `fastlanes`: 1,024 values at a time, with a word for the width of each block.
#[derive(Clone, Copy, Debug)]
pub struct FastLanes;

const LANES_BLOCK: usize = 1024;

impl FastLanes {
    /// Packs a block of one width.
    ///
    /// # Panics
    /// If there are not as many values as a block has, or as many words as the width needs, or the width exceeds 32.
    #[inline(always)]
    pub fn pack(width: u8, values: &[u32], packed: &mut [u32]) {
        assert!(values.len() == LANES_BLOCK && packed.len() == words_of(width) && width <= 32);
        // SAFETY: lengths and width are as the crate asks, which was just asserted.
        unsafe { BitPacking::unchecked_pack(usize::from(width), values, packed) }
    }

    /// Unpacks a block of one width, its values in order.
    ///
    /// # Panics
    /// As [`FastLanes::pack`].
    #[inline(always)]
    pub fn unpack(width: u8, packed: &[u32], values: &mut [u32]) {
        assert!(values.len() == LANES_BLOCK && packed.len() == words_of(width) && width <= 32);
        // SAFETY: as above.
        unsafe { BitPacking::unchecked_unpack(usize::from(width), packed, values) }
    }
}

/// Words of a packed block.
fn words_of(width: u8) -> usize {
    LANES_BLOCK / 32 * usize::from(width)
}

impl Codec for FastLanes {
    fn name(&self) -> String {
        "crate fastlanes".to_owned()
    }

    fn encode(&self, values: &[i32], out: &mut [u8]) -> Result<usize, LabError> {
        let words = words_mut(out).by(&self.name(), "encoding to unaligned memory")?;
        let mut at = 0;
        for_each_block::<LANES_BLOCK>(values, |block| {
            let bits = block.iter().fold(0, |bits, value| bits | value);
            let width = (32 - bits.leading_zeros()) as u8;
            words[at] = width.into();
            let end = at + 1 + words_of(width);
            FastLanes::pack(width, block, &mut words[at + 1..end]);
            at = end;
        });
        Ok(at * 4)
    }

    fn decode(&self, bytes: &[u8], values: usize, take: Take<'_>) -> Result<(), LabError> {
        let mut rest = words_in(bytes).by(&self.name(), "decoding")?;
        for first in (0..values).step_by(BATCH) {
            let count = BATCH.min(values - first);
            let mut batch = vec![0_u32; count.div_ceil(LANES_BLOCK) * LANES_BLOCK];
            for block in batch.chunks_exact_mut(LANES_BLOCK) {
                let width = rest[0] as u8;
                let (packed, behind) = rest[1..].split_at(words_of(width));
                FastLanes::unpack(width, packed, block);
                rest = behind;
            }
            take(signed(&batch[..count]))?;
        }
        Ok(())
    }
}

/// Room for bytes as room for words.
pub(super) fn words_mut(bytes: &mut [u8]) -> Result<&mut [u32], String> {
    let count = bytes.len() / 4;
    let words = <[u32]>::mut_from_prefix_with_elems(bytes, count);
    let (words, _) = words.map_err(|error| error.to_string())?;
    Ok(words)
}

/// Bytes as the words that they are.
pub(super) fn words_in(bytes: &[u8]) -> Result<&[u32], String> {
    <[u32]>::ref_from_bytes(bytes).map_err(|error| error.to_string())
}

/// The crate `fastpfor`, in blocks of 128.
#[derive(Clone, Copy, Debug)]
pub struct FastPfor;

impl Codec for FastPfor {
    fn name(&self) -> String {
        "crate fastpfor".to_owned()
    }

    fn encode(&self, values: &[i32], out: &mut [u8]) -> Result<usize, LabError> {
        let mut words = Vec::new();
        FastPFor128::default()
            .encode(unsigned(values), &mut words)
            .by(&self.name(), "encoding")?;
        let bytes = words.as_bytes();
        out[..bytes.len()].copy_from_slice(bytes);
        Ok(bytes.len())
    }

    fn decode(&self, bytes: &[u8], values: usize, take: Take<'_>) -> Result<(), LabError> {
        let words = words_in(bytes).by(&self.name(), "decoding")?;
        // The crate decodes all that it encoded at once.
        let mut decoded = Vec::with_capacity(values);
        FastPFor128::default()
            .decode(words, &mut decoded, Some(values as u32))
            .by(&self.name(), "decoding")?;
        decoded
            .chunks(BATCH)
            .try_for_each(|batch| take(signed(batch)))
    }
}

/// How hard LZ4's C library tries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lz4Mode {
    /// As by default.
    Default,
    /// The library's acceleration.
    Fast(i32),
    /// The library's level.
    High(i32),
}

/// LZ4's C library on pieces of so many values, each with its length.
#[derive(Clone, Copy, Debug)]
pub struct Lz4 {
    /// How hard it tries.
    pub mode: Lz4Mode,
    /// Values compressed at a time.
    pub piece: usize,
}

/// Pieces of bytes with their lengths before them.
fn encode_pieces(
    values: &[i32],
    piece: usize,
    out: &mut [u8],
    mut compress: impl FnMut(&[u8], &mut [u8]) -> Result<usize, LabError>,
) -> Result<usize, LabError> {
    let mut at = 0;
    for values in values.chunks(piece) {
        let len = compress(values.as_bytes(), &mut out[at + 4..])?;
        out[at..at + 4].copy_from_slice(&(len as u32).to_le_bytes());
        at += 4 + len;
    }
    Ok(at)
}

fn decode_pieces(
    mut bytes: &[u8],
    values: usize,
    piece: usize,
    take: Take<'_>,
    mut decompress: impl FnMut(&[u8], &mut [u8]) -> Result<(), LabError>,
) -> Result<(), LabError> {
    // As many pieces as a batch has, at least one.
    let batch_values = (BATCH / piece).max(1) * piece;
    for first in (0..values).step_by(batch_values) {
        let mut batch = vec![0_i32; batch_values.min(values - first)];
        for piece in batch.chunks_mut(piece) {
            let mut len = [0; 4];
            len.copy_from_slice(&bytes[..4]);
            let (here, rest) = bytes[4..].split_at(u32::from_le_bytes(len) as usize);
            decompress(here, piece.as_mut_bytes())?;
            bytes = rest;
        }
        take(&batch)?;
    }
    Ok(())
}

impl Codec for Lz4 {
    fn name(&self) -> String {
        let mode = match self.mode {
            Lz4Mode::Default => String::new(),
            Lz4Mode::Fast(acceleration) => format!(" fast {acceleration}"),
            Lz4Mode::High(level) => format!(" hc {level}"),
        };
        format!("C lz4{mode}, pieces of {} values", self.piece)
    }

    fn encode(&self, values: &[i32], out: &mut [u8]) -> Result<usize, LabError> {
        encode_pieces(values, self.piece, out, |bytes, out| {
            let mode = match self.mode {
                Lz4Mode::Default => CompressionMode::DEFAULT,
                Lz4Mode::Fast(acceleration) => CompressionMode::FAST(acceleration),
                Lz4Mode::High(level) => CompressionMode::HIGHCOMPRESSION(level),
            };
            block::compress_to_buffer(bytes, Some(mode), false, out).by(&self.name(), "encoding")
        })
    }

    fn decode(&self, bytes: &[u8], values: usize, take: Take<'_>) -> Result<(), LabError> {
        decode_pieces(bytes, values, self.piece, take, |bytes, out| {
            block::decompress_to_buffer(bytes, Some(out.len() as i32), out)
                .by(&self.name(), "decoding")?;
            Ok(())
        })
    }
}

/// The crate `snap` on pieces of so many values, each with its length.
#[derive(Clone, Copy, Debug)]
pub struct Snap {
    /// Values compressed at a time.
    pub piece: usize,
}

impl Codec for Snap {
    fn name(&self) -> String {
        format!("crate snap, pieces of {} values", self.piece)
    }

    fn encode(&self, values: &[i32], out: &mut [u8]) -> Result<usize, LabError> {
        let mut encoder = snap::raw::Encoder::new();
        encode_pieces(values, self.piece, out, |bytes, out| {
            encoder.compress(bytes, out).by(&self.name(), "encoding")
        })
    }

    fn decode(&self, bytes: &[u8], values: usize, take: Take<'_>) -> Result<(), LabError> {
        let mut decoder = snap::raw::Decoder::new();
        decode_pieces(bytes, values, self.piece, take, |bytes, out| {
            decoder
                .decompress(bytes, out)
                .by(&self.name(), "decoding")?;
            Ok(())
        })
    }
}

/// The crate `bitpacking` on blocks of one width, 256 values each.
#[derive(Clone, Copy)]
pub struct Bitpacking(BitPacker8x);

impl Bitpacking {
    /// Values of a block.
    pub const BLOCK: usize = BitPacker8x::BLOCK_LEN;

    /// With the instructions that this CPU has.
    pub fn new() -> Bitpacking {
        Bitpacking(BitPacker8x::new())
    }

    /// Packs a block, and returns its bytes.
    #[inline(always)]
    pub fn pack(&self, width: u8, values: &[u32], packed: &mut [u8]) -> usize {
        self.0.compress(values, packed, width)
    }

    /// Unpacks a block, and returns its bytes.
    #[inline(always)]
    pub fn unpack(&self, width: u8, packed: &[u8], values: &mut [u32]) -> usize {
        self.0.decompress(packed, values, width)
    }
}

impl std::fmt::Debug for Bitpacking {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Bitpacking")
    }
}

impl Default for Bitpacking {
    fn default() -> Self {
        Bitpacking::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_peer_gives_back_what_it_got() {
        let values: Vec<i32> = (0..20_000).map(|row| row % 7 * (row % 1_000)).collect();
        let piece = 1_024;
        let codecs: [&dyn Codec; 7] = [
            &Bp128,
            &FastLanes,
            &FastPfor,
            &Lz4 {
                mode: Lz4Mode::Default,
                piece,
            },
            &Lz4 {
                mode: Lz4Mode::Fast(8),
                piece,
            },
            &Lz4 {
                mode: Lz4Mode::High(12),
                piece: 5_000,
            },
            &Snap { piece },
        ];
        let mut sorted = values.clone();
        sorted.sort_unstable();
        let sorted: (&dyn Codec, _) = (&Bp128Sorted, &sorted);
        let all = codecs.into_iter().map(|codec| (codec, &values));
        for (codec, values) in all.chain([sorted]) {
            let mut out = vec![0; codec.most_bytes(values.len())];
            let len = codec.encode(values, &mut out).unwrap();
            let mut decoded = Vec::new();
            let take: Take<'_> = &mut |batch| {
                decoded.extend_from_slice(batch);
                Ok(())
            };
            codec.decode(&out[..len], values.len(), take).unwrap();
            assert_eq!(decoded, *values, "{}", codec.name());
            assert!(len < values.len() * 4, "{}", codec.name());
        }
    }
}
