//! LZ4 by its C library, in three modes of compressing that are decompressed alike ([`compressed`]): `lz4` as the library does
//! by default, `lz4-fast` with less effort for speed, `lz4-hc` with the most effort for size.

use lz4::block::{self, CompressionMode};

use crate::encoding::compressed;
use crate::encoding::encoded;
use crate::encoding::format::{BaseOf, BlockKind, Format, Nulls};
use crate::encoding::read_cost::ReadCost;
use crate::logical_type::Physical;

/// The library doubles the steps of its search about every 64 of these; its own tool's `--fast` begins at 1 and this is where
/// speed has been measured to gain most for little size.
const FAST_ACCELERATION: i32 = 8;
/// The greatest level that there is.
const HIGH_LEVEL: i32 = 12;

pub(crate) const FORMAT: Format = Format {
    name: "lz4",
    aliases: &[],
    blocks: |physical| (physical == Physical::Ordinal).then_some(BlockKind::Lz4),
    nulls: Nulls::Bitmap,
    base_of: BaseOf::Chunk,
    uses_dictionary: false,
    handicap: 1.0,
    read_cost: ReadCost::of_blocks(2.5),
    // Cold chunks are compressed where that is asked for: every read decompresses.
    estimate: |_, _| None,
    plan: |values| {
        Ok(Some(compressed::plan(
            values,
            compress(|| CompressionMode::DEFAULT),
        )))
    },
    write: encoded::write,
};

pub(crate) const FAST: Format = Format {
    name: "lz4-fast",
    plan: |values| {
        let mode = || CompressionMode::FAST(FAST_ACCELERATION);
        Ok(Some(compressed::plan(values, compress(mode))))
    },
    ..FORMAT
};

pub(crate) const HIGH: Format = Format {
    name: "lz4-hc",
    plan: |values| {
        let mode = || CompressionMode::HIGHCOMPRESSION(HIGH_LEVEL);
        Ok(Some(compressed::plan(values, compress(mode))))
    },
    ..FORMAT
};

fn compress(mode: fn() -> CompressionMode) -> impl FnMut(&[u8], &mut [u8]) -> Option<usize> {
    move |plain, out| {
        let written = block::compress_to_buffer(plain, Some(mode()), false, out);
        // The library reports that the output does not fit as an error, or as nothing written.
        written.ok().filter(|&len| len > 0)
    }
}

/// Bytes written; `None` if these are no LZ4 block, or one of more bytes than places.
pub(crate) fn decompress(bytes: &[u8], out: &mut [u8]) -> Option<usize> {
    let places = i32::try_from(out.len()).ok()?;
    block::decompress_to_buffer(bytes, Some(places), out).ok()
}
