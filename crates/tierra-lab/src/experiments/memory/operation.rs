//! The memory operations: sequential and random reads and writes, and updates of a column of integers, each checked.
//!
//! Far memory is emulated where the product charges for it: a lookup's loads, a block's transfer, a flush. So random reads use
//! lookups, line by line, up to [`LINES_MOST_BYTES`], and blocks above it, where processors recognise a sequence. Writes are
//! flushed or streamed, in near memory too.

use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use tierra_interleave::{Cx, Execution, GroupSize, for_each};
use tierra_memory::emulation::begin_read;
use tierra_memory::in_mode;
use tierra_memory::persist::{self, Flush};

use super::place::{Bytes, Cursor, Part, WORD};
use crate::error::{Context, LabError};

/// Up to this size a random read requests its lines as a lookup does.
pub(super) const LINES_MOST_BYTES: usize = 1 << 10;
/// Bytes read or written in order at a time.
const BLOCK_BYTES: usize = 64 << 10;
/// Random accesses between two reads of the clock.
const BATCH: usize = 512;

/// One kind of access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    /// Words in order, block by block.
    ReadInOrder,
    /// This many bytes, aligned to their number, at random.
    ReadAtRandom { bytes: usize, execution: Execution },
    /// Streaming stores in order.
    WriteInOrder,
    /// A word at random, flushed; one fence for a batch.
    WriteAtRandom,
    /// This many bytes at random, made durable one by one.
    Update { bytes: usize, by: WriteBack },
}

/// The mechanism that makes an update durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WriteBack {
    /// Nothing: a store, or a system call without a sync.
    Nothing,
    /// A flush and a fence.
    Flush(Flush),
    /// A streaming store and a fence.
    Stream,
}

/// Accesses and bytes of a sample.
#[derive(Clone, Copy, Debug)]
pub(super) struct Done {
    pub(super) accesses: u64,
    pub(super) bytes: u64,
    pub(super) start: Instant,
    pub(super) end: Instant,
}

impl Operation {
    /// Runs it for about `time`, at least once, then checks what was read or written. No check runs in the measured time, because
    /// threads that share a memory must compete for it throughout.
    ///
    /// # Errors
    /// A wrong answer, or a file that cannot be read or written.
    pub(super) fn run(self, part: &mut Part<'_>, time: Duration) -> Result<Done, LabError> {
        let before = part.cursor.clone();
        let value = part.cursor.random.bits();
        let mut buffer = vec![value as u8; BLOCK_BYTES];
        let (mut accesses, mut sum) = (0, 0u64);
        let start = Instant::now();
        let end = loop {
            let batch = match self {
                Operation::ReadInOrder => part.read_in_order(),
                Operation::ReadAtRandom { bytes, execution } => {
                    part.read_at_random(bytes, execution, &mut buffer)
                }
                Operation::WriteInOrder => part.write_in_order(&buffer),
                Operation::WriteAtRandom => part.write_at_random(value),
                Operation::Update { bytes, by } => part.update(by, &buffer[..bytes]),
            };
            sum = sum.wrapping_add(batch?);
            accesses += self.accesses();
            let now = Instant::now();
            if now - start >= time {
                break now;
            }
        };
        self.check(part, before, accesses, sum)?;
        Ok(Done {
            accesses,
            bytes: accesses * self.bytes() as u64,
            start,
            end,
        })
    }

    /// Bytes of an access.
    fn bytes(self) -> usize {
        match self {
            Operation::ReadInOrder | Operation::WriteInOrder => BLOCK_BYTES,
            Operation::ReadAtRandom { bytes, .. } | Operation::Update { bytes, .. } => bytes,
            Operation::WriteAtRandom => WORD,
        }
    }

    /// Accesses between two reads of the clock.
    fn accesses(self) -> u64 {
        match self {
            Operation::ReadInOrder | Operation::WriteInOrder => 1,
            _ => batch(self.bytes()) as u64,
        }
    }

    /// Repeats the same accesses: the words read must add up to `sum`, or the words must be those written.
    fn check(
        self,
        part: &Part<'_>,
        before: Cursor,
        accesses: u64,
        sum: u64,
    ) -> Result<(), LabError> {
        let mut cursor = before;
        let value = cursor.random.bits();
        let bytes = self.bytes();
        let count = part.count(bytes);
        let mut expected = 0u64;
        let mut found = vec![0; bytes];
        for _ in 0..accesses {
            let at = match self {
                Operation::ReadInOrder | Operation::WriteInOrder => cursor.next(part.len_bytes),
                _ => cursor.draw(count, bytes),
            };
            match self {
                Operation::ReadInOrder | Operation::ReadAtRandom { .. } => {
                    let first = part.first_word + (at / WORD) as u64;
                    expected = expected.wrapping_add(sum_of(first, (bytes / WORD) as u64));
                    continue;
                }
                Operation::WriteAtRandom => found.copy_from_slice(&value.to_le_bytes()),
                Operation::WriteInOrder | Operation::Update { .. } => found.fill(value as u8),
            }
            if !part.has_written(at, &found)? {
                return Err(wrong(&format!("{self:?}"), "what was written is not there"));
            }
        }
        match sum == expected {
            true => Ok(()),
            false => Err(wrong(
                &format!("{self:?}"),
                &format!("a sum of {sum:#x} instead of {expected:#x}"),
            )),
        }
    }
}

/// Random accesses of that many bytes between two reads of the clock.
fn batch(bytes: usize) -> usize {
    (BATCH * WORD / bytes).clamp(64, BATCH)
}

/// The sum of the words from number `first` on.
fn sum_of(first: u64, words: u64) -> u64 {
    let pairs = u128::from(words) * u128::from(words.saturating_sub(1)) / 2;
    first.wrapping_mul(words).wrapping_add(pairs as u64)
}

fn sum(bytes: &[u8]) -> u64 {
    let words = bytes.chunks_exact(WORD);
    words.fold(0, |sum, word| {
        // A chunk of eight bytes.
        sum.wrapping_add(word.try_into().map_or(0, u64::from_le_bytes))
    })
}

fn wrong(what: &str, detail: &str) -> LabError {
    LabError::AnswersDiffer {
        what: what.to_owned(),
        left: "memory".to_owned(),
        right: "what was put there".to_owned(),
        detail: detail.to_owned(),
    }
}

fn unmapped() -> LabError {
    wrong("an access in order", "only mapped memory is measured so")
}

impl Cursor {
    /// The start of the next sequential block, in a part of that length.
    fn next(&mut self, len_bytes: usize) -> usize {
        let at = self.at;
        self.at = (at + BLOCK_BYTES) % len_bytes;
        at
    }

    /// The start of a random access of `bytes`, a power of two, in a part of `count` such accesses.
    #[inline]
    fn draw(&mut self, count: u64, bytes: usize) -> usize {
        self.random.below(count) as usize * bytes
    }
}

/// A batch of each operation; reads return the sum of the words.
impl Part<'_> {
    /// The number of accesses of so many bytes that fit a part.
    fn count(&self, bytes: usize) -> u64 {
        (self.len_bytes / bytes) as u64
    }

    fn read_in_order(&mut self) -> Result<u64, LabError> {
        let at = self.cursor.next(self.len_bytes);
        let Bytes::Mapped { read, .. } = &self.bytes else {
            return Err(unmapped());
        };
        let mut total = 0u64;
        // The blocks of a scan.
        for block in read[at..at + BLOCK_BYTES].chunks(4096) {
            let reading = begin_read(block);
            total = total.wrapping_add(sum(block));
            drop(reading);
        }
        Ok(total)
    }

    fn read_at_random(
        &mut self,
        bytes: usize,
        execution: Execution,
        buffer: &mut [u8],
    ) -> Result<u64, LabError> {
        // Drawn before the reads, so that as many reads as possible fit a reorder window.
        let count = self.count(bytes);
        let mut places = [0; BATCH];
        let places = &mut places[..batch(bytes)];
        places.fill_with(|| self.cursor.draw(count, bytes));
        let places = places.iter().copied();
        let mut total = 0u64;
        match &self.bytes {
            Bytes::Mapped { read, .. } if bytes == WORD => {
                in_mode!(execution, M => for_each(
                    GroupSize::DEFAULT,
                    places,
                    |cx: Cx<M>, at| cx.load_bytes(&read[at..at + WORD]),
                    |_, word| total = total.wrapping_add(sum(word)),
                ));
            }
            Bytes::Mapped { read, .. } if bytes <= LINES_MOST_BYTES => {
                in_mode!(execution, M => for_each(
                    GroupSize::DEFAULT,
                    places,
                    |cx: Cx<M>, at| cx.load_bytes(&read[at..at + bytes]),
                    |_, words| total = total.wrapping_add(sum(words)),
                ));
            }
            Bytes::Mapped { read, .. } => {
                for at in places {
                    let block = &read[at..at + bytes];
                    let reading = begin_read(block);
                    total = total.wrapping_add(sum(block));
                    drop(reading);
                }
            }
            Bytes::File { file, read_at, .. } => {
                for at in places {
                    let block = &mut buffer[..bytes];
                    file.read_exact_at(block, read_at + at as u64)
                        .by("the lab", "reading a file")?;
                    total = total.wrapping_add(sum(block));
                }
            }
        }
        Ok(total)
    }

    fn write_in_order(&mut self, from: &[u8]) -> Result<u64, LabError> {
        let at = self.cursor.next(self.len_bytes);
        let Bytes::Mapped { write, .. } = &mut self.bytes else {
            return Err(unmapped());
        };
        persist::copy_nontemporal(&mut write[at..at + BLOCK_BYTES], from);
        Ok(0)
    }

    /// Stored, then flushed, with one fence for all.
    fn write_at_random(&mut self, value: u64) -> Result<u64, LabError> {
        let count = self.count(WORD);
        let mut places = [0; BATCH];
        places.fill_with(|| self.cursor.draw(count, WORD));
        let Bytes::Mapped { write, .. } = &mut self.bytes else {
            return Err(unmapped());
        };
        for at in places {
            write[at..at + WORD].copy_from_slice(&value.to_le_bytes());
        }
        for at in places {
            persist::flush(&write[at..at + WORD]);
        }
        persist::fence();
        Ok(0)
    }

    fn update(&mut self, by: WriteBack, new: &[u8]) -> Result<u64, LabError> {
        let bytes = new.len();
        let count = self.count(bytes);
        for _ in 0..batch(bytes) {
            let at = self.cursor.draw(count, bytes);
            match &mut self.bytes {
                Bytes::Mapped { write, .. } => {
                    let old = &mut write[at..at + bytes];
                    match by {
                        WriteBack::Stream => persist::copy_nontemporal(old, new),
                        WriteBack::Nothing => old.copy_from_slice(new),
                        WriteBack::Flush(how) => {
                            old.copy_from_slice(new);
                            persist::flush_by(how, old);
                            persist::fence();
                        }
                    }
                }
                Bytes::File { file, write_at, .. } => file
                    .write_all_at(new, *write_at + at as u64)
                    .by("the lab", "writing a file")?,
            }
        }
        Ok(0)
    }

    /// Whether these bytes are there.
    fn has_written(&self, at: usize, bytes: &[u8]) -> Result<bool, LabError> {
        match &self.bytes {
            Bytes::Mapped { write, .. } => Ok(write[at..at + bytes.len()] == *bytes),
            Bytes::File { file, write_at, .. } => {
                let mut found = vec![0; bytes.len()];
                file.read_exact_at(&mut found, *write_at + at as u64)
                    .by("the lab", "reading a file")?;
                Ok(found == bytes)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::memory::place::Place;

    #[test]
    fn what_is_read_is_checked() {
        let mut place = Place::region(4 << 20).unwrap();
        let [_, part] = place.parts();
        let mut part = part.unwrap();
        let reads = [8, 64, 4096].map(|bytes| Operation::ReadAtRandom {
            bytes,
            execution: Execution::Interleaved,
        });
        for operation in reads.into_iter().chain([Operation::ReadInOrder]) {
            let time = Duration::ZERO;
            assert!(operation.run(&mut part, time).unwrap().bytes > 0);
            // Another part's words.
            part.first_word ^= 1;
            assert!(operation.run(&mut part, time).is_err());
            part.first_word ^= 1;
        }
    }

    #[test]
    fn every_update_arrives_mapped_and_by_system_calls() {
        let folder = tempfile::tempdir().unwrap();
        let time = Duration::ZERO;
        let flushes = Flush::available().map(WriteBack::Flush);
        let ways: Vec<WriteBack> = flushes
            .chain([WriteBack::Nothing, WriteBack::Stream])
            .collect();
        for mut place in [
            Place::region(4 << 20).unwrap(),
            Place::file(folder.path(), 4 << 20).unwrap(),
        ] {
            let [part, _] = place.parts();
            let mut part = part.unwrap();
            for (bytes, by) in [4, 64].iter().flat_map(|b| ways.iter().map(|w| (*b, *w))) {
                let update = Operation::Update { bytes, by };
                assert!(update.run(&mut part, time).unwrap().accesses > 0);
            }
        }
    }
}
