//! The replicas of a segment's chunks: the same rows of a column, each replica in an encoding of its own.
//!
//! Invariant: each column has a first replica, which is the master. Only that one may hold codes of a dictionary, because a merge
//! of dictionaries rewrites no other. Further replicas are ordered by column.

use std::ops::Range;

use super::{ChunkPlace, ExtentId, SegmentEntry};

/// A replica of a column's chunk beyond the first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct FurtherReplica {
    pub(crate) column: u32,
    pub(crate) place: ChunkPlace,
}

/// A replica of a chunk, by its number among those of its column: 0 is the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReplicaNumber {
    pub(crate) column: usize,
    pub(crate) number: usize,
}

impl SegmentEntry {
    fn further_of(&self, column: usize) -> Range<usize> {
        let column = column as u32;
        let first = self.further.partition_point(|it| it.column < column);
        let end = self.further.partition_point(|it| it.column <= column);
        first..end
    }

    /// The places of a column's replicas, the first one first.
    pub(crate) fn replicas(&self, column: usize) -> impl Iterator<Item = &ChunkPlace> {
        let further = &self.further[self.further_of(column)];
        let further = further.iter().map(|it| &it.place);
        std::iter::once(&self.chunks[column]).chain(further)
    }

    /// The place of a replica.
    ///
    /// # Panics
    /// If there is none of that number.
    pub(crate) fn replica(&self, replica: ReplicaNumber) -> &ChunkPlace {
        let mut replicas = self.replicas(replica.column);
        let found = replicas.nth(replica.number);
        found.expect("replicas are numbered by the entry that they are looked up in")
    }

    /// All replicas of all columns, and where they lie.
    pub(crate) fn all_replicas(&self) -> impl Iterator<Item = (ReplicaNumber, &ChunkPlace)> {
        let columns = 0..self.chunks.len();
        columns.flat_map(|column| {
            let replicas = self.replicas(column).enumerate();
            replicas.map(move |(number, place)| (ReplicaNumber { column, number }, place))
        })
    }

    /// The replicas that lie in the extent of this index.
    pub(crate) fn replicas_in(&self, extent: usize) -> impl Iterator<Item = ReplicaNumber> {
        let all = self.all_replicas();
        let there = all.filter(move |(_, place)| place.extent as usize == extent);
        there.map(|(replica, _)| replica)
    }

    /// Replaces the replicas of a column.
    ///
    /// # Panics
    /// If there are none.
    pub(crate) fn set_replicas(&mut self, column: usize, places: &[ChunkPlace]) {
        let (first, further) = places.split_first().expect("a column has a replica");
        self.chunks[column] = *first;
        let further = further.iter().map(|place| FurtherReplica {
            column: column as u32,
            place: *place,
        });
        let range = self.further_of(column);
        self.further.splice(range, further);
    }

    /// Says that a replica lies elsewhere.
    ///
    /// # Panics
    /// If there is none of that number.
    pub(crate) fn move_replica(&mut self, replica: ReplicaNumber, place: ChunkPlace) {
        let further = self.further_of(replica.column);
        match replica.number {
            0 => self.chunks[replica.column] = place,
            number => self.further[further][number - 1].place = place,
        }
    }

    /// Removes the extents that hold no replica any more. Returns the former indexes of those that are left.
    pub(crate) fn drop_unused_extents(&mut self) -> Vec<usize> {
        let (ids, mut kept) = (std::mem::take(&mut self.extents), Vec::new());
        let mut new_index = vec![None; ids.len()];
        let further = self.further.iter_mut().map(|it| &mut it.place);
        for place in self.chunks.iter_mut().chain(further) {
            let old = place.extent as usize;
            place.extent = *new_index[old].get_or_insert_with(|| {
                self.extents.push(ids[old]);
                kept.push(old);
                kept.len() as u32 - 1
            });
        }
        kept
    }

    /// Forgets replicas in extents of which `is_left` says that they are gone, unless a column would have none.
    pub(crate) fn forget(&mut self, is_left: impl Fn(ExtentId) -> bool) {
        for column in 0..self.chunks.len() {
            let places: Vec<ChunkPlace> = self.replicas(column).copied().collect();
            let left = places.iter();
            let left = left.filter(|place| is_left(self.extents[place.extent as usize]));
            let left: Vec<ChunkPlace> = left.copied().collect();
            if !left.is_empty() && left.len() < places.len() {
                self.set_replicas(column, &left);
            }
        }
        self.drop_unused_extents();
    }
}

#[cfg(test)]
mod tests {
    use tierra_column::Encoding;

    use super::*;

    fn place(extent: u32, encoding: Encoding) -> ChunkPlace {
        ChunkPlace {
            extent,
            offset: 0,
            len_bytes: 64,
            encoding,
        }
    }

    #[test]
    fn replicas_are_replaced_and_forgotten_column_by_column() {
        let (plain, delta) = (Encoding::Plain, Encoding::Delta);
        let mut entry = SegmentEntry {
            id: 1,
            rows: 5,
            extents: [7, 8, 9].map(ExtentId).to_vec(),
            chunks: vec![place(0, plain), place(0, plain), place(1, plain)],
            further: Vec::new(),
        };
        for column in [2, 0, 1] {
            let first = entry.chunks[column];
            entry.set_replicas(column, &[first, place(2, delta)]);
        }
        let columns: Vec<u32> = entry.further.iter().map(|it| it.column).collect();
        assert_eq!(columns, [0, 1, 2]);
        assert_eq!(entry.all_replicas().count(), 6);
        assert_eq!(entry.replicas_in(2).count(), 3);
        let replica = ReplicaNumber {
            column: 1,
            number: 1,
        };
        assert_eq!(entry.replica(replica).encoding, delta);

        let mut less = entry.clone();
        less.forget(|id| id != ExtentId(7));
        assert_eq!(less.extents, [ExtentId(9), ExtentId(8)]);
        let encodings: Vec<Encoding> = less.chunks.iter().map(|it| it.encoding).collect();
        assert_eq!(encodings, [delta, delta, plain]);
        assert_eq!(less.further.len(), 1);
        // What is gone in all its replicas stays named.
        entry.forget(|id| id == ExtentId(8));
        assert_eq!((entry.extents.len(), entry.further.len()), (3, 2));
    }
}
