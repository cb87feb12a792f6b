//! Files into tables, whole or not at all.
//!
//! A file is Parquet, Arrow IPC or CSV, told apart by its first bytes and its name. Its columns are
//! matched with the table's by name; where there is no such table, one is created from the file. The
//! rows become visible when the last one is in. Any error, and cancelling, undoes the file's load
//! and a table made for it; nothing else changes.

mod columns;
mod csv;
mod csv_field;
mod csv_records;
mod ipc;
mod parquet;

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use tierra_column::Encoding;
use tierra_engine::{Database, Loader, TableSpec};

use crate::ddl::spec_of_schema;
use crate::error::DefinitionError;

/// How to load.
#[derive(Default)]
pub struct LoadOptions<'a> {
    /// Called now and then with what has been read.
    pub progress: Option<&'a (dyn Fn(Progress) + Sync)>,
    /// Set to stop the load, which is then undone.
    pub cancel: Option<&'a AtomicBool>,
    /// Threads that read; all of the machine's if not given.
    pub threads: Option<usize>,
}

/// How far a load has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Rows handed to the table.
    pub rows: u64,
    /// Bytes of the file behind them.
    pub bytes: u64,
    /// Bytes of the file.
    pub bytes_total: u64,
}

/// What a load did.
#[derive(Debug, Clone)]
pub struct LoadReport {
    /// Rows loaded.
    pub rows: u64,
    /// The file's length in bytes.
    pub file_bytes: u64,
    /// What one copy of the rows takes.
    pub stored_bytes: u64,
    /// Each column's encoding; empty where the rows are few and went to the table's tail, unpacked.
    pub encodings: Vec<(String, Encoding)>,
    /// Whether the table was created for the file.
    pub created: bool,
}

/// Why nothing of a file was loaded.
#[derive(Debug, thiserror::Error)]
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
        /// The file.
        file: PathBuf,
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The load was cancelled.
    #[error("{}: cancelled, nothing loaded", file.display())]
    Cancelled {
        /// The file.
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
    let source = Source::open(file, options)?;
    match source.format()? {
        Format::Parquet => parquet::load(&source, database, table),
        Format::ArrowIpc => ipc::load(&source, database, table),
        Format::Csv { delimiter } => csv::load(&source, database, table, delimiter),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Parquet,
    ArrowIpc,
    Csv { delimiter: u8 },
}

/// The file of one load.
struct Source<'a> {
    path: &'a Path,
    bytes_total: u64,
    options: &'a LoadOptions<'a>,
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
            bytes_total: metadata.len(),
            options,
        })
    }

    fn file(&self) -> Result<File, LoadError> {
        File::open(self.path).map_err(|error| self.unreadable(error))
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

    fn is_cancelled(&self) -> bool {
        self.options
            .cancel
            .is_some_and(|cancel| cancel.load(Ordering::Relaxed))
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

/// The table's end of a load: rows go in, and are published or undone.
struct Target<'a> {
    source: &'a Source<'a>,
    database: &'a Arc<Database>,
    table: String,
    schema: SchemaRef,
    /// `None` once finished or undone.
    loader: Option<Loader>,
    created: bool,
    rows: u64,
}

impl<'a> Target<'a> {
    /// The table named `table`, or a new one described by `spec`.
    fn begin(
        source: &'a Source<'a>,
        database: &'a Arc<Database>,
        table: &str,
        spec: impl FnOnce() -> Result<TableSpec, DefinitionError>,
    ) -> Result<Self, LoadError> {
        let refused = |error| LoadError::Table {
            file: source.path.to_path_buf(),
            source: error,
        };
        let (found, created) = match database.table(table) {
            Some(found) => (found, false),
            None => {
                let spec = spec().map_err(|error| LoadError::Definition {
                    file: source.path.to_path_buf(),
                    source: error,
                })?;
                (
                    database
                        .create_table(spec)
                        .map_err(|error| refused(Box::new(error)))?,
                    true,
                )
            }
        };
        let (schema, loader) = (found.schema(), Some(found.loader()));
        Ok(Self {
            source,
            database,
            table: table.to_string(),
            schema,
            loader,
            created,
            rows: 0,
        })
    }

    /// Hand on rows that have the table's schema; `bytes` of the file are behind them.
    fn push(&mut self, batch: RecordBatch, bytes: u64) -> Result<(), LoadError> {
        if self.source.is_cancelled() {
            return Err(LoadError::Cancelled {
                file: self.source.path.to_path_buf(),
            });
        }
        let rows = batch.num_rows() as u64;
        let loader = self
            .loader
            .as_mut()
            .expect("a load is pushed to only until it is finished");
        loader.push(batch).map_err(|error| LoadError::Table {
            file: self.source.path.to_path_buf(),
            source: Box::new(error),
        })?;
        self.rows += rows;
        if let Some(progress) = self.source.options.progress {
            let bytes_total = self.source.bytes_total;
            progress(Progress {
                rows: self.rows,
                bytes: bytes.min(bytes_total),
                bytes_total,
            });
        }
        Ok(())
    }

    /// Publish the rows.
    fn finish(mut self) -> Result<LoadReport, LoadError> {
        if self.source.is_cancelled() {
            return Err(LoadError::Cancelled {
                file: self.source.path.to_path_buf(),
            });
        }
        let loader = self.loader.take().expect("a load is finished once");
        match loader.finish() {
            Ok(report) => {
                let created = std::mem::replace(&mut self.created, false);
                Ok(LoadReport {
                    rows: report.rows,
                    file_bytes: self.source.bytes_total,
                    stored_bytes: report.stored_bytes,
                    encodings: report.encodings,
                    created,
                })
            }
            Err(error) => Err(LoadError::Table {
                file: self.source.path.to_path_buf(),
                source: Box::new(error),
            }),
        }
    }
}

impl Drop for Target<'_> {
    /// A load that ends early leaves no rows (the loader undoes them) and no table made for it.
    fn drop(&mut self) {
        drop(self.loader.take());
        if self.created
            && let Err(error) = self.database.drop_table(&self.table)
        {
            tracing::warn!(table = self.table, %error, "a table made for a load that failed could not be dropped");
        }
    }
}

/// A table for the columns of a file.
fn spec_of_file(table: &str, schema: &Schema) -> Result<TableSpec, DefinitionError> {
    spec_of_schema(table.to_string(), schema)
}
