//! Repairing an extent in place: a damaged range is overwritten with bytes that are known to be correct.
//!
//! Invariant: only the named range is changed, so a crash leaves the correct bytes, the damaged ones or
//! some of each, and the next check finds the damage again. The repair is idempotent.

use super::layout::{self, EXTENT_HEADER_BYTES, ExtentHeader, ExtentKind};
use super::{Extent, Pool, PoolError};
use crate::lock::lock;

/// What an extent's header says beyond place and length: the same in all copies of its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExtentLabel {
    /// As given to [`Pool::allocate`].
    pub owner: u64,
    /// The CRC32C of a sealed payload; `None` for a log.
    pub payload_crc: Option<u32>,
}

impl Pool {
    /// Overwrites a range of a live extent, sealed or log, with bytes that are known to be correct, durably on
    /// return. `at` counts from the payload's beginning; the header, which [`Pool::restore_header`]
    /// restores, may be damaged. After an open it may come before [`Pool::retain`].
    ///
    /// A lost page of the range ([`Pool::take_faults`]) is rewritten through the file, which clears an error of the
    /// medium, and mapped again; its other bytes are zero until they are restored, too. A truncated file is extended
    /// to its length with zeros, all of which is reported as a fault.
    ///
    /// The extent has no other writer meanwhile, and `good` does not lie in it. Readers may hold slices of it:
    /// all other bytes stay as they are, and those of the range change while they are read. Readers must
    /// discard what they read of them, for they were damaged.
    ///
    /// # Errors
    /// [`PoolError::BadExtent`] if the extent is not live or does not have the range: nothing is written.
    /// [`PoolError::Io`], [`PoolError::Lost`], [`PoolError::Poisoned`]: what the range holds is unknown. A medium
    /// that cannot be written there any more is one of them: drop the extent and write it elsewhere.
    pub fn restore(&self, extent: Extent, at: u64, good: &[u8]) -> Result<(), PoolError> {
        let end = at.checked_add(good.len() as u64);
        if end.is_none_or(|end| end > extent.len_bytes) {
            return Err(self.bad(extent, "the range to restore lies outside of it"));
        }
        self.check_run(extent)?;
        self.overwrite(extent.offset + at, good)
    }

    /// Overwrites a range of a live extent with bytes that are known to be correct for the readers of this process alone, where
    /// [`Pool::restore`] failed because the medium cannot be written any more. Nothing is durable by it: lost pages stay lost, and the
    /// next open may find the damage again.
    ///
    /// As for `restore`, the extent has no other writer meanwhile, `good` does not lie in it, and readers discard what they read of
    /// the range.
    ///
    /// # Errors
    /// [`PoolError::BadExtent`] as for `restore`.
    pub fn restore_in_memory(&self, extent: Extent, at: u64, good: &[u8]) -> Result<(), PoolError> {
        let end = at.checked_add(good.len() as u64);
        if end.is_none_or(|end| end > extent.len_bytes) {
            return Err(self.bad(extent, "the range to restore lies outside of it"));
        }
        self.check_run(extent)?;
        // SAFETY: the range lies in a live extent, hence it is mapped and writable; lost pages are memory of the handler's, which is
        // too. By the contract there is no other writer, and readers discard what they read of it.
        drop(unsafe { self.copy(extent.offset + at, good) });
        Ok(())
    }

    /// The label in the header of an extent, to restore the header of a copy.
    ///
    /// # Errors
    /// [`PoolError::BadExtent`] if it is damaged itself.
    pub fn label(&self, extent: Extent) -> Result<ExtentLabel, PoolError> {
        let header = self.header(extent)?;
        Ok(ExtentLabel {
            owner: header.owner,
            payload_crc: (header.kind == ExtentKind::Sealed).then_some(header.payload_crc),
        })
    }

    /// Rewrites the header of a live extent, durably on return. [`Pool::verify_extent`] checks whether the payload
    /// matches it.
    ///
    /// # Errors
    /// As [`Pool::restore`].
    pub fn restore_header(&self, extent: Extent, label: &ExtentLabel) -> Result<(), PoolError> {
        self.check_run(extent)?;
        let header = ExtentHeader {
            owner: label.owner,
            payload_offset: extent.offset,
            payload_bytes: extent.len_bytes,
            pool_id: self.id,
            payload_crc: label.payload_crc.unwrap_or(0),
            kind: match label.payload_crc {
                Some(_) => ExtentKind::Sealed,
                None => ExtentKind::Log,
            },
        };
        self.overwrite(extent.offset - EXTENT_HEADER_BYTES, &header.encode())
    }

    /// Whether an extent is live, or may be, as long as the live extents are unknown.
    fn check_run(&self, extent: Extent) -> Result<(), PoolError> {
        let start = self.check_bounds(extent)?;
        let space = lock(&self.space);
        match space.live_bytes_at(start) {
            Some(bytes) if layout::span_bytes(extent.len_bytes) == Some(bytes) => Ok(()),
            None if space.is_unknown() => Ok(()),
            _ => Err(self.bad(extent, "not live, so there is nothing to restore")),
        }
    }

    pub(super) fn overwrite(&self, offset: u64, good: &[u8]) -> Result<(), PoolError> {
        /// Each try may find lost pages that the one before had not touched.
        const TRIES: usize = 4;
        self.refuse_if_poisoned()?;
        for _ in 1..TRIES {
            match self.try_overwrite(offset, good) {
                Err(PoolError::Lost { .. }) => {}
                result => return result,
            }
        }
        self.try_overwrite(offset, good)
    }

    fn try_overwrite(&self, offset: u64, good: &[u8]) -> Result<(), PoolError> {
        // Also where nothing is known to be lost: the file may have been cut short.
        self.clear_lost(offset..offset + good.len() as u64)?;
        // SAFETY: the range lies in a live extent, hence it is mapped and writable. By the contract of
        // `restore` there is no other writer, and readers discard what they read of it.
        let stored = unsafe { self.copy(offset, good) };
        let persisted = stored.for_repair().persist();
        persisted
            .map(drop)
            .map_err(|source| self.poison("restore a damaged range", source))
    }
}
