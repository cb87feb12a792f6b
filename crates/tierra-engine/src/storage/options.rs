//! How a database is created and opened.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use tierra_memory::simulation::Recorder;

use crate::storage::read_checks::VerifyReads;

/// How to create or open a database.
#[derive(Clone, Debug, Default)]
pub struct DatabaseOptions {
    /// Near memory for copies of chunks and indexes; `None`: a quarter of the machine's. Where it is too little for all of
    /// them, it goes to those that are read most.
    pub near_memory_bytes: Option<u64>,
    /// Where a new database's far pool lies, a file or a DAX device; `None`: in its directory. Remembered there, and not
    /// looked at when a database is opened.
    pub pool_path: Option<PathBuf>,
    /// The most bytes that the far pool may have; `None`: as many as its file system.
    pub capacity_bytes: Option<u64>,
    /// Threads that loads encode with; `None`: one per CPU.
    pub threads: Option<NonZeroUsize>,
    /// Bytes a second that the scrubber reads in the background: each copy of everything once a day, and puts right what is
    /// damaged. `None`: [`SCRUB_BYTES_PER_S`](crate::SCRUB_BYTES_PER_S); 0: it only restores what was lost.
    pub scrub_bytes_per_s: Option<u64>,
    /// How often stored bytes are compared with their checksums when they are read; `None`:
    /// [`VerifyReads::First`].
    pub verify_reads: Option<VerifyReads>,
    /// Opens the database although some of its tiers are missing: what lies there alone cannot be read, and the first write leaves
    /// them behind, to be brought up to date when they are back.
    pub degraded: bool,
    /// Goes back to this version of the database, if it is one of the two that its pools published last: what came later is given up.
    /// The explicit way out where the newest version is lost; with `read_only` nothing is given up, and
    /// [`Database::given_up`](crate::Database::given_up) says what would be.
    pub to_version: Option<u64>,
    /// Opens the database to read it alone. So it is opened, too, where its directory cannot be written.
    pub read_only: bool,
    /// For tests: where the machine is described that DAX devices are looked up in; `None`: `/`. See [`PoolOptions::machine`](tierra_memory::PoolOptions::machine).
    #[doc(hidden)]
    pub machine: Option<PathBuf>,
    /// For simulated power cuts: records what is stored in the directory and its pools, which are not durable then.
    #[doc(hidden)]
    pub recorder: Option<Recorder>,
}
