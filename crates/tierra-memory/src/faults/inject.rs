//! Fault injection, to test whether damage is detected and repaired.
//!
//! Bytes are changed through the pool's file while the pool is mapped, as another process would: they
//! show at once in what is mapped, and are there after the pool was opened again. What is damaged where follows
//! from the seed.

use std::fmt;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap};

use crate::pool::Pool;
use crate::random::Random;

/// Does damage to pools.
///
/// ```
/// use tierra_memory::faults::Injector;
/// use tierra_memory::{Pool, PoolOptions};
///
/// let dir = tempfile::tempdir()?;
/// let pool = Pool::create(&dir.path().join("p"), &PoolOptions::default())?;
/// let mut writer = pool.allocate(10_000, 0)?;
/// writer.fill(7);
/// let extent = writer.finish()?.extent();
/// let mut injector = Injector::new(1);
/// let damage = injector.flip_bits(&pool, extent.offset..extent.offset + extent.len_bytes, 3)?;
/// println!("{damage}");
/// assert!(pool.verify_extent(extent).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Injector {
    random: Random,
}

/// What was damaged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// In words.
    pub what: String,
    /// Which bytes of the pool, in order. None of them is what it was.
    pub offsets: Vec<Range<u64>>,
}

/// What is damaged: a pool, or the file of one that another process has open.
pub trait Target {
    /// The file, open for reading and writing.
    fn file(&self) -> &File;

    /// Its length.
    ///
    /// # Errors
    /// Those of the file.
    fn len_bytes(&self) -> io::Result<u64>;
}

impl Target for Pool {
    fn file(&self) -> &File {
        self.file()
    }

    fn len_bytes(&self) -> io::Result<u64> {
        Ok(self.len_bytes())
    }
}

impl Target for File {
    fn file(&self) -> &File {
        self
    }

    fn len_bytes(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }
}

impl<T: Target> Target for Arc<T> {
    fn file(&self) -> &File {
        (**self).file()
    }

    fn len_bytes(&self) -> io::Result<u64> {
        (**self).len_bytes()
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes: u64 = self
            .offsets
            .iter()
            .map(|range| range.end - range.start)
            .sum();
        write!(
            f,
            "{}: {bytes} bytes in {} places",
            self.what,
            self.offsets.len()
        )?;
        match (self.offsets.first(), self.offsets.last()) {
            (Some(first), Some(last)) => write!(f, " of {}..{}", first.start, last.end),
            _ => Ok(()),
        }
    }
}

impl Injector {
    /// The same seed does the same to the same pool.
    pub fn new(seed: u64) -> Injector {
        Injector {
            random: Random::new(seed),
        }
    }

    /// Flips bits of different bytes: `count`, or as many as `within` has bytes.
    ///
    /// # Errors
    /// Those of the file; [`io::ErrorKind::InvalidInput`] if `within` is empty or not
    /// in the pool.
    pub fn flip_bits(
        &mut self,
        pool: &impl Target,
        within: Range<u64>,
        count: usize,
    ) -> io::Result<Damage> {
        check(pool, &within)?;
        let bytes = within.end - within.start;
        let mut offsets = std::collections::BTreeSet::new();
        while offsets.len() < count.min(bytes as usize) {
            offsets.insert(within.start + self.random.below(bytes));
        }
        for &at in &offsets {
            let mut byte = [0];
            pool.file().read_exact_at(&mut byte, at)?;
            byte[0] ^= 1 << self.random.below(8);
            pool.file().write_all_at(&byte, at)?;
        }
        Ok(Damage {
            what: format!("{} bits flipped", offsets.len()),
            offsets: offsets.into_iter().map(|at| at..at + 1).collect(),
        })
    }

    /// Writes garbage over a region of 4 KiB that begins at a multiple of it, or over what `within` has of it.
    ///
    /// # Errors
    /// As [`Injector::flip_bits`].
    pub fn garbage(&mut self, pool: &impl Target, within: Range<u64>) -> io::Result<Damage> {
        const REGION_BYTES: u64 = 4096;
        check(pool, &within)?;
        let at = within.start + self.random.below(within.end - within.start);
        let region = at - at % REGION_BYTES..at - at % REGION_BYTES + REGION_BYTES;
        let region = region.start.max(within.start)..region.end.min(within.end);
        self.overwrite(pool, &region)?;
        Ok(Damage {
            what: "garbage".to_owned(),
            offsets: vec![region],
        })
    }

    /// Writes garbage over every `every`-th piece of `piece_bytes`, as a chip of a module leaves that has died:
    /// memory is spread over chips and modules in such pieces, 64 or 256 bytes each.
    ///
    /// # Errors
    /// As [`Injector::flip_bits`]; [`io::ErrorKind::InvalidInput`] also if `piece_bytes` or `every` is 0.
    pub fn stripes(
        &mut self,
        pool: &impl Target,
        within: Range<u64>,
        piece_bytes: u64,
        every: u64,
    ) -> io::Result<Damage> {
        check(pool, &within)?;
        if piece_bytes == 0 || every == 0 {
            return Err(invalid("pieces have bytes, and one of some is hit"));
        }
        let (first, last) = (within.start / piece_bytes, (within.end - 1) / piece_bytes);
        let hit = self.random.below(every);
        let pieces = (first..=last).filter(|piece| piece % every == hit);
        let mut offsets = Vec::new();
        for piece in pieces {
            let start = (piece * piece_bytes).max(within.start);
            let range = start..((piece + 1) * piece_bytes).min(within.end);
            self.overwrite(pool, &range)?;
            offsets.push(range);
        }
        Ok(Damage {
            what: format!("every {every}th {piece_bytes} bytes"),
            offsets,
        })
    }

    /// Has a pool refuse all writes until it is opened again, as after its device refused one.
    pub fn refuse_writes(&mut self, pool: &Pool) {
        pool.stop_writing();
    }

    /// Has a page raise `SIGBUS` when it is touched next, as memory does that has an error which it cannot
    /// correct; what the file holds there is garbage. On a device it is the device's page. `within` must hold a byte of the page.
    ///
    /// # Errors
    /// As [`Injector::flip_bits`], and if the kernel does not map the page.
    pub fn lose_page(&mut self, pool: &Pool, within: Range<u64>) -> io::Result<Damage> {
        check(pool, &within)?;
        let at = within.start + self.random.below(within.end - within.start);
        let page_bytes = pool.unit_bytes();
        let page = at - at % page_bytes..at - at % page_bytes + page_bytes;
        self.overwrite(pool, &page)?;
        // Behind the end of an empty file there is nothing to be had.
        let nothing = File::from(memfd_create("tierra-lost-page", MemfdFlags::CLOEXEC)?);
        // SAFETY: replaces a page of the pool's own mapping, as the pool does when it is lost; its bytes are
        // garbage already, and its addresses stay the pool's.
        unsafe {
            mmap(
                pool.address(page.start).cast(),
                page_bytes as usize,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED | MapFlags::FIXED,
                &nothing,
                0,
            )
        }?;
        Ok(Damage {
            what: "a page lost".to_owned(),
            offsets: vec![page],
        })
    }

    /// Cuts the file short while it is mapped. Bytes behind the new end, up to that of its page, are zero; all
    /// others raise `SIGBUS`.
    ///
    /// # Errors
    /// Those of the file; [`io::ErrorKind::InvalidInput`] if it is not longer than `len_bytes`.
    pub fn cut(&mut self, pool: &impl Target, len_bytes: u64) -> io::Result<Damage> {
        let lost = len_bytes..pool.len_bytes()?;
        check(pool, &lost)?;
        pool.file().set_len(len_bytes)?;
        Ok(Damage {
            what: "the file cut short".to_owned(),
            offsets: vec![lost],
        })
    }

    fn overwrite(&mut self, pool: &impl Target, range: &Range<u64>) -> io::Result<()> {
        let mut bytes = vec![0; (range.end - range.start) as usize];
        pool.file().read_exact_at(&mut bytes, range.start)?;
        for byte in &mut bytes {
            // Never what was there.
            *byte ^= 1 + self.random.below(255) as u8;
        }
        pool.file().write_all_at(&bytes, range.start)
    }
}

fn check(pool: &impl Target, within: &Range<u64>) -> io::Result<()> {
    match within.start < within.end && within.end <= pool.len_bytes()? {
        true => Ok(()),
        false => Err(invalid("the range to damage must lie in the pool")),
    }
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, what)
}
