//! The pieces of a snapshot: runs of blocks of one segment, numbered in the order of the segments.
//!
//! Two snapshots number the same piece differently, so members of a batch name it by its [`Place`].

/// Blocks of a piece, which is the morsel of a scan.
pub(crate) const PIECE_BLOCKS: usize = 8;

/// A piece, whatever the snapshot. In the order of the segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    segment_id: u32,
    /// Of its segment.
    piece: usize,
}

/// The pieces of one snapshot.
#[derive(Debug)]
pub(crate) struct Pieces {
    /// Ascending.
    segment_ids: Box<[u32]>,
    /// By segment: the number of its first piece.
    first: Box<[usize]>,
    len: usize,
}

impl Pieces {
    /// Of segments with these numbers and blocks.
    pub(crate) fn of(segments: impl IntoIterator<Item = (u32, usize)>) -> Self {
        let (mut segment_ids, mut first, mut len) = (Vec::new(), Vec::new(), 0);
        for (id, blocks) in segments {
            debug_assert!(segment_ids.last().is_none_or(|last| *last < id));
            segment_ids.push(id);
            first.push(len);
            len += blocks.div_ceil(PIECE_BLOCKS);
        }
        Self {
            segment_ids: segment_ids.into(),
            first: first.into(),
            len,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Where piece `number` lies.
    pub(super) fn place(&self, number: usize) -> Place {
        let segment = self.first.partition_point(|first| *first <= number) - 1;
        Place {
            segment_id: self.segment_ids[segment],
            piece: number - self.first[segment],
        }
    }

    /// The number of a piece, if the snapshot has it.
    pub(super) fn number(&self, place: Place) -> Option<usize> {
        let segment = self.segment_ids.binary_search(&place.segment_id).ok()?;
        let number = self.first[segment] + place.piece;
        let end = self.first.get(segment + 1).copied().unwrap_or(self.len);
        (number < end).then_some(number)
    }

    /// The number of the first piece behind a place, which the snapshot may lack.
    pub(super) fn behind(&self, place: Place) -> usize {
        if let Some(number) = self.number(place) {
            return number + 1;
        }
        let segments = &self.segment_ids;
        let next = segments.partition_point(|id| *id <= place.segment_id);
        self.first.get(next).copied().unwrap_or(self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_numbered_by_each_snapshot() {
        let older = Pieces::of([(2, 17), (5, 8), (9, 1)]);
        let newer = Pieces::of([(5, 8), (9, 1), (11, 20)]);
        assert_eq!((older.len(), newer.len()), (5, 5));
        for number in 0..older.len() {
            assert_eq!(older.number(older.place(number)), Some(number));
        }
        assert_eq!(newer.number(older.place(3)), Some(0));
        assert_eq!(newer.number(older.place(0)), None);
        assert_eq!(newer.behind(older.place(2)), 0);
        assert_eq!(newer.behind(older.place(3)), 1);
        assert_eq!(older.behind(newer.place(4)), older.len());
    }
}
