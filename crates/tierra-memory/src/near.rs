//! Near memory for copies of what lies far, within a budget.
//!
//! Copies come and go one by one, and most are no multiple of a large page. So they share *blocks*, regions on large
//! pages: a copy is a run of lines of one, given back when its last reader lets it go. A block with nothing in it goes back
//! to the system.
//!
//! Invariant: the bytes in use are those of the copies alive and never exceed the limit; the blocks exceed it by one of
//! them at most. A copy holds the bytes that it was made of, and nothing is written to it.

use std::fmt;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::budget::{Budget, Reservation};
use crate::emulation::begin_read;
use crate::free_space::FreeSpace;
use crate::region::Region;
use crate::{LARGE_PAGE_BYTES, LINE_BYTES};

/// Bytes of a block, unless a copy needs more or the limit is less: as many as all others have, between these.
const FIRST_BLOCK_BYTES: u64 = 64 << 10;
const BLOCK_BYTES: u64 = 64 << 20;
/// Bytes that are copied between two checks whether to continue.
const PIECE_BYTES: usize = 1 << 20;

/// Near memory of some size, shared by everything that copies data near. Cheap to clone.
///
/// ```
/// use tierra_memory::NearMemory;
///
/// let near = NearMemory::new(1 << 20);
/// let copy = near.copy(b"far away").expect("there is room");
/// assert_eq!((&*copy, near.used()), (&b"far away"[..], 64));
/// drop(copy);
/// assert_eq!(near.used(), 0);
/// ```
#[derive(Clone, Debug)]
pub struct NearMemory(Arc<Shared>);

struct Shared {
    budget: Budget,
    blocks: Mutex<Blocks>,
}

#[derive(Default)]
struct Blocks {
    /// From the oldest to the newest: the newer ones empty first.
    all: Vec<Block>,
    mapped_bytes: u64,
    next_number: u64,
}

struct Block {
    number: u64,
    /// The region's first byte. It is read and written through this alone.
    start: NonNull<u8>,
    region: Region,
    free: FreeSpace,
}

// SAFETY: the pointer is that of the region, which the block owns.
unsafe impl Send for Block {}

impl Block {
    fn new(number: u64, bytes: u64) -> Option<Block> {
        let mut region = Region::near(bytes as usize).ok()?;
        let start = NonNull::new(region.as_mut_ptr())?;
        Some(Block {
            number,
            start,
            region,
            free: FreeSpace::around(0, bytes, std::iter::empty()),
        })
    }

    fn bytes(&self) -> u64 {
        self.region.len() as u64
    }

    fn is_empty(&self) -> bool {
        self.free.longest_bytes() == self.bytes()
    }
}

impl Blocks {
    /// A run of so many bytes: the number of its block, where it begins there, and in memory.
    fn take(&mut self, bytes: u64, limit: u64) -> Option<(u64, u64, NonNull<u8>)> {
        let run = |block: &mut Block| {
            let offset = block.free.take(bytes)?;
            // SAFETY: a run that the free space had lies inside the region.
            let start = unsafe { block.start.add(offset as usize) };
            Some((block.number, offset, start))
        };
        if let Some(found) = self.all.iter_mut().find_map(run) {
            return Some(found);
        }
        let grown = self.mapped_bytes.clamp(FIRST_BLOCK_BYTES, BLOCK_BYTES);
        let block_bytes = bytes.max(grown.min(limit));
        let block_bytes = match block_bytes >= LARGE_PAGE_BYTES as u64 {
            true => block_bytes.next_multiple_of(LARGE_PAGE_BYTES as u64),
            false => block_bytes,
        };
        // What is scattered over blocks must not let them grow without end.
        if self.mapped_bytes + block_bytes > limit.saturating_add(BLOCK_BYTES) {
            return None;
        }
        let mut block = Block::new(self.next_number, block_bytes)?;
        self.next_number += 1;
        self.mapped_bytes += block_bytes;
        let found = run(&mut block);
        self.all.push(block);
        found
    }

    /// Gives a run back; the block, if nothing else is in it.
    fn give(&mut self, number: u64, offset: u64, bytes: u64) -> Option<Block> {
        let at = self
            .all
            .binary_search_by_key(&number, |block| block.number)
            .expect("a block with a copy stays");
        self.all[at].free.give(offset, bytes);
        self.all[at].is_empty().then(|| {
            let block = self.all.remove(at);
            self.mapped_bytes -= block.bytes();
            block
        })
    }
}

impl Shared {
    fn blocks(&self) -> MutexGuard<'_, Blocks> {
        // Nothing panics between two changes that belong together.
        self.blocks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl NearMemory {
    /// Near memory of `limit_bytes`, none of them used, nor taken from the system.
    pub fn new(limit_bytes: u64) -> NearMemory {
        NearMemory(Arc::new(Shared {
            budget: Budget::new(limit_bytes),
            blocks: Mutex::default(),
        }))
    }

    /// Bytes of copies now.
    pub fn used(&self) -> u64 {
        self.0.budget.used()
    }

    /// Bytes that copies may have in all.
    pub fn limit(&self) -> u64 {
        self.0.budget.limit()
    }

    /// Bytes that a copy of so many takes.
    pub fn taken_by(bytes: u64) -> u64 {
        bytes.max(1).next_multiple_of(LINE_BYTES as u64)
    }

    /// Whether the limit leaves room for a copy of so many bytes.
    pub fn has_room(&self, bytes: u64) -> bool {
        Self::taken_by(bytes) <= self.limit().saturating_sub(self.used())
    }

    /// A copy of `bytes`, or nothing where there is no room.
    pub fn copy(&self, bytes: &[u8]) -> Option<NearCopy> {
        self.copy_while(bytes, |_| true)
    }

    /// The same, but calls `goes_on` whenever another MiB, or the rest, was copied, with the number of bytes copied.
    /// The callback may block. `None` as soon as it returns `false`.
    pub fn copy_while(
        &self,
        bytes: &[u8],
        mut goes_on: impl FnMut(usize) -> bool,
    ) -> Option<NearCopy> {
        let taken = Self::taken_by(bytes.len() as u64);
        let reservation = self.0.budget.try_reserve(taken)?;
        let (block, offset, start) = self.0.blocks().take(taken, self.limit())?;
        let copy = NearCopy {
            memory: self.0.clone(),
            start,
            len: bytes.len(),
            block,
            offset,
            _reservation: reservation,
        };
        let mut at = 0;
        for piece in bytes.chunks(PIECE_BYTES) {
            let reading = begin_read(piece);
            // SAFETY: the run is as long as the bytes and has no other owner, and no reader sees the copy yet.
            unsafe {
                start
                    .add(at)
                    .copy_from_nonoverlapping(NonNull::from(piece).cast(), piece.len())
            };
            drop(reading);
            at += piece.len();
            if !goes_on(piece.len()) {
                return None;
            }
        }
        Some(copy)
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (used, limit) = (self.budget.used(), self.budget.limit());
        write!(f, "near memory, {used} of {limit} bytes")
    }
}

/// A copy in near memory, which begins on a line. Made by [`NearMemory::copy`]; its room is given back when it is dropped.
pub struct NearCopy {
    memory: Arc<Shared>,
    start: NonNull<u8>,
    len: usize,
    block: u64,
    offset: u64,
    _reservation: Reservation,
}

// SAFETY: the run belongs to the copy alone, and nothing is written to it once it is made.
unsafe impl Send for NearCopy {}
// SAFETY: as above.
unsafe impl Sync for NearCopy {}

impl Deref for NearCopy {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the block stays mapped while a run of it is taken, and the run's bytes were written, or are zero.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl Drop for NearCopy {
    fn drop(&mut self) {
        let taken = NearMemory::taken_by(self.len as u64);
        let emptied = self.memory.blocks().give(self.block, self.offset, taken);
        // Unmapped after the lock is released.
        drop(emptied);
    }
}

impl fmt::Debug for NearCopy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NearCopy({} bytes)", self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    fn mapped(near: &NearMemory) -> u64 {
        near.0.blocks().mapped_bytes
    }

    #[test]
    fn copies_are_what_they_were_made_of_and_the_limit_holds() {
        const LIMIT: u64 = 3 << 20;
        let near = NearMemory::new(LIMIT);
        let mut random = Random::new(11);
        let mut copies: Vec<(NearCopy, Vec<u8>)> = Vec::new();
        for round in 0..3000 {
            let len = match random.next() % 3 {
                0 => random.next() % 200,
                1 => random.next() % 5000,
                _ => random.next() % 400_000,
            };
            let bytes: Vec<u8> = (0..len as usize).map(|at| (at * 7 + round) as u8).collect();
            let has_room = near.has_room(len);
            match near.copy(&bytes) {
                Some(copy) => {
                    assert!(has_room);
                    assert_eq!(copy.as_ptr().addr() % LINE_BYTES, 0);
                    copies.push((copy, bytes));
                }
                None if copies.is_empty() => panic!("nothing is there"),
                None => drop(copies.swap_remove(random.next() as usize % copies.len())),
            }
            let used = copies
                .iter()
                .map(|(copy, _)| NearMemory::taken_by(copy.len() as u64));
            assert_eq!(near.used(), used.sum::<u64>());
            assert!(near.used() <= LIMIT && mapped(&near) <= LIMIT + BLOCK_BYTES);
        }
        for (copy, bytes) in &copies {
            assert_eq!(**copy, *bytes);
        }
        drop(copies);
        assert_eq!((near.used(), mapped(&near)), (0, 0));
    }

    #[test]
    fn copying_ends_when_it_is_told_to_and_gives_its_room_back() {
        let near = NearMemory::new(u64::MAX);
        let bytes = vec![3; 5 * PIECE_BYTES / 2];
        let mut pieces = Vec::new();
        let copy = near.copy_while(&bytes, |piece| {
            pieces.push(piece);
            true
        });
        assert_eq!(*copy.unwrap(), bytes);
        assert_eq!(pieces, [PIECE_BYTES, PIECE_BYTES, PIECE_BYTES / 2]);
        assert!(near.copy_while(&bytes, |_| false).is_none());
        assert_eq!((near.used(), mapped(&near)), (0, 0));
        assert!(NearMemory::new(0).copy(b"x").is_none());
    }

    #[test]
    fn threads_share_it() {
        let near = NearMemory::new(1 << 20);
        std::thread::scope(|scope| {
            for thread in 0..4u8 {
                let near = near.clone();
                scope.spawn(move || {
                    for round in 0..200usize {
                        let bytes = vec![thread; 100 + round * 37];
                        let copies: Vec<_> = (0..8).filter_map(|_| near.copy(&bytes)).collect();
                        assert!(copies.iter().all(|copy| **copy == *bytes));
                    }
                });
            }
        });
        assert_eq!(near.used(), 0);
    }
}
