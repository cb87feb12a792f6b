//! Frames: near memory in which scans read copies of far blocks, unless they read in place.
//!
//! A frame holds a few consecutive blocks of a column, because a file is read in larger pieces than a block. The pool of frames
//! has a size for the whole database. It is divided into shards, so that threads rarely wait for each other, and each shard evicts
//! by CLOCK: a hand goes round, and evicts the first frame that no scan used since it passed last.
//!
//! Invariant: a frame's blocks matched their checksums when they were copied, and nothing writes to a frame. Extents are
//! immutable and their numbers are never used again, so a frame is never out of date. A frame that is being read stays allocated
//! after its eviction: frames in use come on top of the pool's size.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tierra_memory::Copied;

use crate::manifest::ExtentId;

/// Bytes of a database's frames, unless it is told otherwise.
const FRAME_BYTES: u64 = 64 << 20;
/// Shards of a pool.
const SHARDS: usize = 16;

/// Where the bytes of a frame come from: an extent, and the offset of the first byte in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FrameKey {
    pub(crate) extent: ExtentId,
    pub(crate) start: usize,
}

/// A frame: some bytes of an extent, and pad behind them.
#[derive(Debug)]
pub(crate) struct Frame {
    source: FrameKey,
    pub(crate) bytes: Copied,
    /// Whether it was read since the hand passed.
    is_used: AtomicBool,
}

/// The pool of frames of one database, whose size can be changed while it is open. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Frames(Arc<FramePool>);

#[derive(Debug)]
struct FramePool {
    limit_bytes: AtomicU64,
    hasher: RandomState,
    shards: [Mutex<Shard>; SHARDS],
}

#[derive(Debug, Default)]
struct Shard {
    places: HashMap<FrameKey, usize>,
    frames: Vec<Arc<Frame>>,
    used_bytes: u64,
    /// The place of the next frame that may be evicted.
    hand: usize,
}

impl Default for FramePool {
    fn default() -> Self {
        Self {
            limit_bytes: AtomicU64::new(FRAME_BYTES),
            hasher: RandomState::new(),
            shards: std::array::from_fn(|_| Mutex::default()),
        }
    }
}

impl Frames {
    /// Sets the pool's size. A smaller pool shrinks as frames are added.
    pub fn set(&self, bytes: u64) {
        self.0.limit_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Restores the size that every database begins with: 64 MiB.
    pub fn reset(&self) {
        self.set(FRAME_BYTES);
    }

    /// The pool's size in bytes.
    pub fn get(&self) -> u64 {
        self.0.limit_bytes.load(Ordering::Relaxed)
    }

    /// Bytes of the frames in the pool.
    pub fn used(&self) -> u64 {
        let shards = self.0.shards.iter();
        shards.map(|shard| lock(shard).used_bytes).sum()
    }

    /// Evicts all frames.
    pub fn clear(&self) {
        for shard in &self.0.shards {
            *lock(shard) = Shard::default();
        }
    }

    /// The frame of these bytes, if it is in the pool.
    pub(crate) fn frame(&self, source: FrameKey) -> Option<Arc<Frame>> {
        let shard = lock(self.shard(source));
        let frame = &shard.frames[*shard.places.get(&source)?];
        frame.is_used.store(true, Ordering::Relaxed);
        Some(frame.clone())
    }

    /// Adds a frame, and evicts others until it fits. Returns the frame that the pool has: another thread may have been faster.
    pub(crate) fn add(&self, source: FrameKey, bytes: Copied) -> Arc<Frame> {
        let limit = self.get() / SHARDS as u64;
        let mut shard = lock(self.shard(source));
        let size = bytes.memory_bytes() as u64;
        let shard = &mut *shard;
        if let Some(place) = shard.places.get(&source) {
            return shard.frames[*place].clone();
        }
        while shard.used_bytes + size > limit && shard.evict() {}
        let frame = Arc::new(Frame {
            source,
            bytes,
            // The hand passes a new frame once only if a scan comes back to it: scans of more than the pool holds
            // displace their own frames first.
            is_used: AtomicBool::new(false),
        });
        // A frame that does not fit into an empty pool is read and dropped.
        if shard.used_bytes + size <= limit {
            shard.places.insert(source, shard.frames.len());
            shard.frames.push(frame.clone());
            shard.used_bytes += size;
        }
        frame
    }

    fn shard(&self, source: FrameKey) -> &Mutex<Shard> {
        &self.0.shards[self.0.hasher.hash_one(source) as usize % SHARDS]
    }
}

impl Shard {
    /// Evicts a frame; `false` if there is none.
    fn evict(&mut self) -> bool {
        while !self.frames.is_empty() {
            if self.hand >= self.frames.len() {
                self.hand = 0;
            }
            if self.frames[self.hand]
                .is_used
                .swap(false, Ordering::Relaxed)
            {
                self.hand += 1;
                continue;
            }
            let gone = self.frames.swap_remove(self.hand);
            self.places.remove(&gone.source);
            if let Some(moved) = self.frames.get(self.hand) {
                self.places.insert(moved.source, self.hand);
            }
            self.used_bytes -= gone.bytes.memory_bytes() as u64;
            return true;
        }
        false
    }
}

fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    // Nothing between two changes that belong together panics.
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use tierra_memory::{CopyMethod, Extent, PoolOptions};

    use super::*;

    const KIB: usize = 1 << 10;

    /// A pool with an extent of bytes that tell their place.
    fn stored(dir: &tempfile::TempDir) -> (Arc<tierra_memory::Pool>, Extent) {
        let pool =
            tierra_memory::Pool::create(&dir.path().join("p"), &PoolOptions::default()).unwrap();
        let mut writer = pool.allocate(256 * KIB as u64, 1).unwrap();
        for (at, piece) in writer.chunks_mut(KIB).enumerate() {
            piece.fill(at as u8);
        }
        let extent = writer.finish().unwrap().extent();
        (pool, extent)
    }

    fn source(piece: usize) -> FrameKey {
        FrameKey {
            extent: ExtentId(9),
            start: piece * KIB,
        }
    }

    #[test]
    fn frames_stay_within_the_limit_and_hold_what_they_say() {
        let dir = tempfile::tempdir().unwrap();
        let (pool, extent) = stored(&dir);
        let frames = Frames::default();
        frames.set((SHARDS * 4 * KIB) as u64);
        let mut held = Vec::new();
        for round in 0..3 {
            for piece in 0..256 {
                let frame = frames.frame(source(piece)).unwrap_or_else(|| {
                    let range = piece * KIB..(piece + 1) * KIB;
                    let copied = pool.copy_out(extent, range, 0, CopyMethod::Mapped).unwrap();
                    frames.add(source(piece), copied)
                });
                assert!(
                    frame.bytes.iter().all(|byte| *byte == piece as u8),
                    "{piece}"
                );
                assert!(frames.used() <= frames.get());
                if piece % 50 == round {
                    held.push((piece, frame));
                }
            }
        }
        // What is in use outlives its eviction.
        frames.clear();
        assert_eq!(frames.used(), 0);
        for (piece, frame) in held {
            assert!(frame.bytes.iter().all(|byte| *byte == piece as u8));
        }
    }

    #[test]
    fn a_frame_in_use_again_outlives_one_that_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let (pool, extent) = stored(&dir);
        let frames = Frames::default();
        frames.set((SHARDS * 2 * KIB) as u64);
        let add = |piece: usize| {
            let range = piece * KIB..(piece + 1) * KIB;
            let copied = pool.copy_out(extent, range, 0, CopyMethod::Mapped).unwrap();
            frames.add(source(piece), copied);
        };
        // Pieces of one shard.
        let first = frames.shard(source(0)) as *const _;
        let same: Vec<usize> = (0..256)
            .filter(|piece| std::ptr::eq(frames.shard(source(*piece)), first))
            .take(3)
            .collect();
        let [hot, cold, new] = same[..] else { return };
        add(hot);
        add(cold);
        assert!(frames.frame(source(hot)).is_some());
        add(new);
        assert!(frames.frame(source(hot)).is_some());
        assert!(frames.frame(source(cold)).is_none());
    }

    #[test]
    fn a_pool_without_room_keeps_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let (pool, extent) = stored(&dir);
        let frames = Frames::default();
        frames.set(0);
        let copied = pool
            .copy_out(extent, 0..KIB, 0, CopyMethod::Mapped)
            .unwrap();
        assert_eq!(frames.add(source(0), copied).bytes.len(), KIB);
        assert!(frames.frame(source(0)).is_none());
    }
}
