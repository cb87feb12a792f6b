//! The memories that the experiment reads and writes: mapped memory of three kinds, and files behind system calls.
//!
//! ```text
//! a place   | read by thread 0 | by thread 1 | written by thread 0 | by thread 1 |
//! ```
//! Invariant: word `i` of the read half holds `i`, and no thread writes there, so every sum that is read can be checked. Each
//! thread has its own part of the written half.

use std::fs::File;
use std::ops::{Deref, DerefMut};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use tierra_memory::{ExtentWriter, Pool, PoolOptions, Region};

use crate::error::{Context, LabError};
use crate::lab::SEED;
use crate::random::Random;

/// The most threads that use a memory at a time.
pub(super) const THREADS: usize = 2;
/// The contender's name in messages.
const WHO: &str = "the lab";
/// Bytes of a word.
pub(super) const WORD: usize = size_of::<u64>();

/// One memory.
pub(super) struct Place {
    held: Held,
    len_bytes: usize,
    /// One for each thread.
    cursors: [Cursor; THREADS],
}

/// Owns the memory.
enum Held {
    Region(Region),
    /// The pool is kept open by its writer, whose space is freed when it is dropped.
    Pool(ExtentWriter),
    /// Reached by system calls.
    File(File),
}

/// The position of a thread.
#[derive(Clone)]
pub(super) struct Cursor {
    /// The byte of its part at which sequential reads or writes continue.
    pub(super) at: usize,
    /// Draws its random positions.
    pub(super) random: Random,
}

/// The part of a place that one thread uses.
pub(super) struct Part<'a> {
    pub(super) bytes: Bytes<'a>,
    /// The number of the first word that it reads.
    pub(super) first_word: u64,
    /// Bytes that are read, and also bytes that are written.
    pub(super) len_bytes: usize,
    pub(super) cursor: &'a mut Cursor,
}

/// How a part is accessed.
pub(super) enum Bytes<'a> {
    Mapped {
        read: &'a [u8],
        write: &'a mut [u8],
    },
    File {
        file: &'a File,
        read_at: u64,
        write_at: u64,
    },
}

impl Place {
    /// Near memory on large pages where the system grants them.
    pub(super) fn region(len_bytes: usize) -> Result<Place, LabError> {
        let mut region = Region::near(len_bytes).by(WHO, "mapping memory")?;
        region.populate().by(WHO, "bringing in memory")?;
        Place::new(Held::Region(region), len_bytes)
    }

    /// A pool in a new file of that folder, mapped.
    pub(super) fn pool(folder: &Path, len_bytes: usize) -> Result<Place, LabError> {
        let doing = || format!("making a pool in {}", folder.display());
        let pool: Arc<Pool> =
            Pool::create(&folder.join("far.pool"), &PoolOptions::default()).by(WHO, doing())?;
        let writer = pool.allocate(len_bytes as u64, 0).by(WHO, doing())?;
        Place::new(Held::Pool(writer), len_bytes)
    }

    /// A new file of that folder, read and written by system calls.
    pub(super) fn file(folder: &Path, len_bytes: usize) -> Result<Place, LabError> {
        let path = folder.join("plain");
        let file = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(&path)
            .by(WHO, format!("making {}", path.display()))?;
        Place::new(Held::File(file), len_bytes)
    }

    fn new(mut held: Held, len_bytes: usize) -> Result<Place, LabError> {
        const BLOCK: usize = 1 << 20;
        let half = len_bytes / 2;
        debug_assert!(half.is_multiple_of(THREADS * (64 << 10)));
        let mut block = vec![0; BLOCK];
        for start in (0..len_bytes).step_by(BLOCK) {
            let here = &mut block[..BLOCK.min(len_bytes - start)];
            for (index, word) in here.chunks_exact_mut(WORD).enumerate() {
                let at = start + index * WORD;
                let value = if at < half { (at / WORD) as u64 } else { 0 };
                word.copy_from_slice(&value.to_le_bytes());
            }
            match &mut held {
                Held::Region(region) => region[start..][..here.len()].copy_from_slice(here),
                Held::Pool(writer) => writer[start..][..here.len()].copy_from_slice(here),
                Held::File(file) => file
                    .write_all_at(here, start as u64)
                    .by(WHO, "filling a file")?,
            }
        }
        let cursors = std::array::from_fn(|thread| Cursor {
            at: 0,
            random: Random::new(SEED + thread as u64),
        });
        Ok(Place {
            held,
            len_bytes,
            cursors,
        })
    }

    /// The mapped bytes; none for a file.
    pub(super) fn mapped(&self) -> &[u8] {
        match &self.held {
            Held::Region(region) => region.deref(),
            Held::Pool(writer) => writer.deref(),
            Held::File(_) => &[],
        }
    }

    /// The part of each thread.
    pub(super) fn parts(&mut self) -> [Option<Part<'_>>; THREADS] {
        let half = self.len_bytes / 2;
        let len_bytes = half / THREADS;
        let mut cursors = self.cursors.iter_mut();
        let mut part = |thread: usize, bytes| {
            cursors.next().map(|cursor| Part {
                bytes,
                first_word: (thread * len_bytes / WORD) as u64,
                len_bytes,
                cursor,
            })
        };
        let mapped = match &mut self.held {
            Held::Region(region) => region.deref_mut(),
            Held::Pool(writer) => writer.deref_mut(),
            Held::File(file) => {
                let file = &*file;
                return std::array::from_fn(|thread| {
                    let read_at = (thread * len_bytes) as u64;
                    let write_at = half as u64 + read_at;
                    part(
                        thread,
                        Bytes::File {
                            file,
                            read_at,
                            write_at,
                        },
                    )
                });
            }
        };
        let (read, write) = mapped.split_at_mut(half);
        let mut pairs = read.chunks(len_bytes).zip(write.chunks_mut(len_bytes));
        std::array::from_fn(|thread| {
            let (read, write) = pairs.next()?;
            part(thread, Bytes::Mapped { read, write })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_told_apart_and_hold_their_numbers() {
        let folder = tempfile::tempdir().unwrap();
        let len_bytes = 4 << 20;
        let places = [
            Place::region(len_bytes).unwrap(),
            Place::pool(folder.path(), len_bytes).unwrap(),
            Place::file(folder.path(), len_bytes).unwrap(),
        ];
        for mut place in places {
            for part in place.parts() {
                let part = part.unwrap();
                assert_eq!(part.len_bytes, 1 << 20);
                let mut first = [1; WORD];
                match part.bytes {
                    Bytes::Mapped { read, write } => {
                        first.copy_from_slice(&read[..WORD]);
                        assert_eq!((read.len(), write.len()), (1 << 20, 1 << 20));
                    }
                    Bytes::File { file, read_at, .. } => {
                        file.read_exact_at(&mut first, read_at).unwrap();
                    }
                }
                assert_eq!(u64::from_le_bytes(first), part.first_word);
            }
        }
    }
}
