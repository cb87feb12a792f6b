//! The options of every command that opens a database.

use std::path::{Path, PathBuf};

use clap::Args;
use tierra::{Database, Options, sql::THREADS_MOST};
use tierra_engine::VerifyReads;
use tierra_memory::Size;

use super::CommandError;

/// A number of threads, in the range of `SET tierra.threads`.
fn threads(text: &str) -> Result<usize, String> {
    let threads = text
        .parse()
        .ok()
        .filter(|threads| (1..=THREADS_MOST).contains(threads));
    threads.ok_or_else(|| format!("expected a whole number from 1 to {THREADS_MOST}"))
}

/// How to open a database.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct OpenOptions {
    /// File with the options that no flag gives; by default `tierra.toml` in the database's directory, if it exists
    #[arg(long, value_name = "FILE", help_heading = "Memory")]
    config: Option<PathBuf>,
    /// Near memory that copies of columns may take, such as 512M or 8G
    #[arg(long, value_name = "SIZE", help_heading = "Memory")]
    near_memory: Option<Size>,
    /// File for the far tier of a new database, if not in its directory: on a DAX file system, or on tmpfs
    #[arg(long, value_name = "FILE", help_heading = "Memory")]
    pool: Option<PathBuf>,
    /// Threads that work on one query or load, 1 to 1024; all of the machine's by default
    #[arg(long, value_name = "N", help_heading = "Memory", value_parser = threads)]
    threads: Option<usize>,
    /// Bytes per second that are checked in the background, such as 16M; 0 turns this off
    #[arg(long, value_name = "SIZE", help_heading = "Memory")]
    scrub_pace: Option<Size>,
    /// When a reader compares stored bytes with their checksums: first, every; `first` by default
    #[arg(long, value_name = "WHEN", help_heading = "Memory")]
    verify_reads: Option<VerifyReads>,
    /// Open the database although some of its tiers are missing; data that is only there cannot be read
    #[arg(long, help_heading = "Tiers")]
    degraded: bool,
    /// Open the database for reading only
    #[arg(long, help_heading = "Tiers")]
    read_only: bool,
}

/// Warns that the database is read-only. Missing tiers are reported where they are found.
fn warn_of_read_only(database: &Database) {
    if let Some(why) = database.engine().read_only() {
        eprintln!("warning: the database is open for reading only: {why}");
    }
}

impl OpenOptions {
    /// The database in `dir`, which must exist.
    pub(crate) fn open(&self, dir: &Path) -> Result<Database, CommandError> {
        let database = self.options().open(dir)?;
        warn_of_read_only(&database);
        Ok(database)
    }

    /// The database in `dir`; it is created if there is none.
    pub(crate) fn open_or_create(&self, dir: &Path) -> Result<Database, CommandError> {
        let database = self.options().open_or_create(dir)?;
        warn_of_read_only(&database);
        Ok(database)
    }

    /// The same, with this near-memory budget unless a flag gave one.
    pub(crate) fn or_near_memory(mut self, bytes: u64) -> Self {
        self.near_memory.get_or_insert(Size(bytes));
        self
    }

    /// The same, also for a database with missing tiers.
    pub(crate) fn even_degraded(mut self) -> Self {
        self.degraded = true;
        self
    }

    /// The same, without the background scrubber.
    pub(crate) fn without_scrubber(mut self) -> Self {
        self.scrub_pace = Some(Size(0));
        self
    }

    /// The near-memory budget, if a flag gave one.
    pub(crate) fn near_memory(&self) -> Option<u64> {
        self.near_memory.map(|size| size.0)
    }

    pub(super) fn options(&self) -> Options {
        let mut options = Options::new().read_only(self.read_only);
        if self.degraded {
            options = options.degraded(true);
        }
        if let Some(path) = &self.config {
            options = options.config(path);
        }
        if let Some(bytes) = self.near_memory() {
            options = options.near_memory_bytes(bytes);
        }
        if let Some(path) = &self.pool {
            options = options.pool(path);
        }
        if let Some(threads) = self.threads {
            options = options.threads(threads);
        }
        if let Some(pace) = self.scrub_pace {
            options = options.scrub_bytes_per_s(pace.0);
        }
        if let Some(reads) = self.verify_reads {
            options = options.verify_reads(reads);
        }
        options
    }
}
