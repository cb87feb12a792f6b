//! The memory of this machine: sockets, NUMA nodes, DAX devices, and mounts that can hold a pool.
//!
//! Everything is read from sysfs, procfs and the mount table below a root directory, so that a machine can
//! be described by a folder of small files. Invariant: a [`Topology`] has at least one node, and
//! sockets and nodes are sorted by number.

mod dax;
mod error;
mod limit;
mod mounts;
mod node;
mod sysfs;

use std::path::Path;

pub use dax::DaxDevice;
pub use error::TopologyError;
pub use mounts::Mount;
pub use node::{Node, NodeId, Socket, SocketId, Speed};
pub(crate) use sysfs::dax_device_of;

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
    /// The most bytes that the control groups of this process let it have; `None` if they do not limit it.
    pub memory_limit: Option<u64>,
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
            memory_limit: limit::read(root)?,
        })
    }

    /// Bytes that this process may have of its machine's memory: all of it, or what its control groups allow.
    pub fn usable_bytes(&self) -> u64 {
        self.limited(self.nodes.iter())
    }

    /// The same of the nodes that have processors.
    pub fn usable_near_bytes(&self) -> u64 {
        self.limited(self.nodes.iter().filter(|node| node.has_cpus()))
    }

    fn limited<'a>(&self, nodes: impl Iterator<Item = &'a Node>) -> u64 {
        let bytes = nodes.map(|node| node.bytes).sum();
        self.memory_limit.map_or(bytes, |limit| limit.min(bytes))
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
