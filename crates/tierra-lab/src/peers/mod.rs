//! Other databases, in the configuration that serves them best, measured beside ours.

pub mod bitpacking;
pub mod datafusion;
pub mod duckdb;
