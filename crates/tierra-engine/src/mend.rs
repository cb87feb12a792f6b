//! What is damaged in one copy of an extent is taken from another, and put right where it was.
//!
//! Invariant: only bytes that a checksum calls right are written over others, and only over those that one
//! calls wrong, or that differ from them in another copy. What has no right copy is left as it is.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tierra_column::Chunk;
use tierra_memory::{Extent, PoolError};

use crate::space::{ExtentCopy, OwnedExtent};

/// Bytes that are compared, and written if they differ, at a time: a page.
const PIECE_BYTES: usize = 4096;

/// One repair at a time: two that write the same bytes would have to write them at once.
static MENDING: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    // It guards no data: a panic leaves nothing half done that the next round would not find.
    MENDING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Puts a block of a chunk right, in the copy that is read, from any other copy. `chunk` is the chunk as it is read,
/// at `at` in the extent. Whether the block is right now.
pub(crate) fn block(
    extent: &OwnedExtent,
    read: &Arc<ExtentCopy>,
    at: usize,
    chunk: &Chunk<'_>,
    block: usize,
) -> bool {
    let _alone = alone();
    if chunk.verify_block(block).is_ok() {
        // Somebody else was faster.
        return true;
    }
    read.pool().count_check(0, false);
    let range = chunk.block_range(block);
    let range = at + range.start..at + range.end;
    let right = others(extent, read).find(|other| chunk.is_block(block, &other[range.clone()]));
    let Some(right) = right else { return false };
    replace(read, right, range).is_ok() && chunk.verify_block(block).is_ok()
}

/// Puts a range of the first copy right from any other that has it, as `is_right` says. Whether it is right then.
pub(crate) fn stored(
    extent: &OwnedExtent,
    range: Range<usize>,
    is_right: impl Fn(&[u8]) -> bool,
) -> bool {
    let _alone = alone();
    let first = extent.first();
    if is_right(&first[range.clone()]) {
        return true;
    }
    let right = others(extent, first).find(|other| is_right(&other[range.clone()]));
    right.is_some_and(|right| replace(first, right, range).is_ok())
}

/// Puts the head of a chunk right, its descriptor and directory, which `open` cannot read in the copy that is read.
/// Whether it can now.
pub(crate) fn head<'a, E>(
    extent: &'a OwnedExtent,
    read: &'a Arc<ExtentCopy>,
    place: Range<usize>,
    open: impl Fn(&'a [u8]) -> Result<Chunk<'a>, E>,
) -> bool {
    let _alone = alone();
    let right = others(extent, read)
        .find_map(|other| open(&other[place.clone()]).ok().map(|chunk| (other, chunk)));
    let Some((right, chunk)) = right else {
        return false;
    };
    let range = place.start..place.start + chunk.head_bytes();
    replace(read, right, range).is_ok() && open(&read[place]).is_ok()
}

/// Puts a range right in all copies but the one that is known to be right. How many bytes were written.
pub(crate) fn range(extent: &OwnedExtent, right: &Arc<ExtentCopy>, range: Range<usize>) -> u64 {
    let _alone = alone();
    let mut written = 0;
    for wrong in others(extent, right) {
        written += replace_where_different(wrong, right, range.clone()).unwrap_or(0);
    }
    written
}

/// Puts a whole copy right from another one that was verified, header and payload. How many bytes were written.
pub(crate) fn copy(wrong: &Arc<ExtentCopy>, right: &Arc<ExtentCopy>) -> Result<u64, PoolError> {
    let _alone = alone();
    let label = right.pool().label(right.extent())?;
    let mut written = 0;
    if wrong.pool().label(wrong.extent()).ok() != Some(label) {
        wrong.pool().restore_header(wrong.extent(), &label)?;
        written += 64;
    }
    written += replace_where_different(wrong, right, 0..right.len())?;
    wrong.pool().verify_extent(wrong.extent())?;
    tell(wrong, wrong.extent(), written);
    Ok(written)
}

fn others<'a>(
    extent: &'a OwnedExtent,
    read: &'a Arc<ExtentCopy>,
) -> impl Iterator<Item = &'a Arc<ExtentCopy>> {
    let copies = extent.copies().iter();
    copies.filter(move |other| !Arc::ptr_eq(other, read))
}

fn replace_where_different(
    wrong: &ExtentCopy,
    right: &ExtentCopy,
    range: Range<usize>,
) -> Result<u64, PoolError> {
    let mut written = 0;
    for start in range.clone().step_by(PIECE_BYTES) {
        let piece = start..(start + PIECE_BYTES).min(range.end);
        if wrong[piece.clone()] != right[piece.clone()] {
            written += piece.len() as u64;
            wrong
                .pool()
                .restore(wrong.extent(), start as u64, &right[piece])?;
        }
    }
    Ok(written)
}

fn replace(wrong: &ExtentCopy, right: &ExtentCopy, range: Range<usize>) -> Result<(), PoolError> {
    let written = range.len() as u64;
    let restored = wrong
        .pool()
        .restore(wrong.extent(), range.start as u64, &right[range]);
    match &restored {
        Ok(()) => tell(wrong, wrong.extent(), written),
        Err(error) => tracing::error!(%error, "a damaged range could not be restored"),
    }
    restored
}

fn tell(wrong: &ExtentCopy, extent: Extent, written_bytes: u64) {
    tracing::warn!(
        pool = %wrong.pool().path().display(),
        extent = extent.offset,
        written_bytes,
        "damage was repaired from another copy"
    );
}
