//! Reads of pools' files that are under way while their thread does something else, several at a time: io_uring.
//!
//! ```text
//! begin ──▶ under way ──▶ arrived ──▶ finish: the bytes
//!               │            │
//!               └──discard───┴──────▶ forgotten when it has arrived
//! ```
//! Invariant: the kernel writes to a read's memory until it has told that the read is over, so that memory lives in its slot until
//! then; dropping the queue waits for all of them.

use std::fmt;
use std::io;
use std::mem::ManuallyDrop;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::sync::Arc;

use io_uring::{IoUring, opcode, types};

use super::copying::Unfilled;
use super::{Copied, CopyMethod, Extent, Pool};
use crate::emulation::{Transfer, begin_read};

/// Reads under way of one thread.
pub struct FileReads {
    ring: IoUring,
    slots: Vec<Slot>,
    /// Numbers of the slots that have no read.
    free: Vec<usize>,
}

/// A read that was begun. It is finished or discarded by the queue that began it.
#[derive(Debug)]
#[must_use = "a read that is neither finished nor discarded keeps its place in the queue"]
pub struct BegunRead {
    slot: usize,
}

#[derive(Default)]
struct Slot {
    read: Option<Read>,
    /// What the kernel said when it was over: bytes, or an error's number below zero.
    result: Option<i32>,
    is_discarded: bool,
}

struct Read {
    // Waited for when it is dropped: before the bytes are used.
    transfer: Transfer,
    memory: Unfilled,
    pool: Arc<Pool>,
    extent: Extent,
    range: Range<usize>,
    zeros: usize,
    method: CopyMethod,
}

impl FileReads {
    /// A queue of at most `most` reads; `None` if the kernel has no io_uring or forbids it.
    ///
    /// # Panics
    /// If `most` is 0 or above 4,096.
    pub fn new(most: usize) -> Option<FileReads> {
        assert!((1..=4096).contains(&most), "a queue of {most} reads");
        let ring = IoUring::new(most.next_power_of_two() as u32).ok()?;
        Some(FileReads {
            ring,
            slots: std::iter::repeat_with(Slot::default).take(most).collect(),
            free: (0..most).rev().collect(),
        })
    }

    /// Begins to read what [`Pool::copy_out`] would copy. It leaves with the next [`FileReads::submit`]. `None`: there is no place
    /// left, or nothing to read ahead, as with [`CopyMethod::Mapped`].
    ///
    /// # Panics
    /// If the range does not lie in the extent, or the extent not in the pool.
    pub fn begin(
        &mut self,
        pool: &Arc<Pool>,
        extent: Extent,
        range: Range<usize>,
        zeros: usize,
        method: CopyMethod,
    ) -> Option<BegunRead> {
        if self.free.is_empty() {
            self.take_completions();
        }
        let number = *self.free.last()?;
        let stored = &pool.bytes(extent)[range.clone()];
        let file_read = pool
            .file_read(extent, range.clone(), zeros, method)
            .ok()??;
        let mut memory = file_read.allocate().ok()?;
        let entry = opcode::Read::new(
            types::Fd(file_read.file.as_raw_fd()),
            memory.memory().as_mut_ptr().cast(),
            u32::try_from(file_read.len_bytes).ok()?,
        );
        let entry = entry
            .offset(file_read.offset)
            .build()
            .user_data(number as u64);
        // SAFETY: the memory is as long as the read, and it and the pool, which keeps the file open, stay in the slot until the
        // read is over.
        unsafe { self.ring.submission().push(&entry) }.ok()?;
        self.free.pop();
        self.slots[number] = Slot {
            read: Some(Read {
                transfer: begin_read(stored),
                memory,
                pool: pool.clone(),
                extent,
                range,
                zeros,
                method,
            }),
            ..Slot::default()
        };
        Some(BegunRead { slot: number })
    }

    /// Hands the reads that were begun to the kernel.
    pub fn submit(&mut self) {
        // What could not be handed over now is with the next call, and at the latest with the one that waits.
        let _ = self.ring.submit();
    }

    /// The bytes of a read, once they are there.
    ///
    /// # Errors
    /// Those of the system, as of [`Pool::copy_out`].
    pub fn finish(&mut self, begun: BegunRead) -> io::Result<Copied> {
        let BegunRead { slot } = begun;
        self.wait_for(slot)?;
        let Slot {
            read: Some(mut read),
            result: Some(result),
            ..
        } = std::mem::take(&mut self.slots[slot])
        else {
            unreachable!(
                "a begun read has a slot until it is finished or discarded, and it is over"
            )
        };
        self.free.push(slot);
        drop(read.transfer);
        let file_read = read
            .pool
            .file_read(read.extent, read.range, read.zeros, read.method)?
            .ok_or(io::ErrorKind::Unsupported)?;
        // An error, and a read that was cut short: the rest is read as any other, and says what is wrong.
        let done = usize::try_from(result).unwrap_or(0);
        file_read.complete(read.memory.memory(), done.min(file_read.len_bytes))?;
        // SAFETY: the kernel has written `done` bytes, and the rest was read here.
        Ok(unsafe { read.memory.filled(file_read.written) })
    }

    /// Gives a read up. Its place is free when it is over.
    pub fn discard(&mut self, begun: BegunRead) {
        self.slots[begun.slot].is_discarded = true;
        free_discarded(&mut self.slots, &mut self.free, begun.slot);
    }

    fn wait_for(&mut self, slot: usize) -> io::Result<()> {
        loop {
            self.take_completions();
            // One that was given up is free as soon as it is over.
            if self.slots[slot].result.is_some() || self.slots[slot].read.is_none() {
                return Ok(());
            }
            match self.ring.submit_and_wait(1) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
        }
    }

    fn take_completions(&mut self) {
        let FileReads { ring, slots, free } = self;
        for entry in ring.completion() {
            let number = entry.user_data() as usize;
            slots[number].result = Some(entry.result());
            free_discarded(slots, free, number);
        }
    }
}

/// Frees a slot if its read was discarded and is over.
fn free_discarded(slots: &mut [Slot], free: &mut Vec<usize>, number: usize) {
    let slot = &mut slots[number];
    if slot.is_discarded && slot.result.is_some() {
        *slot = Slot::default();
        free.push(number);
    }
}

impl Drop for FileReads {
    fn drop(&mut self) {
        for number in 0..self.slots.len() {
            if self.slots[number].read.is_some() && self.wait_for(number).is_err() {
                // The kernel may still write to it.
                let read = self.slots[number].read.take();
                let _never_freed = ManuallyDrop::new(read);
            }
        }
    }
}

impl fmt::Debug for FileReads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let under_way = self.slots.len() - self.free.len();
        write!(f, "FileReads({under_way} of {})", self.slots.len())
    }
}
