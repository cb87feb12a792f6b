//! How a pool is created or opened.

use std::path::PathBuf;

use crate::emulation::FarDevice;
use crate::persist::Flush;
use crate::recording::Recorder;
use crate::topology::{NodeId, Speed};

/// How to create or open a pool.
#[derive(Clone, Debug)]
pub struct PoolOptions {
    /// The most bytes the pool's file may have; `None`: as many as the file system.
    pub capacity_bytes: Option<u64>,
    /// The speed of the memory below, as the caller knows it: a pool is far by default.
    pub speed: Speed,
    /// The far memory that the pool is taken for while far memory is emulated, with a bandwidth of its own; `None`: that which is
    /// emulated then. A near pool ignores it.
    pub far_device: Option<FarDevice>,
    /// Binds the pages of a pool on tmpfs to a NUMA node, for instance one without CPUs. Media of
    /// their own place ignore it.
    pub node: Option<NodeId>,
    /// The number that ties extents to their pool; `None`: drawn at random. Only for creation.
    pub id: Option<u64>,
    /// Only for opening: go back to this version on purpose, if one of the last two publications is it, whatever the other is. The next
    /// publication comes in the place of that one; until then the file is as it was, and is opened without this as before.
    pub at_version: Option<u64>,
    /// The instruction that flushes lines, where the medium needs one; `None`: the best this processor
    /// has. One that it does not have is an error.
    pub flush: Option<Flush>,
    /// Where the machine is described that DAX devices are looked up in, as for [`Topology::discover_in`]; `None`: `/`. A file stands
    /// in for the device of its number there.
    ///
    /// [`Topology::discover_in`]: crate::Topology::discover_in
    pub machine: Option<PathBuf>,
    /// On tmpfs: flushes and fences as on DAX, to measure what persistent memory would ask for. It makes
    /// nothing more durable, and [`Pool::medium`](crate::Pool::medium) says so. Other media ignore it.
    pub emulate_dax: bool,
    /// To open a file that cannot be written, or must not be: others may read it at the same time, and no process has it open to
    /// write. What is restored ([`Pool::restore`](crate::Pool::restore)) is so in this process alone; nothing else can be written.
    pub read_only: bool,
    /// Looks on at all that is stored, flushed, fenced and read. Then the pool takes itself for one on
    /// the medium that the recorder stands for, and nothing of it is durable: for simulations only.
    pub recorder: Option<Recorder>,
}

impl Default for PoolOptions {
    fn default() -> PoolOptions {
        PoolOptions {
            capacity_bytes: None,
            speed: Speed::Far,
            far_device: None,
            node: None,
            id: None,
            at_version: None,
            flush: None,
            machine: None,
            emulate_dax: false,
            read_only: false,
            recorder: None,
        }
    }
}
