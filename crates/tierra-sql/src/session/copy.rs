//! `COPY .. TO 'file.csv'`: rows as a file that a load reads back unchanged.
//!
//! The file appears when its last row is written, and replaces an existing one. If the statement fails or is cancelled, the
//! existing file stays. DataFusion runs COPY to the other formats.

use std::fs::{self, File, Permissions};
use std::io::{self, BufWriter, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use arrow::array::RecordBatch;
use arrow::datatypes::Schema;
use arrow::error::ArrowError;
use datafusion::sql::parser::{CopyToSource, CopyToStatement, Statement};
use datafusion::sql::sqlparser::ast;
use futures::StreamExt;

use super::Session;
use super::files::has_ending;
use super::run::{physical, planned};
use crate::error::{CopyError, DefinitionError, SqlError};
use crate::outcome::{Done, Outcome};
use crate::sink::blocking;
use crate::statement::every_row;
use crate::{csv, duplicate_names};

/// The most symbolic links that a name may lead through; the system follows no more.
const LINKS_MOST: usize = 40;

impl Session {
    /// Runs a COPY to CSV; `None` for another format.
    pub(super) async fn copy_csv(
        &self,
        copy: &CopyToStatement,
    ) -> Result<Option<Outcome>, SqlError> {
        if copy.target.starts_with('~') {
            return Err(DefinitionError::UnsupportedFor {
                what: "~ for a directory in the name of a file",
                instead: "write the whole path, or './~..' for a file that is called so",
            }
            .into());
        }
        let path = Path::new(&copy.target);
        let is_tsv = has_ending(path, &["tsv"]);
        let is_csv = match copy.stored_as.as_deref() {
            Some(format) => format.eq_ignore_ascii_case("csv"),
            None => is_tsv || has_ending(path, &["csv"]),
        };
        if !is_csv {
            return Ok(None);
        }
        if copy.target.contains("://") {
            return Err(DefinitionError::UnsupportedFor {
                what: "a URL in COPY to CSV",
                instead: "it writes one local file; give its path",
            }
            .into());
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
        let query = Statement::Statement(Box::new(query));
        self.count_planning();
        let (state, plan) = planned(self.state(), query).await?;
        let physical = physical(state, plan).await?;
        let schema = physical.plan.schema();
        let schema = duplicate_names::restored(&schema).unwrap_or(schema);
        let mut rows = physical.spawned()?;
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

/// A file being written.
struct CsvFile {
    out: BufWriter<File>,
    separator: char,
    target: PathBuf,
    /// The temporary file for the rows; `None` if they go into the target itself, for instance a pipe.
    unfinished: Option<Unfinished>,
}

impl CsvFile {
    fn create(target: PathBuf, separator: char, schema: &Schema) -> Result<Self, SqlError> {
        let failed = |source| SqlError::from(CopyError::new(&target, source));
        let (file, unfinished) = open(&target).map_err(failed)?;
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
        if let Some(unfinished) = self.unfinished {
            unfinished.put(self.out.get_ref()).map_err(failed)?;
        }
        Ok(())
    }
}

/// Opens the file for the rows of `target`, and describes the temporary file if there is one.
fn open(target: &Path) -> io::Result<(File, Option<Unfinished>)> {
    let there = match fs::metadata(target) {
        Ok(metadata) => Some(metadata),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    if there.as_ref().is_some_and(fs::Metadata::is_dir)
        || target.as_os_str().as_encoded_bytes().ends_with(b"/")
    {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    let names = names(target);
    if let Some(stream) = names.iter().find_map(|name| standard_stream(name)) {
        return Ok((stream?, None));
    }
    match there {
        Some(there) if !there.is_file() || names.iter().any(|name| is_open_file(name)) => {
            Ok((File::options().append(true).open(target)?, None))
        }
        there => {
            let target = names.last().expect("the target at least");
            let (file, unfinished) = Unfinished::create(target, there)?;
            Ok((file, Some(unfinished)))
        }
    }
}

/// `target` and, if it is a link, the names that it leads to; the last need not exist.
fn names(target: &Path) -> Vec<PathBuf> {
    let next = |name: &PathBuf| {
        let link = fs::read_link(name).ok()?;
        Some(name.parent().unwrap_or(Path::new("")).join(link))
    };
    let names = std::iter::successors(Some(target.to_path_buf()), next);
    names.take(LINKS_MOST).collect()
}

/// The process's own output that `name` means, if any. Writing continues at its position, also in a file. The caller of the
/// statement has flushed it, and may hold its lock.
fn standard_stream(name: &Path) -> Option<io::Result<File>> {
    let stream = match name.to_str()? {
        "/dev/stdout" | "/dev/fd/1" | "/proc/self/fd/1" => {
            io::stdout().as_fd().try_clone_to_owned()
        }
        "/dev/stderr" | "/dev/fd/2" | "/proc/self/fd/2" => {
            io::stderr().as_fd().try_clone_to_owned()
        }
        _ => return None,
    };
    Some(stream.map(File::from))
}

/// Whether `name` refers to an open file of a process, which is written to and not replaced.
fn is_open_file(name: &Path) -> bool {
    ["/proc", "/dev/fd"].iter().any(|dir| name.starts_with(dir))
}

/// A temporary file beside its target. It is removed unless it replaces the target.
struct Unfinished {
    /// `None` after the rename.
    beside: Option<PathBuf>,
    target: PathBuf,
    /// The permissions of the file that it replaces.
    permissions: Option<Permissions>,
}

impl Unfinished {
    /// A new file to replace `target`; `there` describes the existing one.
    fn create(target: &Path, there: Option<fs::Metadata>) -> io::Result<(File, Self)> {
        let mut options = File::options();
        options.write(true);
        if there.is_some() {
            // A rename does not check whether the file may be written.
            options.open(target)?;
            // Users that may not read that file must not read the rows either.
            options.mode(0o600);
        } else if let Some(parent) = target.parent() {
            fs::create_dir_all(parent)?;
        }
        options.create_new(true);
        let name = target.file_name().unwrap_or_default().to_string_lossy();
        for number in 0_u32.. {
            let beside = target.with_file_name(format!(".{name}.{}-{number}", std::process::id()));
            match options.open(&beside) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
                Ok(file) => {
                    let unfinished = Self {
                        beside: Some(beside),
                        target: target.to_path_buf(),
                        permissions: there.map(|there| there.permissions()),
                    };
                    return Ok((file, unfinished));
                }
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// Renames the temporary file, which is `file`, to the target.
    fn put(mut self, file: &File) -> io::Result<()> {
        if let Some(permissions) = self.permissions.take() {
            file.set_permissions(permissions)?;
        }
        // Otherwise the name may survive a power failure and the rows not.
        file.sync_all()?;
        if let Some(beside) = &self.beside {
            fs::rename(beside, &self.target)?;
        }
        self.beside = None;
        Ok(())
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if let Some(beside) = &self.beside {
            let _ = fs::remove_file(beside);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;
    use std::sync::Arc;

    use arrow::array::Int64Array;
    use arrow::datatypes::{DataType, Field};

    use super::*;

    /// A directory with a file to be replaced.
    fn scratch() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("t.csv");
        fs::write(&target, "as it was").unwrap();
        (dir, target)
    }

    /// The files of a directory and their contents.
    fn files(dir: &tempfile::TempDir) -> Vec<(String, String)> {
        let entries = fs::read_dir(dir.path()).unwrap();
        let entries = entries.map(|entry| entry.unwrap());
        let file = |entry: fs::DirEntry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            (name, fs::read_to_string(entry.path()).unwrap())
        };
        entries.map(file).collect()
    }

    fn file(name: &str, content: &str) -> Vec<(String, String)> {
        vec![(name.to_string(), content.to_string())]
    }

    #[test]
    fn a_file_takes_its_place_when_it_is_put_there_and_not_before() {
        let (dir, target) = scratch();
        let schema = Schema::new(vec![Field::new("n", DataType::Int64, false)]);
        let csv = CsvFile::create(target.clone(), ',', &schema).unwrap();
        assert_eq!(files(&dir).len(), 2);
        assert_eq!(fs::read_to_string(&target).unwrap(), "as it was");
        csv.finish().unwrap();
        assert_eq!(files(&dir), file("t.csv", "n\n"));
    }

    #[test]
    fn a_full_disk_leaves_what_was() {
        let numbers = Int64Array::from_iter_values(0..100_000);
        let rows = RecordBatch::try_from_iter([("n", Arc::new(numbers) as _)]).unwrap();
        // The disk is full while rows are written, or when the last of them are flushed.
        for rows in [rows.clone(), rows.slice(0, 1)] {
            let (dir, target) = scratch();
            let mut csv = CsvFile::create(target, ',', &rows.schema()).unwrap();
            let full = File::options().write(true).open("/dev/full").unwrap();
            csv.out = BufWriter::new(full);
            let written = csv.write(&rows).map(|()| csv);
            let error = written.and_then(CsvFile::finish).unwrap_err().to_string();
            assert!(error.starts_with("cannot write "), "{error}");
            assert!(error.contains("No space left"), "{error}");
            assert_eq!(files(&dir), file("t.csv", "as it was"));
        }
    }

    #[test]
    fn rows_that_may_not_be_on_disk_take_no_other_rows_place() {
        let (dir, target) = scratch();
        let (_file, unfinished) = Unfinished::create(&target, fs::metadata(&target).ok()).unwrap();
        // A pipe cannot be made durable: that is an error.
        let (_reader, pipe) = io::pipe().unwrap();
        let pipe = File::from(OwnedFd::from(pipe));
        unfinished.put(&pipe).unwrap_err();
        assert_eq!(files(&dir), file("t.csv", "as it was"));
    }
}
