//! One cell of a chunk: what tuple reconstruction is made of.
//!
//! A cell of a packed chunk lies in one line, rarely two. Static, plain and dictionary chunks find
//! it by arithmetic from the descriptor; the others read the block's directory entry first (and
//! mini-block widths); differences are summed from the block's start. Every line that may be far is
//! awaited, so a group of lookups overlaps them.

use tierra_interleave::{Cx, Mode};

use crate::bits::{BLOCK_LEN, Kernels, PAD_BYTES};
use crate::chunk::Chunk;
use crate::chunk::block_data::Payload;
use crate::chunk::layout::Entry;
use crate::dictionary::Dictionary;
use crate::encoding::Encoding;
use crate::encoding::delta::HEADER_BYTES;
use crate::encoding::plain::{self, BITMAP_BYTES, WIDE_BYTES};
use crate::error::FormatError;
use crate::logical_type::Physical;
use crate::value::Cell;

impl<'a> Chunk<'a> {
    /// The value in row `row`. `dictionary` is the column's; only dictionary chunks look at it.
    ///
    /// # Errors
    /// [`FormatError`] where the block cannot be what was written, or the chunk's dictionary is
    /// missing or another generation.
    ///
    /// # Panics
    /// If there is no such row.
    pub async fn value<M: Mode>(
        &self,
        cx: Cx<M>,
        row: usize,
        dictionary: Option<&'a Dictionary>,
    ) -> Result<Cell<'a>, FormatError> {
        assert!(row < self.rows(), "row {row} of a chunk of {}", self.rows());
        let (block, row) = (row / BLOCK_LEN, row % BLOCK_LEN);
        let descriptor = &self.descriptor;
        let Some(stride) = descriptor.stride_bytes() else {
            return self.value_by_directory(cx, block, row).await;
        };
        let mut bytes = &self.bytes[descriptor.data_offset as usize + block * stride..];
        if descriptor.bitmap_bytes() > 0 {
            let (bitmap, rest) = bytes
                .split_first_chunk::<BITMAP_BYTES>()
                .expect("every block's bitmap was found inside the chunk when it was opened");
            cx.load(&bitmap[row / 8]).await;
            if !plain::is_valid(bitmap, row) {
                return Ok(Cell::Null);
            }
            bytes = rest;
        }
        if descriptor.ty.physical() == Physical::Wide {
            let value = cx
                .load_bytes(&bytes[row * WIDE_BYTES..][..WIDE_BYTES])
                .await;
            return Ok(Cell::Wide(plain::read_wide(value, 0)));
        }
        let width = descriptor.width;
        cx.load_bytes(code_bytes(bytes, width, row)).await;
        let code = Kernels::get(bytes, width, row);
        if code < descriptor.null_codes() {
            return Ok(Cell::Null);
        }
        let ordinal = code.wrapping_sub(descriptor.null_codes());
        if descriptor.encoding == Encoding::Dictionary {
            let code = u32::try_from(ordinal).unwrap_or(u32::MAX);
            return self.dictionary(dictionary)?.cell(cx, code).await;
        }
        Ok(Cell::Ordinal(code.wrapping_add(descriptor.base)))
    }

    async fn value_by_directory<M: Mode>(
        &self,
        cx: Cx<M>,
        block: usize,
        row: usize,
    ) -> Result<Cell<'a>, FormatError> {
        let entry = Entry::read(cx.load_bytes(self.entry_bytes(block)).await);
        if self.encoding() == Encoding::Dynamic {
            cx.load(&self.block_and_beyond(&entry)[0]).await;
        }
        let data = self.block(block)?;
        if let Some(bitmap) = data.validity {
            cx.load(&bitmap[row / 8]).await;
            if !plain::is_valid(bitmap, row) {
                return Ok(Cell::Null);
            }
        }
        let run = match data.payload {
            Payload::Packed(run) => run,
            Payload::MiniBlocks(minis) => minis.place(row),
            Payload::Delta(frame, run) => {
                let prefix = HEADER_BYTES + (row + 1) * usize::from(entry.width) / 8;
                cx.load_bytes(&self.block_and_beyond(&entry)[..prefix])
                    .await;
                let kernels = Kernels::best();
                let value = frame.value(kernels, run.packed, run.width, row, data.null_codes);
                return Ok(value.map_or(Cell::Null, Cell::Ordinal));
            }
            Payload::Strings(strings) => {
                cx.load_bytes(code_bytes(strings.ends, strings.width, row))
                    .await;
                let bytes = strings.get(row)?;
                return Ok(Cell::Bytes(cx.load_bytes(bytes).await));
            }
            Payload::Wide(values) => {
                let value = cx
                    .load_bytes(&values[row * WIDE_BYTES..][..WIDE_BYTES])
                    .await;
                return Ok(Cell::Wide(plain::read_wide(value, 0)));
            }
        };
        let row = row - run.first_row;
        cx.load_bytes(code_bytes(run.packed, run.width, row)).await;
        let code = Kernels::get(run.packed, run.width, row);
        Ok(if code < data.null_codes {
            Cell::Null
        } else {
            Cell::Ordinal(code.wrapping_add(data.base))
        })
    }
}

/// The bytes that code `row` lies in; none where codes have no width.
#[inline]
fn code_bytes(packed: &[u8], width: u8, row: usize) -> &[u8] {
    debug_assert!(packed.len() >= PAD_BYTES);
    let bit = row * usize::from(width);
    &packed[bit / 8..(bit + usize::from(width)).div_ceil(8)]
}
