//! The open replicas of a segment's chunks: of each column the one that scans read and the one in which single values are looked up,
//! and all others.
//!
//! Both are chosen by what reading costs: what its tier takes for the lines that are touched, and what the encoding takes to unpack
//! values ([`ReadCost`](tierra_column::ReadCost)). A scan touches all lines of the chunk, in order, while it unpacks. A lookup
//! touches the lines of its value, or its whole block where the encoding knows no single values. So one column may be scanned in a
//! small replica and looked up in one with fixed places. Indexes and groups speak of codes: a replica with codes of a dictionary
//! comes before all others.
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
    /// By column: whether a near copy of the replica that is scanned serves lookups as well as the one chosen for them.
    looks_up_near: Box<[bool]>,
}

/// How values are read.
#[derive(Clone, Copy, Debug)]
enum Reads {
    InOrder,
    Alone,
}

/// Of lines on their way and values being unpacked at the same time, how much of the shorter time is not hidden by the longer one.
const NOT_HIDDEN: f64 = 0.5;

/// Nanoseconds of one thread: for a value of all in order, for a value looked up.
fn cost_ns(reads: Reads, place: &ChunkPlace, rows: usize, lines: LineTimes) -> f64 {
    let cost = place.encoding.read_cost();
    let in_order_ns = place.len_bytes as f64 / LINE_BYTES as f64 / rows as f64 * lines.in_order_ns;
    match (reads, cost.alone_lines) {
        (Reads::InOrder, _) => {
            let (lines_ns, values_ns) = (in_order_ns, cost.in_order_ns);
            lines_ns.max(values_ns) + lines_ns.min(values_ns) * NOT_HIDDEN
        }
        (Reads::Alone, Some(touched)) => touched * lines.looked_up_ns() + cost.alone_ns,
        (Reads::Alone, None) => {
            let block_ns = in_order_ns * rows.min(BLOCK_LEN) as f64;
            lines.looked_up_ns() + block_ns + cost.alone_ns
        }
    }
}

/// Nanoseconds of one thread for all values of a chunk in order.
pub(super) fn scan_ns(place: &ChunkPlace, rows: usize, lines: LineTimes) -> f64 {
    cost_ns(Reads::InOrder, place, rows.max(1), lines) * rows as f64
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
        let mut looks_up_near = vec![true; slots.len()];
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
            if scanned != alone {
                let alone_ns = |replica, lines| {
                    let place = entry.replica(replica);
                    cost_ns(Reads::Alone, place, rows, lines)
                };
                let chosen_ns = alone_ns(*alone, lines(entry.replica(*alone)));
                looks_up_near[scanned.column] = alone_ns(*scanned, LineTimes::USUAL) <= chosen_ns;
            }
            slots.extend(of_column.iter().filter(|other| *other != scanned));
        }
        Slots {
            slots: slots.into(),
            looked_up: looked_up.into(),
            looks_up_near: looks_up_near.into(),
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
        (slots != self.slots).then(|| Slots {
            slots,
            looked_up,
            looks_up_near: vec![true; self.columns()].into(),
        })
    }

    /// The same with other replicas of the columns in their slots, by the slots that they have here, for scans and lookups.
    pub(super) fn with_read(&self, slot_of: impl Fn(usize) -> usize) -> Slots {
        let mut slots = self.slots.clone();
        for column in 0..self.columns() {
            slots.swap(column, slot_of(column));
        }
        let looked_up = slots[..self.columns()].into();
        Slots {
            slots,
            looked_up,
            looks_up_near: vec![true; self.columns()].into(),
        }
    }

    /// Whether a near copy of the replica that is scanned serves lookups as well as the replica chosen for them.
    pub(super) fn looks_up_near(&self, column: usize) -> bool {
        self.looks_up_near[column]
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

#[cfg(test)]
mod tests {
    use tierra_column::Encoding;

    use super::*;
    use crate::manifest::ExtentId;

    const ROWS: u32 = 1 << 20;

    /// Replicas of one column, each with an extent of its own: encodings and bytes of a value.
    fn entry(replicas: &[(Encoding, f64)]) -> SegmentEntry {
        let places = replicas.iter().zip(0..);
        let places = places.map(|((encoding, bytes), extent)| ChunkPlace {
            extent,
            offset: 0,
            len_bytes: (bytes * f64::from(ROWS)) as u64,
            encoding: *encoding,
        });
        let places: Vec<ChunkPlace> = places.collect();
        let mut entry = SegmentEntry {
            id: 1,
            rows: ROWS,
            extents: (0..replicas.len() as u64).map(ExtentId).collect(),
            chunks: vec![places[0]],
            further: Vec::new(),
        };
        entry.set_replicas(0, &places);
        entry
    }

    #[test]
    fn others_are_read_in_the_slots_of_their_columns() {
        let entry = entry(&[(Encoding::Static, 4.0), (Encoding::Dynamic, 1.3)]);
        let slots = Slots::new(&entry, &all(&entry), |_| LineTimes::USUAL);
        assert_eq!(chosen(&slots), (1, 0));
        let other = slots.with_read(|_| 1);
        assert_eq!(chosen(&other), (0, 0));
        assert_eq!(other.replica(1), slots.replica(0));
        assert_eq!(chosen(&slots.with_read(|column| column)), (1, 1));
        let ns = |number| {
            let place = entry.replica(ReplicaNumber { column: 0, number });
            scan_ns(place, ROWS as usize, LineTimes::USUAL)
        };
        assert!(ns(1) < ns(0));
    }

    /// The numbers of the replicas that are scanned and looked up.
    fn chosen(slots: &Slots) -> (usize, usize) {
        (slots.replica(0).number, slots.looked_up[0].number)
    }

    fn all(entry: &SegmentEntry) -> Vec<ReplicaNumber> {
        entry.all_replicas().map(|(replica, _)| replica).collect()
    }

    fn choose(entry: &SegmentEntry, lines: impl Fn(&ChunkPlace) -> LineTimes) -> (usize, usize) {
        chosen(&Slots::new(entry, &all(entry), lines))
    }

    fn times(in_order_ns: f64, alone_ns: f64) -> LineTimes {
        LineTimes {
            in_order_ns,
            alone_ns,
            shared_ns: 0.0,
        }
    }

    #[test]
    fn small_replicas_are_scanned_and_values_are_looked_up_where_they_have_places() {
        let usual = |_: &ChunkPlace| LineTimes::USUAL;
        let entry = entry(&[
            (Encoding::Static, 4.0),
            (Encoding::Dynamic, 1.3),
            (Encoding::Lz4, 0.5),
        ]);
        assert_eq!(choose(&entry, usual), (1, 0));
        // Where bandwidth is scarce, even what unpacks slowly is scanned.
        assert_eq!(choose(&entry, |_| times(1000.0, 1000.0)), (2, 0));
        // Where there is plenty, what unpacks fast.
        assert_eq!(choose(&entry, |_| times(0.1, 10.0)), (0, 0));
    }

    #[test]
    fn the_faster_tier_of_two_alike_is_read() {
        let entry = entry(&[(Encoding::Static, 4.0), (Encoding::Static, 4.0)]);
        assert_eq!(choose(&entry, |_| LineTimes::USUAL), (0, 0));
        let lines = |place: &ChunkPlace| match place.extent {
            0 => times(20.0, 90.0),
            _ => times(5.0, 300.0),
        };
        assert_eq!(choose(&entry, lines), (1, 0));
    }

    #[test]
    fn codes_come_first_and_trouble_before_them() {
        let entry = entry(&[(Encoding::Dictionary, 2.0), (Encoding::Static, 1.0)]);
        let usual = |_: &ChunkPlace| LineTimes::USUAL;
        let slots = Slots::new(&entry, &all(&entry), usual);
        assert_eq!(chosen(&slots), (0, 0));
        let is_first = |replica: ReplicaNumber| replica.number == 0;
        let elsewhere = slots.chosen_anew(&entry, is_first, usual);
        assert_eq!(chosen(&elsewhere), (1, 1));
        assert_eq!(elsewhere.chosen_anew(&entry, |_| (), usual), slots);
    }

    #[test]
    fn lookups_have_their_replicas_in_the_slots_of_columns() {
        let entry = entry(&[(Encoding::Static, 4.0), (Encoding::Dynamic, 1.3)]);
        let slots = Slots::new(&entry, &all(&entry), |_| LineTimes::USUAL);
        let looked_up = slots.for_lookups(|_| false).unwrap();
        assert_eq!(chosen(&looked_up), (0, 0));
        assert_eq!(looked_up.of(slots.replica(0)), Some(1));
        assert!(looked_up.others(0).eq([1]));
        assert_eq!(looked_up.for_lookups(|_| false), None);
        assert_eq!(slots.for_lookups(|_| true), None);
        // A near copy of what is scanned is not where values are looked up, unless far memory is slow.
        assert!(!slots.looks_up_near(0));
        let slow = slots.chosen_anew(&entry, |_| (), |_| times(5.0, 1000.0));
        assert_eq!(chosen(&slow), (1, 0));
        assert!(slow.looks_up_near(0) && slow != slots);
    }
}
