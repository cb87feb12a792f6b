//! Tierra's lab: every figure as a runnable experiment.
//!
//! An experiment answers one question with numbers. It uses the product's own types and runs its peers in the same minutes
//! ([`turns`]; in the same process, except for DuckDB, PMDK and servers). It checks that all give the same answer, and keeps
//! every repetition's raw sample ([`row`]). Its promises are its bars ([`bar`]), computed from the samples alone, so that they
//! can be computed again ([`verdict`]).
//!
//! ```
//! use tierra_lab::row::Row;
//! use tierra_lab::turns::turns;
//!
//! let contenders: [(&str, fn() -> u64); 2] =
//!     [("loop", || (0..1_000).fold(0, |sum, n| sum + n)), ("formula", || 1_000 * 999 / 2)];
//! let mut samples = [Vec::new(), Vec::new()];
//! for turn in turns(contenders.len(), 9) {
//!     let start = std::time::Instant::now();
//!     assert_eq!(contenders[turn.contender].1(), 499_500);
//!     if !turn.is_warm_up() {
//!         samples[turn.contender].push(start.elapsed().as_nanos() as u64);
//!     }
//! }
//! let row = Row::new().text("contender", "loop").samples("time", "ns", samples[0].clone());
//! assert!(row.value("time_ns").is_some());
//! ```
//!
//! Without the feature `sql` there are only the experiments on memory and lookups, built in seconds instead of minutes; with
//! `engine` alone, also those on the durability of tables.

#[cfg(feature = "sql")]
pub mod answer;
pub mod bar;
mod children;
#[cfg(feature = "sql")]
pub mod contender;
pub mod curve;
#[cfg(feature = "sql")]
pub mod dataset;
#[cfg(feature = "sql")]
pub mod distributions;
pub mod error;
pub mod experiment;
pub mod experiments;
pub mod figure;
#[cfg(feature = "sql")]
pub mod fuzz;
pub mod histogram;
mod json;
pub mod lab;
pub mod machine;
pub mod memory;
pub mod mersenne;
pub mod page_faults;
pub mod peers;
pub mod pin;
pub mod positions;
mod process;
pub mod progress;
pub mod random;
pub mod replicas;
pub mod results;
pub mod row;
pub mod run;
mod scratch;
#[cfg(feature = "sql")]
mod served;
#[cfg(feature = "sql")]
mod sessions;
pub mod sorted;
pub mod stats;
pub mod steady;
#[cfg(feature = "sql")]
pub mod suite;
pub mod table;
pub mod turns;
pub mod update_cost;
pub mod verdict;
pub mod view;
