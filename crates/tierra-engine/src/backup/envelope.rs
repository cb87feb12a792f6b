//! The first and the last line of a backup.
//!
//! ```text
//! first   0          8   9       16        32       60
//!         | TIERRABK | 1 | 7 x 0 | id u128 | 28 x 0 | CRC of 0..60 |
//!
//! last    0          8             16               24           32        48               52      60
//!         | TIERRABE | contents at | contents bytes | file bytes | id u128 | CRC of contents | 8 x 0 | CRC of 0..60 |
//! ```
//!
//! Invariant: a last line belongs to the first line with the same random id. A file that was cut short has none.

use std::path::Path;

use tierra_memory::LINE_BYTES;

use crate::error::BackupError;
use crate::manifest::DatabaseId;

const FIRST_MAGIC: [u8; 8] = *b"TIERRABK";
const LAST_MAGIC: [u8; 8] = *b"TIERRABE";
/// The format that is written, and the only one that is read.
const FORMAT_VERSION: u8 = 1;
const CRC_AT: usize = 60;

pub(super) type Line = [u8; LINE_BYTES];

/// A random number for a backup.
pub(super) fn random_id() -> u128 {
    // As random as a database's.
    DatabaseId::random().0
}

/// What the last line says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct End {
    pub(super) contents_at: u64,
    pub(super) contents_bytes: u64,
    pub(super) contents_crc: u32,
    pub(super) id: u128,
}

/// The first line of the backup with that id.
pub(super) fn first_line(id: u128) -> Line {
    let mut line = [0; LINE_BYTES];
    line[..8].copy_from_slice(&FIRST_MAGIC);
    line[8] = FORMAT_VERSION;
    line[16..32].copy_from_slice(&id.to_le_bytes());
    sealed(line)
}

/// Whether a file that begins so, or that has no more than this, may be the beginning of a backup.
pub(super) fn may_begin(bytes: &[u8]) -> bool {
    let shared = bytes.len().min(FIRST_MAGIC.len());
    bytes[..shared] == FIRST_MAGIC[..shared]
}

/// The id in a first line.
pub(super) fn read_first(path: &Path, line: &Line) -> Result<u128, BackupError> {
    if line[..8] != FIRST_MAGIC {
        return Err(BackupError::NotABackup {
            path: path.to_owned(),
            what: "it does not begin as one",
        });
    }
    let is_right = is_sealed(line);
    if is_right && line[8] != FORMAT_VERSION {
        return Err(BackupError::Version {
            path: path.to_owned(),
            found: line[8],
        });
    }
    match is_right && line[9..16] == [0; 7] && line[32..CRC_AT] == [0; 28] {
        true => Ok(u128_at(line, 16)),
        false => Err(invalid(path, 0, "its first line is damaged")),
    }
}

impl End {
    /// The last line of a file with these contents.
    pub(super) fn line(&self) -> Line {
        let mut line = [0; LINE_BYTES];
        line[..8].copy_from_slice(&LAST_MAGIC);
        line[8..16].copy_from_slice(&self.contents_at.to_le_bytes());
        line[16..24].copy_from_slice(&self.contents_bytes.to_le_bytes());
        let file_bytes = self.contents_at + self.contents_bytes + LINE_BYTES as u64;
        line[24..32].copy_from_slice(&file_bytes.to_le_bytes());
        line[32..48].copy_from_slice(&self.id.to_le_bytes());
        line[48..52].copy_from_slice(&self.contents_crc.to_le_bytes());
        sealed(line)
    }

    /// What the last line of a file of this length and id says.
    pub(super) fn read(
        path: &Path,
        line: &Line,
        file_bytes: u64,
        id: u128,
    ) -> Result<End, BackupError> {
        let at = file_bytes - LINE_BYTES as u64;
        if line[..8] != LAST_MAGIC {
            return Err(invalid(
                path,
                at,
                "its last line is not there: it was cut short, or is damaged",
            ));
        }
        if !is_sealed(line) || line[52..CRC_AT] != [0; 8] {
            return Err(invalid(path, at, "its last line is damaged"));
        }
        let end = End {
            contents_at: u64_at(line, 8),
            contents_bytes: u64_at(line, 16),
            contents_crc: u32_at(line, 48),
            id: u128_at(line, 32),
        };
        let ends_there = end.contents_at.checked_add(end.contents_bytes) == Some(at);
        match ends_there && u64_at(line, 24) == file_bytes && end.id == id {
            true if end.contents_at >= LINE_BYTES as u64 => Ok(end),
            _ => Err(invalid(
                path,
                at,
                "its last line belongs to another file: it was cut, or put together of several",
            )),
        }
    }
}

/// The error for bytes at a place of a backup.
pub(super) fn invalid(path: &Path, at: u64, what: impl Into<String>) -> BackupError {
    BackupError::Invalid {
        path: path.to_owned(),
        at,
        what: what.into(),
    }
}

fn sealed(mut line: Line) -> Line {
    let crc = crc32c::crc32c(&line[..CRC_AT]);
    line[CRC_AT..].copy_from_slice(&crc.to_le_bytes());
    line
}

fn is_sealed(line: &Line) -> bool {
    crc32c::crc32c(&line[..CRC_AT]) == u32_at(line, CRC_AT)
}

fn u32_at(line: &Line, at: usize) -> u32 {
    u32::from_le_bytes(line[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(line: &Line, at: usize) -> u64 {
    u64::from_le_bytes(line[at..at + 8].try_into().expect("eight bytes"))
}

fn u128_at(line: &Line, at: usize) -> u128 {
    u128::from_le_bytes(line[at..at + 16].try_into().expect("sixteen bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_back_and_no_bit_of_them_may_change() {
        let path = Path::new("b");
        let end = End {
            contents_at: 1 << 33,
            contents_bytes: 77,
            contents_crc: 5,
            id: 3 << 99,
        };
        let file_bytes = (1 << 33) + 77 + 64;
        let (first, last) = (first_line(end.id), end.line());
        assert_eq!(read_first(path, &first).unwrap(), end.id);
        assert_eq!(End::read(path, &last, file_bytes, end.id).unwrap(), end);
        assert!(End::read(path, &last, file_bytes + 1, end.id).is_err());
        assert!(End::read(path, &last, file_bytes, end.id + 1).is_err());
        for bit in 0..8 * LINE_BYTES {
            let flipped = |mut line: Line| {
                line[bit / 8] ^= 1 << (bit % 8);
                line
            };
            assert!(read_first(path, &flipped(first)).is_err(), "bit {bit}");
            let last = End::read(path, &flipped(last), file_bytes, end.id);
            assert!(last.is_err(), "bit {bit}");
        }
    }

    #[test]
    fn a_newer_version_is_named() {
        let mut line = first_line(1);
        line[8] = 2;
        let error = read_first(Path::new("b"), &sealed(line)).unwrap_err();
        assert!(
            matches!(error, BackupError::Version { found: 2, .. }),
            "{error}"
        );
    }
}
