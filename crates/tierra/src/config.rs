//! `tierra.toml`: options of a database that a file gives, rather than a program or a flag.
//!
//! ```toml
//! near-memory = "8G"          # near memory that copies of columns may take
//! threads = 4                 # threads of one query or load
//! query-memory = "4G"         # memory that the queries of a session may use together
//! execution = "auto"          # how lookups wait for memory: auto, plain, interleaved
//! emulate = "optane"          # far memory emulated over near, for the whole process
//! pool = "/mnt/pmem/far.pool" # the file of the far tier of a new database
//! scrub-pace = "64 MiB"       # bytes per second that are checked in the background; 0: none
//! verify-reads = "first"      # when stored bytes are compared with their checksums: first, every
//! degraded = false            # whether to open the database although some of its tiers are missing
//! ```
//!
//! Every key is also a flag of the commands, a `SET tierra.*` of SQL, or both; these take precedence.

use std::fmt::Display;
use std::fs;
use std::io;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use tierra_engine::VerifyReads;
use tierra_interleave::Scheduling;
use tierra_memory::{
    Size,
    emulation::{self, FarMemory},
};
use tierra_sql::THREADS_MOST;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The file's name in a database's directory.
pub(crate) const FILE: &str = "tierra.toml";

/// The contents of a file; a missing key is absent.
#[derive(Debug, Default)]
pub(crate) struct Config {
    pub(crate) near_memory: Option<Size>,
    pub(crate) threads: Option<NonZeroUsize>,
    pub(crate) query_memory: Option<Size>,
    pub(crate) execution: Option<Scheduling>,
    pub(crate) emulate: Option<FarMemory>,
    pub(crate) pool: Option<PathBuf>,
    pub(crate) scrub_pace: Option<Size>,
    pub(crate) verify_reads: Option<VerifyReads>,
    pub(crate) degraded: Option<bool>,
}

/// A configuration file that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file could not be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// It contains an invalid value.
    #[error("{}:{line}:{column}: {message}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The character in that line, from 1.
        column: usize,
        /// What is wrong.
        message: String,
    },
}

/// An error message, and its range of bytes in the file.
type Fault = (Range<usize>, String);

impl Config {
    /// The file in a database's directory; empty if there is none.
    pub(crate) fn of_database(dir: &Path) -> Result<Self, ConfigError> {
        match Self::read(&dir.join(FILE)) {
            Err(ConfigError::Read { source, .. }) if is_absent(&source) => Ok(Self::default()),
            result => result,
        }
    }

    fn parse(text: &str) -> Result<Self, Fault> {
        let table = DeTable::parse(text).map_err(|error| {
            let place = error.span().unwrap_or(0..0);
            (place, error.message().to_owned())
        })?;
        let mut config = Self::default();
        for (key, written) in table.get_ref() {
            match key.get_ref().as_ref() {
                "near-memory" => config.near_memory = Some(value(written)?),
                "threads" => config.threads = Some(value::<Threads>(written)?.0),
                "query-memory" => {
                    let size: Size = value(written)?;
                    if size.0 == 0 {
                        let message = "query-memory must be more than 0";
                        return Err((written.span(), message.to_owned()));
                    }
                    config.query_memory = Some(size);
                }
                "execution" => config.execution = Some(value(written)?),
                "emulate" => config.emulate = value::<Emulate>(written)?.0,
                "pool" => config.pool = Some(value(written)?),
                "scrub-pace" => config.scrub_pace = Some(value(written)?),
                "verify-reads" => config.verify_reads = Some(value(written)?),
                "degraded" => config.degraded = Some(switch(written)?),
                unknown => {
                    let message = format!(
                        "there is no option '{unknown}'; there are near-memory, threads, \
                         query-memory, execution, emulate, pool, scrub-pace, verify-reads and degraded"
                    );
                    return Err((key.span(), message));
                }
            }
        }
        Ok(config)
    }

    /// The file at `path`. Relative paths in it are relative to its directory.
    pub(crate) fn read(path: &Path) -> Result<Self, ConfigError> {
        let text = fs::read_to_string(path).map_err(|source| ConfigError::Read {
            path: path.to_owned(),
            source,
        })?;
        let mut config = Self::parse(&text).map_err(|(place, message)| {
            let before = &text[..place.start.min(text.len())];
            let line_start = before.rfind('\n').map_or(0, |end| end + 1);
            ConfigError::Content {
                path: path.to_owned(),
                line: 1 + before.matches('\n').count(),
                column: 1 + before[line_start..].chars().count(),
                message,
            }
        })?;
        if let (Some(pool), Some(dir)) = (&mut config.pool, path.parent()) {
            *pool = dir.join(&*pool);
        }
        Ok(config)
    }
}

/// Far memory to emulate, or none.
struct Emulate(Option<FarMemory>);

impl FromStr for Emulate {
    type Err = emulation::EmulationError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        emulation::parse(text).map(Self)
    }
}

/// A number of threads, in the range of `SET tierra.threads`.
struct Threads(NonZeroUsize);

impl FromStr for Threads {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let threads = text
            .parse()
            .ok()
            .filter(|n: &NonZeroUsize| n.get() <= THREADS_MOST);
        let expected = || {
            format!("threads cannot be '{text}'; expected a whole number from 1 to {THREADS_MOST}")
        };
        threads.map(Self).ok_or_else(expected)
    }
}

/// Whether the file, or its directory, does not exist. If the path cannot be a directory, opening the database reports it.
fn is_absent(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

/// A boolean.
fn switch(written: &Spanned<DeValue<'_>>) -> Result<bool, Fault> {
    let switched = match written.get_ref() {
        DeValue::Boolean(value) => Some(*value),
        _ => None,
    };
    switched.ok_or_else(|| (written.span(), "expected true or false".to_owned()))
}

/// A value in the form used elsewhere: a string, or a whole number.
fn value<T: FromStr<Err: Display>>(written: &Spanned<DeValue<'_>>) -> Result<T, Fault> {
    let text = match written.get_ref() {
        DeValue::String(text) => text.as_ref(),
        DeValue::Integer(number) if number.radix() == 10 => number.as_str(),
        _ => {
            let message = "expected a text or a whole number";
            return Err((written.span(), message.to_owned()));
        }
    };
    text.parse()
        .map_err(|error: T::Err| (written.span(), error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tierra_interleave::Execution;

    fn read(text: &str) -> Result<Config, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FILE);
        fs::write(&path, text).unwrap();
        Config::read(&path).map_err(|error| {
            let text = error.to_string();
            let prefix = format!("{}:", path.display());
            text.strip_prefix(&prefix)
                .expect("it names the file")
                .to_owned()
        })
    }

    fn optane() -> String {
        let far = emulation::parse("optane").unwrap();
        far.expect("it is a preset").to_string()
    }

    #[test]
    fn a_file_says_what_it_says_and_nothing_else() {
        let config = read(
            "near-memory = \"1.5G\"\nthreads = 3\nquery-memory = 1000\nexecution = \"plain\"\n\
             emulate = \"optane\"\npool = \"far/pool\"\nscrub-pace = \"16 MiB\"\n\
             verify-reads = \"every\"\ndegraded = true\n",
        )
        .unwrap();
        assert_eq!(config.near_memory, Some(Size(3 << 29)));
        assert_eq!(config.threads, NonZeroUsize::new(3));
        assert_eq!(config.query_memory, Some(Size(1000)));
        assert_eq!(config.execution, Some(Scheduling::Fixed(Execution::Plain)));
        assert_eq!(config.emulate.map(|far| far.to_string()), Some(optane()));
        assert_eq!(config.scrub_pace, Some(Size(16 << 20)));
        assert_eq!(config.verify_reads, Some(VerifyReads::Every));
        assert_eq!(config.degraded, Some(true));
        let pool = config.pool.unwrap();
        assert!(pool.is_absolute() && pool.ends_with("far/pool"));

        let config = read("# nothing\nemulate = \"off\"\n").unwrap();
        assert!(config.emulate.is_none() && config.near_memory.is_none());
        assert!(config.threads.is_none() && config.query_memory.is_none());
        assert!(config.execution.is_none() && config.pool.is_none());
        assert_eq!((config.scrub_pace, config.verify_reads), (None, None));
        assert_eq!(config.degraded, None);
    }

    #[test]
    fn what_cannot_be_is_said_with_its_place() {
        for (text, expected) in [
            ("near-memory = \"much\"", "1:15: 'much' is not a size"),
            (
                "\n near_memory = 1",
                "2:2: there is no option 'near_memory'",
            ),
            (
                "threads = 0",
                "1:11: threads cannot be '0'; expected a whole number from 1 to 1024",
            ),
            ("threads = 1025", "1:11: threads cannot be '1025'"),
            ("near-memory = -1", "1:15: '-1' is not a size"),
            (
                "near-memory = 0x10",
                "1:15: expected a text or a whole number",
            ),
            ("threads = [1]", "1:11: expected a text or a whole number"),
            ("execution = \"fast\"", "1:13: "),
            (
                "verify-reads = \"never\"",
                "1:16: 'never' is neither 'first' nor 'every'",
            ),
            ("degraded = \"yes\"", "1:12: expected true or false"),
            ("emulate = \"otpane\"", "1:11: "),
            (
                "query-memory = \"0G\"",
                "1:16: query-memory must be more than 0",
            ),
            ("# \u{e9}\nthreads = 1\nthreads = 2", "3:1: duplicate key"),
            ("[far]\nlatency = 1", "1:2: there is no option 'far'"),
            ("threads = ", "1:"),
            ("\"", "1:"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.starts_with(expected), "{text}: {error}");
        }
    }

    #[test]
    fn only_a_named_file_must_be_there() {
        let dir = tempfile::tempdir().unwrap();
        assert!(Config::of_database(&dir.path().join("none")).is_ok());
        let error = Config::read(&dir.path().join(FILE)).unwrap_err();
        assert!(error.to_string().starts_with("cannot read "), "{error}");
    }
}
