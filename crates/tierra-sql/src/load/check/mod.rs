//! Files of others are checked before a library reads them: what a file says of its own lengths is
//! compared with the length that it has, so that nothing is allocated by a number that is not true.
//!
//! ```text
//! parquet.rs: footer (thrift.rs: no list longer than what is left of it), row groups, page headers
//! ipc.rs:     footer, blocks, messages, buffers, what compressed buffers say they unpack to
//! ```
//! What remains damaged is found by the readers. Where one of them panics, that is an error as well
//! ([`guarded`]).

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

/// Compares what the file says of its lengths with what is there.
///
/// # Errors
/// [`LoadError::Damaged`] where it cannot be, [`LoadError::Io`] where it cannot be read.
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

/// What `read` reads of the file; its panics are errors.
///
/// # Errors
/// Those of `read`, and [`LoadError::Damaged`].
pub(super) fn guarded<T>(
    source: &Source<'_>,
    read: impl FnOnce() -> Result<T, LoadError>,
) -> Result<T, LoadError> {
    // What a panic leaves half done belongs to the load, which is undone.
    catch_unwind(AssertUnwindSafe(read))
        .unwrap_or_else(|panic| Err(source.damaged(unreadable(panic.as_ref()))))
}

/// What is said of a reader that panicked.
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
