//! The size of the operating system's pages.

/// Bytes of a base page: 4,096 on x86-64.
///
/// The C library knows it. `rustix` asks the kernel for the auxiliary vector in place of that, which ends programs under valgrind:
/// the kernel names a shared object that valgrind hides.
pub fn base_page_bytes() -> usize {
    // SAFETY: `sysconf` reads a constant of the process.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(bytes).expect("every system has a page size")
}
