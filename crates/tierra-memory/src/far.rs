//! Where volatile far memory comes from: a NUMA node, a file on persistent memory, or near memory under another
//! name, to be [emulated](crate::emulation).
//!
//! Persistent memory in its usual mode is a file system with DAX. A file there that no directory names is memory
//! as any other: it is gone with the process, however that ends. (memkind's PMEM kind is made so.)
//!
//! Invariant: space of a file is allocated before it is mapped, and stays the file's, so a full file system is an
//! error and never a signal.

use std::fmt;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use rustix::mm::MapFlags;

use crate::address::{self, AddressRange, map_fixed};
use crate::backing;
use crate::emulation::{FarRange, count_as_far};
use crate::topology::NodeId;
use crate::{LARGE_PAGE_BYTES, Region, RegionError, numa};

/// Where volatile far memory comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum FarSource {
    /// Near memory under another name, which [`emulation`](crate::emulation) makes slow.
    #[default]
    Near,
    /// The memory of a NUMA node: an expander, persistent memory as system RAM, another socket.
    Node(NodeId),
    /// A file without a name in this directory, which lies on a file system with DAX; any other one will do.
    Directory(PathBuf),
}

impl fmt::Display for FarSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FarSource::Near => f.write_str("near memory"),
            FarSource::Node(node) => write!(f, "NUMA {node}"),
            FarSource::Directory(directory) => write!(f, "a file in {}", directory.display()),
        }
    }
}

impl Region {
    /// Far memory, with its registration as far, which is to be dropped before the region.
    ///
    /// # Errors
    /// As [`Region::near`] and [`Region::on_node`]; [`RegionError::File`] where there is no such directory, it is
    /// read-only, or full.
    pub fn far(source: &FarSource, len_bytes: usize) -> Result<(FarRange, Region), RegionError> {
        let region = match source {
            FarSource::Near => Region::near(len_bytes),
            FarSource::Node(node) => Region::on_node(*node, len_bytes),
            FarSource::Directory(directory) => {
                let failed = |source| RegionError::Map { len_bytes, source };
                let mapped_bytes = len_bytes
                    .max(1)
                    .checked_next_multiple_of(LARGE_PAGE_BYTES)
                    .ok_or_else(|| failed(io::ErrorKind::OutOfMemory.into()))?;
                let range =
                    AddressRange::reserve(mapped_bytes, LARGE_PAGE_BYTES).map_err(failed)?;
                // SAFETY: the range was just reserved, and nothing in it is in use.
                let pages = unsafe { FarPages::new(source, range.start().as_ptr(), mapped_bytes) }?;
                // SAFETY: as above.
                unsafe { pages.open(&range, 0, 0, mapped_bytes) }
                    .map_err(|error| unusable(directory, error))?;
                Ok(Region::of(range, len_bytes))
            }
        }?;
        Ok((count_as_far(&region[..]), region))
    }
}

/// The directory cannot be far memory.
fn unusable(directory: &Path, source: io::Error) -> RegionError {
    RegionError::File {
        directory: directory.to_owned(),
        source,
    }
}

/// The far pages of a reserved range, which is mapped from its beginning on.
#[derive(Debug)]
pub(crate) struct FarPages {
    file: Option<File>,
}

impl FarPages {
    /// Prepares addresses; a file gets room for its first large page.
    ///
    /// # Safety
    /// The addresses must be reserved, and none of them in use.
    pub(crate) unsafe fn new(
        source: &FarSource,
        start: *mut u8,
        len_bytes: usize,
    ) -> Result<FarPages, RegionError> {
        let file = match source {
            FarSource::Near => None,
            FarSource::Node(node) => {
                // SAFETY: the caller's promise is passed on.
                unsafe { numa::bind(start, len_bytes, *node) }.map_err(|error| {
                    RegionError::Node {
                        node: *node,
                        source: error,
                    }
                })?;
                None
            }
            FarSource::Directory(directory) => {
                let file = tempfile::tempfile_in(directory).and_then(|file| {
                    backing::allocate(&file, 0, LARGE_PAGE_BYTES as u64)?;
                    Ok(file)
                });
                Some(file.map_err(|error| unusable(directory, error))?)
            }
        };
        Ok(FarPages { file })
    }

    /// Makes the next part of the range memory: bytes `[from, to)` of the far pages, which begin `at_bytes` into
    /// the range. Where a file cannot be mapped the rest of the range is given up.
    ///
    /// # Safety
    /// That part must be reserved, whole pages, and hold nothing in use.
    pub(crate) unsafe fn open(
        &self,
        range: &AddressRange,
        at_bytes: usize,
        from: usize,
        to: usize,
    ) -> io::Result<()> {
        let gone = || io::Error::from(io::ErrorKind::OutOfMemory);
        if to > range.len_bytes() - at_bytes {
            return Err(gone());
        }
        // SAFETY: within the range, as checked.
        let start = unsafe { range.start().as_ptr().add(at_bytes + from) };
        let Some(file) = &self.file else {
            // SAFETY: the caller's promise is passed on.
            return unsafe { address::open(start, to - from) };
        };
        backing::allocate(file, from as u64, to as u64)?;
        // SAFETY: the caller's promise is passed on.
        let mapped = unsafe { map_fixed(file, start, from as u64, to - from, MapFlags::SHARED) };
        if mapped.is_err() {
            range.give_up_from(at_bytes + from);
            return mapped;
        }
        // SAFETY: just mapped, and the caller's.
        unsafe { address::advise_large_pages(start, to - from) };
        Ok(())
    }

    /// Whether pages that are given back come as zeros again: those of a file do not.
    pub(crate) fn is_anonymous(&self) -> bool {
        self.file.is_none()
    }

    /// Gives pages that hold nothing back to the system. Those of a file stay: others could take the space, and a
    /// store to a page without space is a signal.
    ///
    /// # Safety
    /// As of [`address::empty`].
    pub(crate) unsafe fn empty(&self, start: *mut u8, len_bytes: usize) {
        if self.file.is_none() {
            // SAFETY: the caller's promise is passed on.
            unsafe { address::empty(start, len_bytes) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_memory_that_counts_as_far_and_has_no_name() {
        let directory = tempfile::tempdir().unwrap();
        let source = FarSource::Directory(directory.path().into());
        for len in [1, LARGE_PAGE_BYTES, 3 * LARGE_PAGE_BYTES + 5] {
            let (far, mut region) = Region::far(&source, len).unwrap();
            assert!(region.len() == len && region.iter().all(|&byte| byte == 0));
            region.fill(0xEE);
            assert!(region.iter().all(|&byte| byte == 0xEE));
            assert!(crate::emulation::far::is_covered(region.as_ptr().addr()));
            assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
            drop(far);
        }
    }

    #[test]
    fn what_is_no_directory_is_an_error_that_names_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("missing");
        let told = |path: PathBuf| {
            let refused = Region::far(&FarSource::Directory(path), 4096);
            refused.map(|_| ()).unwrap_err().to_string()
        };
        let text = told(path.clone());
        assert!(text.contains(&*path.display().to_string()), "{text}");
        std::fs::write(&path, "a file").unwrap();
        assert!(told(path).contains("cannot use"));
        assert!(matches!(
            Region::far(&FarSource::Node(NodeId(1023)), 4096),
            Err(RegionError::Node { .. })
        ));
    }
}
