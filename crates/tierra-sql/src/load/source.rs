//! One of the files of a load: its format, its progress, and its errors.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use super::error::LoadError;
use super::shared_file::SharedFile;

/// How to load.
#[derive(Default)]
pub struct LoadOptions<'a> {
    /// Called from time to time with the progress.
    pub progress: Option<&'a (dyn Fn(Progress) + Sync)>,
    /// Set to stop the load, which is then undone.
    pub cancel: Option<&'a AtomicBool>,
    /// Which table takes the rows.
    pub table: LoadTable,
}

/// Which table takes the rows of a load.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LoadTable {
    /// The one of that name, or a new one if there is none.
    #[default]
    Any,
    /// A new one: it is an error if there is one of that name.
    New,
    /// The one of that name: it is an error if there is none.
    Existing,
}

/// The progress of a load.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// Rows handed to the table.
    pub rows: u64,
    /// Bytes of the files read for these rows.
    pub bytes: u64,
    /// Bytes of the files.
    pub bytes_total: u64,
}

/// The format of a file, by its first bytes and its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Parquet,
    ArrowIpc,
    Csv { delimiter: u8 },
}

/// Options without progress and without cancelling.
pub(super) const UNWATCHED: LoadOptions<'static> = LoadOptions {
    progress: None,
    cancel: None,
    table: LoadTable::Any,
};

/// What errors call batches that come from no file.
pub(super) const STREAM: &str = "Arrow stream";

/// One of the files of a load.
pub(super) struct Source<'a> {
    pub(super) path: &'a Path,
    pub(super) len_bytes: u64,
    options: &'a LoadOptions<'a>,
    /// The progress of the load before this file.
    pub(super) before: Progress,
}

impl<'a> Source<'a> {
    pub(super) fn open(path: &'a Path, options: &'a LoadOptions<'a>) -> Result<Self, LoadError> {
        let io = |source| LoadError::Io {
            file: path.to_path_buf(),
            source,
        };
        let metadata = std::fs::metadata(path).map_err(io)?;
        if metadata.is_dir() {
            return Err(io(std::io::Error::from(std::io::ErrorKind::IsADirectory)));
        }
        if !metadata.is_file() {
            let why = "it is a pipe or a device; a file is read more than once";
            return Err(io(std::io::Error::other(why)));
        }
        Ok(Self {
            path,
            len_bytes: metadata.len(),
            options,
            before: Progress::default(),
        })
    }

    /// Batches that come from no file.
    pub(super) fn stream(options: &'a LoadOptions<'a>) -> Self {
        Self {
            path: Path::new(STREAM),
            len_bytes: 0,
            options,
            before: Progress::default(),
        }
    }

    /// Opens the file. A load opens it once for its rows, and reads that open file as often as it needs to.
    pub(super) fn file(&self) -> Result<SharedFile, LoadError> {
        File::open(self.path)
            .and_then(SharedFile::new)
            .map_err(|error| self.unreadable(error))
    }

    pub(super) fn format(&self) -> Result<Format, LoadError> {
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

    /// Which table takes the rows.
    pub(super) fn table(&self) -> LoadTable {
        self.options.table
    }

    pub(super) fn check_cancelled(&self) -> Result<(), LoadError> {
        match self.options.cancel {
            Some(cancel) if cancel.load(Ordering::Relaxed) => Err(LoadError::Cancelled {
                file: self.path.to_path_buf(),
            }),
            _ => Ok(()),
        }
    }

    /// Reports that so many rows and bytes of this file are done.
    pub(super) fn progress(&self, rows: u64, bytes: u64) {
        if let Some(progress) = self.options.progress {
            progress(Progress {
                rows: self.before.rows + rows,
                bytes: self.before.bytes + bytes.min(self.len_bytes),
                ..self.before
            });
        }
    }

    /// The table's error, with the file's name.
    pub(super) fn refused(
        &self,
        error: impl std::error::Error + Send + Sync + 'static,
    ) -> LoadError {
        LoadError::Table {
            file: self.path.to_path_buf(),
            source: Box::new(error),
        }
    }

    pub(super) fn unreadable(&self, source: std::io::Error) -> LoadError {
        LoadError::Io {
            file: self.path.to_path_buf(),
            source,
        }
    }

    pub(super) fn damaged(&self, error: impl std::fmt::Display) -> LoadError {
        LoadError::Damaged {
            file: self.path.to_path_buf(),
            message: error.to_string(),
        }
    }
}
