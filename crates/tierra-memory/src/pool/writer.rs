//! Writing an extent: from allocated space to an immutable, self-describing run of bytes.
//!
//! Invariant: until `finish` returns, the space is this writer's alone; a writer dropped before gives
//! it back, which is how a failed load is undone.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::layout::{EXTENT_HEADER_BYTES, ExtentHeader, ExtentKind};
use super::{Extent, Pool, PoolError};
use crate::recording::LentSlice;

/// A finished extent, which may be published or referenced by what is published. Only [`ExtentWriter`] makes
/// one: an extent that was not completely written, checksummed and flushed cannot be published.
#[must_use = "a finished extent that is never named is free space after the next open"]
#[derive(Debug, PartialEq, Eq)]
pub struct Finished {
    extent: Extent,
}

impl Finished {
    /// Where it lies.
    pub fn extent(&self) -> Extent {
        self.extent
    }
}

/// The payload of an extent that has no other reference yet: writable, line-aligned, its content
/// undefined until written.
pub struct ExtentWriter {
    pool: Arc<Pool>,
    extent: Extent,
    owner: u64,
    /// The pool's count of cleared pages before anything was written.
    cleared: u64,
    /// That the slice was handed out, if the pool is recorded.
    lent: Option<LentSlice>,
    finished: bool,
}

impl ExtentWriter {
    pub(super) fn new(pool: Arc<Pool>, offset: u64, len_bytes: u64, owner: u64) -> ExtentWriter {
        let lent = pool.recorder.as_ref();
        let lent = lent.map(|recorder| recorder.lend(offset, len_bytes));
        let cleared = pool.cleared.load(Ordering::Acquire);
        ExtentWriter {
            pool,
            extent: Extent { offset, len_bytes },
            owner,
            cleared,
            lent,
            finished: false,
        }
    }

    /// The extent that will be: its offset, and its length unless it is finished shorter.
    pub fn extent(&self) -> Extent {
        self.extent
    }

    /// Seals the extent. Its bytes are durable once the next [`Pool::publish`] returns, which is
    /// the earliest moment at which anything durable can name it.
    ///
    /// # Errors
    /// [`PoolError::Io`], [`PoolError::Lost`]; the space is given back.
    pub fn finish(self) -> Result<Finished, PoolError> {
        self.seal(ExtentKind::Sealed)
    }

    /// Finishes the extent as a log: all zero, whatever was written so far, and from now on written
    /// by [`Pool::write`] only. Nothing of the space's former content can be taken for a record.
    ///
    /// # Errors
    /// As [`ExtentWriter::finish`].
    pub fn finish_log(mut self) -> Result<Finished, PoolError> {
        self.fill(0);
        self.seal(ExtentKind::Log)
    }

    /// Ends it without giving its space back.
    pub(super) fn leave_out(mut self) {
        self.hand_in();
        self.finished = true;
    }

    /// Records what was written through the slice, if there is a recorder.
    fn hand_in(&mut self) {
        if let (Some(lent), Some(recorder)) = (self.lent.take(), &self.pool.recorder) {
            recorder.returned(&lent, self.extent.offset, self);
        }
    }

    fn seal(mut self, kind: ExtentKind) -> Result<Finished, PoolError> {
        self.hand_in();
        let pool = &self.pool;
        let header = ExtentHeader {
            owner: self.owner,
            payload_offset: self.extent.offset,
            payload_bytes: self.extent.len_bytes,
            pool_id: pool.id,
            payload_crc: match kind {
                ExtentKind::Sealed => crc32c::crc32c(&self),
                ExtentKind::Log => 0,
            },
            kind,
        };
        let start = self.extent.offset - EXTENT_HEADER_BYTES;
        // SAFETY: the header's line belongs to this writer's run, is mapped and writable, and no
        // reference to it exists.
        let stored = unsafe { pool.copy(start, &header.encode()) };
        stored
            .and_behind(self.extent.len_bytes)
            .stage()
            .map_err(|source| pool.io("make an extent durable", source))?;
        // Zeros may have come over what was written.
        if pool.cleared.load(Ordering::Acquire) != self.cleared {
            return Err(pool.lost_at(self.extent.offset));
        }
        self.finished = true;
        Ok(Finished {
            extent: self.extent,
        })
    }
}

impl Deref for ExtentWriter {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.pool.bytes(self.extent)
    }
}

impl DerefMut for ExtentWriter {
    fn deref_mut(&mut self) -> &mut [u8] {
        let Extent { offset, len_bytes } = self.extent;
        // SAFETY: the run is mapped, writable and, until finished, this writer's alone; the borrow
        // of the writer makes the slice unique. Any byte is a valid u8.
        unsafe { std::slice::from_raw_parts_mut(self.pool.address(offset), len_bytes as usize) }
    }
}

impl Drop for ExtentWriter {
    fn drop(&mut self) {
        if !self.finished {
            self.hand_in();
            self.pool.free(self.extent);
        }
    }
}

impl fmt::Debug for ExtentWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExtentWriter")
            .field("extent", &self.extent)
            .field("owner", &self.owner)
            .finish_non_exhaustive()
    }
}
