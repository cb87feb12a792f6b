//! Where a backup is written to: a file, or a stream that cannot be taken back.

use std::io::Write;

use super::partial_file::PartialFile;
use crate::error::BackupError;

/// Where the bytes of a backup go.
pub(super) enum Destination<'w> {
    File(PartialFile),
    Stream(Stream<'w>),
}

/// A stream and how much of the backup it has.
pub(super) struct Stream<'w> {
    pub(super) to: &'w mut (dyn Write + Send),
    pub(super) at: u64,
}

impl Destination<'_> {
    /// Where the next byte goes.
    pub(super) fn position(&self) -> u64 {
        match self {
            Self::File(file) => file.position(),
            Self::Stream(stream) => stream.at,
        }
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), BackupError> {
        match self {
            Self::File(file) => file.write(bytes),
            Self::Stream(stream) => {
                let sent = stream.to.write_all(bytes);
                sent.map_err(|source| BackupError::Stream { source })?;
                stream.at += bytes.len() as u64;
                Ok(())
            }
        }
    }

    /// Whether what was written can be taken back.
    pub(super) fn goes_back(&self) -> bool {
        matches!(self, Self::File(_))
    }

    /// Takes back what was written from there on. A stream fails.
    pub(super) fn go_back(&mut self, to: u64) -> Result<(), BackupError> {
        match self {
            Self::File(file) => file.go_back(to),
            Self::Stream(_) => Err(BackupError::Stream {
                source: std::io::Error::other("bytes were damaged while they were sent: try again"),
            }),
        }
    }

    /// Makes a file durable and gives it its name.
    pub(super) fn finish(self) -> Result<(), BackupError> {
        match self {
            Self::File(file) => {
                let path = file.path().to_owned();
                file.finish()?;
                tracing::info!(path = %path.display(), "wrote a backup");
                Ok(())
            }
            Self::Stream(stream) => {
                let sent = stream.to.flush();
                sent.map_err(|source| BackupError::Stream { source })?;
                tracing::info!(bytes = stream.at, "sent a backup");
                Ok(())
            }
        }
    }
}
