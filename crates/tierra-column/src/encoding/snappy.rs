//! Snappy by the crate `snap` ([`compressed`]).

use snap::raw::{Decoder, Encoder, decompress_len, max_compress_len};

use crate::encoding::compressed;
use crate::encoding::encoded;
use crate::encoding::format::{BaseOf, BlockKind, Format, Nulls};
use crate::encoding::read_cost::ReadCost;
use crate::logical_type::Physical;

pub(crate) const FORMAT: Format = Format {
    name: "snappy",
    aliases: &[],
    blocks: |physical| (physical == Physical::Ordinal).then_some(BlockKind::Snappy),
    nulls: Nulls::Bitmap,
    base_of: BaseOf::Chunk,
    uses_dictionary: false,
    handicap: 1.0,
    read_cost: ReadCost::of_blocks(2.8),
    estimate: |_, _| None,
    plan: |values| {
        let mut encoder = Encoder::new();
        let mut buffer = Vec::new();
        let compress = |plain: &[u8], out: &mut [u8]| {
            // The crate wants room for the worst case.
            buffer.resize(max_compress_len(plain.len()), 0);
            let len = encoder.compress(plain, &mut buffer).ok()?;
            out.get_mut(..len)?.copy_from_slice(&buffer[..len]);
            Some(len)
        };
        Ok(Some(compressed::plan(values, compress)))
    },
    write: encoded::write,
};

/// Bytes written; `None` if these are no Snappy block, or one of another length than there are places.
pub(crate) fn decompress(bytes: &[u8], out: &mut [u8]) -> Option<usize> {
    if decompress_len(bytes).ok()? != out.len() {
        return None;
    }
    Decoder::new().decompress(bytes, out).ok()
}
