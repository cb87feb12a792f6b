//! Sockets and NUMA nodes: their numbers, their CPUs, and how fast a node's memory is.

use std::fmt;

/// A processor package.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SocketId(pub u16);

impl fmt::Display for SocketId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "socket {}", self.0)
    }
}

/// A NUMA node: memory of one distance from each CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u16);

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node {}", self.0)
    }
}

/// The two speeds of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Speed {
    /// DRAM of the socket.
    Near,
    /// Anything slower that is still byte-addressable.
    Far,
}

impl fmt::Display for Speed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Speed::Near => "near",
            Speed::Far => "far",
        })
    }
}

/// A processor package and its CPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Socket {
    /// Its number.
    pub id: SocketId,
    /// Its logical CPUs, ascending.
    pub cpus: Vec<u32>,
}

/// A NUMA node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its number.
    pub id: NodeId,
    /// Its logical CPUs, ascending; empty for memory alone.
    pub cpus: Vec<u32>,
    /// The socket of its CPUs; `None` for memory alone.
    pub socket: Option<SocketId>,
    /// Bytes of its memory.
    pub bytes: u64,
    /// Its distance to every node, in the order of [`Topology::nodes`](super::Topology::nodes); 10 is local.
    pub distance: Vec<u16>,
}

impl Node {
    /// Whether CPUs belong to it. One without is volatile far memory: a CXL expander, or persistent
    /// memory used as system RAM.
    pub fn has_cpus(&self) -> bool {
        !self.cpus.is_empty()
    }
}
