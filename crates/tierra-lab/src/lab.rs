//! The environment of an experiment: its size, seed, threads and folders.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::error::{At, Context, LabError};
use crate::pin;
use crate::row::Row;
use crate::scratch::Scratch;

/// Threads of every contender in a comparison, unless another number is chosen.
const THREADS: usize = 2;
static CHOSEN_THREADS: OnceLock<usize> = OnceLock::new();
/// A folder in memory.
const MEMORY: &str = "/dev/shm";
/// The seed of everything random.
pub const SEED: u64 = 0x7161_7272_6965;

/// Another size than an experiment's own, where it has records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::Args)]
pub struct Scale {
    /// Records of a store, instead of the experiment's own number; the placement study has 10000000. For kv-memory,
    /// kv-shift, ycsb-dynamic, ycsb-ratio, ycsb-served and ycsb-threshold; values of a column for compress and pcr-read, where the
    /// thesis has 100000000, and replica-choice.
    #[arg(long, value_name = "N", value_parser = at_least::<1000>)]
    pub records: Option<u64>,
    /// Requests, queries or statements of a run; the placement study has 1000000. For sql-fuzz, sql-writes, ycsb-dynamic,
    /// ycsb-ratio, ycsb-served and ycsb-threshold.
    #[arg(long, value_name = "N", value_parser = at_least::<1000>)]
    pub operations: Option<u64>,
    /// Runs of each point, beside the one that warms up; the placement study has 4. For cocktail, compress, pcr-append,
    /// pcr-mixed, pcr-read, pcr-ssb, replica-choice, ycsb-dynamic, ycsb-ratio, ycsb-served and ycsb-threshold.
    #[arg(long, value_name = "N", value_parser = at_least::<1>)]
    pub runs: Option<u64>,
    /// This one query again, by the number that it was reported under. For sql-fuzz.
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
}

/// One of the options of [`Scale`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScaleOption {
    /// `--records`.
    Records,
    /// `--operations`.
    Operations,
    /// `--runs`.
    Runs,
    /// `--seed`.
    Seed,
}

impl ScaleOption {
    /// All of them.
    pub const ALL: [ScaleOption; 4] = [
        ScaleOption::Records,
        ScaleOption::Operations,
        ScaleOption::Runs,
        ScaleOption::Seed,
    ];

    /// Those of a store of records.
    pub const OF_A_STORE: [ScaleOption; 3] = [
        ScaleOption::Records,
        ScaleOption::Operations,
        ScaleOption::Runs,
    ];

    /// Its name on the command line, without the dashes.
    pub fn name(self) -> &'static str {
        match self {
            ScaleOption::Records => "records",
            ScaleOption::Operations => "operations",
            ScaleOption::Runs => "runs",
            ScaleOption::Seed => "seed",
        }
    }
}

impl Scale {
    /// The options that were given.
    pub fn given(&self) -> impl Iterator<Item = ScaleOption> {
        let values = [self.records, self.operations, self.runs, self.seed];
        let options = ScaleOption::ALL.into_iter().zip(values);
        options.filter_map(|(option, value)| value.map(|_| option))
    }
}

fn at_least<const LEAST: u64>(text: &str) -> Result<u64, String> {
    let number: u64 = text.parse().map_err(|error| format!("{error}"))?;
    if number < LEAST {
        return Err(format!("at least {LEAST}"));
    }
    Ok(number)
}

/// The lab that every experiment is given.
#[derive(Debug)]
pub struct Lab {
    quick: bool,
    scale: Scale,
    scratch: Scratch,
    /// `None` if the machine has no folder in memory.
    in_memory: Option<Scratch>,
    runtime: Runtime,
    cpus: Vec<usize>,
}

/// Threads of every contender in a comparison: two, unless [`choose_threads`] was called.
pub fn threads() -> usize {
    *CHOSEN_THREADS.get_or_init(|| THREADS)
}

/// Chooses the number of threads, before any experiment runs.
pub fn choose_threads(threads: NonZeroUsize) {
    // The first choice stays: both sides of a comparison have the same number.
    let _ = CHOSEN_THREADS.set(threads.get());
}

/// Numbers of threads to be compared: powers of two, and at last [`threads`].
pub fn thread_counts() -> impl Iterator<Item = usize> {
    let powers = std::iter::successors(Some(1), |count| Some(2 * count));
    let below = powers.take_while(|count| *count < threads());
    below.chain([threads()])
}

impl Lab {
    /// Pins this process to [`threads`] CPUs and starts the runtime that all contenders share. Files go to a new folder under
    /// `scratch`. It is removed at the end, or by the next lab if this one is killed.
    pub fn new(quick: bool, scratch: &Path) -> Result<Lab, LabError> {
        let cpus = pin::to_first_cpus(threads());
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(threads())
            .enable_all()
            .build()
            .by("the lab", "starting its threads")?;
        Ok(Lab {
            quick,
            scale: Scale::default(),
            scratch: Scratch::new(scratch)?,
            in_memory: Scratch::new(Path::new(MEMORY)).ok(),
            runtime,
            cpus,
        })
    }

    /// The same lab, for experiments of another size.
    #[must_use]
    pub fn scaled(self, scale: Scale) -> Lab {
        Lab { scale, ..self }
    }

    /// Records of a store: the requested number, else one of these by the size of the run.
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

    /// The requested case.
    pub fn seed(&self) -> Option<u64> {
        self.scale.seed
    }

    /// Whether to run small: seconds instead of minutes, every step still taken.
    pub fn is_quick(&self) -> bool {
        self.quick
    }

    /// One of these, by the size of the run.
    pub fn size<T>(&self, quick: T, full: T) -> T {
        if self.quick { quick } else { full }
    }

    /// A new, empty folder on the ordinary file system.
    pub fn folder(&self, name: &str) -> Result<PathBuf, LabError> {
        let path = self.scratch.path().join(name);
        std::fs::create_dir_all(&path).at(&path)?;
        Ok(path)
    }

    /// A file that outlives this lab, on the ordinary file system.
    pub fn lasting_file(&self, name: &str) -> PathBuf {
        self.scratch.path().with_file_name(name)
    }

    /// A new, empty folder on the ordinary file system, removed when the caller drops it.
    pub fn passing_folder(&self) -> Result<TempDir, LabError> {
        let parent = self.scratch.path();
        TempDir::new_in(parent).at(parent)
    }

    /// A new, empty folder in memory, removed when the caller drops it. Not every machine has one.
    pub fn folder_in_memory(&self) -> Result<TempDir, LabError> {
        let parent = self
            .in_memory
            .as_ref()
            .map_or(Path::new(MEMORY), Scratch::path);
        TempDir::new_in(parent).at(parent)
    }

    /// The runtime whose worker threads every contender uses.
    pub fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// What every experiment records about how it ran.
    pub fn parameters(&self) -> Row {
        let cpus: Vec<String> = self.cpus.iter().map(usize::to_string).collect();
        Row::new()
            .count("threads", threads() as u64)
            .text("pinned_to_cpus", cpus.join(" "))
            .count("seed", SEED)
    }
}
