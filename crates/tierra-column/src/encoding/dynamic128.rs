//! Dynamic bit packing with a width for each mini-block of 128 values ([`mini_blocks`]), the papers' BP128.
//!
//! It has half the widths of [`dynamic`](super::dynamic), 8 bytes a block, and pays with what an outlier widens. It is the
//! smaller one only where neighbours are alike, and by less than 1 % there, so it is used where it is asked for.

use crate::encoding::format::{BaseOf, BlockKind, Format, Nulls};
use crate::encoding::mini_blocks;
use crate::encoding::mini_len::MiniLen;
use crate::encoding::read_cost::ReadCost;
use crate::logical_type::Physical;

const LEN: MiniLen = MiniLen::M128;

pub(crate) const FORMAT: Format = Format {
    name: "dynamic128",
    aliases: &["bp128"],
    blocks: |physical| (physical == Physical::Ordinal).then_some(BlockKind::MiniBlocks(LEN)),
    nulls: Nulls::Code,
    base_of: BaseOf::Block,
    uses_dictionary: false,
    handicap: 1.0,
    read_cost: ReadCost::of_lines(0.28, 83.0, 2.1),
    estimate: |_, _| None,
    plan: |values| mini_blocks::plan(LEN, values),
    write: |writer, target, out| mini_blocks::write(LEN, writer, target, out),
};
