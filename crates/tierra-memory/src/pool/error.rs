//! What can go wrong with a pool: what, where, and what to do about it.

use std::io;
use std::path::PathBuf;

use super::extent::Extent;
use crate::topology::NodeId;

/// Of several pools that were to be published together, one was not.
#[derive(Debug, thiserror::Error)]
#[error(
    "published in {published} pools, then: {source}; leave that pool out and publish in the others again"
)]
pub struct PublishError {
    /// Which one, as counted in the call.
    pub failed: usize,
    /// How many were published: the first so many. Those behind the failed one were not.
    pub published: usize,
    /// What went wrong; names the pool.
    pub source: PoolError,
}

/// An operation on a pool failed. The pool is as it was before, unless said otherwise.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PoolError {
    /// The operating system refused.
    #[error("{}: cannot {doing}: {source}", path.display())]
    Io {
        /// The pool's file.
        path: PathBuf,
        /// What was tried.
        doing: &'static str,
        /// The system's answer.
        source: io::Error,
    },
    /// A new pool was asked for where there is a file.
    #[error("{}: exists already; open it, or choose another path", path.display())]
    Exists {
        /// The file in the way.
        path: PathBuf,
    },
    /// There is no such file.
    #[error("{}: no such pool; check the path, or create it", path.display())]
    Missing {
        /// The path looked at.
        path: PathBuf,
    },
    /// Another process, or this one, has the pool open.
    #[error("{}: open elsewhere; close the other database first", path.display())]
    InUse {
        /// The pool's file.
        path: PathBuf,
    },
    /// The file does not begin as a pool does.
    #[error("{}: not a Tierra pool ({what}); check the path", path.display())]
    NotAPool {
        /// The file.
        path: PathBuf,
        /// What gave it away.
        what: &'static str,
    },
    /// A device that cannot hold a pool.
    #[error(
        "{}: cannot hold a pool: {what}; pools are files, or lie on DAX devices (/dev/daxX.Y, `daxctl list -D`) \
         in mode devdax (`ndctl create-namespace --mode=devdax`)",
        path.display()
    )]
    Device {
        /// The device.
        path: PathBuf,
        /// Why not.
        what: String,
    },
    /// A new pool was asked for on a device that is not empty.
    #[error(
        "{}: holds {by} already; if that is not needed any more, clear its first 16 KiB \
         (`daxio --zero --len 16384 --output {}`), or choose another path",
        path.display(), path.display()
    )]
    Occupied {
        /// The device.
        path: PathBuf,
        /// What it holds, as far as that is known.
        by: &'static str,
    },
    /// A later Tierra wrote the file.
    #[error(
        "{}: pool format {found}, this program reads up to {supported}; use a newer Tierra",
        path.display()
    )]
    NewerFormat {
        /// The pool's file.
        path: PathBuf,
        /// The version found.
        found: u8,
        /// The latest version known here.
        supported: u8,
    },
    /// The header, or both superblock slots, cannot be read in any of their copies.
    #[error("{}: damaged: {what}; restore it from a copy", path.display())]
    Damaged {
        /// The pool's file.
        path: PathBuf,
        /// Which part.
        what: &'static str,
    },
    /// One of the last two publications cannot be read, and it is unknown whether it was the newer one.
    #[error(
        "{}: one of its last two publications cannot be read; the other, version {version}, is intact but may be older; restore \
         the pool from another tier, or go back to version {version} on purpose",
        path.display()
    )]
    LostPublication {
        /// The pool's file.
        path: PathBuf,
        /// What its owner called the one that is intact.
        version: u64,
    },
    /// The pool was to be opened at a version that it does not publish.
    #[error("{}: does not hold version {version}; it holds {found:?}", path.display())]
    NoVersion {
        /// The pool's file.
        path: PathBuf,
        /// The version asked for.
        version: u64,
        /// Those that it holds, the older first.
        found: Vec<u64>,
    },
    /// The file lost its end.
    #[error(
        "{}: truncated: {len_bytes} bytes of {expected_bytes}; restore what is missing from a copy",
        path.display()
    )]
    Truncated {
        /// The pool's file.
        path: PathBuf,
        /// Bytes it has.
        len_bytes: u64,
        /// Bytes it must have.
        expected_bytes: u64,
    },
    /// An extent is not what its user expects.
    #[error(
        "{}: extent of {} bytes at {}: {what}",
        path.display(), extent.len_bytes, extent.offset
    )]
    BadExtent {
        /// The pool's file.
        path: PathBuf,
        /// The extent as it was named.
        extent: Extent,
        /// What is wrong with it.
        what: &'static str,
    },
    /// Two live extents share bytes.
    #[error(
        "{}: extents at {first} and {second} overlap; the manifest is damaged", path.display()
    )]
    Overlap {
        /// The pool's file.
        path: PathBuf,
        /// Payload offset of the lower extent.
        first: u64,
        /// Payload offset of the higher extent.
        second: u64,
    },
    /// [`Pool::retain`](crate::Pool::retain) came after the first allocation, when it is too late to
    /// say what is free.
    #[error("{}: live extents must be named before the first allocation", path.display())]
    RetainTooLate {
        /// The pool's file.
        path: PathBuf,
    },
    /// No space: neither in the pool nor in the file system below.
    #[error(
        "{}: full: {wanted_bytes} bytes wanted, {used_bytes} of {capacity_bytes} in use; \
         drop tables, raise the pool's capacity, or free the disk",
        path.display()
    )]
    Full {
        /// The pool's file.
        path: PathBuf,
        /// Bytes asked for.
        wanted_bytes: u64,
        /// Bytes in live extents.
        used_bytes: u64,
        /// The most the pool could have held: its limit, or what the file system had left.
        capacity_bytes: u64,
    },
    /// A write to a log would leave its extent.
    #[error(
        "{}: {len_bytes} bytes at {at} do not fit into a log of {} bytes",
        path.display(), extent.len_bytes
    )]
    OutsideLog {
        /// The pool's file.
        path: PathBuf,
        /// The log.
        extent: Extent,
        /// Where in it the write was to begin.
        at: u64,
        /// How long it was to be.
        len_bytes: u64,
    },
    /// The pages could not be bound to the node asked for.
    #[error("{}: cannot bind to NUMA {node}: {source}; see `tierra tiers`", path.display())]
    Node {
        /// The pool's file.
        path: PathBuf,
        /// The node.
        node: NodeId,
        /// The system's answer.
        source: io::Error,
    },
    /// It was opened for reading alone.
    #[error("{}: open for reading alone; open it to write, where its file may be written", path.display())]
    ReadOnly {
        /// The pool's file.
        path: PathBuf,
    },
    /// An earlier write to the device failed, so what it holds is unknown until it is read again.
    #[error(
        "{}: an earlier write did not reach the device; check it and reopen the database",
        path.display()
    )]
    Poisoned {
        /// The pool's file.
        path: PathBuf,
    },
    /// The memory below a page was lost, and with it what was stored there since.
    #[error(
        "{}: the page at {offset} was lost to an error of the medium, and what was written there; \
         restore what it held from a copy, or drop it and write it elsewhere",
        path.display()
    )]
    Lost {
        /// The pool's file.
        path: PathBuf,
        /// Where the page begins.
        offset: u64,
    },
    /// A transaction's old bytes do not fit into the undo log.
    #[error(
        "{}: a transaction needs {needed_bytes} bytes of its undo log of {} bytes; \
         make a larger one or write less at once",
        path.display(), extent.len_bytes
    )]
    UndoLogFull {
        /// The pool's file.
        path: PathBuf,
        /// The undo log.
        extent: Extent,
        /// What it would have to hold.
        needed_bytes: u64,
    },
}
