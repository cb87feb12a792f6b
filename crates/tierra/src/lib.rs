//! Tierra is a database for machines whose memory comes in two speeds: **near** memory (DRAM) and
//! **far** memory, which is larger and slower but still byte-addressable (persistent memory, CXL
//! expanders, another socket's DRAM, or a mapped file). Columns are stored compressed and durable in far
//! memory, with near copies as far as a budget allows. Lookups that would wait for memory are
//! interleaved with others.
//!
//! Programs embed this crate. A [`Database`] is a directory; SQL goes in, Arrow batches
//! come out:
//!
//! ```
//! # let scratch = tempfile::tempdir()?;
//! # let dir = scratch.path().join("shop");
//! let db = tierra::Database::create(&dir)?;
//! db.sql("CREATE TABLE items (id INTEGER PRIMARY KEY, name VARCHAR, price DECIMAL(9, 2))")?;
//! db.sql("INSERT INTO items VALUES (1, 'anvil', 99.95), (2, 'rope', 7.50), (3, 'kite', NULL)")?;
//! let answer = db.sql("SELECT name FROM items WHERE price < 50 ORDER BY name")?;
//! assert_eq!(answer.row_count(), 1);
//! println!("{answer}");
//! for batch in answer {
//!     assert_eq!(batch.num_columns(), 1);
//! }
//! # drop(db);
//!
//! // What was answered is durable: another process, or this one later, finds it again.
//! let db = tierra::Database::open(&dir)?;
//! assert_eq!(db.sql("SELECT * FROM items")?.row_count(), 3);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! In async code use [`Database::sql_async`], or a separate [`Session`](sql::Session), whose
//! [`Rows`](sql::Rows) stream while the query runs and stop it when dropped:
//!
//! ```
//! # let scratch = tempfile::tempdir()?;
//! use tierra::{Database, sql::Outcome};
//! # tokio::runtime::Runtime::new()?.block_on(async {
//! let session = Database::create(scratch.path().join("db"))?.session()?;
//! if let Outcome::Rows(mut rows) = session.sql("SELECT 6 * 7 AS answer").await? {
//!     let batches = rows.collect().await?;
//!     assert_eq!(batches[0].num_rows(), 1);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Unlike an in-memory engine, a query reads columns where they are durable, so opening a large
//! database costs as little as opening a small one. Unlike a disk-based one, it reads them by
//! loads, with no buffer pool and no copy in between.
//!
//! # Depending on it
//!
//! For Linux on 64-bit processors. The feature `cli`, on by default, is the binary `tierra`: without it a program compiles
//! only what it uses. Batches are those of [`arrow`] 59. The other types of the interface are in [`engine`],
//! [`mod@column`], [`memory`] and [`sql`].
//!
//! # The allocator
//!
//! A query frees batches and tables that the next one allocates again. An allocator that gives freed pages back to the system
//! within milliseconds has every query clear them again. The binary `tierra` uses mimalloc and lets it keep freed memory for
//! two seconds (its option `purge_delay`; crate `tierra-allocator`). A program that does so should hand
//! [`sql::release_memory_with`] a function that gives freed memory back: what the allocator keeps otherwise counts as growth
//! of the process, for which queries are ended.

// The command line names what it uses as other programs do.
#[cfg(feature = "cli")]
extern crate self as tierra;

/// The library's program in README.md is compiled as written there.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
mod readme {}

mod answer;
#[cfg(feature = "cli")]
pub mod cli;
mod config;
mod database;
mod error;
mod shared;
mod text;

pub use answer::Answer;
pub use config::ConfigError;
pub use database::{Database, Options};
pub use error::Error;
pub use text::{TextRows, printable, printable_lines};

/// Arrow, in the version of the batches.
pub use arrow;
/// Types, encodings and filters of columns.
pub use tierra_column as column;
/// Tables, snapshots and bulk loads: the layer below SQL.
pub use tierra_engine as engine;
pub use tierra_interleave::{Execution, Scheduling};
/// Tiers, pools and emulated far memory, which options and errors refer to.
pub use tierra_memory as memory;
/// Sessions, statements and files.
pub use tierra_sql as sql;
