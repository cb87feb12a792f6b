//! The memory of this machine: sockets, NUMA nodes, DAX devices, and mounts that can hold a pool.
//!
//! Everything is read from sysfs and the mount table below a root directory, so that a machine can
//! be described by a folder of small files. Invariant: a [`Topology`] has at least one node, and
//! sockets and nodes are sorted by number.

mod mounts;
mod sysfs;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

pub use mounts::Mount;

use crate::pool::Durability;

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

/// The machine could not be understood.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TopologyError {
    /// A file that every Linux has could not be read.
    #[error("{}: cannot read: {source}; is it mounted?", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// A file holds something else than expected.
    #[error("{}: found {found:?}, expected {expected}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What it holds.
        found: String,
        /// What it should hold.
        expected: &'static str,
    },
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
    /// Its distance to every node, in the order of [`Topology::nodes`]; 10 is local.
    pub distance: Vec<u16>,
}

impl Node {
    /// Whether CPUs belong to it. One without is volatile far memory: a CXL expander, or persistent
    /// memory used as system RAM.
    pub fn has_cpus(&self) -> bool {
        !self.cpus.is_empty()
    }
}

/// A DAX device: byte-addressable memory that is not system RAM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DaxDevice {
    /// Its name, such as `dax0.0`.
    pub name: String,
    /// Its bytes.
    pub bytes: u64,
    /// Bytes to which mappings must be aligned, where the kernel says.
    pub align_bytes: Option<u64>,
    /// The node it is closest to, where the kernel says.
    pub node: Option<NodeId>,
    /// Whether it is persistent memory, as far as the kernel says: others are memory that firmware set aside, or CXL expanders.
    pub is_persistent: bool,
}

impl DaxDevice {
    /// The DAX device of that number on the machine described below `root`; `None` where the number is another device's, or none's.
    pub(crate) fn of_number(root: &Path, number: u64) -> Result<Option<DaxDevice>, TopologyError> {
        sysfs::dax_device_of(root, number)
    }

    /// What a pool on it survives.
    pub fn durability(&self) -> Durability {
        match self.is_persistent {
            true => Durability::CacheLine,
            false => Durability::ProcessOnly,
        }
    }
}

/// What memory a machine has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    /// Processor packages, ascending.
    pub sockets: Vec<Socket>,
    /// NUMA nodes, ascending.
    pub nodes: Vec<Node>,
    /// DAX devices, by name.
    pub dax_devices: Vec<DaxDevice>,
    /// File systems on persistent memory mounted with DAX.
    pub dax_mounts: Vec<Mount>,
    /// File systems in memory.
    pub tmpfs_mounts: Vec<Mount>,
}

impl Topology {
    /// Reads this machine.
    ///
    /// # Errors
    /// [`TopologyError`] where `/proc` or `/sys` is missing or unlike any Linux.
    pub fn discover() -> Result<Topology, TopologyError> {
        Topology::discover_in(Path::new("/"))
    }

    /// Reads the machine described below `root`: `root/sys`, `root/proc`, and mount points.
    ///
    /// # Errors
    /// [`TopologyError`], as [`Topology::discover`].
    pub fn discover_in(root: &Path) -> Result<Topology, TopologyError> {
        let sockets = sysfs::sockets(root)?;
        let nodes = sysfs::nodes(root, &sockets)?;
        let dax_devices = sysfs::dax_devices(root)?;
        let (dax_mounts, tmpfs_mounts) = mounts::read(root)?;
        Ok(Topology {
            sockets,
            nodes,
            dax_devices,
            dax_mounts,
            tmpfs_mounts,
        })
    }

    /// How a node's memory looks from a socket: near if it is the socket's own.
    pub fn speed(&self, node: NodeId, from: SocketId) -> Speed {
        let own = self
            .nodes
            .iter()
            .any(|n| n.id == node && n.socket == Some(from));
        if own { Speed::Near } else { Speed::Far }
    }
}
