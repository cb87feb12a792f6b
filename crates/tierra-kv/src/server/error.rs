//! Why a server does not serve.

use std::io::{self, ErrorKind};

/// Why the server cannot start or go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// An address cannot be listened on.
    #[error("cannot listen on {address}: {error}{}", remedy(error))]
    Listen {
        /// The address and port, or the path of a socket.
        address: String,
        /// Why not.
        error: io::Error,
    },
    /// There is nothing to listen on.
    #[error("there is nothing to listen on: port is 0 and no unixsocket is given")]
    Nowhere,
    /// There are no addresses for records.
    #[error("no memory for records: {0}")]
    Memory(#[from] tierra_memory::RegionError),
    /// Far memory cannot be emulated.
    #[error("emulate: {0}")]
    Emulation(#[from] tierra_memory::emulation::EmulationError),
    /// The system does not report events.
    #[error("cannot wait for events: {0}")]
    Events(#[from] io::Error),
}

/// What to do about an address that cannot be listened on, where the system's words do not say it.
fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        ErrorKind::AddrInUse => {
            "; another server has it: end that one, or give this one another port or unixsocket"
        }
        ErrorKind::AddrNotAvailable => "; bind names addresses of this machine",
        ErrorKind::AlreadyExists => ": remove it, or give another unixsocket",
        _ => "",
    }
}
