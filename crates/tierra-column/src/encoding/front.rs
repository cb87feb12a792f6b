//! Front coding: of each string only what it does not share with the one before, for sorted strings.
//!
//! ```text
//! row 0    0 "Customer#000000001"        a byte: how many bytes it shares, 255 at most
//! row 1    17 "2"
//! row 2                                  an empty string, or NULL: no bytes, and passed over
//! row 3    16 "13"
//! row 16   0 "Customer#000000016"        every sixteenth row begins anew
//! ```
//!
//! The block is drawn in [`coded`]. A string shares bytes with the last one of its group of sixteen rows that is not empty. A row
//! costs the bytes of its group up to there; filters decode.

use crate::encoding::coded::{self, CodedBlock, Texts};
use crate::encoding::encoded;
use crate::encoding::format::{BaseOf, BlockKind, Format, Nulls};
use crate::encoding::read_cost::ReadCost;
use crate::error::FormatError;
use crate::logical_type::Physical;

pub(crate) const FORMAT: Format = Format {
    name: "front",
    aliases: &["front-coding"],
    blocks: |physical| (physical == Physical::Bytes).then_some(BlockKind::Front),
    nulls: Nulls::Bitmap,
    base_of: BaseOf::Chunk,
    uses_dictionary: false,
    handicap: 1.0,
    read_cost: ReadCost::of_lines(20.0, 140.0, 3.0),
    // Used where it is asked for: a row is found by decoding up to fifteen others.
    estimate: |_, _| None,
    plan: |values| coded::plan(values, code),
    write: encoded::write,
};

/// Rows of a group.
const GROUP_ROWS: usize = 16;

/// The most bytes that a string shares.
const SHARED_MAX: usize = u8::MAX as usize;

/// The first row of the group that `row` is in.
#[inline]
pub(crate) fn first_of_group(row: usize) -> usize {
    row / GROUP_ROWS * GROUP_ROWS
}

fn code(texts: &Texts, out: &mut CodedBlock) -> bool {
    let mut before: &[u8] = &[];
    for (row, text) in texts.iter().enumerate() {
        if row == first_of_group(row) {
            before = &[];
        }
        if !text.is_empty() {
            let alike = before.iter().zip(text).take(SHARED_MAX);
            let shared = alike.take_while(|(a, b)| a == b).count();
            out.bytes.push(shared as u8);
            out.bytes.extend_from_slice(&text[shared..]);
            before = text;
        }
        out.ends.push(out.bytes.len() as u64);
    }
    true
}

/// Turns `text`, the last string of the group that is not empty, into the one of these coded bytes; `false`, and nothing changed,
/// where that is empty.
#[inline]
pub(crate) fn advance(coded: &[u8], text: &mut Vec<u8>) -> Result<bool, FormatError> {
    let Some((&shared, rest)) = coded.split_first() else {
        return Ok(false);
    };
    if usize::from(shared) > text.len() {
        return Err(FormatError::corrupt(
            "a block of front-coded strings",
            "a string shares more bytes than the one before has",
        ));
    }
    text.truncate(shared.into());
    text.extend_from_slice(rest);
    Ok(true)
}
