//! What a cursor asks for before it reads it: the first lines of a column's next block, whole blocks through a helper thread, and
//! frames that are read from a file.
//!
//! Helper and files are asked for the columns that the block before was read for, of the blocks that no condition skips by its
//! minima and maxima. A helper comes and goes from morsel to morsel, as cores are spare.

use std::collections::VecDeque;
use std::ops::Range;

use tierra_memory::Speed;
use tierra_memory::helper::{Busy, Helper};
use tierra_memory::prefetch;

use super::counting::Counting;
use crate::segment::Segment;
use crate::segment::framed::{Copying, FRAME_BLOCKS};
use crate::segment::frames_ahead::FRAMES_AHEAD;
use crate::segment::methods::Methods;
use crate::storage::access::Reading;

/// What one cursor asks for ahead.
pub(super) struct Ahead {
    /// Lines of a column's next block.
    lines: usize,
    /// Blocks that a helper is ahead; 0: no helper is asked for.
    blocks: usize,
    // Dropped before `busy`, which it is beside.
    helper: Option<Helper>,
    /// From the first morsel to the end of the scan.
    busy: Option<Busy>,
    /// Columns in far memory, or read in frames, that the current block was read for so far.
    columns: Vec<usize>,
    /// Those that the block before was read for.
    last_columns: Vec<usize>,
    /// The first block of the morsel that the helper was not asked for.
    next: usize,
    /// The first one whose frames were not asked for.
    next_framed: usize,
    /// Blocks that the helper was asked for, and the step that ends each.
    asked: VecDeque<(usize, u64)>,
}

impl Ahead {
    pub(super) fn new(reading: Reading) -> Ahead {
        Ahead {
            lines: reading.prefetch_lines,
            blocks: reading.helper_blocks,
            helper: None,
            busy: None,
            columns: Vec::new(),
            last_columns: Vec::new(),
            next: 0,
            next_framed: 0,
            asked: VecDeque::new(),
        }
    }

    /// Called before the blocks of another morsel are read.
    pub(super) fn begin_morsel(&mut self, copying: &mut Copying) {
        copying.forget_until(usize::MAX);
        self.next_framed = 0;
        let busy = self.busy.get_or_insert_with(Busy::begin);
        if self.blocks == 0 {
            return;
        }
        self.asked.clear();
        self.next = 0;
        if self.helper.as_ref().is_some_and(Helper::is_in_the_way) {
            self.helper = None;
        } else if self.helper.is_none() {
            self.helper = busy.helper();
        }
    }

    /// Called when no morsel is left: the core is spare.
    pub(super) fn end(&mut self) {
        self.helper = None;
        self.busy = None;
    }

    /// Called before a block is read: asks for blocks of the `rest` of the morsel of which `is_read` says that no condition skips
    /// them.
    pub(super) fn begin_block(
        &mut self,
        segment: &Segment,
        block: usize,
        rest: Range<usize>,
        (methods, copying): (&Methods, &mut Copying),
        counting: &mut Counting,
        is_read: impl Fn(usize) -> bool,
    ) {
        if self.helper.is_none() && !methods.has_frames() {
            return;
        }
        if !self.columns.is_empty() {
            std::mem::swap(&mut self.columns, &mut self.last_columns);
            self.columns.clear();
        }
        self.ask_helper(segment, block, rest.clone(), counting, &is_read);
        if methods.has_frames() {
            copying.forget_until(block);
            let end = rest.end.min(block + FRAMES_AHEAD * FRAME_BLOCKS);
            self.ask_for_frames(segment, rest.start..end, methods, copying, is_read);
            copying.submit();
        }
    }

    fn ask_helper(
        &mut self,
        segment: &Segment,
        block: usize,
        rest: Range<usize>,
        counting: &mut Counting,
        is_read: impl Fn(usize) -> bool,
    ) {
        let Some(helper) = &mut self.helper else {
            return;
        };
        let behind = self.asked.partition_point(|(asked, _)| *asked <= block);
        if let Some((_, step)) = self.asked.drain(..behind).next_back() {
            helper.reach(step);
        }
        self.next = self.next.max(rest.start);
        while self.asked.len() < self.blocks && self.next < rest.end {
            if is_read(self.next) {
                let mut step = 0;
                for column in &self.last_columns {
                    let bytes = segment.chunk(*column).stored_block(self.next);
                    step = helper.prefetch(&[bytes]);
                }
                self.asked.push_back((self.next, step));
                counting.helped(self.last_columns.len());
            }
            self.next += 1;
        }
    }

    fn ask_for_frames(
        &mut self,
        segment: &Segment,
        blocks: Range<usize>,
        methods: &Methods,
        copying: &mut Copying,
        is_read: impl Fn(usize) -> bool,
    ) {
        self.next_framed = self.next_framed.max(blocks.start);
        while self.next_framed < blocks.end {
            let next = self.next_framed;
            let mut columns = self.last_columns.iter();
            if is_read(next)
                && !columns.all(|column| segment.ask_for_frame(methods, copying, *column, next))
            {
                return;
            }
            self.next_framed += 1;
        }
    }

    /// Called before a column of a block is read; `next` is the block behind it.
    #[inline]
    pub(super) fn begin_column(
        &mut self,
        segment: &Segment,
        column: usize,
        next: Option<usize>,
        methods: &Methods,
    ) {
        if self.lines > 0
            && let Some(next) = next
        {
            prefetch(segment.chunk(column).stored_block(next), self.lines);
        }
        let is_asked_ahead = methods.has_frames() || self.helper.is_some();
        if is_asked_ahead && segment.speed(column) == Speed::Far && !self.columns.contains(&column)
        {
            self.columns.push(column);
        }
    }
}
