//! Blocks that are read in frames: copied from far memory first, or read ahead from a file, and checked then.
//!
//! A block that cannot be copied, and one whose copy is damaged and cannot be repaired, is read in place: that path repairs, or
//! says what is wrong.

use std::ops::Range;
use std::sync::Arc;

use tierra_column::bits::PAD_BYTES;
use tierra_column::{Chunk, FormatError};
use tierra_memory::CopyMethod;

use super::Segment;
use super::frames_ahead::FramesAhead;
use super::methods::Methods;
use crate::error::ScanError;
use crate::spec::TableSpec;
use crate::storage::extent::{ExtentCopy, OwnedExtent};
use crate::storage::frames::{Frame, FrameKey};

/// Blocks of a frame: 4 KiB of codes of one byte, and a page of a file is read in any case.
pub(crate) const FRAME_BLOCKS: usize = 4;

/// What a cursor has under way to read blocks in frames.
#[derive(Debug, Default)]
pub(crate) struct Copying {
    /// Bytes that were copied because no frame had them, and not counted yet.
    pub(crate) copied_bytes: u64,
    ahead: FramesAhead,
}

impl Copying {
    /// The frames that were asked for since the last call are read from now on.
    pub(crate) fn submit(&mut self) {
        self.ahead.submit();
    }

    /// Forgets the frames that were asked for and end at a block or before it: the scan has passed them.
    pub(crate) fn forget_until(&mut self, block: usize) {
        self.ahead.forget_until(block);
    }
}

/// A frame, wherever its bytes are yet.
struct FramePlace<'a> {
    extent: &'a OwnedExtent,
    copy: &'a ExtentCopy,
    method: CopyMethod,
    blocks: Range<usize>,
    /// Its bytes in the chunk, and in the extent.
    in_chunk: Range<usize>,
    in_extent: Range<usize>,
}

impl FramePlace<'_> {
    fn source(&self) -> FrameKey {
        FrameKey {
            extent: self.extent.id(),
            start: self.in_extent.start,
        }
    }
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

    /// Asks for the frame with a block, which will be read soon, if it has to be read from a file. `false` if there is no room for
    /// more.
    pub(crate) fn ask_for_frame(
        &self,
        methods: &Methods,
        copying: &mut Copying,
        column: usize,
        block: usize,
    ) -> bool {
        let Some(place) = self.frame_place(methods, column, block) else {
            return true;
        };
        if place.method == CopyMethod::Mapped || copying.ahead.has(place.source()) {
            return true;
        }
        let frames = &place.extent.all_losses().frames;
        if frames.frame(place.source()).is_some() {
            return true;
        }
        let (source, end) = (place.source(), place.blocks.end);
        let (range, method) = (place.in_extent, place.method);
        copying.ahead.ask(source, end, place.copy, range, method)
    }

    /// Where the frame with a block comes from; `None` if the block is read in place.
    fn frame_place(
        &self,
        methods: &Methods,
        column: usize,
        block: usize,
    ) -> Option<FramePlace<'_>> {
        let (extent, copy, place) = self.far(column)?;
        let method = methods.of(copy.tier())?;
        let chunk = self.chunk(column);
        let first = frame_start(block);
        let blocks = first..(first + FRAME_BLOCKS).min(self.blocks());
        let in_chunk = chunk.block_range(first).start..chunk.block_range(blocks.end - 1).end;
        Some(FramePlace {
            extent,
            copy,
            method,
            in_extent: place.start + in_chunk.start..place.start + in_chunk.end,
            blocks,
            in_chunk,
        })
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
        let Some(place) = self.frame_place(methods, column, block) else {
            return Ok(None);
        };
        let FramePlace { copy, method, .. } = place;
        let frames = &place.extent.all_losses().frames;
        if let Some(frame) = frames.frame(place.source()) {
            return Ok(Some(frame));
        }
        let mut arrived = copying.ahead.take(place.source());
        // Damage is repaired in place, once: then the copy is right.
        for _ in 0..2 {
            let copied = arrived
                .take()
                .unwrap_or_else(|| copy.copy_out(place.in_extent.clone(), PAD_BYTES, method));
            let copied = match copied {
                Ok(copied) => copied,
                Err(error) => {
                    let tier = &**copy.tier_name();
                    tracing::warn!(tier, %error, "blocks are read in place because they could not be read {method}");
                    return Ok(None);
                }
            };
            copying.copied_bytes += place.in_chunk.len() as u64;
            let framed = self
                .chunk(column)
                .with_blocks(place.in_chunk.start, &copied);
            let Some(damaged) = place
                .blocks
                .clone()
                .find(|block| framed.verify_block(*block).is_err())
            else {
                return Ok(Some(frames.add(place.source(), copied)));
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
