//! A scrub pass: checking extents piece by piece, at a limited rate.
//!
//! Invariant: every byte of every extent is given to the checker once, in order, from the start position of the pass;
//! a pass that was stopped continues after the last piece that was checked. Pieces end at a multiple
//! of their length, so blocks of a power of two are never split.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::pool::{Extent, Pool, PoolError};
use crate::{checksum, emulation};

/// Bytes that are checked at a time by default.
pub const PIECE_BYTES: u64 = 1 << 20;

/// A part of an extent, to be checked.
#[derive(Clone, Copy, Debug)]
pub struct Piece<'p> {
    /// The extent it belongs to.
    pub extent: Extent,
    /// Where in its payload the piece begins.
    pub at: u64,
    /// The bytes.
    pub bytes: &'p [u8],
}

impl Piece<'_> {
    /// Whether the extent ends here.
    pub fn is_last(&self) -> bool {
        self.at + self.bytes.len() as u64 == self.extent.len_bytes
    }
}

/// The position of a scrub pass: what it checks next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ScrubPosition {
    /// Extents already checked.
    pub extent: usize,
    /// Bytes of the next one already checked.
    pub at: u64,
    /// The CRC32C of those bytes, in a pass by [`ScrubPass::verify`].
    pub crc: u32,
}

/// Stops a scrub pass from another thread. Clones stop the same one.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<(Mutex<bool>, Condvar)>);

impl Stop {
    /// Ends the pass after the piece that is being checked; at once if it waits.
    pub fn stop(&self) {
        *self.lock() = true;
        self.0.1.notify_all();
    }

    /// Whether [`stop`](Self::stop) was called.
    pub fn is_stopped(&self) -> bool {
        *self.lock()
    }

    /// Waits. `true` if it is stopped before.
    fn wait_until(&self, due: Instant) -> bool {
        let mut stopped = self.lock();
        while !*stopped {
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let waited = self.0.1.wait_timeout(stopped, left);
            stopped = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    fn lock(&self) -> MutexGuard<'_, bool> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How a scrub pass ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Everything was checked.
    Done,
    /// It was stopped; [`ScrubPass::position`] says where.
    Stopped,
}

/// A scrub pass over extents of a pool, which stay live meanwhile.
///
/// ```
/// use tierra_memory::faults::{Ended, Stop, ScrubPass};
/// use tierra_memory::{Pool, PoolOptions};
///
/// let dir = tempfile::tempdir()?;
/// let pool = Pool::create(&dir.path().join("p"), &PoolOptions::default())?;
/// let mut writer = pool.allocate(3 << 20, 0)?;
/// writer.fill(7);
/// let extent = writer.finish()?.extent();
/// let mut pass = ScrubPass::new(vec![extent]).paced(1 << 30);
/// let ended = pass.verify(&pool, &Stop::default(), |extent, error| println!("{extent:?}: {error}"));
/// assert_eq!(ended, Ended::Done);
/// assert_eq!(pool.counters().checked_bytes, 3 << 20);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct ScrubPass {
    extents: Vec<Extent>,
    piece_bytes: u64,
    bytes_per_s: Option<u64>,
    position: ScrubPosition,
}

impl ScrubPass {
    /// A pass over extents, in their order, as fast as possible.
    pub fn new(extents: Vec<Extent>) -> ScrubPass {
        ScrubPass {
            extents,
            piece_bytes: PIECE_BYTES,
            bytes_per_s: None,
            position: ScrubPosition::default(),
        }
    }

    /// Not faster than this. A pace of 0 counts as 1.
    pub fn paced(self, bytes_per_s: u64) -> ScrubPass {
        ScrubPass {
            bytes_per_s: Some(bytes_per_s.max(1)),
            ..self
        }
    }

    /// In pieces of this length, which is at least 1.
    pub fn in_pieces(self, piece_bytes: u64) -> ScrubPass {
        ScrubPass {
            piece_bytes: piece_bytes.max(1),
            ..self
        }
    }

    /// Continues at the position of an earlier pass over the same extents. A position beyond them is their end.
    pub fn from(self, position: ScrubPosition) -> ScrubPass {
        ScrubPass { position, ..self }
    }

    /// What is checked next.
    pub fn position(&self) -> ScrubPosition {
        self.position
    }

    /// Hands every piece to a checker, which keeps what it finds and says whether the piece is whole, as far
    /// as it can tell; that is counted.
    ///
    /// # Panics
    /// If an extent does not lie in the pool, as [`Pool::bytes`].
    pub fn run(
        &mut self,
        pool: &Pool,
        stop: &Stop,
        mut check: impl FnMut(&Piece<'_>) -> bool,
    ) -> Ended {
        self.pass(pool, stop, |piece, _| {
            let is_valid = check(piece);
            pool.count_check(piece.bytes.len() as u64, is_valid);
        })
    }

    /// Checks every extent against its header, and sealed ones against their checksum. `found` is called with what
    /// is damaged.
    pub fn verify(
        &mut self,
        pool: &Pool,
        stop: &Stop,
        mut found: impl FnMut(Extent, PoolError),
    ) -> Ended {
        self.pass(pool, stop, |piece, crc| {
            *crc = checksum::append(*crc, piece.bytes);
            let damage = match piece.is_last() {
                false => None,
                true => match pool.label(piece.extent) {
                    Ok(label) if label.payload_crc.is_some_and(|right| right != *crc) => {
                        Some(pool.fails_checksum(piece.extent))
                    }
                    Ok(_) => None,
                    Err(damage) => Some(damage),
                },
            };
            pool.count_check(piece.bytes.len() as u64, damage.is_none());
            if let Some(damage) = damage {
                found(piece.extent, damage);
            }
        })
    }

    fn pass(
        &mut self,
        pool: &Pool,
        stop: &Stop,
        mut check: impl FnMut(&Piece<'_>, &mut u32),
    ) -> Ended {
        let mut due = Instant::now();
        while let Some(&extent) = self.extents.get(self.position.extent) {
            if stop.wait_until(due) {
                return Ended::Stopped;
            }
            let at = self.position.at.min(extent.len_bytes);
            let end = (at / self.piece_bytes + 1) * self.piece_bytes;
            let bytes = &pool.bytes(extent)[at as usize..end.min(extent.len_bytes) as usize];
            let piece = Piece { extent, at, bytes };
            let reading = emulation::begin_read(bytes);
            check(&piece, &mut self.position.crc);
            drop(reading);
            match piece.is_last() {
                true => {
                    self.position = ScrubPosition {
                        extent: self.position.extent + 1,
                        ..ScrubPosition::default()
                    };
                }
                false => self.position.at = at + bytes.len() as u64,
            }
            if let Some(bytes_per_s) = self.bytes_per_s {
                let takes = Duration::from_secs_f64(bytes.len() as f64 / bytes_per_s as f64);
                // What it is late by is not made up for: that would be a burst.
                due = due.max(Instant::now().checked_sub(takes).unwrap_or(due)) + takes;
            }
        }
        Ended::Done
    }
}
