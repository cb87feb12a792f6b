//! Frames that are being read from files before a scan comes to them, several at a time.
//!
//! Invariant: what arrives here was not checked yet. A frame that no reader comes for is forgotten.

use std::io;
use std::ops::Range;

use tierra_column::bits::PAD_BYTES;
use tierra_memory::{BegunRead, Copied, CopyMethod, FileReads};

use crate::storage::extent::ExtentCopy;
use crate::storage::frames::FrameKey;

/// Frames of a column that are read ahead: as many as keep a fast disk busy with the reads of one thread.
pub(crate) const FRAMES_AHEAD: usize = 8;
/// Reads of one cursor that are under way.
const READS: usize = 64;

/// The frames that one cursor is having read.
#[derive(Debug, Default)]
pub(super) struct FramesAhead {
    reads: Queue,
    asked: Vec<Asked>,
}

#[derive(Debug, Default)]
enum Queue {
    #[default]
    Untried,
    /// The kernel has none: frames are read when they are needed.
    Absent,
    // Boxed, because most cursors have none.
    Ready(Box<FileReads>),
}

#[derive(Debug)]
struct Asked {
    source: FrameKey,
    /// The block behind the frame's last one.
    end: usize,
    read: BegunRead,
}

impl FramesAhead {
    /// Whether a frame was asked for and not taken yet.
    pub(super) fn has(&self, source: FrameKey) -> bool {
        self.asked.iter().any(|asked| asked.source == source)
    }

    /// Asks for a frame: a range of a copy, whose blocks end before `end`. `false` if there is no room for more.
    pub(super) fn ask(
        &mut self,
        source: FrameKey,
        end: usize,
        copy: &ExtentCopy,
        range: Range<usize>,
        method: CopyMethod,
    ) -> bool {
        if let Queue::Untried = self.reads {
            let reads = FileReads::new(READS).map(Box::new);
            self.reads = reads.map_or(Queue::Absent, Queue::Ready);
        }
        let Queue::Ready(reads) = &mut self.reads else {
            return false;
        };
        let read = copy.begin_copy_out(reads, range, PAD_BYTES, method);
        let is_begun = read.is_some();
        self.asked
            .extend(read.map(|read| Asked { source, end, read }));
        is_begun
    }

    /// What was asked for since the last call is read from now on.
    pub(super) fn submit(&mut self) {
        if let Queue::Ready(reads) = &mut self.reads {
            reads.submit();
        }
    }

    /// A frame that was asked for, when it has arrived.
    pub(super) fn take(&mut self, source: FrameKey) -> Option<io::Result<Copied>> {
        let place = self.asked.iter().position(|asked| asked.source == source)?;
        let Queue::Ready(reads) = &mut self.reads else {
            return None;
        };
        Some(reads.finish(self.asked.swap_remove(place).read))
    }

    /// Forgets frames that end at a block or before it.
    pub(super) fn forget_until(&mut self, block: usize) {
        let Queue::Ready(reads) = &mut self.reads else {
            return;
        };
        for asked in self.asked.extract_if(.., |asked| asked.end <= block) {
            reads.discard(asked.read);
        }
    }
}
