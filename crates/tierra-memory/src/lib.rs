//! Bytes in two speeds: what memory a machine has, how to hold it, and how to make it last.
//!
//! * [`topology`]: the tiers of this machine, read from sysfs and the mount table.
//! * [`region`]: volatile memory on large pages, bound to a NUMA node on request. A node without
//!   CPUs (a CXL expander, persistent memory in system-RAM mode) is volatile far memory.
//! * [`far`]: where volatile far memory comes from.
//! * [`pool`]: one durable file, mapped where pointers never move, filled with self-describing
//!   extents and published by one 8-byte store.
//! * [`placement`]: what is hot enough for near memory.
//! * [`slab`]: volatile memory for records that are many, small, and move between tiers.
//! * [`persist`]: flush, fence and bulk copies, the steps of which durability is made.
//! * [`near`]: copies in near memory, within a budget.
//! * [`Size`]: a number of bytes as people write it.
//! * [`measure`]: what a tier's latency and bandwidth really are, and the least that given lookups can take.
//! * [`faults`]: memory that fails, in truth or on purpose.
//! * [`replication`]: logs in several copies, written as one.
//! * [`machine`]: what a calibration is of, and the files that keep one.
//! * [`simulation`]: power cuts, at every moment worth it, on what the code really did.
//! * [`emulation`]: far memory where there is none; [`in_mode!`] runs lookups on it or natively, and a
//!   [`MemoryGate`] knows on which of both it has learnt what.
//!
//! ```
//! use tierra_memory::{Pool, PoolOptions};
//!
//! let dir = tempfile::tempdir()?;
//! let path = dir.path().join("far.pool");
//! let pool = Pool::create(&path, &PoolOptions::default())?;
//! let mut writer = pool.allocate(5, /* owner */ 7)?;
//! writer.copy_from_slice(b"hello");
//! let finished = writer.finish()?; // sealed, but not published yet
//! pool.publish(&finished)?; // now it is durable, and what the pool holds
//! drop(pool);
//!
//! let pool = Pool::open(&path, &PoolOptions::default())?;
//! let root = pool.root().expect("published above");
//! assert_eq!(pool.check_extent(root)?, 7);
//! pool.retain(&[root])?; // everything else is free space
//! assert_eq!(pool.bytes(root), b"hello");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Unlike a buffer manager, nothing here copies pages in and out: far memory is byte-addressable and
//! is read in place. Unlike an arena over a mapped file, space is allocated before it is mapped, so
//! a full disk is an error and never a signal, and free space is not recorded anywhere: it is what
//! no live manifest names.
//!
//! For Linux on 64-bit processors. Where no instruction is known that flushes lines, other than
//! on x86-64, pools are durable by page.

mod address;
mod arch;
mod backing;
mod budget;
mod checksum;
pub mod directory;
mod durability;
pub mod emulation;
pub mod far;
pub mod faults;
mod free_space;
mod gate;
pub mod helper;
mod lock;
pub mod machine;
pub mod measure;
pub mod near;
mod numa;
mod page;
pub mod persist;
pub mod placement;
pub mod pool;
mod prefetch;
mod random;
mod recording;
pub mod region;
pub mod replication;
mod signal;
pub mod simulation;
mod size;
pub mod slab;
mod smaps;
pub mod topology;
mod trouble;
mod unused;

pub use far::FarSource;
pub use gate::{GateStart, MemoryGate};
pub use near::{NearCopy, NearMemory};
pub use page::base_page_bytes;
pub use pool::{
    BegunRead, Copied, CopyMethod, CopyMethodError, Counters, Durability, Extent, ExtentLabel,
    ExtentWriter, Fault, FileReads, Finished, MediumKind, Pool, PoolError, PoolOptions,
    PublishError, Transaction, UndoLog, Written,
};
pub use prefetch::prefetch;
pub use region::{Region, RegionError, collapse};
pub use size::{Size, SizeError};
/// Bytes of a cache line: the unit of a flush, and the alignment of every payload.
pub use tierra_interleave::LINE_BYTES;
pub use topology::{NodeId, SocketId, Speed, Topology, TopologyError};
pub use unused::discard;

// Lengths and offsets of mapped bytes are cast between u64 and usize all over this crate.
const _: () = assert!(usize::BITS == 64, "Tierra needs a 64-bit machine");

/// Bytes of a large page: what regions and pools ask the kernel for.
pub const LARGE_PAGE_BYTES: usize = 2 << 20;
