//! Tierra in Python: the module `tierra._tierra`, which the package `tierra` (in `python/`) hands on.
//!
//! ```text
//! Connection -- sql, prepare, register, load --> Session of tierra-sql, on the one runtime of the process
//! Result ------ rows as asked for: Python values, Arrow streams without a copy
//! ```
//! Rules that every file keeps:
//!
//! - A call that waits has detached from the interpreter, so that other threads of Python run, and looks for signals every
//!   `runtime::SLICE`, so that Ctrl-C ends a statement.
//! - A lock is taken only by a detached thread, or for no longer than a look: a thread that holds one never waits for the
//!   interpreter.
//! - After a fork the child raises an error and drops nothing: threads and locks are the parent's.

mod arrow_in;
mod connection;
mod error;
mod fetch;
mod load;
mod open;
mod parameters;
mod prepared;
mod result;
mod runtime;
mod show;
mod types;
mod values;

use std::ffi::OsString;

use pyo3::prelude::*;
// The library has the functions of the driver, and its allocator: that of the binary `tierra`. Python keeps its own.
use tierra_adbc as _;

/// The command line. Returns the exit status.
#[pyfunction]
fn run_command(py: Python<'_>, arguments: Vec<OsString>) -> u8 {
    py.detach(|| tierra::cli::run(arguments))
}

/// Called in the child of a fork.
#[pyfunction]
fn after_fork() {
    runtime::mark_fork();
}

#[pymodule(gil_used = false)]
fn _tierra(module: &Bound<'_, PyModule>) -> PyResult<()> {
    tierra_allocator::keep_freed_memory();
    tierra::sql::release_memory_with(tierra_allocator::release_freed_memory);
    error::add_to(module)?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<connection::Connection>()?;
    module.add_class::<prepared::Prepared>()?;
    module.add_class::<result::Answer>()?;
    module.add_function(wrap_pyfunction!(connection::connect, module)?)?;
    module.add_function(wrap_pyfunction!(run_command, module)?)?;
    module.add_function(wrap_pyfunction!(after_fork, module)?)
}
