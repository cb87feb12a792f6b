//! The state that the cursors of a scan share: the morsels, and which of them are taken.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::datatypes::{Schema, SchemaRef};

use super::codes::{LaterCodes, SharedCodes};
use super::spec::{IndexUse, Output, ScanSpec, row_id_field};
use crate::deleted::PAGE_BLOCKS;
use crate::read::batch::{Member, Next, PIECE_BLOCKS, Share, at_a_time};
use crate::table::snapshot::Snapshot;

/// Blocks of a morsel: 8,192 rows are enough to make the counter cheap, few enough to keep eight threads busy on 100,000 rows, and
/// as many as a batch of rows has, so that scans can share them. Deleted rows are counted by morsel.
pub(super) const MORSEL_BLOCKS: usize = 8;
const _: () = assert!(MORSEL_BLOCKS == PIECE_BLOCKS, "scans share morsels");
const _: () = assert!(
    MORSEL_BLOCKS == PAGE_BLOCKS,
    "deleted rows are counted by morsel"
);

/// A unit of work of one cursor.
#[derive(Clone, Copy, Debug)]
pub(super) enum Morsel {
    Blocks {
        segment: usize,
        first: usize,
        end: usize,
    },
    Tail {
        batch: usize,
    },
}

/// A scan of one snapshot.
#[derive(Debug)]
pub struct Scan {
    pub(super) snapshot: Snapshot,
    pub(super) spec: ScanSpec,
    pub(super) output: Output,
    pub(super) index_use: IndexUse,
    /// Threads that have asked for a cursor.
    pub(super) cursors: AtomicUsize,
    /// By filter of the specification.
    pub(super) codes: Vec<Arc<SharedCodes>>,
    /// Of conditions that cursors received later.
    pub(super) later: LaterCodes,
    pub(super) schema: SchemaRef,
    /// Those of the segments, then those of the tail.
    pub(super) morsels: Vec<Morsel>,
    /// Number of morsels of segments.
    pub(super) block_morsels: usize,
    /// By segment: its first morsel.
    pub(super) first_morsels: Vec<usize>,
    pub(super) next: AtomicUsize,
    /// Hands out the morsels of segments instead of `next`, if the scan shares a pass with others.
    pub(super) member: Option<Arc<Member>>,
    /// The level that a cursor took last, as its place among all levels.
    pub(super) level: AtomicUsize,
}

/// A morsel that one cursor takes.
#[derive(Debug)]
pub(super) struct TakenMorsel {
    pub(super) morsel: Morsel,
    /// Morsels that were taken with it.
    pub(super) more: Vec<(usize, Option<Share>)>,
    /// What others of the batch read of it, or may read.
    pub(super) share: Option<Share>,
}

/// What a cursor reads next.
pub(super) enum NextMorsel {
    Taken(TakenMorsel),
    /// Nothing yet: other scans of the batch run first.
    OthersFirst,
    End,
}

impl TakenMorsel {
    pub(super) fn one(morsel: Morsel, share: Option<Share>) -> Self {
        Self {
            morsel,
            more: Vec::new(),
            share,
        }
    }
}

impl Scan {
    pub(super) fn new(
        snapshot: Snapshot,
        spec: ScanSpec,
        output: Output,
        index_use: IndexUse,
        member: Option<Arc<Member>>,
    ) -> Arc<Self> {
        let table = snapshot.table().schema();
        let filtered = spec.filters.iter().map(|(column, _)| *column);
        for column in spec.projection.iter().copied().chain(filtered) {
            assert!(
                column < table.fields().len(),
                "a scan names column {column} of {}",
                table.fields().len()
            );
        }
        let wanted = match &output {
            Output::Rows | Output::RowsWithIds => None,
            Output::Totals(wanted) => Some(wanted.len()),
            Output::Groups { wanted, .. } => Some(wanted.len()),
        };
        assert!(
            wanted.is_none_or(|wanted| wanted == spec.projection.len()),
            "totals are wanted of each column of the projection"
        );
        let mut fields: Vec<_> = spec
            .projection
            .iter()
            .map(|column| table.fields()[*column].clone())
            .collect();
        if let Output::RowsWithIds = output {
            fields.push(row_id_field(&table));
        }
        let mut morsels = Vec::new();
        let mut first_morsels = Vec::with_capacity(snapshot.segments().len());
        for (segment, blocks) in snapshot
            .segments()
            .iter()
            .map(|segment| segment.blocks())
            .enumerate()
        {
            first_morsels.push(morsels.len());
            morsels.extend(
                (0..blocks)
                    .step_by(MORSEL_BLOCKS)
                    .map(|first| Morsel::Blocks {
                        segment,
                        first,
                        end: (first + MORSEL_BLOCKS).min(blocks),
                    }),
            );
        }
        let block_morsels = morsels.len();
        morsels.extend(
            (0..snapshot.version().tail.batches().len()).map(|batch| Morsel::Tail { batch }),
        );
        let schema = Arc::new(Schema::new(fields));
        Arc::new(Self {
            codes: spec.filters.iter().map(|_| Arc::default()).collect(),
            snapshot,
            spec,
            output,
            index_use,
            cursors: AtomicUsize::new(0),
            schema,
            morsels,
            block_morsels,
            first_morsels,
            later: LaterCodes::default(),
            next: AtomicUsize::new(if member.is_some() { block_morsels } else { 0 }),
            member,
            level: AtomicUsize::new(usize::MAX),
        })
    }

    /// The schema of the batches.
    pub fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    /// The snapshot that is scanned.
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// The approximate number of threads that share the work.
    pub(super) fn threads(&self) -> u64 {
        self.cursors.load(Ordering::Relaxed).max(1) as u64
    }

    /// The share of the morsels that is not taken, from 0 to 1.
    pub(super) fn left(&self) -> f64 {
        // Relaxed: an estimate.
        let taken = self.next.load(Ordering::Relaxed).min(self.morsels.len());
        let left = self.morsels.len() - taken + self.member.as_ref().map_or(0, |it| it.left());
        left as f64 / self.morsels.len().max(1) as f64
    }

    /// Whether there are blocks that are not taken.
    pub(super) fn has_blocks(&self) -> bool {
        match &self.member {
            Some(member) => member.left() > 0,
            // Relaxed: the counter only grows, so a `false` stays false.
            None => self.next.load(Ordering::Relaxed) < self.block_morsels,
        }
    }

    /// The blocks of a morsel, if it is of that segment.
    pub(super) fn blocks_of(&self, segment: usize, morsel: usize) -> Option<Range<usize>> {
        match self.morsels.get(morsel)? {
            Morsel::Blocks {
                segment: of,
                first,
                end,
            } if *of == segment => Some(*first..*end),
            _ => None,
        }
    }

    /// The morsel that is taken next, by whichever cursor. A hint: the caller does not have it.
    pub(super) fn next_hint(&self) -> usize {
        // Relaxed: nothing depends on it. Where a scan shares a pass it is one of the tail.
        self.next.load(Ordering::Relaxed)
    }

    /// What a cursor reads next.
    pub(super) fn take(&self) -> NextMorsel {
        match self.member.as_ref().map(|member| member.take()) {
            Some(Next::Piece(taken)) => {
                return NextMorsel::Taken(TakenMorsel {
                    morsel: self.morsels[taken.number],
                    more: taken.more,
                    share: taken.share,
                });
            }
            Some(Next::OthersFirst) => return NextMorsel::OthersFirst,
            Some(Next::End) | None => {}
        }
        // Relaxed: the counter alone assigns morsels; the rows were published long before. Several at a time, as in a batch: a
        // thread reads on where it was.
        let taken = self.next.load(Ordering::Relaxed);
        let left = self.block_morsels.saturating_sub(taken);
        let several = at_a_time(left, self.threads() as usize);
        let first = self.next.fetch_add(several, Ordering::Relaxed);
        let Some(morsel) = self.morsels.get(first) else {
            return NextMorsel::End;
        };
        let end = self.morsels.len().min(first + several);
        NextMorsel::Taken(TakenMorsel {
            more: (first + 1..end).map(|number| (number, None)).collect(),
            ..TakenMorsel::one(*morsel, None)
        })
    }
}
