//! Reserved address ranges: where a region or a pool lives for its whole life.
//!
//! Invariant: a range is this process's from the moment it is taken until it is dropped, so memory
//! mapped into it later lies where it was promised and nothing else can take the place. That is why
//! a pool's pointers never move while it grows.
//!
//! A mapping over a part of the range that fails is the one danger: the kernel unmaps what was there
//! before it finds out, and another thread's memory may come to lie in the hole. So what may well
//! fail (reserved large pages) gets a range of its own instead, and where a failure cannot be ruled
//! out the rest of the range is given up ([`AddressRange::give_up_from`]).

use std::fs::File;
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::mm::{
    Advice, MapFlags, MprotectFlags, ProtFlags, madvise, mmap, mmap_anonymous, mprotect, munmap,
};

use crate::LARGE_PAGE_BYTES;

/// A range of addresses that this process owns.
#[derive(Debug)]
pub(crate) struct AddressRange {
    start: NonNull<u8>,
    /// Bytes that certainly are still ours.
    len_bytes: AtomicUsize,
}

// SAFETY: the range is owned by this value alone and is plain memory, tied to no thread.
unsafe impl Send for AddressRange {}
// SAFETY: shared access hands out only the address and the length.
unsafe impl Sync for AddressRange {}

impl AddressRange {
    /// Reserves `len_bytes` (a multiple of the page size) at an address aligned to `align_bytes`, a
    /// power of two. There is no access before something is mapped into it.
    pub(crate) fn reserve(len_bytes: usize, align_bytes: usize) -> io::Result<AddressRange> {
        AddressRange::map(
            len_bytes,
            align_bytes,
            ProtFlags::empty(),
            MapFlags::NORESERVE,
        )
    }

    /// Takes as much memory, aligned so: readable, writable, zero.
    pub(crate) fn zeroed(len_bytes: usize, align_bytes: usize) -> io::Result<AddressRange> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        AddressRange::map(len_bytes, align_bytes, access, MapFlags::empty())
    }

    /// Takes zeroed memory on large pages that the administrator has set aside; an error where too
    /// few are left. `len_bytes` is a multiple of a large page.
    pub(crate) fn on_reserved_pages(len_bytes: usize) -> io::Result<AddressRange> {
        debug_assert!(len_bytes.is_multiple_of(LARGE_PAGE_BYTES));
        // SAFETY: a new anonymous mapping at an address the kernel chooses (aligned to its pages)
        // touches no memory in use.
        let start = unsafe {
            mmap_anonymous(
                std::ptr::null_mut(),
                len_bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE | MapFlags::HUGETLB | MapFlags::HUGE_2MB,
            )
        }?;
        AddressRange::at(start.cast(), len_bytes)
    }

    fn at(start: *mut u8, len_bytes: usize) -> io::Result<AddressRange> {
        let start = NonNull::new(start).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(AddressRange {
            start,
            len_bytes: AtomicUsize::new(len_bytes),
        })
    }

    fn map(
        len_bytes: usize,
        align_bytes: usize,
        access: ProtFlags,
        extra: MapFlags,
    ) -> io::Result<AddressRange> {
        debug_assert!(align_bytes.is_power_of_two() && len_bytes > 0);
        let too_large = || io::Error::from(io::ErrorKind::OutOfMemory);
        let padded = len_bytes.checked_add(align_bytes).ok_or_else(too_large)?;
        // SAFETY: a new anonymous mapping at an address the kernel chooses touches no memory in use.
        let base = unsafe {
            mmap_anonymous(
                std::ptr::null_mut(),
                padded,
                access,
                MapFlags::PRIVATE | extra,
            )
        }?
        .cast::<u8>();
        let lead = base.align_offset(align_bytes);
        let tail = padded - lead - len_bytes;
        // SAFETY: both trimmed parts lie inside the mapping just made, to which there is no other reference.
        unsafe {
            if lead > 0 {
                munmap(base.cast(), lead)?;
            }
            if tail > 0 {
                munmap(base.add(lead + len_bytes).cast(), tail)?;
            }
        }
        // SAFETY: `lead` is inside the mapping.
        AddressRange::at(unsafe { base.add(lead) }, len_bytes)
    }

    /// Reserves as much of `len_bytes` as the process may have, not less than `least_bytes`. An
    /// address space limit (`ulimit -v`) is the only thing that makes it less.
    pub(crate) fn reserve_at_most(
        len_bytes: usize,
        least_bytes: usize,
        align_bytes: usize,
    ) -> io::Result<AddressRange> {
        let mut wanted = len_bytes;
        loop {
            match AddressRange::reserve(wanted, align_bytes) {
                Err(_) if wanted / 2 >= least_bytes.max(align_bytes) => {
                    wanted = (wanted / 2).next_multiple_of(align_bytes);
                }
                result => return result,
            }
        }
    }

    /// First byte of the range.
    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Bytes of the range.
    pub(crate) fn len_bytes(&self) -> usize {
        self.len_bytes.load(Ordering::Acquire)
    }

    /// Gives up what begins `at_bytes` into the range, after mapping something there has failed:
    /// the kernel may have mapped other memory there. The addresses are neither used nor unmapped again.
    pub(crate) fn give_up_from(&self, at_bytes: usize) {
        self.len_bytes.fetch_min(at_bytes, Ordering::AcqRel);
    }
}

impl Drop for AddressRange {
    fn drop(&mut self) {
        let len_bytes = self.len_bytes();
        if len_bytes == 0 {
            return;
        }
        // SAFETY: the range is ours, and its owner drops it only when no pointer into it is left.
        let unmapped = unsafe { munmap(self.start.as_ptr().cast(), len_bytes) };
        debug_assert!(unmapped.is_ok(), "a reserved range can always be unmapped");
    }
}

/// Asks for large pages; a kernel or file system without them ignores it.
///
/// # Safety
/// `[start, start + len_bytes)` must be mapped and owned by the caller.
pub(crate) unsafe fn advise_large_pages(start: *mut u8, len_bytes: usize) {
    // SAFETY: advice about the page size changes no content.
    if let Err(error) = unsafe { madvise(start.cast(), len_bytes, Advice::LinuxHugepage) } {
        tracing::debug!(%error, "large pages not available for this mapping");
    }
}

/// Moves the large page around an address onto one page, neighbours included, where its memory is
/// anonymous and present at least in part. Synchronous; where it cannot be done nothing changes.
/// Any address will do.
pub(crate) fn collapse_large_page(start: usize) -> io::Result<()> {
    // SAFETY: the kernel copies what is there under locks of its own and maps it again at the same
    // address; memory that does not exist is an error. No content and no permission changes.
    let result = unsafe {
        libc::madvise(
            std::ptr::without_provenance_mut(start),
            LARGE_PAGE_BYTES,
            libc::MADV_COLLAPSE,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Makes every page of the range present and writable now, in one call instead of one fault per
/// page. A page that cannot be had is an error here, where a later store would be a signal.
/// `false` where the kernel cannot do this (before 5.14): the pages come by faults.
///
/// # Safety
/// `[start, start + len_bytes)` must be mapped readable and writable and owned by the caller.
pub(crate) unsafe fn populate(start: *mut u8, len_bytes: usize) -> io::Result<bool> {
    let page_bytes = crate::base_page_bytes();
    let lead = start.addr() % page_bytes;
    // SAFETY: rounding down to the page stays inside the mapping, which consists of whole pages;
    // populating changes no content.
    let result = unsafe {
        madvise(
            start.sub(lead).cast(),
            len_bytes + lead,
            Advice::LinuxPopulateWrite,
        )
    };
    match result {
        Err(rustix::io::Errno::INVAL) => Ok(false),
        result => Ok(result.map(|()| true)?),
    }
}

/// Makes reserved addresses readable and writable memory, zero at first.
///
/// # Safety
/// `[start, start + len_bytes)` must be reserved, whole pages, and owned by the caller.
pub(crate) unsafe fn open(start: *mut u8, len_bytes: usize) -> io::Result<()> {
    let access = MprotectFlags::READ | MprotectFlags::WRITE;
    // SAFETY: the caller owns the pages, which could not be used so far. A failure leaves them as they were.
    Ok(unsafe { mprotect(start.cast(), len_bytes, access) }?)
}

/// Maps a part of a file, readable and writable, at a fixed address.
///
/// # Safety
/// `[start, start + len_bytes)` must be reserved by the caller and hold nothing in use. After a failure something
/// else may come to lie there: see the [module](self).
pub(crate) unsafe fn map_fixed(
    file: &File,
    start: *mut u8,
    offset: u64,
    len_bytes: usize,
    flags: MapFlags,
) -> io::Result<()> {
    // SAFETY: replaces a reservation that the caller owns and that holds nothing in use.
    unsafe {
        mmap(
            start.cast(),
            len_bytes,
            ProtFlags::READ | ProtFlags::WRITE,
            flags | MapFlags::FIXED,
            file,
            offset,
        )
    }?;
    Ok(())
}

/// Gives anonymous pages back to the system; they read as zeros from now on.
///
/// # Errors
/// Where they stay as they are: the process has locked its memory.
///
/// # Safety
/// `[start, start + len_bytes)` must be anonymous memory, whole pages, owned by the caller, who needs nothing
/// of what is there.
pub(crate) unsafe fn try_empty(start: *mut u8, len_bytes: usize) -> io::Result<()> {
    // SAFETY: as the caller promises.
    Ok(unsafe { madvise(start.cast(), len_bytes, Advice::LinuxDontNeed) }?)
}

/// The same, of pages that may as well stay.
///
/// # Safety
/// As of [`try_empty`].
pub(crate) unsafe fn empty(start: *mut u8, len_bytes: usize) {
    // SAFETY: as the caller promises.
    if let Err(error) = unsafe { try_empty(start, len_bytes) } {
        tracing::debug!(%error, "pages could not be given back");
    }
}

/// Reads a byte of every page.
///
/// # Safety
/// The range is mapped and readable; faults of it are caught.
pub(crate) unsafe fn touch(start: *const u8, len_bytes: usize) {
    let page_bytes = crate::base_page_bytes();
    let lead = start.addr() % page_bytes;
    for at in (0..len_bytes + lead).step_by(page_bytes) {
        // SAFETY: inside the pages of the range, which are mapped.
        unsafe { start.sub(lead).add(at).read_volatile() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_aligned_and_as_long_as_asked() {
        for len_bytes in [4096, LARGE_PAGE_BYTES, 3 * LARGE_PAGE_BYTES + 4096, 1 << 40] {
            let range = AddressRange::reserve(len_bytes, LARGE_PAGE_BYTES).unwrap();
            assert_eq!(range.start().as_ptr().addr() % LARGE_PAGE_BYTES, 0);
            assert_eq!(range.len_bytes(), len_bytes);
        }
    }

    #[test]
    fn what_was_given_up_is_left_alone() {
        let page_bytes = crate::base_page_bytes();
        let range = AddressRange::reserve(2 * page_bytes, page_bytes).unwrap();
        let start = range.start().as_ptr();
        range.give_up_from(page_bytes);
        range.give_up_from(2 * page_bytes);
        assert_eq!(range.len_bytes(), page_bytes);
        drop(range);
        // Refuses a place that is taken, so no other thread's memory is at risk.
        let take = |at: *mut u8| {
            let flags = MapFlags::PRIVATE | MapFlags::FIXED_NOREPLACE;
            // SAFETY: takes the place of nothing.
            unsafe { mmap_anonymous(at.cast(), page_bytes, ProtFlags::empty(), flags) }
        };
        let second = start.wrapping_add(page_bytes);
        assert_eq!(take(second), Err(rustix::io::Errno::EXIST));
        // SAFETY: the page that was given up and is not used.
        unsafe { munmap(second.cast(), page_bytes) }.unwrap();
    }

    #[test]
    fn an_impossible_length_shrinks_or_fails() {
        assert!(AddressRange::reserve(usize::MAX - 4095, LARGE_PAGE_BYTES).is_err());
        assert!(AddressRange::reserve(1 << 50, LARGE_PAGE_BYTES).is_err());
        let range = AddressRange::reserve_at_most(1 << 50, 1 << 20, LARGE_PAGE_BYTES).unwrap();
        assert!(range.len_bytes() >= 1 << 40);
    }
}
