//! The table's end of a load.

use std::path::PathBuf;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use tierra_column::Encoding;
use tierra_engine::{ColumnSource, ColumnsError, Database, Loader, TableSpec};

use super::error::LoadError;
use super::source::{LoadTable, Progress, Source};
use crate::ddl::{refuse_reserved, spec_of_schema};
use crate::error::DefinitionError;

/// The result of a load.
#[derive(Debug, Clone)]
pub struct LoadReport {
    /// Rows loaded.
    pub rows: u64,
    /// The files' length in bytes.
    pub file_bytes: u64,
    /// Bytes that one copy of the rows takes.
    pub stored_bytes: u64,
    /// Each column's encoding; empty if the few rows went to the table's tail, unpacked.
    pub encodings: Vec<(String, Encoding)>,
    /// Whether the table was created for the files.
    pub created: bool,
}

/// The table's end of a load. It takes the rows of one file after the other and publishes them together. Dropping it
/// undoes them, and the table if the load created it.
pub(super) struct LoadTarget<'a> {
    database: &'a Arc<Database>,
    pub(super) name: &'a str,
    /// Set from the first file on.
    opened: Option<Opened>,
    /// Rows of all files; bytes of those that are done.
    pub(super) done: Progress,
}

struct Opened {
    schema: SchemaRef,
    loader: Loader,
    created: bool,
}

impl<'a> LoadTarget<'a> {
    /// The target of a load of these files.
    pub(super) fn new(database: &'a Arc<Database>, name: &'a str, sources: &[Source<'_>]) -> Self {
        Self {
            database,
            name,
            opened: None,
            done: Progress {
                bytes_total: sources.iter().map(|source| source.len_bytes).sum(),
                ..Progress::default()
            },
        }
    }

    /// The schema of the table, or of a new one described by `spec`.
    pub(super) fn begin(
        &mut self,
        source: &Source<'_>,
        spec: impl FnOnce() -> Result<TableSpec, LoadError>,
    ) -> Result<SchemaRef, LoadError> {
        if let Some(opened) = &self.opened {
            return Ok(Arc::clone(&opened.schema));
        }
        let wanted = source.table();
        let found = match wanted {
            // Beginning a table of a name that is taken fails.
            LoadTable::New => None,
            LoadTable::Any | LoadTable::Existing => self.database.table(self.name),
        };
        let (table, created) = match found {
            Some(found) => (found, false),
            None if wanted == LoadTable::Existing => {
                return Err(LoadError::Definition {
                    file: source.path.to_path_buf(),
                    source: DefinitionError::NoSuchTable(self.name.to_string()),
                });
            }
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

    /// Passes on rows that have the table's schema. `bytes` of the file were read for them.
    pub(super) fn push(
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

    /// Passes on all rows of a file that is read column by column.
    pub(super) fn push_columns(
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

    /// Publishes the rows.
    pub(super) fn finish(self, sources: &[Source<'_>]) -> Result<LoadReport, LoadError> {
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

/// The files of a load, for an error that may concern any of them.
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
pub(super) fn spec_of_file(
    source: &Source<'_>,
    table: &str,
    schema: &Schema,
) -> Result<TableSpec, LoadError> {
    spec_of_schema(table.to_string(), schema).map_err(|error| LoadError::Definition {
        file: source.path.to_path_buf(),
        source: error,
    })
}
