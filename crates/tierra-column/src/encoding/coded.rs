//! Strings that are stored otherwise than they are: what front coding, FSST and indirect prefixes share.
//!
//! ```text
//! ┌──────────────┬──────────────────────────┬──────────────┬────────────────────────────────────┐
//! │ validity     │ ends, `width` bits each, │ symbols or   │ coded bytes of string 0, of string │
//! │ if any NULL  │ padded to a line         │ prefixes     │ 1, ...                             │
//! └──────────────┴──────────────────────────┴──────────────┴────────────────────────────────────┘
//! ```
//!
//! The coded bytes of string `i` lie between ends `i - 1` and `i`, as those of plain strings do. An empty string has none, and
//! neither has a NULL. A read leaves its result in a buffer of the reader: nothing in the block is the text.
//!
//! They are planned here, and read in [`coded_strings`](super::coded_strings).

use arrow::array::{Array, AsArray};

use crate::bits::{BLOCK_LEN, Kernels, packed_bytes, width_of};
use crate::block::Summary;
use crate::bytes::lines;
use crate::encoding::EncodeError;
use crate::encoding::encoded;
use crate::encoding::format::{BlockPlan, Plan};
use crate::encoding::values::ChunkValues;
use crate::ordinal;

/// A block's strings on their way into a chunk, one after the other.
#[derive(Default)]
pub(crate) struct Texts {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Texts {
    /// Each row's string, an empty one for NULL.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let mut start = 0;
        self.ends.iter().map(move |&end| {
            let text = &self.bytes[start..end];
            start = end;
            text
        })
    }

    /// Reads the strings of block `block`.
    pub(crate) fn fill(&mut self, values: &ChunkValues, block: usize) -> Summary {
        self.bytes.clear();
        self.ends.clear();
        let mut summary = Summary::EMPTY;
        values.source.arrays().pieces(block, |array, from, len, _| {
            let strings = array.as_string_view();
            for row in from..from + len {
                if strings.is_valid(row) {
                    let string = strings.value(row).as_bytes();
                    let prefix = ordinal::of_prefix(string);
                    summary.min = summary.min.min(prefix);
                    summary.max = summary.max.max(prefix);
                    self.bytes.extend_from_slice(string);
                } else {
                    summary.null_count += 1;
                }
                self.ends.push(self.bytes.len());
            }
        });
        summary
    }
}

/// The coded strings of a block: what they share, the bytes of all, and where those of each end.
#[derive(Default)]
pub(crate) struct CodedBlock {
    pub(crate) symbols: Vec<u8>,
    pub(crate) bytes: Vec<u8>,
    pub(crate) ends: Vec<u64>,
}

impl CodedBlock {
    pub(crate) fn clear(&mut self) {
        self.symbols.clear();
        self.bytes.clear();
        self.ends.clear();
    }

    fn width(&self) -> u8 {
        width_of(self.bytes.len() as u64)
    }

    /// Bytes of the block, without a validity bitmap.
    fn len_bytes(&self) -> usize {
        let ends = packed_bytes(self.ends.len(), self.width());
        lines(ends) + self.symbols.len() + self.bytes.len()
    }

    /// Appends the block to others.
    fn append_to(&self, kernels: Kernels, out: &mut Vec<u8>) {
        let start = out.len();
        encoded::append_packed(kernels, &self.ends, self.width(), out);
        out.resize(start + lines(out.len() - start), 0);
        out.extend_from_slice(&self.symbols);
        out.extend_from_slice(&self.bytes);
    }
}

/// Codes every block by `code`, which says whether it could.
pub(crate) fn plan(
    values: &ChunkValues,
    mut code: impl FnMut(&Texts, &mut CodedBlock) -> bool,
) -> Result<Option<Plan>, EncodeError> {
    let kernels = Kernels::best();
    let (mut texts, mut coded) = (Texts::default(), CodedBlock::default());
    let mut encoded = Vec::new();
    let mut blocks = Vec::with_capacity(values.blocks());
    for block in 0..values.blocks() {
        let summary = texts.fill(values, block);
        coded.clear();
        if !code(&texts, &mut coded) {
            return Ok(None);
        }
        let len_bytes = coded.len_bytes();
        // With room for a bitmap and the last line.
        if len_bytes as u64 > u64::from(u32::MAX) - 256 {
            return Err(EncodeError::StringsTooLong {
                first_row: block * BLOCK_LEN,
                bytes: coded.bytes.len() as u64,
            });
        }
        let start = encoded.len();
        coded.append_to(kernels, &mut encoded);
        debug_assert_eq!(encoded.len() - start, len_bytes);
        blocks.push(BlockPlan {
            summary,
            width: coded.width(),
            len_bytes,
        });
    }
    Ok(Some(Plan {
        encoded,
        ..Plan::of_blocks(blocks)
    }))
}
