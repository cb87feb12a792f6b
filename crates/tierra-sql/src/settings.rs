//! The settings that `SET tierra.*` changes and `SHOW tierra.*` shows.
//!
//! They live in DataFusion's configuration, so that SHOW ALL and information_schema list them. [`apply`] copies those
//! that DataFusion has under another name. Emulated far memory belongs to the process, and read checks and frames belong to
//! the database: SET changes them for every session, and SHOW shows the values in force.

use std::any::Any;
use std::time::Duration;

use datafusion::common::config::{ConfigEntry, ConfigExtension, ConfigOptions, ExtensionOptions};
use datafusion::error::{DataFusionError, Result};
use tierra_column::bits::{Kernels, Level};
use tierra_engine::{BatchLimits, Batches, Frames, ReadChecks, Reading, ScrubPace};
use tierra_interleave::Scheduling;
use tierra_memory::Size;
use tierra_memory::emulation::{self, FarMemory};

/// Rows in a batch of a scan.
pub(crate) const BATCH_ROWS: usize = 8192;

/// Rows of a join's build side from which its lookups are interleaved: their table takes 21 MiB. Smaller tables fit the
/// caches, and DataFusion's joins were as fast or faster (`examples/joins.rs`).
const JOIN_BUILD_ROWS: usize = 1 << 20;

/// Keys of a build side up to which a join passes them to the scan of its other side as a list. The scan looks the list up
/// in the column's dictionary and index. For more keys the scan evaluates the join's table on every value of the column if
/// there are few values, and otherwise uses only the least and greatest key. A key costs about 0.4 µs, because DataFusion
/// makes an expression of it: lists of 10,000 keys were slower than evaluating the values of a column of a million, by up to
/// 10 ms (`examples/join_lists.rs`).
const JOIN_LIST_KEYS: usize = 1_000;
/// The bytes of these keys, which also bounds the number of duplicates.
const JOIN_LIST_BYTES: usize = 1 << 15;

/// The milliseconds from which a statement is slow, unless the session says otherwise.
const SLOW_MS: u64 = 250;

/// The most threads of one query or load.
pub const THREADS_MOST: usize = 1024;

/// The most lines of a block that are asked for ahead: its first 4 KiB.
const PREFETCH_LINES_MOST: usize = 64;
/// The most blocks that a helper is ahead: with more, what it fetches for wide tables leaves the cache before it is used.
const HELPER_BLOCKS_MOST: usize = 8;
/// The most queries of a batch, and the longest that one waits for others.
const BATCH_QUERIES_MOST: usize = 64;
const BATCH_MS_MOST: usize = 10_000;
/// The value of `tierra.simd` that takes the instructions that the machine's profile says.
const AS_PROFILE_SAYS: &str = "auto";
/// The value of `tierra.access` that leaves the mode to each tier.
const AS_TIERS_SAY: &str = "tier";

/// The far memory that is emulated.
pub(crate) const EMULATE: &str = "tierra.emulate";

/// The settings of the database or of the process: one session sets them for all.
const SHARED: [&str; 4] = [
    EMULATE,
    "tierra.frames",
    "tierra.scrub_pace",
    "tierra.verify_reads",
];

/// Whether sessions share this setting, whose name is in lower case.
pub(crate) fn is_shared(setting: &str) -> bool {
    SHARED.contains(&setting)
}

/// The settings of one session.
#[derive(Debug, Clone)]
pub(crate) struct TierraSettings {
    /// How lookups wait for memory.
    pub(crate) execution: Scheduling,
    /// Partitions of a query, one per thread.
    pub(crate) threads: usize,
    /// Rows per batch.
    pub(crate) batch_rows: usize,
    /// Bytes that the session's queries may fill together.
    pub(crate) query_memory: usize,
    /// Whether columns that are only output are read last.
    pub(crate) late_rows: bool,
    /// Rows of a join's build side from which its lookups are interleaved.
    pub(crate) join_build_rows: usize,
    /// How scans read blocks.
    pub(crate) reading: Reading,
    /// The frames of the database.
    pub(crate) frames: Frames,
    /// The batches of the database, that scans join.
    pub(crate) batches: Batches,
    /// How large these become, and how long the first query waits.
    pub(crate) batch: BatchLimits,
    /// When data read from the database is checked.
    pub(crate) read_checks: ReadChecks,
    /// The speed of the database's scrubber.
    pub(crate) scrub_pace: ScrubPace,
    /// The milliseconds from which a statement is listed among the slow ones.
    pub(crate) slow_ms: u64,
}

/// The initial values of a session, to which RESET returns.
#[derive(Debug)]
pub(crate) struct Beginning {
    settings: TierraSettings,
    far: Option<FarMemory>,
}

impl Beginning {
    /// The initial values from these settings.
    pub(crate) fn of(settings: &TierraSettings) -> Self {
        Self {
            settings: settings.clone(),
            far: emulation::current(),
        }
    }
}

impl TierraSettings {
    /// Resets `key` to its value when the session began. A setting of the database returns to its value at opening.
    pub(crate) fn reset(&mut self, key: &str, beginning: &Beginning) -> Result<()> {
        let Beginning { settings, far } = beginning;
        match key {
            "execution" => self.execution = settings.execution,
            "threads" => self.threads = settings.threads,
            "batch_rows" => self.batch_rows = settings.batch_rows,
            "query_memory" => self.query_memory = settings.query_memory,
            "late_rows" => self.late_rows = settings.late_rows,
            "join_build_rows" => self.join_build_rows = settings.join_build_rows,
            "access" => self.reading.access = settings.reading.access,
            "prefetch_lines" => self.reading.prefetch_lines = settings.reading.prefetch_lines,
            "helper_blocks" => self.reading.helper_blocks = settings.reading.helper_blocks,
            "simd" => self.reading.level = settings.reading.level,
            "batch_queries" => self.batch.queries = settings.batch.queries,
            "batch_ms" => self.batch.wait = settings.batch.wait,
            "frames" => self.frames.reset(),
            "verify_reads" => self.read_checks.reset(),
            "scrub_pace" => self.scrub_pace.reset(),
            "slow_ms" => self.slow_ms = settings.slow_ms,
            "emulate" => emulation::set(*far)
                .map_err(|error| DataFusionError::Configuration(error.to_string()))?,
            _ => return Err(unknown(key)),
        }
        Ok(())
    }
}

impl Default for TierraSettings {
    fn default() -> Self {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            execution: Scheduling::Auto,
            threads,
            batch_rows: BATCH_ROWS,
            query_memory: usize::MAX,
            late_rows: true,
            join_build_rows: JOIN_BUILD_ROWS,
            reading: Reading::default(),
            frames: Frames::default(),
            batches: Batches::default(),
            batch: BatchLimits::default(),
            read_checks: ReadChecks::default(),
            scrub_pace: ScrubPace::default(),
            slow_ms: SLOW_MS,
        }
    }
}

impl ConfigExtension for TierraSettings {
    const PREFIX: &'static str = "tierra";
}

impl ExtensionOptions for TierraSettings {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }

    fn cloned(&self) -> Box<dyn ExtensionOptions> {
        Box::new(self.clone())
    }

    fn set(&mut self, key: &str, value: &str) -> Result<()> {
        match key {
            "execution" => {
                self.execution = value
                    .to_ascii_lowercase()
                    .parse()
                    .map_err(|_| invalid(key, value, "'auto', 'plain' or 'interleaved'"))?;
            }
            "threads" => self.threads = positive(key, value, THREADS_MOST)?,
            "batch_rows" => self.batch_rows = positive(key, value, 1 << 20)?,
            "emulate" => emulation::parse(value)
                .and_then(emulation::set)
                .map_err(|error| DataFusionError::Configuration(error.to_string()))?,
            "query_memory" => {
                let expected = || invalid(key, value, "a number of bytes such as '512M' or '4G'");
                let Size(bytes) = value.parse().map_err(|_| expected())?;
                let bytes = usize::try_from(bytes).ok().filter(|bytes| *bytes > 0);
                self.query_memory = bytes.ok_or_else(expected)?;
            }
            "late_rows" => {
                self.late_rows = value
                    .to_ascii_lowercase()
                    .parse()
                    .map_err(|_| invalid(key, value, "'true' or 'false'"))?;
            }
            "access" => {
                let expected = "'tier', 'in-place', 'mapped', 'buffered', 'direct' or 'auto'";
                self.reading.access = match &*value.to_ascii_lowercase() {
                    AS_TIERS_SAY => None,
                    mode => Some(mode.parse().map_err(|_| invalid(key, value, expected))?),
                };
            }
            "prefetch_lines" => {
                self.reading.prefetch_lines = at_most(key, value, PREFETCH_LINES_MOST)?;
            }
            "helper_blocks" => {
                self.reading.helper_blocks = at_most(key, value, HELPER_BLOCKS_MOST)?;
            }
            "simd" => {
                self.reading.level = match &*value.to_ascii_lowercase() {
                    AS_PROFILE_SAYS => None,
                    level => {
                        let level: Level =
                            level.parse().map_err(|_| invalid(key, value, LEVELS))?;
                        let lacks = || invalid(key, value, &levels_here());
                        Some(Kernels::at(level).ok_or_else(lacks)?.level())
                    }
                };
            }
            "batch_queries" => {
                self.batch.queries = positive(key, value, BATCH_QUERIES_MOST)?;
            }
            "batch_ms" => {
                let wait_ms = at_most(key, value, BATCH_MS_MOST)?;
                self.batch.wait = Duration::from_millis(wait_ms as u64);
            }
            "frames" => {
                let expected = |_| invalid(key, value, "a number of bytes such as '64M', or '0'");
                let Size(bytes) = value.parse().map_err(expected)?;
                self.frames.set(bytes);
            }
            "verify_reads" => {
                let reads = value.to_ascii_lowercase().parse();
                let expected = |_| invalid(key, value, "'first' or 'every'");
                self.read_checks.set(reads.map_err(expected)?);
            }
            "join_build_rows" => self.join_build_rows = positive(key, value, isize::MAX as usize)?,
            "scrub_pace" => {
                let expected = |_| {
                    let bytes = "bytes a second such as '64M', or '0' for none";
                    invalid(key, value, bytes)
                };
                let Size(bytes_per_s) = value.parse().map_err(expected)?;
                self.scrub_pace.set(bytes_per_s);
            }
            "slow_ms" => {
                let expected = |_| invalid(key, value, "a whole number of milliseconds");
                self.slow_ms = value.parse().map_err(expected)?;
            }
            _ => return Err(unknown(key)),
        }
        Ok(())
    }

    fn entries(&self) -> Vec<ConfigEntry> {
        let entry = |key: &str, value: String, description| ConfigEntry {
            key: format!("{}.{key}", Self::PREFIX),
            value: Some(value),
            description,
        };
        vec![
            entry(
                "execution",
                self.execution.to_string(),
                "How lookups wait for memory: 'plain' one after another, 'interleaved' many in flight, 'auto' whichever \
                 is measured to be faster",
            ),
            entry(
                "threads",
                self.threads.to_string(),
                "Threads that work on one query",
            ),
            entry(
                "batch_rows",
                self.batch_rows.to_string(),
                "Rows that operators hand on at a time",
            ),
            entry(
                "query_memory",
                Size(self.query_memory as u64).to_string(),
                "Memory that the queries of a session may fill together; beyond it they spill or fail",
            ),
            entry(
                "late_rows",
                self.late_rows.to_string(),
                "Whether a query that takes few rows of many reads the columns that only travel to its result last",
            ),
            entry(
                "join_build_rows",
                self.join_build_rows.to_string(),
                "Rows of a hash join's smaller side from which on its lookups wait for memory as tierra.execution says, \
                 all threads probing one table; below, or where the rows are not known, each has its own",
            ),
            entry(
                "access",
                match self.reading.access {
                    None => AS_TIERS_SAY.to_owned(),
                    Some(access) => access.to_string(),
                },
                "How scans reach blocks in far memory: as each 'tier' says; 'in-place'; as copies in frames, 'mapped' from \
                 the mapping, 'buffered' by read() through the page cache, 'direct' past it; or as is fastest, 'auto'",
            ),
            entry(
                "prefetch_lines",
                self.reading.prefetch_lines.to_string(),
                "Lines of a column's next block that scans in place ask for before they read one",
            ),
            entry(
                "helper_blocks",
                self.reading.helper_blocks.to_string(),
                "Blocks that a helper thread prefetches ahead of a scan in place, where a core is spare; 0: there is no helper",
            ),
            entry(
                "simd",
                match self.reading.level {
                    None => AS_PROFILE_SAYS.to_owned(),
                    Some(level) => level.to_string(),
                },
                "Instructions with which scans test and unpack blocks: 'scalar', 'sse4.2', 'avx2', 'avx512', or 'auto', as \
                 tierra calibrate found to be the fastest, or else the widest",
            ),
            entry(
                "batch_queries",
                self.batch.queries.to_string(),
                "Queries that share one pass over the columns that they have in common, at most; 1: each reads for itself",
            ),
            entry(
                "batch_ms",
                self.batch.wait.as_millis().to_string(),
                "Milliseconds that the first query of such a batch waits for others; those that come later join what runs",
            ),
            entry(
                "frames",
                Size(self.frames.get()).to_string(),
                "Memory for frames, in the whole database; unused while every scan reads in place",
            ),
            entry(
                "verify_reads",
                self.read_checks.get().to_string(),
                "When stored bytes are compared with their checksums, in the whole database: 'first', before a block is \
                 read first, or 'every', whenever one is read",
            ),
            entry(
                "scrub_pace",
                Size(self.scrub_pace.get()).to_string(),
                "Bytes a second at which stored bytes are checked in the background, in the whole database; 0: none are",
            ),
            entry(
                "slow_ms",
                self.slow_ms.to_string(),
                "Milliseconds from which a statement is listed in tierra_slow_queries",
            ),
            entry(
                "emulate",
                emulation::current().map_or("off".to_string(), |far| far.to_string()),
                "Far memory emulated over near, for the whole process: 'off', 'optane', 'remote-optane', \
                 'remote-socket', 'cxl', or fields such as 'latency=300ns,random=10GB/s'",
            ),
        ]
    }
}

/// What `tierra.simd` can be.
const LEVELS: &str = "'auto', 'scalar', 'sse4.2', 'avx2' or 'avx512'";

/// What it can be on this CPU.
fn levels_here() -> String {
    let levels = Level::available().map(|level| format!(", '{level}'"));
    format!(
        "what this CPU has: '{AS_PROFILE_SAYS}'{}",
        levels.collect::<String>()
    )
}

fn unknown(key: &str) -> DataFusionError {
    DataFusionError::Configuration(format!(
        "setting tierra.{key} is unknown; there are tierra.execution, tierra.threads, tierra.batch_rows, \
         tierra.query_memory, tierra.late_rows, tierra.join_build_rows, tierra.access, tierra.prefetch_lines, \
         tierra.helper_blocks, tierra.simd, tierra.batch_queries, tierra.batch_ms, tierra.frames, tierra.verify_reads, \
         tierra.scrub_pace, tierra.slow_ms and tierra.emulate"
    ))
}

fn invalid(key: &str, value: &str, expected: &str) -> DataFusionError {
    DataFusionError::Configuration(format!(
        "tierra.{key} cannot be '{value}'; expected {expected}"
    ))
}

fn at_most(key: &str, value: &str, most: usize) -> Result<usize> {
    match value.parse::<usize>() {
        Ok(n) if n <= most => Ok(n),
        _ => Err(invalid(
            key,
            value,
            &format!("a whole number from 0 to {most}"),
        )),
    }
}

fn positive(key: &str, value: &str, most: usize) -> Result<usize> {
    match value.parse::<usize>() {
        Ok(n) if (1..=most).contains(&n) => Ok(n),
        _ => Err(invalid(
            key,
            value,
            &format!("a whole number from 1 to {most}"),
        )),
    }
}

/// The session's settings within DataFusion's configuration.
pub(crate) fn of(options: &ConfigOptions) -> TierraSettings {
    options
        .extensions
        .get::<TierraSettings>()
        .cloned()
        .unwrap_or_default()
}

/// How lookups wait for memory. Prepared point queries ask for it each time, and a copy of all settings counts its references to
/// what all sessions share.
pub(crate) fn execution(options: &ConfigOptions) -> Scheduling {
    let settings = options.extensions.get::<TierraSettings>();
    settings.map_or(Scheduling::Auto, |settings| settings.execution)
}

/// Copies Tierra's settings to DataFusion's own.
pub(crate) fn apply(options: &mut ConfigOptions) -> Result<()> {
    let settings = of(options);
    options.execution.target_partitions = settings.threads;
    options.execution.planning_concurrency = settings.threads;
    // It drops rows: of several aggregates it knows bounds only for those on columns, and it reads one only when that has a
    // value. SET of the enclosing setting turns it on again.
    options.optimizer.enable_aggregate_dynamic_filter_pushdown = false;
    options.set(
        "datafusion.execution.batch_size",
        &settings.batch_rows.to_string(),
    )
}

/// The initial configuration of a session.
pub(crate) fn initial(settings: TierraSettings) -> Result<ConfigOptions> {
    let mut options = ConfigOptions::new();
    options.extensions.insert(settings);
    apply(&mut options)?;
    options.catalog.default_catalog = "tierra".to_string();
    options.catalog.default_schema = "public".to_string();
    options.catalog.create_default_catalog_and_schema = false;
    // The catalog has its own, with SQL's types.
    options.catalog.information_schema = false;
    options.execution.collect_statistics = true;
    // For `(x > 3) IS TRUE` the logical plan knows that it is never NULL, but the physical plan does not.
    options.execution.skip_physical_aggregate_schema_check = true;
    options.execution.parquet.pushdown_filters = true;
    options.sql_parser.map_string_types_to_utf8view = true;
    // A rule knows where the order of a subquery counts.
    options.sql_parser.enable_subquery_sort_elimination = false;
    options.optimizer.hash_join_inlist_pushdown_max_size = JOIN_LIST_BYTES;
    options
        .optimizer
        .hash_join_inlist_pushdown_max_distinct_values = JOIN_LIST_KEYS;
    Ok(options)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shared_setting_says_so() {
        for entry in TierraSettings::default().entries() {
            let says = ["in the whole database", "for the whole process"];
            let is_said = says.iter().any(|words| entry.description.contains(words));
            assert_eq!(is_shared(&entry.key), is_said, "{}", entry.key);
        }
    }
}
