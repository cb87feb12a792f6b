//! The numbers of rows, which compaction changes, and where rows have gone that a snapshot knows by their old ones.
//!
//! ```text
//! versions before a compaction --> Numbering --> Moves --> Numbering <-- versions after it
//! ```
//! All versions between two compactions share a numbering. Compaction adds to it what it moved, and the next version has a new
//! one. So the holder of an old snapshot, a transaction for instance, can tell where its rows are now; when the last of these
//! snapshots goes, what is known of the moves goes with it.
//!
//! Invariant: a numbering that has moves never gets others, and rows are deleted by their newest numbers only.

use std::sync::{Arc, OnceLock};

use super::DeletedRows;
use super::row_ids::RowIds;
use crate::manifest::row_id::RowId;

/// The numbers of a table's rows between two compactions.
#[derive(Debug, Default)]
pub(crate) struct Numbering(OnceLock<Moves>);

/// What a compaction moved.
#[derive(Debug)]
pub(crate) struct Moves {
    /// Ordered by segment id.
    pub(crate) from: Vec<MovedSegment>,
    /// The segment of the rows that were left; `None` if there were none.
    pub(crate) to: Option<u32>,
    /// The numbers since.
    pub(crate) next: Arc<Numbering>,
}

/// A segment whose rows were moved to another.
#[derive(Clone, Debug)]
pub(crate) struct MovedSegment {
    pub(crate) id: u32,
    /// The number that its first row has now.
    pub(crate) first: u32,
    /// Rows that were deleted before: they were not moved.
    pub(crate) gone: Option<Arc<DeletedRows>>,
}

impl MovedSegment {
    /// The new numbers of rows, which ascend; `None` for one that was deleted before.
    pub(crate) fn moved(
        &self,
        rows: impl Iterator<Item = u32>,
    ) -> impl Iterator<Item = Option<u32>> {
        let mut gone = self.gone.iter().flat_map(|gone| gone.iter()).peekable();
        let mut gone_before = 0;
        rows.map(move |row| {
            while gone.next_if(|gone| *gone < row).is_some() {
                gone_before += 1;
            }
            (gone.peek() != Some(&row)).then(|| self.first + row - gone_before)
        })
    }
}

impl Numbering {
    /// Adds what a compaction moved.
    pub(crate) fn moved(&self, moves: Moves) {
        let added = self.0.set(moves);
        debug_assert!(added.is_ok(), "one compaction ends a numbering");
    }

    /// The same rows by their numbers now, and the numbering that these are of; `None` if they have not moved. An error names a
    /// row that was deleted before it could be moved.
    pub(crate) fn follow(&self, rows: &RowIds) -> Result<Option<(RowIds, Arc<Numbering>)>, RowId> {
        let (mut numbering, mut found) = (self, None);
        while let Some(moves) = numbering.0.get() {
            let rows = found.as_ref().map_or(rows, |(rows, _)| rows);
            if let Some(moved) = moves.apply(rows)? {
                found = Some((moved, moves.next.clone()));
            }
            numbering = &moves.next;
        }
        Ok(found)
    }
}

impl Drop for Numbering {
    fn drop(&mut self) {
        // One by one: a snapshot that is held for long may be the last that keeps a long chain.
        let mut next = self.0.take().map(|moves| moves.next);
        while let Some(mut numbering) = next.and_then(Arc::into_inner) {
            next = numbering.0.take().map(|moves| moves.next);
        }
    }
}

impl Moves {
    /// The rows by their new numbers; `None` if none of them was moved.
    fn apply(&self, rows: &RowIds) -> Result<Option<RowIds>, RowId> {
        let place = |id: u32| self.from.binary_search_by_key(&id, |moved| moved.id);
        let stays = |id: u32| place(id).is_err();
        if rows.by_segment().all(|(id, _)| stays(id)) {
            return Ok(None);
        }
        let mut moved = DeletedRows::default();
        for (id, rows) in rows.by_segment() {
            let Ok(place) = place(id) else {
                continue;
            };
            let numbers = self.from[place].moved(rows.iter());
            for (row, number) in rows.iter().zip(numbers) {
                moved.insert(number.ok_or(RowId::new(id, row))?);
            }
        }
        let mut all = rows.in_segments(stays);
        // Without a segment no row was left, so that each was an error above.
        if let Some(to) = self.to {
            all.add(to, &moved);
        }
        Ok(Some(all))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(rows: &[(u32, u32)]) -> RowIds {
        let rows = rows.iter();
        rows.map(|(segment, row)| RowId::new(*segment, *row))
            .collect()
    }

    fn gone(rows: &[u32]) -> Option<Arc<DeletedRows>> {
        Some(Arc::new(rows.iter().copied().collect()))
    }

    /// Segments 1, of five rows, and 3, of four, become 7; then 7 becomes 9.
    fn twice() -> Arc<Numbering> {
        let numbers: [Arc<Numbering>; 3] = Default::default();
        numbers[0].moved(Moves {
            from: vec![
                MovedSegment {
                    id: 1,
                    first: 0,
                    gone: gone(&[0, 3]),
                },
                MovedSegment {
                    id: 3,
                    first: 3,
                    gone: None,
                },
            ],
            to: Some(7),
            next: numbers[1].clone(),
        });
        numbers[1].moved(Moves {
            from: vec![MovedSegment {
                id: 7,
                first: 0,
                gone: gone(&[1]),
            }],
            to: Some(9),
            next: numbers[2].clone(),
        });
        numbers[0].clone()
    }

    #[test]
    fn rows_are_found_again_however_often_they_moved() {
        let followed = |rows: &[(u32, u32)]| twice().follow(&ids(rows));
        let now = |rows: &[(u32, u32)]| followed(rows).unwrap().unwrap().0;
        // Rows 1, 2 and 4 of segment 1 became 0, 1 and 2 of 7, of which 1 went: 0 and 1 of 9.
        assert_eq!(now(&[(1, 1), (1, 4)]), ids(&[(9, 0), (9, 1)]));
        assert_eq!(
            now(&[(1, 4), (2, 5), (3, 0), (3, 3)]),
            ids(&[(2, 5), (9, 1), (9, 2), (9, 5)])
        );
        assert!(followed(&[(2, 5), (8, 1)]).unwrap().is_none());
        assert_eq!(
            followed(&[(1, 1), (1, 3)]).unwrap_err(),
            RowId::new(1, 3),
            "deleted before the first move"
        );
        assert_eq!(
            followed(&[(1, 2)]).unwrap_err(),
            RowId::new(7, 1),
            "deleted before the second"
        );
    }

    #[test]
    fn a_long_chain_is_dropped_without_a_deep_stack() {
        let first = Arc::new(Numbering::default());
        let mut last = first.clone();
        for _ in 0..300_000 {
            let next = Arc::new(Numbering::default());
            last.moved(Moves {
                from: Vec::new(),
                to: None,
                next: next.clone(),
            });
            last = next;
        }
        drop(last);
        drop(first);
    }
}
