//! Deleted rows: which rows of a table's segments and tail no longer count.
//!
//! A version of a table has [`Deletions`], by the id of a segment, which a tail has before it becomes one. So sealing moves nothing
//! here. Near memory has a bit per row of the pages of 8,192 rows that have any ([`rows`]); pools and logs have compressed
//! bitmaps ([`image`], [`row_ids`]). What compaction moves is told by [`numbering`].
//!
//! Invariant: immutable. The next version shares all pages in which nothing was deleted since. A table without deletions costs
//! its readers one comparison, a segment without them one more.

pub(crate) mod image;
pub(crate) mod numbering;
pub(crate) mod row_ids;
mod rows;

use std::sync::Arc;

use self::row_ids::RowIds;
pub(crate) use self::rows::{DeletedRows, PAGE_BLOCKS};
use crate::manifest::row_id::RowId;

/// The deleted rows of a version of a table. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Deletions(Option<Arc<BySegment>>);

#[derive(Clone, Debug, Default)]
struct BySegment {
    /// Ordered by segment id; none is empty.
    segments: Vec<(u32, Arc<DeletedRows>)>,
    count: u64,
}

impl Deletions {
    /// Whether no row is deleted.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Number of deleted rows.
    pub(crate) fn count(&self) -> u64 {
        self.0.as_ref().map_or(0, |all| all.count)
    }

    /// The deleted rows of a segment, or of the tail that will have that id; `None` if it has none.
    #[inline]
    pub(crate) fn of(&self, segment: u32) -> Option<&Arc<DeletedRows>> {
        let all = self.0.as_ref()?;
        let found = all.segments.binary_search_by_key(&segment, |(id, _)| *id);
        found.ok().map(|at| &all.segments[at].1)
    }

    /// Number of deleted rows of a segment.
    pub(crate) fn count_of(&self, segment: u32) -> usize {
        self.of(segment).map_or(0, |rows| rows.count())
    }

    /// Whether the row is deleted.
    #[inline]
    pub(crate) fn contains(&self, row: RowId) -> bool {
        if self.is_empty() {
            return false;
        }
        let segment = u32::try_from(row.segment()).ok();
        let rows = segment.and_then(|segment| self.of(segment));
        rows.is_some_and(|rows| rows.contains(row.row()))
    }

    /// Segments with deleted rows, by id.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Arc<DeletedRows>)> {
        let all = self.0.iter().flat_map(|all| &all.segments);
        all.map(|(id, rows)| (*id, rows))
    }

    /// These and more; a row that is deleted already is an error. The caller knows that the rows exist.
    pub(crate) fn with(&self, rows: &RowIds) -> Result<Self, RowId> {
        if rows.is_empty() {
            return Ok(self.clone());
        }
        let mut all = self.0.as_deref().cloned().unwrap_or_default();
        for (segment, more) in rows.by_segment() {
            match all.segments.binary_search_by_key(&segment, |(id, _)| *id) {
                Ok(at) => {
                    let of_segment = &mut all.segments[at].1;
                    let with = of_segment.with(more);
                    *of_segment = Arc::new(with.map_err(|row| RowId::new(segment, row))?);
                }
                Err(at) => all.segments.insert(at, (segment, Arc::new(more.clone()))),
            }
            all.count += more.count() as u64;
        }
        Ok(Self(Some(Arc::new(all))))
    }

    /// Their bytes of near memory.
    pub(crate) fn near_bytes(&self) -> usize {
        self.iter().map(|(_, rows)| rows.near_bytes()).sum()
    }
}

impl FromIterator<(u32, Arc<DeletedRows>)> for Deletions {
    fn from_iter<T: IntoIterator<Item = (u32, Arc<DeletedRows>)>>(segments: T) -> Self {
        let some = segments.into_iter().filter(|(_, rows)| rows.count() > 0);
        let mut segments: Vec<_> = some.collect();
        segments.sort_unstable_by_key(|(id, _)| *id);
        let count = segments.iter().map(|(_, rows)| rows.count() as u64).sum();
        Self((!segments.is_empty()).then(|| Arc::new(BySegment { segments, count })))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(rows: &[(u32, u32)]) -> RowIds {
        rows.iter()
            .map(|(segment, row)| RowId::new(*segment, *row))
            .collect()
    }

    #[test]
    fn a_version_keeps_what_it_has() {
        let none = Deletions::default();
        assert!(none.is_empty() && none.of(3).is_none());
        let first = none.with(&ids(&[(3, 5), (3, 70_000), (9, 0)])).unwrap();
        let second = first.with(&ids(&[(3, 6), (4, 1)])).unwrap();
        assert_eq!((first.count(), second.count()), (3, 5));
        assert!(first.contains(RowId::new(9, 0)) && !first.contains(RowId::new(3, 6)));
        assert!(second.contains(RowId::new(3, 5)) && second.contains(RowId::new(4, 1)));
        assert_eq!(second.count_of(3), 3);
        let ids_of = |deletions: &Deletions| deletions.iter().map(|(id, _)| id).collect::<Vec<_>>();
        assert_eq!(ids_of(&second), [3, 4, 9]);
        assert!(none.is_empty());
    }

    #[test]
    fn a_row_is_deleted_once() {
        let once = Deletions::default().with(&ids(&[(2, 7)])).unwrap();
        assert_eq!(
            once.with(&ids(&[(1, 7), (2, 7)])).unwrap_err(),
            RowId::new(2, 7)
        );
    }
}
