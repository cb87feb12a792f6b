//! The data sets that Tierra's demo, tests and experiments run on, as Arrow batches.
//!
//! | module | what it makes |
//! |---|---|
//! | [`ssb`] | Star Schema Benchmark: 5 tables, 13 queries and their answers computed by plain loops |
//! | [`tpch`] | TPC-H: 8 tables (rows by the crate `tpchgen`), 22 queries |
//! | [`wide`] | a table of R rows and C integer columns in which a column never repeats a value |
//! | [`ycsb`] | requests to a store of records: YCSB's workloads A to F, and I and R of the placement study |
//!
//! The invariant of the tables: a row is a pure function of the data set, the scale and the row's
//! number. Nothing depends on the clock, on threads or on the order of generation, so parts can be
//! made independently ([`Part`]) and a reader of the data can recompute what it should have read.
//!
//! ```
//! use tierra_data::{Part, Scale, Source, ssb};
//!
//! let scale = Scale::new(0.001)?;
//! let rows: usize = ssb::Table::Lineorder
//!     .generate(scale, Part::WHOLE, 8_192)
//!     .map(|batch| batch.num_rows())
//!     .sum();
//! assert_eq!(rows, 6_000);
//! # Ok::<(), tierra_data::ScaleError>(())
//! ```
//!
//! Unlike the C programs `dbgen` of both benchmarks, nothing is written to files in between and a
//! part does not have to skip through the random numbers of the parts before it.

mod draw;
mod part;
mod scale;
mod source;
pub mod ssb;
pub mod tpch;
pub mod wide;
pub mod ycsb;

pub use part::Part;
pub use scale::{Scale, ScaleError};
pub use source::{Batches, Source};
