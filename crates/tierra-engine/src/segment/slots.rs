//! The open replicas of a segment's chunks: of each column the one that scans read and the one in which single values are looked up,
//! and all others.
//!
//! Both are chosen by what reading costs: what its tier takes for the lines that are touched, and what the encoding takes to unpack
//! values ([`ReadCost`](tierra_column::ReadCost)). A scan touches all lines of the chunk, in order. A lookup touches the lines of its
//! value, or its whole block where the encoding knows no single values. So one column may be scanned in a small replica and looked up
//! in one with fixed places. Indexes and groups speak of codes: a replica with codes of a dictionary comes before all others.
//!
//! Where a replica lies in a tier that has failed, another one is read. Those that are not read wait: damaged blocks are made again of
//! theirs ([`rebuild`](super::rebuild)).
//!
//! Invariant: slot `c`, for each column `c`, is a replica of that column.

use std::cmp::Ordering;

use tierra_column::bits::BLOCK_LEN;
use tierra_memory::LINE_BYTES;
use tierra_memory::placement::LineTimes;

use crate::manifest::{ChunkPlace, ReplicaNumber, SegmentEntry};

/// Which replica is open in each slot.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Slots {
    slots: Box<[ReplicaNumber]>,
    /// By column.
    looked_up: Box<[ReplicaNumber]>,
}

/// How values are read.
#[derive(Clone, Copy, Debug)]
enum Reads {
    InOrder,
    Alone,
}

/// Nanoseconds: for a value of all in order, for a value looked up.
fn cost_ns(reads: Reads, place: &ChunkPlace, rows: usize, lines: LineTimes) -> f64 {
    let cost = place.encoding.read_cost();
    let in_order_ns = place.len_bytes as f64 / LINE_BYTES as f64 / rows as f64 * lines.in_order_ns;
    match (reads, cost.alone_lines) {
        (Reads::InOrder, _) => in_order_ns + cost.in_order_ns,
        (Reads::Alone, Some(touched)) => touched * lines.looked_up_ns() + cost.alone_ns,
        (Reads::Alone, None) => {
            let block_ns = in_order_ns * rows.min(BLOCK_LEN) as f64;
            lines.looked_up_ns() + block_ns + cost.alone_ns
        }
    }
}

impl Slots {
    /// Of replicas that can be read, in the order of the entry; `lines` are those of the tier from which a chunk is read. The first
    /// replica of a column without any takes its slot: a placeholder stands for it.
    pub(super) fn new(
        entry: &SegmentEntry,
        readable: &[ReplicaNumber],
        lines: impl Fn(&ChunkPlace) -> LineTimes,
    ) -> Slots {
        Slots::choose(entry, readable, |_| (), lines)
    }

    /// The same replicas, chosen anew among those in the least trouble.
    pub(super) fn chosen_anew<T: Ord>(
        &self,
        entry: &SegmentEntry,
        trouble: impl Fn(ReplicaNumber) -> T,
        lines: impl Fn(&ChunkPlace) -> LineTimes,
    ) -> Slots {
        let mut all = self.slots.to_vec();
        all.sort_unstable_by_key(|replica| (replica.column, replica.number));
        Slots::choose(entry, &all, trouble, lines)
    }

    fn choose<T: Ord>(
        entry: &SegmentEntry,
        readable: &[ReplicaNumber],
        trouble: impl Fn(ReplicaNumber) -> T,
        lines: impl Fn(&ChunkPlace) -> LineTimes,
    ) -> Slots {
        let first = |column| ReplicaNumber { column, number: 0 };
        let mut slots: Vec<ReplicaNumber> = (0..entry.chunks.len()).map(first).collect();
        let mut looked_up = slots.clone();
        let rows = (entry.rows as usize).max(1);
        for of_column in readable.chunk_by(|a, b| a.column == b.column) {
            let best_for = |reads| {
                let better = |one: &&ReplicaNumber, other: &&ReplicaNumber| -> Ordering {
                    let rank = |replica: ReplicaNumber| {
                        let place = entry.replica(replica);
                        let has_codes = place.encoding.uses_dictionary();
                        let ns = cost_ns(reads, place, rows, lines(place));
                        ((trouble(replica), !has_codes), ns)
                    };
                    let (one, other) = (rank(**one), rank(**other));
                    one.0.cmp(&other.0).then(one.1.total_cmp(&other.1))
                };
                of_column.iter().min_by(better)
            };
            // Of one there is nothing to choose.
            let (scanned, alone) = match of_column {
                [only] => (Some(only), Some(only)),
                _ => (best_for(Reads::InOrder), best_for(Reads::Alone)),
            };
            let (Some(scanned), Some(alone)) = (scanned, alone) else {
                continue;
            };
            slots[scanned.column] = *scanned;
            looked_up[scanned.column] = *alone;
            slots.extend(of_column.iter().filter(|other| *other != scanned));
        }
        Slots {
            slots: slots.into(),
            looked_up: looked_up.into(),
        }
    }

    /// The same with the replicas of lookups in the slots of their columns, except for columns that are `fixed`; `None` if they are
    /// there already.
    pub(super) fn for_lookups(&self, is_fixed: impl Fn(usize) -> bool) -> Option<Slots> {
        let mut slots = self.slots.clone();
        for column in (0..self.columns()).filter(|column| !is_fixed(*column)) {
            if let Some(at) = self.of(self.looked_up[column]) {
                slots.swap(column, at);
            }
        }
        let looked_up = slots[..self.columns()].into();
        (slots != self.slots).then_some(Slots { slots, looked_up })
    }

    /// How many there are, at least one for each column.
    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(super) fn columns(&self) -> usize {
        self.looked_up.len()
    }

    pub(super) fn replica(&self, slot: usize) -> ReplicaNumber {
        self.slots[slot]
    }

    pub(super) fn iter(&self) -> impl ExactSizeIterator<Item = ReplicaNumber> {
        self.slots.iter().copied()
    }

    /// The slot of a replica, if it is open, or the slot of its placeholder.
    pub(super) fn of(&self, replica: ReplicaNumber) -> Option<usize> {
        match self.slots[replica.column] == replica {
            true => Some(replica.column),
            false => {
                let mut others = self.columns()..self.len();
                others.find(|slot| self.slots[*slot] == replica)
            }
        }
    }

    /// The slots of the other replicas of a slot's column.
    pub(super) fn others(&self, slot: usize) -> impl Iterator<Item = usize> {
        let column = self.slots[slot].column;
        let further =
            (self.columns()..self.len()).filter(move |at| self.slots[*at].column == column);
        let all = std::iter::once(column).chain(further);
        all.filter(move |other| *other != slot)
    }
}
