//! Writing to logs, which are overwritten in place.

use super::layout::ExtentKind;
use super::{Extent, Pool, PoolError};

impl Pool {
    /// Overwrites a part of a log, durably on return. One writer at a time per log.
    ///
    /// # Errors
    /// [`PoolError::Lost`]: nothing of the write counts.
    /// [`PoolError::OutsideLog`], [`PoolError::BadExtent`] if the extent is no log (see
    /// [`ExtentWriter::finish_log`](crate::ExtentWriter::finish_log)), [`PoolError::Io`] or [`PoolError::Poisoned`].
    pub fn write(&self, extent: Extent, at: u64, bytes: &[u8]) -> Result<(), PoolError> {
        self.check_range(extent, at, bytes.len() as u64)?;
        self.refuse_if_read_only()?;
        self.refuse_if_poisoned()?;
        // SAFETY: the range lies in a live extent, checked above, hence mapped and writable; by the
        // protocol there is no other reader or writer now.
        let stored = unsafe { self.copy(extent.offset + at, bytes) };
        let persisted = stored.persist();
        persisted
            .map(|_| ())
            .map_err(|source| self.poison("write to the log", source))
    }

    /// Makes durable what a log holds from its beginning: after an open, what was read and is now
    /// used. A process that was killed in [`Pool::write`] may have left it in the caches, where a
    /// power cut would take it back.
    ///
    /// # Errors
    /// As [`Pool::write`].
    pub fn persist_log(&self, extent: Extent, len_bytes: u64) -> Result<(), PoolError> {
        self.check_range(extent, 0, len_bytes)?;
        self.refuse_if_poisoned()?;
        // SAFETY: the range lies in a live extent, checked above, hence mapped.
        let inherited = unsafe { self.stored_before(extent.offset, len_bytes) };
        let persisted = inherited.persist();
        persisted
            .map(|_| ())
            .map_err(|source| self.poison("make a log durable", source))
    }

    /// Whether the extent is a log that has `[at, at + len_bytes)`.
    pub(super) fn check_range(
        &self,
        extent: Extent,
        at: u64,
        len_bytes: u64,
    ) -> Result<(), PoolError> {
        let end = at.checked_add(len_bytes);
        if end.is_none_or(|end| end > extent.len_bytes) {
            return Err(PoolError::OutsideLog {
                path: self.path.clone(),
                extent,
                at,
                len_bytes,
            });
        }
        if self.header(extent)?.kind != ExtentKind::Log {
            return Err(self.bad(extent, "sealed, and no log to write to"));
        }
        Ok(())
    }
}
