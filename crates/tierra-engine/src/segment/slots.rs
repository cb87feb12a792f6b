//! The open replicas of a segment's chunks: of each column the one that is read, and behind these all others.
//!
//! The replica that is read is the one with codes of a dictionary, because indexes and groups speak of codes; else the one with the
//! fewest bytes; of several the first. The engine knows of no tier how fast it is. Where that one lies in a tier that has failed,
//! another one is read. The others wait: damaged blocks are made again of theirs ([`rebuild`](super::rebuild)).
//!
//! Invariant: slot `c`, for each column `c`, is a replica of that column.

use std::cmp::Reverse;

use crate::manifest::{ReplicaNumber, SegmentEntry};

/// Which replica is open in each slot.
#[derive(Debug)]
pub(super) struct Slots {
    columns: usize,
    slots: Box<[ReplicaNumber]>,
}

impl Slots {
    /// Of replicas that can be read, in the order of the entry. The first replica of a column without any takes its slot: a
    /// placeholder stands for it.
    pub(super) fn new(entry: &SegmentEntry, readable: &[ReplicaNumber]) -> Slots {
        Slots::choose(entry, readable, |_| ())
    }

    /// The same replicas, of which that is read which is in the least trouble; `None` if that changes nothing.
    pub(super) fn avoiding<T: Ord>(
        &self,
        entry: &SegmentEntry,
        trouble: impl Fn(ReplicaNumber) -> T,
    ) -> Option<Slots> {
        let mut all = self.slots.to_vec();
        all.sort_unstable_by_key(|replica| (replica.column, replica.number));
        let next = Slots::choose(entry, &all, trouble);
        (next.slots != self.slots).then_some(next)
    }

    fn choose<T: Ord>(
        entry: &SegmentEntry,
        readable: &[ReplicaNumber],
        trouble: impl Fn(ReplicaNumber) -> T,
    ) -> Slots {
        let columns = entry.chunks.len();
        let first = |column| ReplicaNumber { column, number: 0 };
        let mut slots: Vec<ReplicaNumber> = (0..columns).map(first).collect();
        for of_column in readable.chunk_by(|a, b| a.column == b.column) {
            let cost = |replica: &&ReplicaNumber| {
                let place = entry.replica(**replica);
                let has_codes = place.encoding.uses_dictionary();
                (trouble(**replica), Reverse(has_codes), place.len_bytes)
            };
            let Some(read) = of_column.iter().min_by_key(cost) else {
                continue;
            };
            slots[read.column] = *read;
            slots.extend(of_column.iter().filter(|other| *other != read));
        }
        Slots {
            columns,
            slots: slots.into(),
        }
    }

    /// How many there are, at least one for each column.
    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(super) fn columns(&self) -> usize {
        self.columns
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
                let mut others = self.columns..self.len();
                others.find(|slot| self.slots[*slot] == replica)
            }
        }
    }

    /// The slots of the other replicas of a slot's column.
    pub(super) fn others(&self, slot: usize) -> impl Iterator<Item = usize> {
        let column = self.slots[slot].column;
        let further = (self.columns..self.len()).filter(move |at| self.slots[*at].column == column);
        let all = std::iter::once(column).chain(further);
        all.filter(move |other| *other != slot)
    }
}
