//! Other databases, in the configuration that serves them best, measured beside ours.

pub mod datafusion;
pub mod duckdb;
