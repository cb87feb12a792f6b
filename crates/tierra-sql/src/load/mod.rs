//! Loads files and Arrow streams into tables, as a whole or not at all.
//!
//! A file is Parquet, Arrow IPC or CSV; its first bytes and its name decide. Its columns are matched with the table's by
//! name. If there is no such table, one is created from the first file. Table and rows become visible when the last row
//! of the last file is in. An error, or cancelling, undoes the whole load; nothing else changes.

mod check;
mod columns;
mod csv;
mod csv_field;
mod csv_records;
mod csv_table;
mod error;
mod ipc;
mod parquet;
mod shared_file;
mod source;
mod target;

use std::path::Path;
use std::sync::Arc;

use arrow::array::RecordBatchReader;
use tierra_engine::Database;

use crate::double_text;
use crate::moments;

pub(crate) use self::check::unreadable;
pub use self::columns::{assigned, is_assigned};
pub(crate) use self::csv_table::CsvTable;
pub use self::error::LoadError;
pub(crate) use self::source::Format;
pub use self::source::{LoadOptions, LoadTable, Progress};
use self::source::{Source, UNWATCHED};
pub use self::target::LoadReport;
use self::target::LoadTarget;

/// Loads `file` into `table` of `database`, and creates the table if it does not exist. Blocks.
///
/// # Errors
/// [`LoadError`]; then nothing of the file is in the database.
pub fn load_file(
    database: &Arc<Database>,
    table: &str,
    file: &Path,
    options: &LoadOptions<'_>,
) -> Result<LoadReport, LoadError> {
    load_files(database, table, &[file], options)
}

/// Loads `files`, of any formats, one after the other into `table` of `database`. It creates the table from the first file
/// if it does not exist. Blocks.
///
/// # Errors
/// [`LoadError`]; then nothing of any file is in the database.
pub fn load_files(
    database: &Arc<Database>,
    table: &str,
    files: &[impl AsRef<Path>],
    options: &LoadOptions<'_>,
) -> Result<LoadReport, LoadError> {
    let mut sources = Vec::with_capacity(files.len());
    for file in files {
        sources.push(Source::open(file.as_ref(), options)?);
    }
    let mut target = LoadTarget::new(database, table, &sources);
    for source in &mut sources {
        source.before = target.done;
        let format = source.format()?;
        check::guarded(source, || {
            let file = source.file()?;
            check::check(source, format, &file)?;
            match format {
                Format::Parquet => parquet::load(source, file, &mut target),
                Format::ArrowIpc => ipc::load(source, file, &mut target),
                Format::Csv { delimiter } => csv::load(source, file, &mut target, delimiter),
            }
        })?;
        target.done.bytes += source.len_bytes;
    }
    target.finish(&sources)
}

/// Loads the batches of `streams`, one after the other, into `table` of `database`. It creates the table from the first stream if
/// it does not exist. Blocks. Bytes of the progress are those of the batches.
///
/// # Errors
/// [`LoadError`]; then nothing of any stream is in the database.
pub fn load_streams<R: RecordBatchReader>(
    database: &Arc<Database>,
    table: &str,
    streams: Vec<R>,
    options: &LoadOptions<'_>,
) -> Result<LoadReport, LoadError> {
    let mut sources = Vec::with_capacity(streams.len());
    sources.resize_with(streams.len(), || Source::stream(options));
    let mut target = LoadTarget::new(database, table, &sources);
    for (source, stream) in sources.iter_mut().zip(streams) {
        source.before = target.done;
        check::guarded(source, || ipc::read(source, &mut target, stream))?;
    }
    target.finish(&sources)
}

/// The format of the file at `path`. A file of unknown format, or with lengths that it does not have, is an error.
pub(crate) fn format_of(path: &Path) -> Result<Format, LoadError> {
    let source = Source::open(path, &UNWATCHED)?;
    let format = source.format()?;
    if !matches!(format, Format::Csv { .. }) {
        check::guarded(&source, || check::check(&source, format, &source.file()?))?;
    }
    Ok(format)
}
