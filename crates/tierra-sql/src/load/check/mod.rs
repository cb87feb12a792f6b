//! Checks foreign files before a library reads them. The lengths that a file states are compared with its real length, so
//! that no wrong length decides how much is allocated.
//!
//! ```text
//! parquet.rs: footer (thrift.rs: no list longer than what is left of it), row groups, page headers
//! ipc.rs:     footer, blocks, messages, buffers, what compressed buffers say they unpack to
//! ```
//! Readers find other damage. If a reader panics, that is an error as well ([`guarded`]).

mod fault;
mod ipc;
mod parquet;
mod thrift;

pub(super) use ipc::is_file;

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use self::fault::Fault;
use super::error::LoadError;
use super::shared_file::SharedFile;
use super::source::{Format, Source};

/// Compares the lengths that the file states with its real length.
///
/// # Errors
/// [`LoadError::Damaged`] if a length is impossible, [`LoadError::Io`] if the file cannot be read.
pub(super) fn check(
    source: &Source<'_>,
    format: Format,
    file: &SharedFile,
) -> Result<(), LoadError> {
    let checked = match format {
        Format::Parquet => parquet::check(file),
        Format::ArrowIpc => ipc::check(file),
        Format::Csv { .. } => Ok(()),
    };
    checked.map_err(|fault| match fault {
        Fault::Io(error) => source.unreadable(error),
        Fault::Damaged(message) => source.damaged(message),
    })
}

/// The result of `read` on the file; its panics become errors.
///
/// # Errors
/// Those of `read`, and [`LoadError::Damaged`].
pub(super) fn guarded<T>(
    source: &Source<'_>,
    read: impl FnOnce() -> Result<T, LoadError>,
) -> Result<T, LoadError> {
    // State left by a panic belongs to the load, which is undone.
    catch_unwind(AssertUnwindSafe(read))
        .unwrap_or_else(|panic| Err(source.damaged(unreadable(panic.as_ref()))))
}

/// The message for a reader that panicked.
pub(crate) fn unreadable(panic: &(dyn Any + Send)) -> String {
    let text = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    match text {
        Some(text) => format!("it cannot be read: {text}"),
        None => "it cannot be read".to_string(),
    }
}
