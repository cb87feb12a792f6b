//! Files into tables, whole or not at all.
//!
//! A file is Parquet, Arrow IPC or CSV, told apart by its first bytes and its name. Its columns are
//! matched with the table's by name; where there is no such table, one is made of the first file.
//! Table and rows become visible when the last row of the last file is in. Any error, and
//! cancelling, undoes the whole load; nothing else changes.

mod check;
mod columns;
mod csv;
mod csv_field;
mod csv_records;
mod csv_table;
mod ipc;
mod parquet;
mod shared_file;

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use tierra_column::Encoding;
use tierra_engine::{ColumnSource, ColumnsError, Database, Loader, TableSpec};

pub(crate) use self::check::unreadable;
pub(crate) use self::csv_table::CsvTable;
use self::shared_file::SharedFile;
use crate::ddl::{refuse_reserved, spec_of_schema};
use crate::error::DefinitionError;

/// How to load.
#[derive(Default)]
pub struct LoadOptions<'a> {
    /// Called now and then with what has been read.
    pub progress: Option<&'a (dyn Fn(Progress) + Sync)>,
    /// Set to stop the load, which is then undone.
    pub cancel: Option<&'a AtomicBool>,
}

/// How far a load has come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// Rows handed to the table.
    pub rows: u64,
    /// Bytes of the files behind them.
    pub bytes: u64,
    /// Bytes of the files.
    pub bytes_total: u64,
}

/// What a load did.
#[derive(Debug, Clone)]
pub struct LoadReport {
    /// Rows loaded.
    pub rows: u64,
    /// The files' length in bytes.
    pub file_bytes: u64,
    /// What one copy of the rows takes.
    pub stored_bytes: u64,
    /// Each column's encoding; empty where the rows are few and went to the table's tail, unpacked.
    pub encodings: Vec<(String, Encoding)>,
    /// Whether the table was created for the files.
    pub created: bool,
}

/// Why nothing was loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The file cannot be opened or read.
    #[error("{}: {source}", file.display())]
    Io {
        /// The file.
        file: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// A file of no known kind.
    #[error("{}: neither Parquet nor Arrow IPC, and not named .csv or .tsv; convert it to one of these", file.display())]
    UnknownFormat {
        /// The file.
        file: PathBuf,
    },
    /// The file's bytes are not what its kind promises.
    #[error("{}: {message}", file.display())]
    Damaged {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        message: String,
    },
    /// The table has columns that the file lacks.
    #[error("{}: has no column '{column}', which table '{table}' needs; its columns are {columns}", file.display())]
    MissingColumn {
        /// The file.
        file: PathBuf,
        /// The column it lacks.
        column: String,
        /// The table.
        table: String,
        /// The columns it has.
        columns: String,
    },
    /// A value does not fit its column.
    #[error("{}: column '{column}': {message}", file.display())]
    Value {
        /// The file.
        file: PathBuf,
        /// The column.
        column: String,
        /// What does not fit.
        message: String,
    },
    /// A field of a CSV file is not what its column holds.
    #[error("{}:{line}: column '{column}': {message}", file.display())]
    Field {
        /// The file.
        file: PathBuf,
        /// The line on which the record begins, from 1.
        line: u64,
        /// The column.
        column: String,
        /// What is wrong, with the field's beginning.
        message: String,
    },
    /// A record of a CSV file has too many or too few fields.
    #[error("{}:{line}: {found} fields, expected {expected} as in the header", file.display())]
    FieldCount {
        /// The file.
        file: PathBuf,
        /// The line on which the record begins, from 1.
        line: u64,
        /// Fields it has.
        found: usize,
        /// Fields the header has.
        expected: usize,
    },
    /// A CSV file whose header is one name that looks like several.
    #[error(
        "{}:1: the header is one name, '{name}', with {other:?} in it: fields are separated by {expected} (by commas in .csv, by tabs in .tsv); put the name in quotes if it is one",
        file.display()
    )]
    Separator {
        /// The file.
        file: PathBuf,
        /// The name.
        name: String,
        /// What may separate the fields.
        other: char,
        /// What does separate them in a file of that name.
        expected: &'static str,
    },
    /// Several CSV files where one is read.
    #[error("'{}': CSV is read from one local file; name it, or load the files: tierra load TABLE FILE.. --db DIR", file.display())]
    SeveralCsv {
        /// What was named.
        file: PathBuf,
    },
    /// A CSV file without a header.
    #[error("{}: empty; a CSV file begins with a header that names its columns", file.display())]
    NoHeader {
        /// The file.
        file: PathBuf,
    },
    /// No table can be made of the file's columns.
    #[error("{}: {source}", file.display())]
    Definition {
        /// The file.
        file: PathBuf,
        /// Why.
        source: DefinitionError,
    },
    /// The table refused the rows.
    #[error("{}: {source}", file.display())]
    Table {
        /// The file, or the first of several and how many more.
        file: PathBuf,
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The load was cancelled.
    #[error("{}: cancelled, nothing loaded", file.display())]
    Cancelled {
        /// The file that was being read.
        file: PathBuf,
    },
}

/// Load `file` into `table` of `database`, creating the table where it does not exist. Blocks.
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

/// Load `files`, of whatever kinds, one behind the other into `table` of `database`, creating the
/// table from the first where it does not exist. Blocks.
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
    let mut target = Target {
        database,
        name: table,
        opened: None,
        done: Progress {
            bytes_total: sources.iter().map(|source| source.len_bytes).sum(),
            ..Progress::default()
        },
    };
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

/// What a file is, by its first bytes and its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Parquet,
    ArrowIpc,
    Csv { delimiter: u8 },
}

impl Format {
    /// Of the file at `path`; an error where it is none that can be loaded, or tells lengths that it does not have.
    pub(crate) fn of(path: &Path) -> Result<Self, LoadError> {
        let source = Source::open(path, &UNWATCHED)?;
        let format = source.format()?;
        if !matches!(format, Format::Csv { .. }) {
            check::guarded(&source, || check::check(&source, format, &source.file()?))?;
        }
        Ok(format)
    }
}

/// The options of who waits for no progress.
const UNWATCHED: LoadOptions<'static> = LoadOptions {
    progress: None,
    cancel: None,
};

/// One of the files of a load.
struct Source<'a> {
    path: &'a Path,
    len_bytes: u64,
    options: &'a LoadOptions<'a>,
    /// How far the load had come before this file.
    before: Progress,
}

impl<'a> Source<'a> {
    fn open(path: &'a Path, options: &'a LoadOptions<'a>) -> Result<Self, LoadError> {
        let io = |source| LoadError::Io {
            file: path.to_path_buf(),
            source,
        };
        let metadata = std::fs::metadata(path).map_err(io)?;
        if metadata.is_dir() {
            return Err(io(std::io::Error::from(std::io::ErrorKind::IsADirectory)));
        }
        Ok(Self {
            path,
            len_bytes: metadata.len(),
            options,
            before: Progress::default(),
        })
    }

    /// Opens the file. A load does so once, and reads what it opened however often it needs to.
    fn file(&self) -> Result<SharedFile, LoadError> {
        File::open(self.path)
            .and_then(SharedFile::new)
            .map_err(|error| self.unreadable(error))
    }

    fn format(&self) -> Result<Format, LoadError> {
        let mut magic = [0; 6];
        let read = self
            .file()?
            .read(&mut magic)
            .map_err(|error| self.unreadable(error))?;
        let extension = self
            .path
            .extension()
            .and_then(|extension| extension.to_str())
            .unwrap_or_default();
        Ok(
            match (&magic[..read], extension.to_ascii_lowercase().as_str()) {
                (b"ARROW1", _) => Format::ArrowIpc,
                ([b'P', b'A', b'R', b'1', ..], _) => Format::Parquet,
                (_, "parquet") => Format::Parquet,
                (_, "csv") => Format::Csv { delimiter: b',' },
                (_, "tsv") => Format::Csv { delimiter: b'\t' },
                (_, "arrow" | "arrows" | "ipc" | "feather") => Format::ArrowIpc,
                _ => {
                    return Err(LoadError::UnknownFormat {
                        file: self.path.to_path_buf(),
                    });
                }
            },
        )
    }

    fn check_cancelled(&self) -> Result<(), LoadError> {
        match self.options.cancel {
            Some(cancel) if cancel.load(Ordering::Relaxed) => Err(LoadError::Cancelled {
                file: self.path.to_path_buf(),
            }),
            _ => Ok(()),
        }
    }

    /// Tells that so many rows and bytes of this file are done.
    fn progress(&self, rows: u64, bytes: u64) {
        if let Some(progress) = self.options.progress {
            progress(Progress {
                rows: self.before.rows + rows,
                bytes: self.before.bytes + bytes.min(self.len_bytes),
                ..self.before
            });
        }
    }

    /// What the table says, with the file's name.
    fn refused(&self, error: impl std::error::Error + Send + Sync + 'static) -> LoadError {
        LoadError::Table {
            file: self.path.to_path_buf(),
            source: Box::new(error),
        }
    }

    fn unreadable(&self, source: std::io::Error) -> LoadError {
        LoadError::Io {
            file: self.path.to_path_buf(),
            source,
        }
    }

    fn damaged(&self, error: impl std::fmt::Display) -> LoadError {
        LoadError::Damaged {
            file: self.path.to_path_buf(),
            message: error.to_string(),
        }
    }
}

/// The table's end of a load: rows of one file after the other go in, and are published together.
/// Dropping it undoes them, and a table that was begun for them.
struct Target<'a> {
    database: &'a Arc<Database>,
    name: &'a str,
    /// From the first file on.
    opened: Option<Opened>,
    /// Rows of all files, bytes of those that are done.
    done: Progress,
}

struct Opened {
    schema: SchemaRef,
    loader: Loader,
    created: bool,
}

impl Target<'_> {
    /// The schema of the table, or of a new one described by `spec`.
    fn begin(
        &mut self,
        source: &Source<'_>,
        spec: impl FnOnce() -> Result<TableSpec, LoadError>,
    ) -> Result<SchemaRef, LoadError> {
        if let Some(opened) = &self.opened {
            return Ok(Arc::clone(&opened.schema));
        }
        let (table, created) = match self.database.table(self.name) {
            Some(found) => (found, false),
            None => {
                refuse_reserved(self.name).map_err(|error| LoadError::Definition {
                    file: source.path.to_path_buf(),
                    source: error,
                })?;
                let begun = self.database.begin_table(spec()?);
                (begun.map_err(|error| source.refused(error))?, true)
            }
        };
        let schema = table.schema();
        self.opened = Some(Opened {
            schema: Arc::clone(&schema),
            loader: table.loader(),
            created,
        });
        Ok(schema)
    }

    /// Hand on rows that have the table's schema; `bytes` of the file are behind them.
    fn push(
        &mut self,
        source: &Source<'_>,
        batch: RecordBatch,
        bytes: u64,
    ) -> Result<(), LoadError> {
        source.check_cancelled()?;
        let rows = batch.num_rows() as u64;
        let pushed = self.loader().push(batch);
        pushed.map_err(|error| source.refused(error))?;
        self.done.rows += rows;
        source.progress(self.done.rows - source.before.rows, bytes);
        Ok(())
    }

    /// Hand on all rows of a file that is read column by column.
    fn push_columns(
        &mut self,
        source: &Source<'_>,
        columns: &impl ColumnSource<Error = LoadError>,
    ) -> Result<(), LoadError> {
        let pushed = self.loader().push_columns(columns);
        pushed.map_err(|error| match error {
            ColumnsError::Source(error) => error,
            ColumnsError::Load(error) => source.refused(error),
        })?;
        self.done.rows += columns.rows();
        source.progress(columns.rows(), source.len_bytes);
        Ok(())
    }

    fn loader(&mut self) -> &mut Loader {
        let opened = self.opened.as_mut();
        &mut opened.expect("rows come after `begin`").loader
    }

    /// Publish the rows.
    fn finish(self, sources: &[Source<'_>]) -> Result<LoadReport, LoadError> {
        let Some((opened, last)) = self.opened.zip(sources.last()) else {
            return Ok(LoadReport {
                rows: 0,
                file_bytes: 0,
                stored_bytes: 0,
                encodings: Vec::new(),
                created: false,
            });
        };
        last.check_cancelled()?;
        let report = opened.loader.finish().map_err(|error| LoadError::Table {
            file: named(sources),
            source: Box::new(error),
        })?;
        Ok(LoadReport {
            rows: report.rows,
            file_bytes: self.done.bytes_total,
            stored_bytes: report.stored_bytes,
            encodings: report.encodings,
            created: opened.created,
        })
    }
}

/// The files of a load in an error that may concern any of them.
fn named(sources: &[Source<'_>]) -> PathBuf {
    match sources {
        [] => PathBuf::new(),
        [only] => only.path.to_path_buf(),
        [first, others @ ..] => {
            format!("{} and {} more", first.path.display(), others.len()).into()
        }
    }
}

/// A table for the columns of a file.
fn spec_of_file(source: &Source<'_>, table: &str, schema: &Schema) -> Result<TableSpec, LoadError> {
    spec_of_schema(table.to_string(), schema).map_err(|error| LoadError::Definition {
        file: source.path.to_path_buf(),
        source: error,
    })
}
