//! The bench an experiment stands on: its size, seed, threads and a place for its files.

use std::path::{Path, PathBuf};

use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::error::{At, Context, LabError};
use crate::pin;
use crate::row::Row;

/// Threads of every contender in a comparison.
pub const THREADS: usize = 2;
/// Where files lie in memory.
const MEMORY: &str = "/dev/shm";
/// The seed of everything random.
pub const SEED: u64 = 0x7161_7272_6965;

/// Another size than an experiment's own, where it has records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::Args)]
pub struct Scale {
    /// Records of a store, instead of the experiment's own number; the placement study has 10000000.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1000..))]
    pub records: Option<u64>,
    /// Requests of a run; the placement study has 1000000.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1000..))]
    pub operations: Option<u64>,
    /// Runs of each point, beside the one that warms up; the placement study has 4.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub runs: Option<u64>,
}

/// What every experiment is given.
#[derive(Debug)]
pub struct Lab {
    quick: bool,
    scale: Scale,
    scratch: TempDir,
    runtime: Runtime,
    cpus: Vec<usize>,
}

impl Lab {
    /// Pins this process to [`THREADS`] CPUs and starts the runtime that all contenders share.
    /// Files go to a new folder under `scratch`, removed at the end.
    pub fn new(quick: bool, scratch: &Path) -> Result<Lab, LabError> {
        let cpus = pin::to_first_cpus(THREADS);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(THREADS)
            .enable_all()
            .build()
            .by("the lab", "starting its threads")?;
        let scratch = tempfile::Builder::new()
            .prefix("tierra-lab-")
            .tempdir_in(scratch)
            .at(scratch)?;
        Ok(Lab {
            quick,
            scale: Scale::default(),
            scratch,
            runtime,
            cpus,
        })
    }

    /// The same bench, for experiments of another size.
    #[must_use]
    pub fn scaled(self, scale: Scale) -> Lab {
        Lab { scale, ..self }
    }

    /// Records of a store: what was asked for, else the one or the other.
    pub fn records(&self, quick: u64, full: u64) -> u64 {
        self.scale.records.unwrap_or(self.size(quick, full))
    }

    /// Requests of a run, likewise.
    pub fn operations(&self, quick: usize, full: usize) -> usize {
        let asked = self.scale.operations.map(|operations| operations as usize);
        asked.unwrap_or(self.size(quick, full))
    }

    /// Runs of each point, likewise.
    pub fn runs(&self, quick: usize, full: usize) -> usize {
        let asked = self.scale.runs.map(|runs| runs as usize);
        asked.unwrap_or(self.size(quick, full))
    }

    /// Whether to run small: seconds instead of minutes, every step still taken.
    pub fn is_quick(&self) -> bool {
        self.quick
    }

    /// The one or the other, by size of the run.
    pub fn size<T>(&self, quick: T, full: T) -> T {
        if self.quick { quick } else { full }
    }

    /// A new, empty folder on the ordinary file system.
    pub fn folder(&self, name: &str) -> Result<PathBuf, LabError> {
        let path = self.scratch.path().join(name);
        std::fs::create_dir_all(&path).at(&path)?;
        Ok(path)
    }

    /// A new, empty folder on the ordinary file system that goes when the caller drops it.
    pub fn passing_folder(&self) -> Result<TempDir, LabError> {
        let parent = self.scratch.path();
        TempDir::new_in(parent).at(parent)
    }

    /// A new, empty folder in memory, which goes when the caller drops it. Not every machine has
    /// one.
    pub fn folder_in_memory(&self) -> Result<TempDir, LabError> {
        tempfile::Builder::new()
            .prefix("tierra-lab-")
            .tempdir_in(MEMORY)
            .at(MEMORY)
    }

    /// The runtime whose worker threads every contender uses.
    pub fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// What every experiment records about how it ran.
    pub fn parameters(&self) -> Row {
        let cpus: Vec<String> = self.cpus.iter().map(usize::to_string).collect();
        Row::new()
            .count("threads", THREADS as u64)
            .text("pinned_to_cpus", cpus.join(" "))
            .count("seed", SEED)
    }
}
