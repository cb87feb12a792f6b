//! Connections and the sockets they come from: TCP or a socket in the file system.

use std::fs::Permissions;
use std::io::{self, IoSlice, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};

use mio::event::Source;
use mio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use mio::{Interest, Registry, Token};

use super::arch;

/// A connection to a client.
#[derive(Debug)]
pub(crate) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    pub(crate) fn source(&mut self) -> &mut dyn Source {
        match self {
            Self::Tcp(stream) => stream,
            Self::Unix(stream) => stream,
        }
    }

    /// Reads at most so many bytes, into the unused capacity of `buffer`, none of which is written first.
    pub(crate) fn read(&self, buffer: &mut Vec<u8>, bytes: usize) -> io::Result<usize> {
        arch::read(self.as_fd(), buffer, bytes)
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(bytes),
            Self::Unix(stream) => stream.write(bytes),
        }
    }

    /// Writes several pieces with one call, as much of them as goes.
    pub(crate) fn write_pieces(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write_vectored(pieces),
            Self::Unix(stream) => stream.write_vectored(pieces),
        }
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(stream) => stream.as_fd(),
            Self::Unix(stream) => stream.as_fd(),
        }
    }
}

/// A connection just accepted, and what is known about where it comes from.
pub(crate) struct Accepted {
    pub(crate) stream: Stream,
    /// The client's address; the path of the socket where it is one in the file system.
    pub(crate) address: String,
    /// The address it has reached.
    pub(crate) local_address: String,
    /// Whether it comes from this machine.
    pub(crate) is_local: bool,
}

/// A socket that accepts connections.
#[derive(Debug)]
pub(crate) enum Listener {
    Tcp(TcpListener),
    Unix {
        listener: UnixListener,
        path: PathBuf,
    },
}

impl Listener {
    /// Listens on an address and a port; 0 for any.
    pub(crate) fn tcp(address: &str, port: u16, backlog: i32) -> io::Result<Self> {
        let listener = std::net::TcpListener::bind((address, port))?;
        arch::backlog(listener.as_fd(), backlog)?;
        listener.set_nonblocking(true)?;
        Ok(Self::Tcp(TcpListener::from_std(listener)))
    }

    /// Listens on a socket in the file system. One without a listener is replaced, no other file is.
    pub(crate) fn unix(path: &Path, mode: Option<u32>, backlog: i32) -> io::Result<Self> {
        if let Ok(file) = std::fs::symlink_metadata(path) {
            if !file.file_type().is_socket() {
                // Binding would say that the address is in use, as it does where a server listens.
                let why = "what is there is not a socket";
                return Err(io::Error::new(io::ErrorKind::AlreadyExists, why));
            }
            // Any other error may be that of a server which listens for others.
            let connected = std::os::unix::net::UnixStream::connect(path);
            if connected.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused) {
                std::fs::remove_file(path)?;
            }
        }
        let listener = UnixListener::bind(path)?;
        arch::backlog(listener.as_fd(), backlog)?;
        if let Some(mode) = mode {
            std::fs::set_permissions(path, Permissions::from_mode(mode))?;
        }
        Ok(Self::Unix {
            listener,
            path: path.to_owned(),
        })
    }

    pub(crate) fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        match self {
            Self::Tcp(listener) => registry.register(listener, token, Interest::READABLE),
            Self::Unix { listener, .. } => registry.register(listener, token, Interest::READABLE),
        }
    }

    /// The port, where it has one.
    pub(crate) fn port(&self) -> Option<u16> {
        match self {
            Self::Tcp(listener) => listener.local_addr().ok().map(|address| address.port()),
            Self::Unix { .. } => None,
        }
    }

    /// Where clients reach it.
    pub(crate) fn place(&self) -> String {
        match self {
            Self::Tcp(listener) => listener
                .local_addr()
                .map_or_else(|error| error.to_string(), |address| address.to_string()),
            Self::Unix { path, .. } => path.display().to_string(),
        }
    }

    /// The next connection that waits. `keepalive_s` is 0 for none.
    pub(crate) fn accept(&self, keepalive_s: i32) -> io::Result<Accepted> {
        match self {
            Self::Tcp(listener) => {
                let (stream, address) = listener.accept()?;
                // A connection does not fail for what would only have made it better, nor for its name.
                let _ = stream.set_nodelay(true);
                if keepalive_s > 0 {
                    let _ = arch::keep_alive(stream.as_fd(), keepalive_s);
                }
                let local_address = stream
                    .local_addr()
                    .map_or_else(|_| "?:0".into(), |address| address.to_string());
                let is_local = address.ip().to_canonical().is_loopback();
                Ok(Accepted {
                    stream: Stream::Tcp(stream),
                    address: address.to_string(),
                    local_address,
                    is_local,
                })
            }
            Self::Unix { listener, path } => {
                let (stream, _) = listener.accept()?;
                let address = format!("{}:0", path.display());
                Ok(Accepted {
                    stream: Stream::Unix(stream),
                    address: address.clone(),
                    local_address: address,
                    is_local: true,
                })
            }
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Self::Unix { path, .. } = self {
            // Nothing can be done about a file that is gone already.
            let _ = std::fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kernel takes fewer seconds than Redis's setting may say: no connection is refused for that.
    #[test]
    fn a_client_is_accepted_whatever_it_is_asked_for_signs_of_life() {
        let listener = Listener::tcp("127.0.0.1", 0, 16).unwrap();
        let address = ("127.0.0.1", listener.port().unwrap());
        for (asked_s, idle_s) in [
            (0, None),
            (1, Some(1)),
            (300, Some(300)),
            (40_000, Some(32_767)),
            (i32::MAX, Some(32_767)),
        ] {
            let _client = std::net::TcpStream::connect(address).unwrap();
            let accepted = loop {
                match listener.accept(asked_s) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    accepted => break accepted.unwrap(),
                }
            };
            let option = |level, name| arch::option(accepted.stream.as_fd(), level, name).unwrap();
            assert_eq!(option(libc::IPPROTO_TCP, libc::TCP_NODELAY), 1);
            let asks = option(libc::SOL_SOCKET, libc::SO_KEEPALIVE) == 1;
            assert_eq!(asks, idle_s.is_some(), "{asked_s}");
            if let Some(idle_s) = idle_s {
                let found = option(libc::IPPROTO_TCP, libc::TCP_KEEPIDLE);
                assert_eq!(found, idle_s, "{asked_s}");
            }
        }
    }
}
