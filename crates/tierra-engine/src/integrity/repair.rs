//! Repairs damaged bytes in place from another copy of the extent, or with bytes made again of a replica in another encoding.
//!
//! There are two causes: bytes that fail their checksum, and lost pages, which are marked ([`Losses`]). Lost bytes are always
//! rewritten, durably, even if the zeros in their place are right by chance.
//!
//! Where a medium cannot be written any more, readers get the right bytes in memory, and the writer is told, so that it has another
//! copy or replica read. The copy counts as one that may not be durable ([`ExtentCopy::refuses_repair`]).
//!
//! Invariant: only bytes with a matching checksum are written over others, and only over bytes that fail theirs, that were lost,
//! or that differ in another copy. Bytes without a right copy are left as they are.
//!
//! [`Losses`]: crate::storage::losses::Losses

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tierra_column::Chunk;
use tierra_memory::PoolError;

use crate::storage::extent::{ExtentCopy, OwnedExtent, Owner};
use crate::storage::faults::{FaultKind, HEADER};

/// Bytes compared, and written if they differ, at a time: a page.
const PIECE_BYTES: usize = 4096;

/// Failing memory may fail again before the repair was verified.
const TRIES: usize = 3;

/// One repair at a time: two repairs must not write the same bytes at once.
static REPAIRING: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    // It guards no data: the next round finds what a panic left undone.
    REPAIRING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Repairs a block of a chunk, in the copy that is read, from any other copy. `chunk` is the chunk as it is read, at `at` in the
/// extent. Returns whether the block is right now, at least in memory. If not, another replica may have it: nothing is reported.
pub(crate) fn block(
    extent: &OwnedExtent,
    read: &Arc<ExtentCopy>,
    at: usize,
    chunk: &Chunk<'_>,
    block: usize,
) -> bool {
    let range = chunk.block_range(block);
    let range = at + range.start..at + range.end;
    let is_valid = |bytes: &[u8]| chunk.block_matches(block, bytes);
    stored_in(extent, read, range.clone(), FaultKind::Checksum, is_valid)
        || is_valid(&read[range.clone()])
        || {
            let mut others = others(extent, read);
            let right = others.find(|other| is_valid(&other[range.clone()]));
            right.is_some_and(|right| in_memory(read, range.clone(), &right[range]))
        }
}

/// Gives the readers of a copy bytes that are right and could not be restored in it. Returns whether they are right there then.
pub(crate) fn in_memory(read: &ExtentCopy, range: Range<usize>, right: &[u8]) -> bool {
    let _alone = alone();
    let at = range.start as u64;
    let restored = read.pool().restore_in_memory(read.extent(), at, right);
    restored.is_ok() && read[range] == *right
}

/// Reports a range of a copy as lost: nothing else has its bytes, either.
pub(crate) fn lost(extent: &OwnedExtent, read: &ExtentCopy, range: &Range<usize>) {
    extent.all_losses().log.lost(extent, read, range);
}

/// Repairs a range of the copy that is read from any other that has it, according to `is_valid`. Returns whether it is valid then. If not,
/// it is reported as lost.
pub(crate) fn stored(
    extent: &OwnedExtent,
    range: Range<usize>,
    is_valid: impl Fn(&[u8]) -> bool,
) -> bool {
    let is_valid = of_copies(extent, range.clone(), is_valid);
    if !is_valid {
        lost(extent, extent.read(), &range);
    }
    is_valid
}

/// As [`stored`], but what no copy has may be elsewhere: nothing is reported.
pub(crate) fn of_copies(
    extent: &OwnedExtent,
    range: Range<usize>,
    is_valid: impl Fn(&[u8]) -> bool,
) -> bool {
    stored_in(extent, extent.read(), range, FaultKind::Checksum, is_valid)
}

/// Repairs bytes of the copy that is read, from `at` on, from near memory.
pub(crate) fn near(extent: &OwnedExtent, at: usize, right: &[u8]) {
    let _alone = alone();
    let (read, range) = (extent.read(), at..at + right.len());
    let was_lost = read.is_lost(&range);
    if read[range.clone()] == *right && !was_lost {
        return;
    }
    if !was_lost {
        let log = &extent.all_losses().log;
        log.found(extent, read, range.clone(), FaultKind::Checksum);
    }
    // `write` logs the error, and the copy stays damaged.
    let _ = write(extent, read, right, range, "near memory");
}

/// Repairs a range of a copy with right bytes that were made of the replica of that name. Returns whether it is right then.
pub(crate) fn rebuilt(
    extent: &OwnedExtent,
    read: &Arc<ExtentCopy>,
    range: Range<usize>,
    right: &[u8],
    from: &str,
) -> bool {
    let _alone = alone();
    // Another thread may have repaired it first.
    let is_right = || read[range.clone()] == *right;
    is_right() && !read.is_lost(&range)
        || write(extent, read, right, range.clone(), from).is_ok() && is_right()
}

/// Repairs a range of a copy from any other that has it. Returns whether it is valid then.
fn stored_in(
    extent: &OwnedExtent,
    read: &Arc<ExtentCopy>,
    range: Range<usize>,
    kind: FaultKind,
    is_valid: impl Fn(&[u8]) -> bool,
) -> bool {
    let _alone = alone();
    let was_lost = read.is_lost(&range);
    let was_valid = is_valid(&read[range.clone()]);
    if was_valid && !was_lost {
        // Another thread repaired it first.
        return true;
    }
    let log = &extent.all_losses().log;
    if !was_lost {
        read.pool().count_check(0, false);
        log.found(extent, read, range.clone(), kind);
    }
    if was_valid {
        // Lost with a neighbour: the bytes are right, but perhaps not in the file.
        return rewrite(extent, read, range).is_ok();
    }
    let put_right = |_| {
        let right = others(extent, read).find(|other| is_valid(&other[range.clone()]));
        right.is_some_and(|right| {
            replace(extent, read, right, range.clone()).is_ok() && is_valid(&read[range.clone()])
        })
    };
    (0..TRIES).any(put_right)
}

/// Repairs the header of a chunk, with its directory, if `open` cannot read it in the copy that is read, or it was lost there.
/// Returns whether it can be read now.
pub(crate) fn header<'a, E>(
    extent: &'a OwnedExtent,
    read: &'a Arc<ExtentCopy>,
    place: Range<usize>,
    open: impl Fn(&'a [u8]) -> Result<Chunk<'a>, E>,
) -> bool {
    let _alone = alone();
    let head_of = |chunk: Chunk<'_>| place.start..place.start + chunk.header_bytes();
    let own = open(&read[place.clone()]).ok().map(head_of);
    let log = &extent.all_losses().log;
    if let Some(range) = own {
        return !read.is_lost(&range) || rewrite(extent, read, range).is_ok();
    }
    let right = others(extent, read)
        .find_map(|other| open(&other[place.clone()]).ok().map(|chunk| (other, chunk)));
    let Some((right, chunk)) = right else {
        log.found(extent, read, place.clone(), FaultKind::Checksum);
        log.lost(extent, read, &place);
        return false;
    };
    let range = head_of(chunk);
    if !read.is_lost(&range) {
        log.found(extent, read, range.clone(), FaultKind::Checksum);
    }
    replace(extent, read, right, range).is_ok() && open(&read[place]).is_ok()
}

/// Repairs a range in all copies except the one that is known to be right. Returns the bytes written.
pub(crate) fn range(extent: &OwnedExtent, right: &Arc<ExtentCopy>, range: Range<usize>) -> u64 {
    let _alone = alone();
    let mut written = 0;
    for wrong in others(extent, right) {
        let replaced = replace_where_different(extent, wrong, right, range.clone());
        written += replaced.unwrap_or(0);
    }
    written
}

/// Repairs a whole copy, header and payload, from another one that was verified. Returns the bytes written.
pub(crate) fn copy(
    extent: &OwnedExtent,
    wrong: &Arc<ExtentCopy>,
    right: &Arc<ExtentCopy>,
) -> Result<u64, PoolError> {
    let _alone = alone();
    let log = &extent.all_losses().log;
    let label = right.pool().label(right.extent())?;
    let mut written = 0;
    let (parts, has_lost_header) = wrong.losses();
    let has_header = wrong.pool().label(wrong.extent()).ok() == Some(label);
    if !has_header && !has_lost_header {
        log.found(extent, wrong, HEADER, FaultKind::Header);
    }
    if !has_header || has_lost_header {
        wrong.pool().restore_header(wrong.extent(), &label)?;
        written += 64;
    }
    for part in parts {
        let (bytes, at) = (&right[part.clone()], part.start as u64);
        wrong.pool().restore(wrong.extent(), at, bytes)?;
        written += part.len() as u64;
    }
    written += replace_where_different(extent, wrong, right, 0..right.len())?;
    wrong.pool().verify_extent(wrong.extent())?;
    wrong.note_all_restored();
    if written > 0 {
        tell(extent, wrong, &(0..usize::MAX), right.tier_name(), written);
    }
    Ok(written)
}

/// Rewrites what a copy has lost, from any other whole copy, or from its own bytes if these match their checksum. Returns whether
/// the copy is whole now.
pub(crate) fn lost_parts(extent: &OwnedExtent, read: &Arc<ExtentCopy>) -> bool {
    if !read.has_losses() {
        return true;
    }
    // A log's bytes have no checksum here, and only the writer may write them: it abandons the log.
    if let Owner::Log(_) = extent.owner() {
        return false;
    }
    let is_intact = |copy: &&Arc<ExtentCopy>| {
        !copy.has_losses() && copy.pool().verify_extent(copy.extent()).is_ok()
    };
    if let Some(right) = others(extent, read).find(is_intact) {
        return copy(extent, read, right).is_ok();
    }
    if read.pool().verify_extent(read.extent()).is_err() {
        let log = &extent.all_losses().log;
        log.lost(extent, read, &(0..read.len()));
        return false;
    }
    rewrite_lost(extent, read).is_ok()
}

/// Rewrites what a copy has lost from its own bytes, which match their checksum.
pub(crate) fn rewrite_lost(extent: &OwnedExtent, read: &Arc<ExtentCopy>) -> Result<(), PoolError> {
    let _alone = alone();
    let (parts, has_lost_header) = read.losses();
    if has_lost_header {
        let label = read.pool().label(read.extent())?;
        read.pool().restore_header(read.extent(), &label)?;
    }
    for part in parts {
        rewrite(extent, read, part)?;
    }
    read.note_all_restored();
    Ok(())
}

/// Writes zeros to padding, where it is not zero or was lost.
pub(crate) fn padding(
    extent: &OwnedExtent,
    read: &Arc<ExtentCopy>,
    range: Range<usize>,
) -> Result<(), PoolError> {
    let _alone = alone();
    if read[range.clone()].iter().all(|byte| *byte == 0) && !read.is_lost(&range) {
        return Ok(());
    }
    let zeros = vec![0; range.len()];
    let at = range.start as u64;
    read.pool().restore(read.extent(), at, &zeros)?;
    read.note_restored(&range);
    tell(
        extent,
        read,
        &range,
        "nothing: padding is zero",
        range.len() as u64,
    );
    Ok(())
}

fn others<'a>(
    extent: &'a OwnedExtent,
    read: &'a Arc<ExtentCopy>,
) -> impl Iterator<Item = &'a Arc<ExtentCopy>> {
    let copies = extent.copies().iter();
    copies.filter(move |other| !Arc::ptr_eq(other, read))
}

fn replace_where_different(
    extent: &OwnedExtent,
    wrong: &ExtentCopy,
    right: &ExtentCopy,
    range: Range<usize>,
) -> Result<u64, PoolError> {
    let mut written = 0;
    let mut differing: Option<Range<usize>> = None;
    for start in range.clone().step_by(PIECE_BYTES) {
        let piece = start..(start + PIECE_BYTES).min(range.end);
        if wrong[piece.clone()] == right[piece.clone()] {
            continue;
        }
        let (first, end) = differing.map_or((start, piece.end), |all| (all.start, piece.end));
        differing = Some(first..end);
        written += piece.len() as u64;
        wrong
            .pool()
            .restore(wrong.extent(), start as u64, &right[piece])?;
    }
    if let Some(differing) = differing {
        let log = &extent.all_losses().log;
        log.found(extent, wrong, differing.clone(), FaultKind::Checksum);
        log.repaired(extent, wrong, &differing, right.tier_name());
    }
    Ok(written)
}

fn replace(
    extent: &OwnedExtent,
    wrong: &ExtentCopy,
    right: &ExtentCopy,
    range: Range<usize>,
) -> Result<(), PoolError> {
    write(
        extent,
        wrong,
        &right[range.clone()],
        range,
        right.tier_name(),
    )
}

/// Rewrites a range from the copy's own bytes, which are right.
fn rewrite(extent: &OwnedExtent, copy: &ExtentCopy, range: Range<usize>) -> Result<(), PoolError> {
    let bytes = copy[range.clone()].to_vec();
    write(extent, copy, &bytes, range, copy.tier_name())
}

fn write(
    extent: &OwnedExtent,
    wrong: &ExtentCopy,
    right: &[u8],
    range: Range<usize>,
    from: &str,
) -> Result<(), PoolError> {
    let at = range.start as u64;
    let restored = wrong.pool().restore(wrong.extent(), at, right);
    match &restored {
        Ok(()) => {
            wrong.note_restored(&range);
            tell(extent, wrong, &range, from, range.len() as u64);
        }
        Err(error) if wrong.note_refusal() => {
            tracing::error!(
                tier = &**wrong.tier_name(),
                extent = extent.id().0,
                %error,
                "a damaged range could not be restored: another copy or replica is read, if there is one"
            );
            extent.all_losses().tell();
        }
        // That was said.
        Err(_) => {}
    }
    restored
}

fn tell(
    extent: &OwnedExtent,
    wrong: &ExtentCopy,
    range: &Range<usize>,
    from: &str,
    written_bytes: u64,
) {
    tracing::debug!(
        pool = %wrong.pool().path().display(),
        extent = extent.id().0,
        from,
        written_bytes,
        "damage was repaired"
    );
    extent.all_losses().log.repaired(extent, wrong, range, from);
}
