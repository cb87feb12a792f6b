//! Blocks that are read in frames: copied from far memory first, and checked then.
//!
//! A block that cannot be copied, and one whose copy is damaged and cannot be repaired, is read in place: that path repairs, or
//! says what is wrong.

use std::sync::Arc;

use tierra_column::bits::PAD_BYTES;
use tierra_column::{Chunk, FormatError};

use super::Segment;
use super::methods::Methods;
use crate::error::ScanError;
use crate::spec::TableSpec;
use crate::storage::frames::{Frame, Source};

/// Blocks of a frame: 4 KiB of codes of one byte, and a page of a file is read in any case.
pub(super) const FRAME_BLOCKS: usize = 4;

/// What reading a block in a frame takes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Copying {
    /// Bytes that were copied because no frame had them.
    pub(crate) copied_bytes: u64,
}

impl Segment {
    /// [`Segment::read`] by the method of the column's tier.
    pub(crate) fn read_by<T>(
        &self,
        methods: &Methods,
        copying: &mut Copying,
        spec: &TableSpec,
        column: usize,
        block: usize,
        read: impl FnOnce(&Chunk<'_>) -> Result<T, FormatError>,
    ) -> Result<Option<T>, ScanError> {
        if methods.has_frames()
            && let Some(frame) = self.frame(methods, copying, spec, column, block)?
        {
            let chunk = self.chunk(column);
            let start = chunk.block_range(frame_start(block)).start;
            return match read(&chunk.with_blocks(start, &frame.bytes)) {
                Ok(value) => Ok(Some(value)),
                Err(source) => self.retry_after(spec, column, block, source).map(|()| None),
            };
        }
        self.read(spec, column, block, read)
    }

    /// Whether a column's blocks are read in frames: it lies far, in a tier that is read so.
    pub(crate) fn is_framed(&self, methods: &Methods, column: usize) -> bool {
        methods.has_frames()
            && self
                .far(column)
                .is_some_and(|(_, copy, _)| methods.of(copy.tier()).is_some())
    }

    /// The frame with a block; `None` if the block is to be read in place.
    fn frame(
        &self,
        methods: &Methods,
        copying: &mut Copying,
        spec: &TableSpec,
        column: usize,
        block: usize,
    ) -> Result<Option<Arc<Frame>>, ScanError> {
        let Some((extent, copy, place)) = self.far(column) else {
            return Ok(None);
        };
        let Some(method) = methods.of(copy.tier()) else {
            return Ok(None);
        };
        let chunk = self.chunk(column);
        let first = frame_start(block);
        let blocks = first..(first + FRAME_BLOCKS).min(self.blocks());
        let bytes = chunk.block_range(first).start..chunk.block_range(blocks.end - 1).end;
        let bytes = place.start + bytes.start..place.start + bytes.end;
        let source = Source {
            extent: extent.id(),
            start: bytes.start,
        };
        let frames = &extent.all_losses().frames;
        if let Some(frame) = frames.frame(source) {
            return Ok(Some(frame));
        }
        // Damage is repaired in place, once: then the copy is right.
        for _ in 0..2 {
            let copied = match copy.copy_out(bytes.clone(), PAD_BYTES, method) {
                Ok(copied) => copied,
                Err(error) => {
                    let tier = &**copy.tier_name();
                    tracing::warn!(tier, %error, "blocks are read in place because they could not be read {method}");
                    return Ok(None);
                }
            };
            copying.copied_bytes += bytes.len() as u64;
            let start = bytes.start - place.start;
            let framed = chunk.with_blocks(start, &copied);
            let Some(damaged) = blocks
                .clone()
                .find(|block| framed.verify_block(*block).is_err())
            else {
                return Ok(Some(frames.add(source, copied)));
            };
            // Another block of the frame may be beyond repair; this one is still read.
            if self.verify_again(spec, column, damaged).is_err() {
                return Ok(None);
            }
        }
        Ok(None)
    }
}

/// The first block of the frame that holds a block.
fn frame_start(block: usize) -> usize {
    block - block % FRAME_BLOCKS
}
