//! What a cursor asks for before it reads it: the first lines of a column's next block, whole blocks through a helper thread, and
//! frames that are read from a file.
//!
//! Helper and files are asked for the columns that the block before was read for, of the blocks that no condition skips by its
//! minima and maxima. A helper comes and goes from morsel to morsel, as cores are spare. It is asked beyond the end of a morsel, for
//! blocks of those that the cursor will take next, as long as they are of the same segment: minima and maxima are judged by the
//! segment's codes. Another cursor may take these first; a helper only hints.

use std::collections::VecDeque;
use std::iter;
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
    /// The first block of the morsel whose frames were not asked for.
    next_framed: usize,
    asked: Asked,
}

/// What a helper was asked for.
#[derive(Debug, Default)]
struct Asked {
    /// The block that is read, after its segment.
    current: Option<(usize, usize)>,
    /// The first block of the segment that was not looked at.
    next: usize,
    /// Blocks of the segment that were asked for, in their order, and the step that ends each.
    steps: VecDeque<(usize, u64)>,
}

impl Asked {
    /// A block of a segment is read. Returns the step up to which what was asked for is of no more use.
    fn begin_block(&mut self, segment: usize, block: usize) -> Option<u64> {
        let before = self.current.replace((segment, block));
        let goes_on = before.is_some_and(|(of, before)| of == segment && before < block);
        let mut passed = self.steps.len();
        match goes_on {
            true => passed = self.steps.partition_point(|(asked, _)| *asked <= block),
            // Another segment, or back to blocks of the same: pieces of a shared pass, or those that are read again.
            false => self.next = 0,
        }
        self.steps.drain(..passed).next_back().map(|(_, step)| step)
    }

    /// The next block to be looked at, of runs of blocks that will be read.
    fn next(&mut self, coming: impl Iterator<Item = Range<usize>>) -> Option<usize> {
        for blocks in coming {
            self.next = self.next.max(blocks.start);
            if self.next < blocks.end {
                self.next += 1;
                return Some(self.next - 1);
            }
        }
        None
    }
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
            next_framed: 0,
            asked: Asked::default(),
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
        if self.helper.as_ref().is_some_and(Helper::is_in_the_way) {
            self.end_help();
        } else if self.helper.is_none() {
            self.helper = busy.helper();
        }
    }

    /// Called when no morsel is left: the core is spare.
    pub(super) fn end(&mut self) {
        self.end_help();
        self.busy = None;
    }

    fn end_help(&mut self) {
        self.helper = None;
        // The next helper counts its own steps.
        self.asked = Asked::default();
    }

    /// Called before a block is read: asks for blocks of the `rest` of the morsel, and a helper for those of `further` ones, of which
    /// `is_read` says that no condition skips them. The segment comes with its number.
    pub(super) fn begin_block(
        &mut self,
        (segment, number): (&Segment, usize),
        block: usize,
        (rest, further): (Range<usize>, impl Iterator<Item = Range<usize>> + Clone),
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
        let coming = iter::once(rest.clone()).chain(further);
        self.ask_helper((segment, number), block, coming, counting, &is_read);
        if methods.has_frames() {
            copying.forget_until(block);
            let end = rest.end.min(block + FRAMES_AHEAD * FRAME_BLOCKS);
            self.ask_for_frames(segment, rest.start..end, methods, copying, is_read);
            copying.submit();
        }
    }

    fn ask_helper(
        &mut self,
        (segment, number): (&Segment, usize),
        block: usize,
        coming: impl Iterator<Item = Range<usize>> + Clone,
        counting: &mut Counting,
        is_read: impl Fn(usize) -> bool,
    ) {
        let Some(helper) = &mut self.helper else {
            return;
        };
        if let Some(step) = self.asked.begin_block(number, block) {
            helper.reach(step);
        }
        // Before the first block was read, nothing tells which columns are.
        while !self.last_columns.is_empty() && self.asked.steps.len() < self.blocks {
            let Some(next) = self.asked.next(coming.clone()) else {
                return;
            };
            if !is_read(next) {
                continue;
            }
            let mut step = 0;
            for column in &self.last_columns {
                let bytes = segment.chunk(*column).stored_block(next);
                step = helper.prefetch(&[bytes]);
            }
            self.asked.steps.push_back((next, step));
            counting.helped(self.last_columns.len());
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

    /// Called when a column of a block was asked for, which comes before what is asked for here; `next` is the block behind it.
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
            && !segment.is_framed(methods, column)
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Blocks that are asked for when a block is read, up to `most` of them at a time.
    fn ask(
        asked: &mut Asked,
        (segment, block): (usize, usize),
        coming: impl Iterator<Item = Range<usize>> + Clone,
        most: usize,
    ) -> Vec<usize> {
        asked.begin_block(segment, block);
        let mut found = Vec::new();
        while asked.steps.len() < most {
            let Some(next) = asked.next(coming.clone()) else {
                break;
            };
            asked.steps.push_back((next, next as u64));
            found.push(next);
        }
        found
    }

    #[test]
    fn a_helper_is_asked_beyond_the_end_of_a_morsel() {
        let mut asked = Asked::default();
        let coming = |block: usize| {
            let end = (block / 8 + 1) * 8;
            [block + 1..end, end..end + 8].into_iter()
        };
        assert_eq!(ask(&mut asked, (0, 0), coming(0), 8), Vec::from_iter(1..=8));
        for block in 1..40 {
            assert_eq!(asked.steps.len(), 8);
            let found = ask(&mut asked, (0, block), coming(block), 8);
            assert_eq!(found, [block + 8], "one block more for each that is read");
        }
        // Another cursor took the next morsel.
        let found = ask(
            &mut asked,
            (0, 48),
            iter::once(49..56).chain(iter::once(56..64)),
            8,
        );
        assert_eq!(found, Vec::from_iter(49..=56));
    }

    #[test]
    fn what_was_passed_is_given_up() {
        let mut asked = Asked::default();
        ask(&mut asked, (0, 0), iter::once(1..8), 4);
        assert_eq!(asked.begin_block(0, 2), Some(2));
        assert_eq!(asked.begin_block(0, 3), Some(3));
        // Back, and then another segment: what is left is of no more use.
        assert_eq!(asked.begin_block(0, 1), Some(4));
        assert_eq!(ask(&mut asked, (0, 1), iter::once(2..8), 2), [2, 3]);
        assert_eq!(asked.begin_block(1, 5), Some(3));
        assert_eq!(ask(&mut asked, (1, 5), iter::once(6..8), 8), [6, 7]);
        assert_eq!(asked.begin_block(1, 6), Some(6));
    }
}
