//! Recognising the file of a pool whose creation was interrupted.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use super::Pool;
use super::layout::PoolHeader;
use super::open::INITIAL_BYTES;

impl Pool {
    /// Whether the file was left by a creation of a pool with this id that was interrupted before its header was durable: no longer
    /// than a new pool, and zero except, perhaps, for a part of that header. Nothing was ever stored in such a file.
    ///
    /// # Errors
    /// The system's; there is no file, for one.
    pub fn is_interrupted_creation(path: &Path, id: u64) -> io::Result<bool> {
        let metadata = std::fs::symlink_metadata(path)?;
        if !metadata.is_file() || metadata.len() > INITIAL_BYTES {
            return Ok(false);
        }
        let mut bytes = Vec::with_capacity(metadata.len() as usize);
        File::open(path)?
            .take(INITIAL_BYTES)
            .read_to_end(&mut bytes)?;
        let header = PoolHeader { pool_id: id }.encode();
        let mut own = header.iter().chain(std::iter::repeat(&0));
        let is_left = bytes.iter().all(|byte| {
            // As many zeros as there are bytes.
            own.next().is_some_and(|own| byte == own || *byte == 0)
        });
        Ok(is_left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LINE_BYTES;
    use crate::pool::layout::FIRST_EXTENT;

    #[test]
    fn a_cut_creation_is_told_from_anything_else() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("p");
        let header = PoolHeader { pool_id: 7 }.encode();
        let is_left = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            Pool::is_interrupted_creation(&path, 7).unwrap()
        };
        assert!(is_left(b""));
        assert!(is_left(&[0; FIRST_EXTENT as usize]));
        assert!(is_left(&header[..20]));
        assert!(is_left(&[&header[..20], &[0; 100][..]].concat()));
        assert!(is_left(&header));
        assert!(!is_left(b"a file"));
        assert!(!is_left(&PoolHeader { pool_id: 8 }.encode()));
        assert!(!is_left(&[&header[..], &[0; 4096][..], &[1]].concat()));
        assert!(!is_left(&vec![0; INITIAL_BYTES as usize + 1]));
        assert!(Pool::is_interrupted_creation(&dir.path().join("none"), 7).is_err());
        assert_eq!(header.len(), LINE_BYTES);
    }
}
