//! One thread's part of a scan: morsel by morsel, block by block, into batches.
//!
//! For a block, every condition is first judged by minima, maxima and NULL counts alone. Conditions that need the values are
//! tested on packed codes one after the other, each narrowing the mask, unless an inverted index has listed the rows before. Only
//! surviving rows of the projected columns are unpacked, or added up where only totals are wanted.

use std::iter;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, UInt64Array};
use arrow::buffer::BooleanBuffer;
use arrow::compute::filter;
use arrow::error::ArrowError;
use tierra_column::bits::{BLOCK_LEN, Kernels, Level, Mask};
use tierra_column::{Chunk, Filter, Scratch, Verdict, evaluate};

use super::ahead::Ahead;
use super::counting::Counting;
use super::filters::Conditions;
use super::level::Chosen;
use super::load::Load;
use super::shared::{MORSEL_BLOCKS, Morsel, NextMorsel, Scan, TakenMorsel};
use super::sinks::{ScanGroups, ScanTotals, Sinks, readers};
use super::spec::{Output, ScanCounters};
use super::whole::Whole;
use crate::error::ScanError;
use crate::manifest::row_id::RowId;
use crate::read::batch::{AtWork, Share};
use crate::segment::Segment;
use crate::segment::framed::Copying;
use crate::segment::methods::Methods;
use crate::spec::TableSpec;
use crate::storage::READS_MOST;
use crate::storage::access::Reading;
use crate::table::version::TableVersion;

/// Returns the rows of the morsels that it takes. Made by [`Scan::cursor`].
pub struct ScanCursor {
    scan: Arc<Scan>,
    conditions: Conditions,
    /// Columns that conditions or the result need, each once.
    needed: Vec<usize>,
    /// The rest of the last morsel.
    at: Option<Progress>,
    /// The sources of the current batch: where it began, and the morsels taken since.
    made_of: Vec<Work>,
    /// Work to repeat before other morsels are taken, the next last.
    again: Vec<Work>,
    /// Whether a block of the batch turned out to be damaged and was repaired.
    is_stale: bool,
    batch: Batch,
    undecided: Vec<usize>,
    scratch: Scratch,
    counting: Counting,
    methods: Methods,
    copying: Copying,
    ahead: Ahead,
    level: Chosen,
    load: Load,
    /// A morsel that begins the next batch.
    held: Option<TakenMorsel>,
    /// Morsels that were taken with the last one.
    more: std::vec::IntoIter<(usize, Option<Share>)>,
    /// What other scans of the batch share of the last morsel, unless it is taken whole.
    share: Option<Share>,
    whole: Whole,
    /// As long as it may take morsels.
    at_work: Option<AtWork>,
}

/// A source of rows.
#[derive(Clone)]
enum Work {
    Morsel(Morsel),
    Rest(Progress),
}

#[derive(Clone)]
enum Progress {
    Blocks {
        segment: usize,
        blocks: Range<usize>,
    },
    Tail {
        batch: usize,
        rows: Range<usize>,
    },
}

/// The batch that is being filled.
struct Batch {
    sinks: Sinks,
    rows: usize,
    /// The rows' ids, if the scan returns them.
    ids: Option<Vec<u64>>,
}

impl Scan {
    /// A cursor for one thread, which reads in place.
    pub fn cursor(self: &Arc<Self>) -> ScanCursor {
        self.cursor_with(Methods::IN_PLACE, Reading::default(), Kernels::best())
    }

    /// A cursor for one thread, which reads blocks in far memory so. Its rows are those of any other.
    ///
    /// # Errors
    /// [`ScanError::Access`] if a tier of the database cannot be read so, [`ScanError::Level`] if the CPU lacks the instructions.
    pub fn cursor_by(self: &Arc<Self>, reading: Reading) -> Result<ScanCursor, ScanError> {
        let kernels = match reading.level {
            Some(level) => Kernels::at(level).ok_or(ScanError::Level(level))?,
            None => Kernels::best(),
        };
        let tiers = self.snapshot.table().storage().tiers();
        let segments = &self.snapshot.version().segments;
        let columns = &self.spec.projection;
        let (mut decoding, mut scratch) = (None, Scratch::with(kernels));
        let decode = |column: usize, chunk: &Chunk<'_>, block: usize| {
            let Some(place) = columns.iter().position(|other| *other == column) else {
                return;
            };
            let readers: &mut Vec<_> = decoding.get_or_insert_with(|| readers(self));
            let all = Mask::first(chunk.block_rows(block));
            let dictionary = self.snapshot.version().dictionary(column);
            // Damage is for the scan to find.
            let _ = readers[place].append(chunk, block, &all, dictionary, &mut scratch);
        };
        let methods = Methods::settle(reading.access, &tiers, segments, columns, decode)?;
        Ok(self.cursor_with(methods, reading, kernels))
    }

    fn cursor_with(
        self: &Arc<Self>,
        methods: Methods,
        reading: Reading,
        kernels: Kernels,
    ) -> ScanCursor {
        // Relaxed, here and below: an estimate.
        self.cursors.fetch_add(1, Ordering::Relaxed);
        ScanCursor::new(self.clone(), methods, reading, kernels)
    }
}

impl ScanCursor {
    fn new(scan: Arc<Scan>, methods: Methods, reading: Reading, kernels: Kernels) -> Self {
        let spec = scan.snapshot.table().spec();
        let mut cursor = Self {
            conditions: Conditions::new(&scan),
            needed: Vec::new(),
            at: None,
            made_of: Vec::new(),
            again: Vec::new(),
            is_stale: false,
            batch: Batch {
                sinks: Sinks::of(&scan),
                rows: 0,
                ids: matches!(scan.output, Output::RowsWithIds).then(Vec::new),
            },
            undecided: Vec::new(),
            scratch: Scratch::with(kernels),
            counting: Counting::new(spec.columns.len()),
            methods,
            copying: Copying::default(),
            ahead: Ahead::new(reading),
            level: Chosen::new(&scan, kernels, reading.level),
            load: Load::new(&scan.snapshot.table().storage().tiers()),
            held: None,
            more: Vec::new().into_iter(),
            share: None,
            whole: Whole::default(),
            at_work: scan.member.as_ref().map(|member| member.at_work()),
            scan,
        };
        cursor.settle_needed();
        cursor
    }

    /// Whether the last morsel has blocks left.
    fn has_block(&self) -> bool {
        let is_block =
            |rest: &Progress| matches!(rest, Progress::Blocks { blocks, .. } if !blocks.is_empty());
        self.at.as_ref().is_some_and(is_block)
            || !self.again.is_empty()
            || self.held.is_some()
            || self.more.len() > 0
    }

    /// The block behind the current one, if it is of the same morsel.
    fn next_block(&self) -> Option<usize> {
        match &self.at {
            Some(Progress::Blocks { blocks, .. }) if !blocks.is_empty() => Some(blocks.start),
            _ => None,
        }
    }

    fn settle_needed(&mut self) {
        let filtered = self.conditions.iter().map(|condition| condition.column);
        self.needed = self
            .scan
            .spec
            .projection
            .iter()
            .copied()
            .chain(filtered)
            .collect();
        self.needed.sort_unstable();
        self.needed.dedup();
    }

    /// The instructions of the kernels that test and unpack blocks.
    pub fn level(&self) -> Level {
        self.scratch.kernels().level()
    }

    /// The counters so far.
    pub fn counters(&self) -> ScanCounters {
        let (values, codes) = (self.conditions.report(), self.conditions.index_report());
        ScanCounters {
            lookups: values.lookups,
            index_lookups: codes.lookups,
            suspensions: values.suspensions + codes.suspensions,
            ..self.counting.counters()
        }
    }

    /// The next batch, of about the scan's `batch_rows` rows, or `None` at the end. `more` are conditions that became known since
    /// the scan began. The batch is empty if scans that share a pass with this one are far behind: they should run before the next call.
    /// Conditions are read only when `more_version` differs from the previous call, and hold for rows read from then
    /// on. Cursors of one scan share what they compute for the conditions of one version; versions must increase.
    ///
    /// # Errors
    /// [`ScanError`]: damaged bytes, or a condition that a column cannot evaluate.
    ///
    /// # Panics
    /// If `more` names a column that does not exist, or the scan returns no rows.
    pub fn next(
        &mut self,
        more: &[(usize, Filter)],
        more_version: u64,
    ) -> Result<Option<RecordBatch>, ScanError> {
        assert!(self.batch.sinks.are_values(), "the scan returns no rows");
        let batch = self.next_validated(more, more_version, Self::emit)?;
        if let Some(batch) = &batch {
            self.whole.end(batch, &self.scan.spec.projection);
            self.counting.returned(batch.num_rows());
        }
        Ok(batch)
    }

    /// Reads about as many rows as [`ScanCursor::next`] and returns their totals, or `None` at the end. All else is as there.
    ///
    /// # Errors
    /// As [`ScanCursor::next`].
    ///
    /// # Panics
    /// If `more` names a column that does not exist, or the scan does not return totals.
    pub fn next_totals(
        &mut self,
        more: &[(usize, Filter)],
        more_version: u64,
    ) -> Result<Option<ScanTotals>, ScanError> {
        let totals = self.next_validated(more, more_version, Self::emit_totals)?;
        if let Some(totals) = &totals {
            self.counting.returned(totals.rows as usize);
        }
        Ok(totals)
    }

    /// Reads about as many rows as [`ScanCursor::next`] and returns their totals by group, or `None` at the end. All else is as there.
    ///
    /// # Errors
    /// As [`ScanCursor::next`].
    ///
    /// # Panics
    /// If `more` names a column that does not exist, or the scan does not return groups.
    pub fn next_groups(
        &mut self,
        more: &[(usize, Filter)],
        more_version: u64,
    ) -> Result<Option<ScanGroups>, ScanError> {
        let groups = self.next_validated(more, more_version, Self::emit_groups)?;
        if let Some(groups) = &groups {
            self.counting
                .returned(groups.rows.iter().sum::<u64>() as usize);
        }
        Ok(groups)
    }

    /// Fills a batch, repeatedly if what was read turned out to be lost, and returns what `emit` makes of it.
    fn next_validated<T>(
        &mut self,
        more: &[(usize, Filter)],
        more_version: u64,
        emit: impl Fn(&mut Self) -> Result<T, ScanError>,
    ) -> Result<Option<T>, ScanError> {
        self.scan.snapshot.table().check_available()?;
        for _ in 0..READS_MOST {
            let storage = self.scan.snapshot.table().storage();
            let seen = storage.losses().begin_read();
            self.made_of.clear();
            self.made_of.extend(self.at.clone().map(Work::Rest));
            let batch = match self.read_batch(more, more_version) {
                Ok(true) => emit(self).map(Some),
                Ok(false) => Ok(None),
                Err(error) => Err(error),
            };
            // Before the rows, or an error, are returned.
            if self.scan.snapshot.table().storage().validate(seen) && !self.is_stale {
                if !matches!(batch, Ok(Some(_))) {
                    self.whole.abandon();
                    self.share = None;
                }
                return batch;
            }
            self.read_again();
        }
        Err(self.scan.snapshot.table().storage().lost_while_read())
    }

    /// Discards the current batch: its rows are read again.
    #[cold]
    fn read_again(&mut self) {
        self.is_stale = false;
        self.whole.abandon();
        self.share = None;
        self.at = None;
        self.again.extend(self.made_of.drain(..).rev());
        self.conditions.unbind();
        self.batch.rows = 0;
        // Sinks that stopped within a block hold no usable rows.
        self.batch.sinks = Sinks::of(&self.scan);
        self.batch.ids.iter_mut().for_each(Vec::clear);
    }

    /// Fills a batch; returns whether there is one.
    fn read_batch(
        &mut self,
        more: &[(usize, Filter)],
        more_version: u64,
    ) -> Result<bool, ScanError> {
        let scan = self.scan.clone();
        if self.conditions.set_more(&scan, more, more_version) {
            self.settle_needed();
        }
        // No index lists rows of the tail.
        if self.has_block() || scan.has_blocks() {
            self.conditions.ask_indexes(&scan)?;
        }
        let version = scan.snapshot.version();
        let full = scan.spec.batch_rows.max(1);
        let mut are_others_first = false;
        while (self.batch.rows < full || self.whole.is_filling()) && !self.is_stale {
            match self.at.take() {
                None if self.whole.is_filling() => break,
                None => match self.again.pop() {
                    Some(work) => self.begin(work, version),
                    None => match self.take(&scan) {
                        NextMorsel::End => {
                            self.at_work = None;
                            self.ahead.end();
                            self.load.end();
                            break;
                        }
                        NextMorsel::OthersFirst => {
                            self.load.end();
                            are_others_first = true;
                            break;
                        }
                        NextMorsel::Taken(taken)
                            if self.batch.rows > 0 && self.is_taken_whole(&taken, version) =>
                        {
                            self.held = Some(taken);
                            break;
                        }
                        NextMorsel::Taken(taken) => self.begin_taken(taken, version),
                    },
                },
                Some(Progress::Blocks {
                    segment,
                    mut blocks,
                }) => {
                    let Some(block) = blocks.next() else { continue };
                    self.at = Some(Progress::Blocks { segment, blocks });
                    self.read_block(segment, block, version)?;
                }
                Some(Progress::Tail { batch, mut rows }) => {
                    if rows.is_empty() {
                        continue;
                    }
                    let part = rows.start..rows.end.min(rows.start + full);
                    rows.start = part.end;
                    self.at = Some(Progress::Tail { batch, rows });
                    self.read_tail(version, batch, part)?;
                }
            }
        }
        Ok(!self.is_stale && (self.batch.rows > 0 || are_others_first))
    }

    /// The next morsel.
    fn take(&mut self, scan: &Scan) -> NextMorsel {
        if let Some(held) = self.held.take() {
            return NextMorsel::Taken(held);
        }
        if let Some((number, share)) = self.more.next() {
            return NextMorsel::Taken(TakenMorsel::one(scan.morsels[number], share));
        }
        let mut next = scan.take();
        if let NextMorsel::Taken(taken) = &mut next {
            self.more = std::mem::take(&mut taken.more).into_iter();
        }
        next
    }

    /// Whether all rows of a morsel are taken, so that its columns can be shared with other scans of the batch. Their versions
    /// may lack other rows.
    fn is_taken_whole(&self, taken: &TakenMorsel, version: &TableVersion) -> bool {
        let Morsel::Blocks { segment, first, .. } = taken.morsel else {
            return false;
        };
        taken.share.is_some()
            && deleted_in(version, &version.segments[segment], first) == 0
            && self.conditions.len() == 0
            && self.batch.ids.is_none()
            && self.batch.sinks.are_values()
            && !self.batch.sinks.is_empty()
    }

    /// Begins a morsel that was just taken.
    fn begin_taken(&mut self, taken: TakenMorsel, version: &TableVersion) {
        let is_whole = self.is_taken_whole(&taken, version);
        self.begin(Work::Morsel(taken.morsel), version);
        let (
            Some(share),
            Morsel::Blocks {
                segment,
                first,
                end,
            },
        ) = (taken.share, taken.morsel)
        else {
            return;
        };
        let segment = &version.segments[segment];
        let read_first = share.begin(segment.read_as(self.load.other()));
        if self.at.is_some() {
            self.load.follow(segment, read_first, &self.needed);
        }
        if !is_whole {
            share.open();
            self.share = Some(share);
            return;
        }
        let rows = (first..end).map(|block| segment.block_rows(block)).sum();
        let are_all_given = self.whole.begin(share, rows, &self.scan.spec.projection);
        let is_there = |column: &usize| !segment.is_placeholder(*column);
        if are_all_given && self.needed.iter().all(is_there) {
            self.at = None;
            self.load.end();
            self.batch.rows = rows;
            self.counting
                .given_blocks((end - first) * self.needed.len());
        }
    }

    fn begin(&mut self, work: Work, version: &TableVersion) {
        self.share = None;
        let is_select = self.conditions.len() > 0;
        if let Some(kernels) = self.level.changed(&self.scan, is_select) {
            self.scratch.set_kernels(kernels);
        }
        self.made_of.push(work.clone());
        self.ahead.begin_morsel(&mut self.copying);
        self.load.end();
        let spec = self.scan.snapshot.table().spec();
        let morsel = match work {
            Work::Morsel(morsel) => morsel,
            Work::Rest(rest) => {
                if let Progress::Blocks { segment, .. } = rest {
                    let segment = &version.segments[segment];
                    self.load.begin(segment, spec, &self.needed);
                }
                self.at = Some(rest);
                return;
            }
        };
        match morsel {
            // Only the number of rows is wanted, and the chunk headers have it.
            Morsel::Blocks {
                segment,
                first,
                end,
            } if self.needed.is_empty() && self.batch.ids.is_none() => {
                let segment = &version.segments[segment];
                let stored = (first..end).map(|block| segment.block_rows(block));
                self.batch.rows += stored.sum::<usize>() - deleted_in(version, segment, first);
            }
            Morsel::Blocks {
                segment,
                first,
                end,
            } => {
                let morsel = self.scan.first_morsels[segment] + first / MORSEL_BLOCKS;
                let only_counted = self.batch.sinks.is_empty() && self.batch.ids.is_none();
                let is_answered = only_counted
                    && self.conditions.is_answered(segment)
                    && deleted_in(version, &version.segments[segment], first) == 0;
                if let Some(left) = self.conditions.left(segment, morsel)
                    && (left == 0 || is_answered)
                {
                    self.batch.rows += left;
                    self.counting.skipped((end - first) * self.needed.len());
                    return;
                }
                self.load
                    .begin(&version.segments[segment], spec, &self.needed);
                self.at = Some(Progress::Blocks {
                    segment,
                    blocks: first..end,
                });
            }
            Morsel::Tail { batch } => {
                let rows = 0..version.tail.batches()[batch].rows.num_rows();
                self.at = Some(Progress::Tail { batch, rows });
            }
        }
    }

    fn read_block(
        &mut self,
        at: usize,
        block: usize,
        version: &TableVersion,
    ) -> Result<(), ScanError> {
        let other = self.load.other();
        let segment = &**version.segments[at].read_as(other);
        let scan = self.scan.clone();
        let spec = scan.snapshot.table().spec();
        let mut mask = Mask::first(segment.block_rows(block));
        let deleted = version.deletions.of(segment.id());
        if let Some(deleted) = deleted.and_then(|deleted| deleted.block(block)) {
            mask.and_not(deleted);
        }
        if !self.conditions.narrow(&scan, at, block, &mut mask) {
            self.counting.skipped(self.needed.len());
            return Ok(());
        }
        self.conditions.bind((at, other), segment, version, spec)?;
        self.counting.begin_block(segment, other.is_some());
        self.ask_ahead((segment, at), block);
        let next = self.next_block();
        if self.select(segment, block, spec, &mut mask)? {
            self.conditions.check_there(at, segment, spec, block)?;
            self.counting.given(self.whole.given());
            let rows = mask.count();
            for at in 0..scan.spec.projection.len() {
                let sinks = &mut self.batch.sinks;
                let place = sinks.place(at);
                let column = &scan.spec.projection[place];
                if self.whole.is_given(place) || !sinks.are_values() {
                    segment.check_there(spec, *column, block)?;
                }
                if self.whole.is_given(place)
                    || sinks.add_known(place, segment.chunk(*column), block, rows)
                {
                    continue;
                }
                let share = self.share.as_ref().or(self.whole.share());
                let _reading = self
                    .counting
                    .read(segment, *column, block, &self.methods, share);
                self.ahead
                    .begin_column(segment, *column, next, &self.methods);
                let append = |chunk: &Chunk<'_>| {
                    let dictionary = version.dictionary(*column);
                    sinks.append(place, chunk, block, &mask, dictionary, &mut self.scratch)
                };
                let (methods, copying) = (&self.methods, &mut self.copying);
                let appended = segment.read_by(methods, copying, spec, *column, block, append);
                self.counting.copied(copying);
                let Some(are_unpacked) = appended? else {
                    self.is_stale = true;
                    return Ok(());
                };
                if are_unpacked {
                    self.counting.decoded(*column);
                }
            }
            if let Some(ids) = &mut self.batch.ids {
                let first = RowId::new(segment.id(), (block * BLOCK_LEN) as u32).get();
                match rows == segment.block_rows(block) {
                    true => ids.extend(first..first + rows as u64),
                    false => ids.extend(mask.iter().map(|row| first + row as u64)),
                }
            }
            self.batch.rows += rows;
        }
        self.counting.end_block(self.needed.len());
        Ok(())
    }

    /// Asks for what will be read after this block, of the morsel and of those that are taken next.
    fn ask_ahead(&mut self, (segment, at): (&Segment, usize), block: usize) {
        let Some(Progress::Blocks { blocks, .. }) = &self.at else {
            return;
        };
        let conditions = &self.conditions;
        let is_read = |block| {
            let mut all = (0..conditions.len()).filter_map(|place| conditions.at(place));
            all.all(|(_, condition, bound)| {
                let verdict = segment.chunk(condition.column).verdict(bound, block);
                !matches!(verdict, Verdict::Skip)
            })
        };
        let (scan, more) = (&*self.scan, self.more.as_slice());
        let hint = iter::once_with(|| more.is_empty().then(|| scan.next_hint()));
        let further = more.iter().map(|(morsel, _)| *morsel);
        let further = further.chain(hint.flatten()).filter_map(|morsel| {
            let blocks = scan.blocks_of(at, morsel)?;
            (conditions.left(at, morsel) != Some(0)).then_some(blocks)
        });
        let framing = (&self.methods, &mut self.copying);
        let (coming, counting) = ((blocks.clone(), further), &mut self.counting);
        self.ahead
            .begin_block((segment, at), block, coming, framing, counting, is_read);
    }

    /// Narrows the mask to the rows that meet all conditions; returns whether there are any.
    fn select(
        &mut self,
        segment: &Segment,
        block: usize,
        spec: &TableSpec,
        mask: &mut Mask,
    ) -> Result<bool, ScanError> {
        self.undecided.clear();
        let next = self.next_block();
        for place in 0..self.conditions.len() {
            let Some((_, condition, bound)) = self.conditions.at(place) else {
                continue;
            };
            match segment.chunk(condition.column).verdict(bound, block) {
                Verdict::Skip => return Ok(false),
                Verdict::All => {}
                Verdict::Test => self.undecided.push(place),
            }
        }
        let mut rows = mask.count();
        for place in &self.undecided {
            let Some((index, condition, bound)) = self.conditions.at(*place) else {
                continue;
            };
            let column = condition.column;
            let share = self.share.as_ref();
            let _reading = self
                .counting
                .read(segment, column, block, &self.methods, share);
            self.ahead
                .begin_column(segment, column, next, &self.methods);
            let select = |chunk: &Chunk<'_>| chunk.select(bound, block, mask, &mut self.scratch);
            let selected = segment.read_by(
                &self.methods,
                &mut self.copying,
                spec,
                column,
                block,
                select,
            );
            self.counting.copied(&mut self.copying);
            let Some(touched) = selected? else {
                self.is_stale = true;
                return Ok(false);
            };
            if touched.decoded {
                self.counting.decoded(column);
            }
            let passed = mask.count();
            self.conditions.note(index, rows, passed, touched.bytes);
            if passed == 0 {
                return Ok(false);
            }
            rows = passed;
        }
        Ok(true)
    }

    fn read_tail(
        &mut self,
        version: &TableVersion,
        batch: usize,
        rows: Range<usize>,
    ) -> Result<(), ScanError> {
        let first_row = version.tail.batches()[batch].first_row;
        let batch = &version.tail.batches()[batch].rows;
        let scan = self.scan.clone();
        let spec = scan.snapshot.table().spec();
        let mut selected = tail_rows_left(version, first_row as usize, &rows);
        self.counting.tail_rows(rows.len());
        for (place, condition) in self.conditions.iter().enumerate() {
            let values = batch.column(condition.column).slice(rows.start, rows.len());
            let mut before = self.conditions.iter().take(place);
            if !before.any(|before| before.column == condition.column) {
                self.counting.tail_values(&values);
            }
            let passing =
                evaluate(&condition.filter, &values).map_err(|source| ScanError::Filter {
                    table: spec.name.clone(),
                    column: spec.columns[condition.column].name.clone(),
                    source,
                })?;
            selected = Some(match selected {
                None => passing,
                Some(before) => &before & &passing,
            });
        }
        let surviving = selected
            .as_ref()
            .map_or(rows.len(), BooleanBuffer::count_set_bits);
        if surviving == 0 {
            return Ok(());
        }
        if let Some(ids) = &mut self.batch.ids {
            let first = RowId::new(version.tail.segment_id, first_row).get() + rows.start as u64;
            let passing = (0..rows.len()).filter(|row| {
                let bits = selected.as_ref();
                bits.is_none_or(|bits| bits.value(*row))
            });
            ids.extend(passing.map(|row| first + row as u64));
        }
        let selected = selected
            .filter(|_| surviving < rows.len())
            .map(|bits| BooleanArray::new(bits, None));
        for at in 0..scan.spec.projection.len() {
            let place = self.batch.sinks.place(at);
            let column = &scan.spec.projection[place];
            let values = batch.column(*column).slice(rows.start, rows.len());
            if !self.conditions.iter().any(|other| other.column == *column) {
                self.counting.tail_values(&values);
            }
            let values = match &selected {
                None => values,
                Some(selected) => {
                    filter(&values, selected).map_err(|source| arrow_error(spec, source))?
                }
            };
            let appended = self.batch.sinks.append_array(place, &values);
            appended
                .map_err(|error| arrow_error(spec, ArrowError::ExternalError(Box::new(error))))?;
        }
        self.batch.rows += surviving;
        Ok(())
    }

    fn emit_totals(&mut self) -> Result<ScanTotals, ScanError> {
        let columns = self.batch.sinks.take_totals();
        Ok(ScanTotals {
            rows: std::mem::take(&mut self.batch.rows) as u64,
            columns: columns.expect("the scan does not return totals"),
        })
    }

    fn emit_groups(&mut self) -> Result<ScanGroups, ScanError> {
        self.batch.rows = 0;
        let spec = self.scan.snapshot.table().spec();
        let groups = self.batch.sinks.take_groups();
        let groups = groups
            .map_err(|source| arrow_error(spec, ArrowError::ExternalError(Box::new(source))))?;
        Ok(groups.expect("the scan does not return groups"))
    }

    fn emit(&mut self) -> Result<RecordBatch, ScanError> {
        let sinks = &mut self.batch.sinks;
        let mut columns: Vec<ArrayRef> = (0..sinks.len())
            .filter_map(|place| self.whole.take(place).or_else(|| sinks.take_values(place)))
            .collect();
        if let Some(ids) = &mut self.batch.ids {
            let next = Vec::with_capacity(ids.len());
            columns.push(Arc::new(UInt64Array::from(std::mem::replace(ids, next))));
        }
        let options =
            RecordBatchOptions::new().with_row_count(Some(std::mem::take(&mut self.batch.rows)));
        let batch = RecordBatch::try_new_with_options(self.scan.schema.clone(), columns, &options);
        batch.map_err(|source| arrow_error(self.scan.snapshot.table().spec(), source))
    }
}

/// Number of deleted rows of the morsel that begins with this block.
fn deleted_in(version: &TableVersion, segment: &Segment, first: usize) -> usize {
    let deleted = version.deletions.of(segment.id());
    deleted.map_or(0, |deleted| deleted.count_in_page(first))
}

/// Which rows of a batch of the tail are not deleted; `None` if all are left. The batch begins with row `first` of the tail.
fn tail_rows_left(
    version: &TableVersion,
    first: usize,
    rows: &Range<usize>,
) -> Option<BooleanBuffer> {
    let deleted = version.deletions.of(version.tail.segment_id)?;
    let is_left = |row| !deleted.contains(first + rows.start + row);
    Some(BooleanBuffer::collect_bool(rows.len(), is_left))
}

fn arrow_error(spec: &TableSpec, source: ArrowError) -> ScanError {
    ScanError::Arrow {
        table: spec.name.clone(),
        source,
    }
}

impl std::fmt::Debug for ScanCursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "ScanCursor({:?}, {:?})",
            self.scan.schema.fields().len(),
            self.counters()
        )
    }
}
