//! The options with which every command opens a database.

use std::path::{Path, PathBuf};

use clap::Args;
use tierra::{Database, Options, sql::THREADS_MOST};
use tierra_engine::VerifyReads;
use tierra_memory::Size;

use super::CommandError;

/// A number of threads, as `SET tierra.threads` takes it.
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
    /// Options for everything that no flag says; by default `tierra.toml` in the database's
    /// directory, if it is there
    #[arg(long, value_name = "FILE", help_heading = "Memory")]
    config: Option<PathBuf>,
    /// Near memory that copies of columns may take, such as 512M or 8G
    #[arg(long, value_name = "SIZE", help_heading = "Memory")]
    near_memory: Option<Size>,
    /// File that holds the far tier of a new database, if not one in its directory: on a DAX file
    /// system, or on tmpfs
    #[arg(long, value_name = "FILE", help_heading = "Memory")]
    pool: Option<PathBuf>,
    /// Threads that work on one query or load, 1 to 1024; all of the machine's by default
    #[arg(long, value_name = "N", help_heading = "Memory", value_parser = threads)]
    threads: Option<usize>,
    /// Bytes that are checked in the background a second, such as 16M; 0: none are
    #[arg(long, value_name = "SIZE", help_heading = "Memory")]
    scrub_pace: Option<Size>,
    /// When stored bytes are compared with their checksums by who reads them: first, every; `first` by default
    #[arg(long, value_name = "WHEN", help_heading = "Memory")]
    verify_reads: Option<VerifyReads>,
    /// Open the database although some of its tiers are missing: what lies there alone cannot be read
    #[arg(long, help_heading = "Tiers")]
    degraded: bool,
    /// Open the database for reading only
    #[arg(long, help_heading = "Tiers")]
    read_only: bool,
}

/// Missing tiers are told where they are found.
fn warn_of_read_only(database: &Database) {
    if let Some(why) = database.engine().read_only() {
        eprintln!("warning: the database is open for reading only: {why}");
    }
}

impl OpenOptions {
    /// The database in `dir`, which is there.
    pub(crate) fn open(&self, dir: &Path) -> Result<Database, CommandError> {
        let database = self.options().open(dir)?;
        warn_of_read_only(&database);
        Ok(database)
    }

    /// The database in `dir`, created where there is none.
    pub(crate) fn open_or_create(&self, dir: &Path) -> Result<Database, CommandError> {
        let database = self.options().open_or_create(dir)?;
        warn_of_read_only(&database);
        Ok(database)
    }

    /// The same, with a near-memory budget unless one was asked for.
    pub(crate) fn or_near_memory(mut self, bytes: u64) -> Self {
        self.near_memory.get_or_insert(Size(bytes));
        self
    }

    /// The same, to look at a database although some of its tiers are missing.
    pub(crate) fn even_degraded(mut self) -> Self {
        self.degraded = true;
        self
    }

    /// The same, without anything that is checked in the background.
    pub(crate) fn without_scrubber(mut self) -> Self {
        self.scrub_pace = Some(Size(0));
        self
    }

    /// The near-memory budget, if one was asked for.
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
