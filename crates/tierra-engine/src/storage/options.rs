//! Options for creating and opening a database.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use tierra_memory::emulation::FarDevice;
use tierra_memory::simulation::Recorder;

use crate::storage::read_checks::VerifyReads;

/// Options for creating and opening a database.
#[derive(Clone, Debug, Default)]
pub struct DatabaseOptions {
    /// Near memory for copies of chunks and indexes; `None`: a quarter of what the process may have of the machine's. If it is too
    /// small for all of them, the most read ones get it.
    pub near_memory_bytes: Option<u64>,
    /// Path of a new database's far pool, a file or a DAX device; `None`: in the directory. Stored in the directory file, and
    /// ignored when a database is opened.
    pub pool_path: Option<PathBuf>,
    /// The most bytes of the far pool; `None`: limited by its file system.
    pub capacity_bytes: Option<u64>,
    /// Threads that loads encode with; `None`: one per CPU.
    pub threads: Option<NonZeroUsize>,
    /// Bytes per second that the background scrubber reads: each copy of everything at most once a day, repairing damage. `None`:
    /// [`SCRUB_BYTES_PER_S`](crate::SCRUB_BYTES_PER_S); 0: it only restores lost pages.
    pub scrub_bytes_per_s: Option<u64>,
    /// How often reads compare stored bytes with their checksums; `None`: [`VerifyReads::First`].
    pub verify_reads: Option<VerifyReads>,
    /// Opens the database even if tiers are missing. Data that lies only there cannot be read, and the first write leaves these
    /// tiers behind; they are brought up to date when they are back.
    pub degraded: bool,
    /// Goes back to this version of the database, which must be one of the two that its pools published last; later commits are
    /// given up. An explicit way out if the newest version is lost. With `read_only` nothing is given up, and
    /// [`Database::given_up`](crate::Database::given_up) returns what would be.
    pub to_version: Option<u64>,
    /// Opens the database read-only. This also happens if its directory cannot be written.
    pub read_only: bool,
    /// The far memories that tiers are taken for while far memory is emulated, by the names of the tiers, also of those that are added
    /// later. All others share the one that is emulated then.
    pub far_devices: Vec<(String, FarDevice)>,
    /// For tests: the root of the machine's description in which DAX devices are looked up; `None`: `/`. See
    /// [`PoolOptions::machine`](tierra_memory::PoolOptions::machine).
    #[doc(hidden)]
    pub machine: Option<PathBuf>,
    /// For simulated power cuts: records what is stored in the directory and its pools, which are then not durable.
    #[doc(hidden)]
    pub recorder: Option<Recorder>,
}

impl DatabaseOptions {
    /// The far memory that a tier is taken for, if it has one of its own.
    pub(crate) fn far_device(&self, tier: &str) -> Option<&FarDevice> {
        let mut devices = self.far_devices.iter();
        devices
            .find(|(name, _)| name == tier)
            .map(|(_, device)| device)
    }
}
