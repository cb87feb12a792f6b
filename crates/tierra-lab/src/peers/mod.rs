//! Other databases, and other ways to hide misses, in their best configuration, measured beside ours.

#[cfg(feature = "sql")]
pub mod bitpacking;
#[cfg(feature = "engine")]
pub mod codecs;
pub mod coroutines;
#[cfg(feature = "sql")]
pub mod datafusion;
#[cfg(feature = "sql")]
pub mod duckdb;
#[cfg(feature = "engine")]
pub mod fastlanes;
mod native;
#[cfg(feature = "sql")]
pub mod parquet;
pub mod plain;
pub mod pmdk;
#[cfg(feature = "sql")]
pub mod postgres;

use std::path::Path;

/// A peer that a bar needs: without it the bar is not measured.
#[derive(Clone, Copy, Debug)]
pub struct Peer {
    /// The engine's name in results.
    pub name: &'static str,
    /// Starts it in an empty folder of the lab, and ends it. An error says why it does not start.
    pub start: fn(&Path) -> Result<(), String>,
}
