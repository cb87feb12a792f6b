//! What the standard library does not say to the kernel about sockets, and reads into memory that nothing has written to.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Reads at most so many bytes, into the unused capacity of `buffer`. Tells how many there were; 0 is the end.
pub(super) fn read(
    socket: BorrowedFd<'_>,
    buffer: &mut Vec<u8>,
    bytes: usize,
) -> io::Result<usize> {
    let spare = buffer.spare_capacity_mut();
    let bytes = bytes.min(spare.len());
    let (read, _) = rustix::io::read(socket, &mut spare[..bytes])?;
    let count = read.len();
    // SAFETY: the kernel has written the first `count` bytes of the spare capacity.
    unsafe { buffer.set_len(buffer.len() + count) };
    Ok(count)
}

fn set_option(
    socket: BorrowedFd<'_>,
    level: libc::c_int,
    name: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
    let len = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the descriptor is open as long as `socket` is borrowed, and the kernel reads `len` bytes of
    // `value`, which is as long and lives until the call returns.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            (&raw const value).cast(),
            len,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// What an option is set to.
#[cfg(test)]
pub(super) fn option(
    socket: BorrowedFd<'_>,
    level: libc::c_int,
    name: libc::c_int,
) -> io::Result<libc::c_int> {
    let (mut value, mut len) = (0, size_of::<libc::c_int>() as libc::socklen_t);
    // SAFETY: the descriptor is open as long as `socket` is borrowed, and the kernel writes at most `len` bytes of `value`,
    // which is as long, and `len` itself; both live until the call returns.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            level,
            name,
            (&raw mut value).cast(),
            &raw mut len,
        )
    };
    if result == 0 {
        Ok(value)
    } else {
        Err(io::Error::last_os_error())
    }
}

/// The kernel takes no more seconds of silence.
const KEEPALIVE_MAX_S: i32 = 32_767;

/// Asks the other side for a sign of life after so many seconds of silence, then thrice in as many
/// seconds again, and gives the connection up where none comes.
pub(super) fn keep_alive(socket: BorrowedFd<'_>, seconds: i32) -> io::Result<()> {
    let seconds = seconds.min(KEEPALIVE_MAX_S);
    set_option(socket, libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1)?;
    set_option(socket, libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, seconds)?;
    set_option(
        socket,
        libc::IPPROTO_TCP,
        libc::TCP_KEEPINTVL,
        (seconds / 3).max(1),
    )?;
    set_option(socket, libc::IPPROTO_TCP, libc::TCP_KEEPCNT, 3)
}

/// Says how many connections may wait to be accepted by a socket that listens already.
pub(super) fn backlog(socket: BorrowedFd<'_>, connections: i32) -> io::Result<()> {
    // SAFETY: the descriptor is open as long as `socket` is borrowed, and nothing else is passed.
    let result = unsafe { libc::listen(socket.as_raw_fd(), connections) };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
