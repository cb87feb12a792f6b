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
