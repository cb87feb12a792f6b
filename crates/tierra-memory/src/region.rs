//! Volatile memory on large pages, on a node of choice.
//!
//! Invariant: a region never moves and never shrinks; its bytes are zero until written. Large pages
//! are asked for (reserved ones first, transparent ones else) and what came is read back from the
//! kernel, never assumed: [`Region::page_size_bytes`].

use std::io;
use std::ops::{Deref, DerefMut};
use std::path::PathBuf;

use crate::address::{self, AddressRange};
use crate::topology::NodeId;
use crate::{LARGE_PAGE_BYTES, numa, smaps};

/// A region could not be allocated.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RegionError {
    /// The machine or a limit does not allow as much memory.
    #[error("cannot map {len_bytes} bytes of memory: {source}; lower `near-memory`")]
    Map {
        /// Bytes asked for.
        len_bytes: usize,
        /// The system's answer.
        source: io::Error,
    },
    /// The node does not exist or may not be used.
    #[error("cannot bind memory to NUMA {node}: {source}; see `tierra tiers`")]
    Node {
        /// The node asked for.
        node: NodeId,
        /// The system's answer.
        source: io::Error,
    },
    /// A directory cannot be far memory.
    #[error(
        "cannot use {} as far memory: {source}; name an existing directory in which this user may write, with room",
        directory.display()
    )]
    File {
        /// The directory.
        directory: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// The pages could not be allocated, although the address range was mapped.
    #[error("cannot bring in {len_bytes} bytes of memory: {source}; lower `near-memory`")]
    Populate {
        /// Bytes of the region.
        len_bytes: usize,
        /// The system's answer.
        source: io::Error,
    },
}

/// A run of volatile memory, line-aligned, zero at first.
#[derive(Debug)]
pub struct Region {
    range: AddressRange,
    len_bytes: usize,
}

impl Region {
    /// Near memory, wherever the kernel's policy for this thread puts it.
    ///
    /// # Errors
    /// [`RegionError::Map`].
    pub fn near(len_bytes: usize) -> Result<Region, RegionError> {
        Region::map(len_bytes, true)
    }

    /// Memory of one node. A node without CPUs makes it volatile far memory.
    ///
    /// # Errors
    /// [`RegionError::Node`], [`RegionError::Map`].
    pub fn on_node(node: NodeId, len_bytes: usize) -> Result<Region, RegionError> {
        // Reserved large pages belong to nodes: binding could leave a page that exists nowhere,
        // found out by a signal. Transparent ones fall back to small pages of the node.
        let region = Region::map(len_bytes, false)?;
        // SAFETY: the range is the region's own, just mapped.
        unsafe {
            numa::bind(
                region.range.start().as_ptr(),
                region.range.len_bytes(),
                node,
            )
        }
        .map_err(|source| RegionError::Node { node, source })?;
        Ok(region)
    }

    /// Memory that is mapped already.
    pub(crate) fn of(range: AddressRange, len_bytes: usize) -> Region {
        debug_assert!(len_bytes <= range.len_bytes());
        Region { range, len_bytes }
    }

    fn map(len_bytes: usize, reserved_pages: bool) -> Result<Region, RegionError> {
        let failed = |source| RegionError::Map { len_bytes, source };
        // Small regions would waste most of a large page.
        let unit = if len_bytes >= LARGE_PAGE_BYTES / 2 {
            LARGE_PAGE_BYTES
        } else {
            crate::base_page_bytes()
        };
        let mapped_bytes = len_bytes
            .max(1)
            .checked_next_multiple_of(unit)
            .ok_or_else(|| failed(io::ErrorKind::OutOfMemory.into()))?;
        let large = unit == LARGE_PAGE_BYTES;
        let reserved = (large && reserved_pages)
            .then(|| AddressRange::on_reserved_pages(mapped_bytes).ok())
            .flatten();
        let range = match reserved {
            Some(range) => range,
            None => {
                let range = AddressRange::zeroed(mapped_bytes, unit).map_err(failed)?;
                if large {
                    // SAFETY: just mapped, and ours.
                    unsafe { address::advise_large_pages(range.start().as_ptr(), mapped_bytes) };
                }
                range
            }
        };
        Ok(Region { range, len_bytes })
    }

    /// Faults every page in now, so that none is missing later and page sizes are final.
    ///
    /// # Errors
    /// [`RegionError::Populate`] where memory, or the node's memory, does not suffice.
    pub fn populate(&mut self) -> Result<(), RegionError> {
        // SAFETY: the whole range is mapped and ours.
        let populated =
            unsafe { address::populate(self.range.start().as_ptr(), self.range.len_bytes()) };
        match populated {
            // Where it is not possible in one call, faults will do it.
            Ok(_) => Ok(()),
            Err(source) => Err(RegionError::Populate {
                len_bytes: self.len_bytes,
                source,
            }),
        }
    }

    /// Bytes of the pages that back most of what was touched so far, as the kernel says.
    pub fn page_size_bytes(&self) -> usize {
        smaps::page_size_bytes(self.range.start().as_ptr().addr(), self.range.len_bytes())
    }
}

impl Deref for Region {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: mapped readable for the region's life and written through `&mut` only.
        unsafe { std::slice::from_raw_parts(self.range.start().as_ptr(), self.len_bytes) }
    }
}

impl DerefMut for Region {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: mapped writable for the region's life; the borrow makes the slice unique.
        unsafe { std::slice::from_raw_parts_mut(self.range.start().as_ptr(), self.len_bytes) }
    }
}

/// Puts memory that has been filled and will stay, such as a dictionary, onto large pages where it
/// lies: a random read then waits for no entry of a page table, which far apart reads of small pages
/// miss as often as the data. Takes about as long as copying, changes no content, and does nothing
/// for less than an eighth of a large page or where the kernel cannot (before 6.1).
pub fn collapse<T>(values: &[T]) {
    let bytes = size_of_val(values);
    if bytes < MIN_COLLAPSED_BYTES {
        return;
    }
    let start = values.as_ptr().addr();
    let first = start / LARGE_PAGE_BYTES * LARGE_PAGE_BYTES;
    for page in (first..start + bytes).step_by(LARGE_PAGE_BYTES) {
        if let Err(error) = address::collapse_large_page(page) {
            // At the ends the neighbours may be of another kind, or nothing at all.
            tracing::trace!(%error, "a large page could not be had");
        }
    }
}

/// [`collapse`] leaves less than this alone: its page tables stay cached.
const MIN_COLLAPSED_BYTES: usize = LARGE_PAGE_BYTES / 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_are_zero_writable_and_as_long_as_asked() {
        for len in [
            0,
            1,
            4096,
            LARGE_PAGE_BYTES - 1,
            LARGE_PAGE_BYTES,
            LARGE_PAGE_BYTES + 1,
        ] {
            let mut region = Region::near(len).unwrap();
            assert_eq!(region.len(), len);
            assert!(region.iter().all(|&byte| byte == 0));
            region.fill(0xEE);
            assert!(region.iter().all(|&byte| byte == 0xEE));
        }
    }

    #[test]
    fn the_page_size_is_one_the_kernel_knows() {
        let mut region = Region::near(8 * LARGE_PAGE_BYTES).unwrap();
        region.populate().unwrap();
        let page_bytes = region.page_size_bytes();
        assert!(page_bytes == crate::base_page_bytes() || page_bytes == LARGE_PAGE_BYTES);
    }

    #[test]
    fn a_node_is_bound_or_refused() {
        assert!(matches!(
            Region::on_node(NodeId(1023), 4096),
            Err(RegionError::Node {
                node: NodeId(1023),
                ..
            })
        ));
        assert!(matches!(
            Region::on_node(NodeId(u16::MAX), 4096),
            Err(RegionError::Node { .. })
        ));
        match Region::on_node(NodeId(0), LARGE_PAGE_BYTES) {
            Ok(mut region) => region.populate().unwrap(),
            // A kernel without NUMA, or a sandbox that forbids the call.
            Err(error) => assert!(matches!(error, RegionError::Node { .. })),
        }
    }

    #[test]
    fn an_impossible_length_is_an_error() {
        assert!(matches!(
            Region::near(usize::MAX),
            Err(RegionError::Map { .. })
        ));
        assert!(matches!(
            Region::near(1 << 50),
            Err(RegionError::Map { .. })
        ));
    }

    #[test]
    fn collapsing_leaves_every_byte_as_it_was() {
        let len = 3 * LARGE_PAGE_BYTES;
        let bytes: Vec<u8> = (0..len).map(|at| (at % 251) as u8).collect();
        for range in [
            0..len,
            1..len - 1,
            LARGE_PAGE_BYTES / 2..LARGE_PAGE_BYTES * 3 / 2,
            0..MIN_COLLAPSED_BYTES,
            0..MIN_COLLAPSED_BYTES - 1,
            5..5,
        ] {
            collapse(&bytes[range]);
        }
        let unchanged = |(at, byte): (usize, &u8)| *byte == (at % 251) as u8;
        assert!(bytes.iter().enumerate().all(unchanged));
        collapse(&[(); 100]);
    }
}
