//! Dynamic bit packing: a width for each mini-block of 64 values ([`mini_blocks`]).
//!
//! An outlier widens 64 values instead of 1,024. With 0.1 % of 31-bit outliers among 8-bit values a chunk takes 10.0 bits a
//! value, and 11.2 with mini-blocks of 128; unpacking costs the same within a tenth.

use crate::encoding::format::{BaseOf, BlockKind, Format, Nulls};
use crate::encoding::mini_blocks;
use crate::encoding::mini_len::MiniLen;
use crate::encoding::read_cost::ReadCost;
use crate::logical_type::Physical;

const LEN: MiniLen = MiniLen::M64;

pub(crate) const FORMAT: Format = Format {
    name: "dynamic",
    aliases: &["bp64"],
    blocks: |physical| (physical == Physical::Ordinal).then_some(BlockKind::MiniBlocks(LEN)),
    nulls: Nulls::Code,
    base_of: BaseOf::Block,
    uses_dictionary: false,
    handicap: 1.03,
    read_cost: ReadCost::of_lines(0.35, 91.0, 2.1),
    estimate: |values, sample| mini_blocks::estimate(LEN, values, sample),
    plan: |values| mini_blocks::plan(LEN, values),
    write: |writer, target, out| mini_blocks::write(LEN, writer, target, out),
};
