//! Backups: a database as of one commit in one file, and databases made of such files.
//!
//! A backup holds the extents of the tables as they are stored, so encodings, dictionaries and indexes come back as they were and
//! nothing is encoded anew. What is only in near memory is written beside them: the newest rows, without the deleted ones, as
//! Arrow IPC batches, and the bitmaps of deleted rows. All of it is of the moment between two commits at which the writer pinned
//! the tables ([`Pinned`](crate::table::requests::Pinned)); commits go on after it without waiting for the backup.
//!
//! ```text
//! 0        64                                     contents_at          file's end - 64
//! +--------+-------+-------+-------+-----+-------+--------------------+------+
//! | header | frame | frame | frame | ... | frame | contents           | end  |
//! +--------+-------+-------+-------+-----+-------+--------------------+------+
//! ```
//!
//! Header and end are a line each ([`envelope`]). A *frame* is up to 1 MiB of an extent or of a batch, compressed if it was asked
//! for and if that makes it shorter ([`frames`]). The *contents* say what the frames are, and what they belong to: a manifest, as
//! a pool has one, without places ([`contents`]). This is version 1 of the format; `docs/file-format.md` lists the fields.
//!
//! # What is believed
//! While a backup is written, each extent is compared with the checksum in its header; another copy is read if it differs. When a
//! file is opened, its two lines and the contents are checked against their checksums, then the manifest by the rules of every
//! manifest, and the lengths of all frames have to fill the space between. So a file that was cut short, or in which a byte of
//! these changed, is refused before anything is made. Each frame has a checksum that is compared before it is unpacked, and each
//! extent has its own again in the restored pool. A forged file may have all of these right. It is no more dangerous than a
//! forged pool: batches are decoded as those of a log are, restored tables are read as those of every database are when it is
//! opened, and the result counts only if that finds no fault and as many rows as were backed up.
//!
//! Invariant: under its name a backup is whole, and a directory is a database or it is not. A backup grows as `FILE.partial`; a
//! directory says "restoring" until its last step.

mod contents;
mod destination;
mod envelope;
mod frames;
mod partial_file;
mod read;
mod restore;
mod write;

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use tierra_memory::faults::Stop;

pub use self::read::Backup;
pub use self::restore::{RestoreOptions, Restored};

/// How the frames of a backup are compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    /// Not at all: the fastest.
    #[default]
    None,
    /// By Zstandard.
    Zstd,
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::None => "none",
            Self::Zstd => "zstd",
        })
    }
}

/// A word that names no compression.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is none of 'none' and 'zstd'")]
pub struct ParseCompressionError(String);

impl FromStr for Compression {
    type Err = ParseCompressionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "none" => Ok(Self::None),
            "zstd" => Ok(Self::Zstd),
            other => Err(ParseCompressionError(other.to_owned())),
        }
    }
}

/// How a backup is written.
#[derive(Clone, Debug, Default)]
pub struct BackupOptions {
    /// How it is compressed.
    pub compression: Compression,
    /// An older backup of the same database, on which it builds: what that has already is not written again, and a restore needs
    /// both.
    pub since: Option<PathBuf>,
    /// Ends it early; nothing is left of it.
    pub stop: Stop,
}

/// How far the writing, checking or restoring of a backup has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BackupProgress {
    /// Bytes of tables so far, not compressed.
    pub bytes: u64,
    /// All of them; about, while a backup is written.
    pub of_bytes: u64,
}

/// What a backup holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BackupSummary {
    /// Number of tables.
    pub tables: u64,
    /// Rows of all tables.
    pub rows: u64,
    /// Bytes of the tables, not compressed.
    pub table_bytes: u64,
    /// Bytes of the file.
    pub file_bytes: u64,
    /// The number of the last commit that it includes.
    pub commit: u64,
}
