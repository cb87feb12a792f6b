//! Bytes that move in order: blocks of a scan, copies, and lines on their way to durability.
//!
//! Invariant: the time that a transfer takes begins when it is begun and is waited for when it ends, so what
//! the processor does in between is not added to it.

use super::core::Stored;
use super::{far, local, switch};

/// Bytes on their way from or to far memory. Dropping it waits until they would have arrived.
#[derive(Debug)]
#[must_use = "a transfer is waited for when it is dropped: hold it while the bytes are used"]
pub struct Transfer {
    until: u64,
}

impl Drop for Transfer {
    #[inline]
    fn drop(&mut self) {
        if self.until != 0 {
            local::wait_until(self.until);
        }
    }
}

/// Begins to read bytes in order, if they are far: call it before a block is read and hold the
/// [`Transfer`] while it is. Blocks that follow each other pay the bandwidth, the first the latency too.
/// The modelled cache is passed by: scans leave no lines in it, and find none but those that a
/// [helper](crate::helper) fetched.
///
/// ```
/// # let block = [1u8; 1000];
/// let reading = tierra_memory::emulation::begin_read(&block);
/// let sum: u32 = block.iter().map(|&byte| u32::from(byte)).sum();
/// drop(reading);
/// # assert_eq!(sum, 1000);
/// ```
#[inline]
pub fn begin_read(bytes: &[u8]) -> Transfer {
    let until = if switch::is_on() {
        local::read(bytes.as_ptr().addr(), bytes.len())
    } else {
        0
    };
    Transfer { until }
}

/// The first bytes of a block have been asked for, which [`begin_read`] will read: they are on their way from now on, if they are far.
#[inline]
pub(crate) fn prefetched(bytes: &[u8]) {
    if switch::is_on() {
        local::prefetch(bytes.as_ptr().addr(), bytes.len());
    }
}

/// Reads bytes in order for another thread: returns when they would have arrived, and leaves their lines in the modelled cache,
/// where [`begin_read`] of other threads finds them from then on.
pub(crate) fn fetch_for_others(address: usize, len_bytes: usize) {
    if switch::is_on() {
        local::fetch_for_others(address, len_bytes);
    }
}

/// The lines of a far object on their way to a core that does something else meanwhile. The user of the object
/// [waits](Fetch::wait).
#[derive(Debug)]
#[must_use = "what is fetched is waited for when it is used"]
pub struct Fetch {
    address: usize,
    len_bytes: usize,
    asked: u64,
}

/// Asks for the lines of an object that will be used a little later, as a lookup's load does, whose misses they
/// join; `None` if they are near. The caller prefetches the lines.
#[inline]
pub fn begin_fetch(bytes: &[u8]) -> Option<Fetch> {
    let (address, len_bytes) = (bytes.as_ptr().addr(), bytes.len());
    (len_bytes > 0 && far::concerns_load(address)).then(|| Fetch {
        address,
        len_bytes,
        asked: local::ask(address, len_bytes),
    })
}

impl Fetch {
    /// Waits until the lines would have arrived. What they wait for is found out only now, so that it takes little time
    /// of a core that real far memory would leave alone: lines used first are taken to have been asked for first.
    pub fn wait(self) {
        local::arrive(self.address, self.len_bytes, self.asked);
    }
}

/// Begins to store an object that is not flushed: its lines are asked for, unless they are cached, and written back. Call it
/// when the bytes were stored, and hold the [`Transfer`] until what is done next needs them to be.
#[inline]
pub fn begin_store(start: *const u8, len_bytes: usize) -> Transfer {
    begin(start, len_bytes, Stored::Cached)
}

/// Begins to write bytes to far memory in bulk, where no flush says so: media of pools whose stores count as written
/// without one.
#[inline]
pub fn begin_write(start: *const u8, len_bytes: usize) -> Transfer {
    begin(start, len_bytes, Stored::InBulk)
}

#[inline]
fn begin(start: *const u8, len_bytes: usize, how: Stored) -> Transfer {
    let until = if switch::is_on() {
        local::store(start.addr(), len_bytes, how)
    } else {
        0
    };
    Transfer { until }
}

/// Lines have been stored and flushed: the next [`fenced`] waits for them.
#[inline]
pub(crate) fn flushed(start: *const u8, len_bytes: usize) {
    if switch::is_on() {
        local::store(start.addr(), len_bytes, Stored::Flushed);
    }
}

/// Bytes have been streamed past the caches: the next [`fenced`] waits for them.
#[inline]
pub(crate) fn streamed(start: *const u8, len_bytes: usize) {
    if switch::is_on() {
        local::store(start.addr(), len_bytes, Stored::Streamed);
    }
}

/// A fence: waits until what was flushed before is durable.
#[inline]
pub(crate) fn fenced() {
    if switch::is_on() {
        local::wait_durable();
    }
}
