//! Reading and validating extents.

use std::sync::atomic::Ordering;

use super::layout::{
    self, EXTENT_HEADER_BYTES, ExtentHeader, ExtentKind, FIRST_EXTENT, GRAIN_BYTES,
};
use super::{Extent, Pool, PoolError};
use crate::{LINE_BYTES, checksum, emulation};

impl Pool {
    /// The payload of a sealed extent, in place, line-aligned.
    ///
    /// The caller keeps the protocol of the [module](super): the extent stays live as long as the slice is used, and
    /// while a log is written no slice of it is held.
    /// A page of it that is lost reads as zeros, which [`Pool::fault_epoch`] reveals.
    ///
    /// # Panics
    /// If the extent does not lie in the pool. Extents that come from outside, such as a manifest's,
    /// may be used only after [`Pool::check_extent`].
    #[inline]
    pub fn bytes(&self, extent: Extent) -> &[u8] {
        let end = extent.offset.checked_add(extent.len_bytes);
        assert!(
            end.is_some_and(|end| end <= self.mapped_bytes.load(Ordering::Acquire)),
            "an extent is checked before it is read: {extent:?}"
        );
        if let Some(recorder) = &self.recorder {
            recorder.read(extent.offset, extent.len_bytes);
        }
        self.raw_bytes(extent.offset, extent.len_bytes)
    }

    /// Whether an extent is what it says: its place can hold one and its header is whole, names this
    /// pool, this place and this length, and of the root the checksum that was published. Returns its owner. Costs one line, reads
    /// no payload.
    ///
    /// # Errors
    /// [`PoolError::BadExtent`].
    pub fn check_extent(&self, extent: Extent) -> Result<u64, PoolError> {
        self.valid_header(extent).map(|header| header.owner)
    }

    fn valid_header(&self, extent: Extent) -> Result<ExtentHeader, PoolError> {
        let header = self.header(extent)?;
        match self.contradicts_publication(extent, header.payload_crc) {
            false => Ok(header),
            true => Err(self.bad(extent, "another root than the one that was published")),
        }
    }

    /// Whether an extent can lie there, and the line that should be its header is none of any extent: what follows may be
    /// to be used only with checksums of its own.
    pub fn has_damaged_header(&self, extent: Extent) -> bool {
        let Ok(start) = self.check_bounds(extent) else {
            return false;
        };
        let mut line = [0; LINE_BYTES];
        line.copy_from_slice(self.bytes(Extent {
            offset: start,
            len_bytes: EXTENT_HEADER_BYTES,
        }));
        ExtentHeader::decode(&line).is_err()
    }

    /// [`Pool::check_extent`], and a sealed extent's payload against its CRC32C. Returns the owner.
    ///
    /// # Errors
    /// [`PoolError::BadExtent`].
    pub fn verify_extent(&self, extent: Extent) -> Result<u64, PoolError> {
        let header = self.valid_header(extent)?;
        let _reading = emulation::begin_read(self.bytes(extent));
        if header.kind == ExtentKind::Sealed {
            let is_valid = checksum::append(0, self.bytes(extent)) == header.payload_crc;
            self.count_check(extent.len_bytes, is_valid);
            if !is_valid {
                return Err(self.fails_checksum(extent));
            }
        }
        Ok(header.owner)
    }

    /// The payload of a sealed extent is not what its header says.
    pub(crate) fn fails_checksum(&self, extent: Extent) -> PoolError {
        let what = "its payload fails its checksum; restore it from a copy";
        self.bad(extent, what)
    }

    /// Whether an extent can lie there, whatever does.
    pub fn has_room_for(&self, extent: Extent) -> bool {
        self.check_bounds(extent).is_ok()
    }

    /// Where an extent's header lies, if its place can hold it.
    pub(super) fn check_bounds(&self, extent: Extent) -> Result<u64, PoolError> {
        let start = extent
            .offset
            .checked_sub(EXTENT_HEADER_BYTES)
            .filter(|start| *start >= FIRST_EXTENT && start % GRAIN_BYTES == 0)
            .ok_or_else(|| self.bad(extent, "no extent can lie there"))?;
        layout::span_bytes(extent.len_bytes)
            .and_then(|span| start.checked_add(span))
            .filter(|end| *end <= self.len_bytes())
            .ok_or_else(|| self.bad(extent, "it reaches beyond the end of the pool"))?;
        Ok(start)
    }

    /// The header of an extent, checked.
    pub(super) fn header(&self, extent: Extent) -> Result<ExtentHeader, PoolError> {
        let start = self.check_bounds(extent)?;
        if let Some(recorder) = &self.recorder {
            recorder.read(start, EXTENT_HEADER_BYTES);
        }
        let mut line = [0; LINE_BYTES];
        // SAFETY: the header precedes the payload, inside the mapping as just checked.
        unsafe {
            std::ptr::copy_nonoverlapping(self.address(start), line.as_mut_ptr(), LINE_BYTES);
        }
        let header = ExtentHeader::decode(&line).map_err(|what| self.bad(extent, what))?;
        if header.pool_id != self.id {
            Err(self.bad(extent, "its header belongs to another pool"))
        } else if header.payload_offset != extent.offset {
            Err(self.bad(extent, "its header belongs to another place"))
        } else if header.payload_bytes != extent.len_bytes {
            Err(self.bad(extent, "its header says another length"))
        } else {
            Ok(header)
        }
    }
}
