//! The open file that all readers of a load share.
//!
//! Invariant: if the file is replaced meanwhile, every column and every pass still reads the file that was opened first.
//! Each reader has its own position, because they read on several threads.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use parquet::errors::{ParquetError, Result};
use parquet::file::reader::{ChunkReader, Length};

/// A reader of a shared file.
#[derive(Clone)]
pub(super) struct SharedFile {
    file: Arc<File>,
    len_bytes: u64,
    at: u64,
}

impl SharedFile {
    pub(super) fn new(file: File) -> io::Result<Self> {
        Ok(Self {
            len_bytes: file.metadata()?.len(),
            file: Arc::new(file),
            at: 0,
        })
    }

    /// A reader of the same file that starts at `at`.
    pub(super) fn from(&self, at: u64) -> Self {
        Self { at, ..self.clone() }
    }
}

impl Read for SharedFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(buffer, self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}

impl Seek for SharedFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(by) => self.len_bytes.checked_add_signed(by),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
        };
        self.at = at.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.at)
    }
}

impl Length for SharedFile {
    fn len(&self) -> u64 {
        self.len_bytes
    }
}

impl ChunkReader for SharedFile {
    type T = BufReader<SharedFile>;

    fn get_read(&self, start: u64) -> Result<Self::T> {
        Ok(BufReader::new(self.from(start)))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<bytes::Bytes> {
        // A length beyond the end of the file is not allocated.
        let end = start.checked_add(length as u64);
        if end.is_none_or(|end| end > self.len_bytes) {
            let wanted = format!("{length} bytes at {start} of {}", self.len_bytes);
            return Err(ParquetError::EOF(wanted));
        }
        let mut bytes = Vec::with_capacity(length);
        self.from(start)
            .take(length as u64)
            .read_to_end(&mut bytes)?;
        if bytes.len() < length {
            let wanted = format!("{length} bytes at {start}, found {}", bytes.len());
            return Err(ParquetError::EOF(wanted));
        }
        Ok(bytes.into())
    }
}
