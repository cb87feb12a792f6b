//! Sockets of the modelled machine: which one a thread runs on.
//!
//! Every thread runs on socket 0 until it says otherwise, and every far memory belongs to a socket
//! ([`FarMemory::socket`](super::FarMemory)). What belongs to another socket than the thread has the latency and
//! the bandwidth of the link between them.

use super::local;
use super::numbers::MAX_SOCKETS;
use crate::topology::SocketId;

/// Has this thread run on a socket of the modelled machine from now on. Returns the one before.
///
/// # Panics
/// If there is no such socket: the modelled machine has eight, from 0.
pub fn run_on(socket: SocketId) -> SocketId {
    assert!(
        usize::from(socket.0) < MAX_SOCKETS,
        "the modelled machine has {MAX_SOCKETS} sockets"
    );
    local::move_to(socket)
}
