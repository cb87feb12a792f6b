//! Allocates file-system space before it is mapped, so that a full disk is an error and not a `SIGBUS`.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;

/// Allocates `[from, to)` of the file, extending it; what it holds stays. A failure leaves the file
/// as long as it was, if that was `from`.
pub(crate) fn allocate(file: &File, from: u64, to: u64) -> io::Result<()> {
    let was_bytes = file.metadata()?.len();
    let result = match fallocate(file, FallocateFlags::empty(), from, to - from) {
        // A file system without it gets zeros, written where the file has nothing yet.
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => write_zeros(file, from.max(was_bytes), to),
        result => result.map_err(io::Error::from),
    };
    // Only what was to extend it: others may have extended it meanwhile.
    if result.is_err() && to > was_bytes && file.metadata()?.len() > was_bytes {
        file.set_len(was_bytes)?;
    }
    result
}

/// Gives the file system the space of `[from, to)` back; the file stays as long as it is, and holds zeros there. `false` where the
/// file system does not know how.
pub(crate) fn give_back(file: &File, from: u64, to: u64) -> io::Result<bool> {
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    match fallocate(file, flags, from, to - from) {
        Ok(()) => Ok(true),
        Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::NODEV) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn write_zeros(file: &File, from: u64, to: u64) -> io::Result<()> {
    const ZEROS: &[u8] = &[0; 1 << 16];
    let mut at = from;
    while at < to {
        let step = (to - at).min(ZEROS.len() as u64);
        file.write_all_at(&ZEROS[..step as usize], at)?;
        at += step;
    }
    Ok(())
}

/// Whether an error means that there is no space, rather than that something is broken.
pub(crate) fn means_full(error: &io::Error) -> bool {
    [Errno::NOSPC, Errno::DQUOT, Errno::FBIG, Errno::NOMEM]
        .iter()
        .any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

/// Whether an error of bringing pages in means that a store would have met no page: on tmpfs, that
/// it is full.
pub(crate) fn means_bad_page(error: &io::Error) -> bool {
    let bad = [Errno::FAULT, Errno::HWPOISON].map(|errno| Some(errno.raw_os_error()));
    bad.contains(&error.raw_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allocation_extends_and_keeps() {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(b"kept", 0).unwrap();
        allocate(&file, 0, 8192).unwrap();
        assert_eq!(file.metadata().unwrap().len(), 8192);
        let mut kept = [0; 4];
        file.read_exact_at(&mut kept, 0).unwrap();
        assert_eq!(&kept, b"kept");
    }

    #[test]
    fn what_is_given_back_is_zero_and_no_longer_allocated() {
        use std::os::unix::fs::MetadataExt;
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&[1; 1 << 20], 0).unwrap();
        let before = file.metadata().unwrap().blocks();
        if !give_back(&file, 4096, 1 << 19).unwrap() {
            return;
        }
        let after = file.metadata().unwrap();
        assert_eq!(after.len(), 1 << 20);
        assert!(after.blocks() < before);
        let mut read = [9; 2];
        file.read_exact_at(&mut read, 4095).unwrap();
        assert_eq!(read, [1, 0]);
    }

    #[test]
    fn without_fallocate_zeros_are_written() {
        let file = tempfile::tempfile().unwrap();
        write_zeros(&file, 0, 200_000).unwrap();
        assert_eq!(file.metadata().unwrap().len(), 200_000);
    }
}
