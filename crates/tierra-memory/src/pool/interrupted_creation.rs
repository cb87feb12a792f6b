//! Recognising the file of a pool whose creation was interrupted.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::Pool;
use super::open::{INITIAL_BYTES, first_bytes};
use super::path::PoolPath;

impl Pool {
    /// The file, locked, if it was left by a creation of a pool with this id that was interrupted before all of it was durable: no
    /// longer than a new pool, and zero except, perhaps, for a part of what such a pool begins with. Nothing was ever stored in such
    /// a file. `None` for any other, and while somebody is making a pool of it. Nobody begins to while the result is held.
    ///
    /// # Errors
    /// The system's; there is no file, for one.
    pub fn interrupted_creation(path: &Path, id: u64) -> io::Result<Option<File>> {
        let found = std::fs::symlink_metadata(path)?;
        if !found.is_file() || found.len() > INITIAL_BYTES {
            return Ok(None);
        }
        let mut file = File::open(path)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
        if !PoolPath(path).names(&file)? {
            return Ok(None);
        }
        let mut bytes = Vec::new();
        file.by_ref()
            .take(INITIAL_BYTES + 1)
            .read_to_end(&mut bytes)?;
        Ok(is_left(&bytes, id).then_some(file))
    }
}

/// Whether bytes are zero except, perhaps, for a part of what a pool with this id begins with, and no more than a new one has.
pub(super) fn is_left(bytes: &[u8], id: u64) -> bool {
    let whole = first_bytes(id, INITIAL_BYTES as usize);
    let is_own = |(byte, whole): (&u8, &u8)| byte == whole || *byte == 0;
    bytes.len() <= whole.len() && bytes.iter().zip(&whole).all(is_own)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LINE_BYTES;
    use crate::pool::layout::{FIRST_EXTENT, PoolHeader};

    #[test]
    fn a_cut_creation_is_told_from_anything_else() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("p");
        let header = PoolHeader { pool_id: 7 }.encode();
        let is_left = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            Pool::interrupted_creation(&path, 7).unwrap().is_some()
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
        // Its lines are written one after the other.
        let whole = first_bytes(7, INITIAL_BYTES as usize);
        let mut written = vec![0; whole.len()];
        for at in (0..FIRST_EXTENT as usize).step_by(LINE_BYTES) {
            let line = at..at + LINE_BYTES;
            written[line.clone()].copy_from_slice(&whole[line]);
            assert!(is_left(&written), "cut after {at}");
        }
        assert_eq!(written, whole);
        written[FIRST_EXTENT as usize] = 1;
        assert!(!is_left(&written));
        assert!(Pool::interrupted_creation(&dir.path().join("none"), 7).is_err());
        // Somebody is making a pool of it.
        std::fs::write(&path, b"").unwrap();
        let file = File::open(&path).unwrap();
        flock(&file, FlockOperation::NonBlockingLockExclusive).unwrap();
        assert!(Pool::interrupted_creation(&path, 7).unwrap().is_none());
        drop(file);
        assert!(Pool::interrupted_creation(&path, 7).unwrap().is_some());
        assert_eq!(header.len(), LINE_BYTES);
    }
}
