//! Tierra as a driver of [ADBC](https://arrow.apache.org/adbc): a database in the process of a program in Python, R, Go, Java or C, which
//! talks to it by one C interface and gets columns of Arrow without a copy.
//!
//! ```text
//! driver manager --> entry::TierraDriverInit: a table of C functions, from adbc_ffi
//!   TierraDriver ------ a directory: opened, or shared with what the process has open
//!   TierraConnection -- a Session: catalog, transactions
//!   TierraStatement --- SQL with bound rows, or rows for a table
//!   Answer ------------ rows on their way out, a batch at a time
//! ```
//! The library is loaded by itself, or is part of Python's, which exports the same functions: one library knows one set of open databases.
//!
//! Rules that every file keeps:
//!
//! - A call that comes from outside goes through `guard::call`: a panic is an error of that call, and a fork of the process that used
//!   the driver is refused. What would wait for threads or locks at its end is a `guard::OfProcess`, which a fork leaves alone.
//! - Rows of others are checked before they are believed ([`foreign`]).
//! - Nothing is answered that was not done: what ADBC asks for and Tierra does not have is an error that says so.

mod answer;
mod bound;
mod columns;
mod connection;
mod database;
pub mod entry;
mod error;
pub mod foreign;
mod guard;
mod info;
mod ingest;
mod objects;
mod options;
mod statement;

pub use connection::TierraConnection;
pub use database::{TierraDatabase, TierraDriver};
pub use statement::TierraStatement;

/// As in the binary `tierra`. Whatever links this crate is a library that other programs load, and brings its own allocator.
#[global_allocator]
static ALLOCATOR: tierra_allocator::Allocator = tierra_allocator::Allocator;
