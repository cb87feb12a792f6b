//! `COPY .. TO 'file.csv'`: rows as a file that a load reads back as they were.
//!
//! The file appears when its last row is written and takes the place of one that is there; a statement that fails, or
//! that nobody waits for any more, leaves what was. COPY to the other formats is DataFusion's.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use arrow::array::RecordBatch;
use arrow::datatypes::Schema;
use arrow::error::ArrowError;
use datafusion::sql::parser::{CopyToSource, CopyToStatement, Statement};
use datafusion::sql::sqlparser::ast;
use futures::StreamExt;

use super::Session;
use super::files::has_ending;
use super::run::spawned;
use crate::csv;
use crate::error::{CopyError, DefinitionError, SqlError};
use crate::outcome::{Done, Outcome};
use crate::sink::blocking;
use crate::statement::Parsed;

impl Session {
    /// Runs a COPY to CSV; `None` for another format.
    pub(super) async fn copy_csv(
        &self,
        copy: &CopyToStatement,
        parsed: &Parsed,
    ) -> Result<Option<Outcome>, SqlError> {
        let path = Path::new(&copy.target);
        let is_tsv = has_ending(path, &["tsv"]);
        let is_csv = match copy.stored_as.as_deref() {
            Some(format) => format.eq_ignore_ascii_case("csv"),
            None => is_tsv || has_ending(path, &["csv"]),
        };
        if !is_csv {
            return Ok(None);
        }
        if !copy.options.is_empty() || !copy.partitioned_by.is_empty() {
            return Err(DefinitionError::UnsupportedFor {
                what: "an option of COPY to CSV",
                instead: "it writes one file with a header, NULL as an empty field and '' as \"\", separated by \
                          commas, or by tabs where its name ends in .tsv",
            }
            .into());
        }
        let query = match &copy.source {
            CopyToSource::Query(query) => ast::Statement::Query(query.clone()),
            CopyToSource::Relation(name) => every_row(name)?,
        };
        let mut query = Statement::Statement(Box::new(query));
        parsed.settle(&mut query);
        self.count_planning();
        let state = self.context.state();
        let plan = state.statement_to_plan(query).await?;
        let physical = state.create_physical_plan(&plan).await?;
        let schema = physical.schema();
        let mut rows = spawned(physical, &state)?;
        let (path, separator) = (path.to_path_buf(), if is_tsv { '\t' } else { ',' });
        let mut file = blocking(move || CsvFile::create(path, separator, &schema)).await?;
        let mut count = 0;
        while let Some(batch) = rows.next().await {
            let batch = batch?;
            count += batch.num_rows() as u64;
            file = blocking(move || file.write(&batch).map(|()| file)).await?;
        }
        blocking(move || file.finish()).await?;
        Ok(Some(Outcome::Done(Done {
            command: "COPY",
            rows: Some(count),
        })))
    }
}

/// `SELECT * FROM name`.
fn every_row(name: &ast::ObjectName) -> Result<ast::Statement, SqlError> {
    let text = format!("SELECT * FROM {name}");
    let statements = crate::statement::split(&text)?;
    match statements.first().map(Parsed::parse).transpose()? {
        Some(Statement::Statement(query)) => Ok(*query),
        _ => Err(SqlError::Syntax(text)),
    }
}

/// A file that is being written.
struct CsvFile {
    out: BufWriter<File>,
    separator: char,
    target: PathBuf,
    /// Where the rows are until all are there; `None` where they go into the target itself, a pipe for instance.
    unfinished: Option<Unfinished>,
}

/// A file that goes unless it is renamed.
struct Unfinished(PathBuf);

impl Drop for Unfinished {
    fn drop(&mut self) {
        // After a rename it is gone.
        let _ = fs::remove_file(&self.0);
    }
}

impl CsvFile {
    fn create(target: PathBuf, separator: char, schema: &Schema) -> Result<Self, SqlError> {
        let failed = |source| SqlError::from(CopyError::new(&target, source));
        let there = match fs::metadata(&target) {
            Ok(metadata) => Some(metadata),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(failed(error)),
        };
        if there.as_ref().is_some_and(fs::Metadata::is_dir)
            || target.as_os_str().as_encoded_bytes().ends_with(b"/")
        {
            return Err(failed(io::ErrorKind::IsADirectory.into()));
        }
        let (file, unfinished) = match there {
            Some(there) if !there.is_file() || is_open_file(&target) => {
                let file = File::options().append(true).open(&target);
                (file.map_err(failed)?, None)
            }
            _ => {
                if let Some(parent) = target.parent() {
                    fs::create_dir_all(parent).map_err(failed)?;
                }
                let (file, beside) = create_beside(&target).map_err(failed)?;
                (file, Some(Unfinished(beside)))
            }
        };
        let mut out = BufWriter::new(file);
        csv::write_header(schema, separator, &mut out).map_err(failed)?;
        Ok(Self {
            out,
            separator,
            target,
            unfinished,
        })
    }

    fn write(&mut self, batch: &RecordBatch) -> Result<(), SqlError> {
        csv::write_rows(batch, self.separator, &mut self.out).map_err(|error| {
            let source = match error {
                ArrowError::IoError(_, source) => source,
                other => io::Error::other(other),
            };
            CopyError::new(&self.target, source).into()
        })
    }

    fn finish(mut self) -> Result<(), SqlError> {
        let failed = |source| CopyError::new(&self.target, source);
        self.out.flush().map_err(failed)?;
        if let Some(Unfinished(beside)) = &self.unfinished {
            // Where a link is, what it leads to is replaced.
            let target = fs::canonicalize(&self.target);
            fs::rename(beside, target.as_ref().unwrap_or(&self.target)).map_err(failed)?;
        }
        Ok(())
    }
}

/// Whether `target` names what the process has open, such as `/dev/stdout`: that is written to, not replaced.
fn is_open_file(target: &Path) -> bool {
    let link = fs::read_link(target);
    let named = link.as_deref().unwrap_or(target);
    ["/proc", "/dev/fd"]
        .iter()
        .any(|dir| named.starts_with(dir))
}

/// A new file in the directory of `target`, and its name.
fn create_beside(target: &Path) -> io::Result<(File, PathBuf)> {
    let target = fs::canonicalize(target).unwrap_or_else(|_| target.to_path_buf());
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    for number in 0_u32.. {
        let beside = target.with_file_name(format!(".{name}.{}-{number}", std::process::id()));
        match File::create_new(&beside) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            created => return created.map(|file| (file, beside)),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}
