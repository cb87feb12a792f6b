//! A set of row ids, as a statement collects it, a log record holds it, and the writer takes it.
//!
//! ```text
//! set      | segments u32 | 0 | set of one segment | set of one segment | ..     segment ids ascend
//! segment  | segment id u32 | bytes u32 | roaring bitmap | zeros up to a multiple of 8 |
//! ```
//!
//! Invariant: no row is in it twice. `decode` checks what it is given and never panics.

use arrow::array::BooleanBufferBuilder;
use arrow::buffer::BooleanBuffer;
use roaring::RoaringBitmap;

use super::rows::{DeletedRows, PAGE_ROWS};
use crate::manifest::SEGMENT_ROWS;
use crate::manifest::row_id::RowId;

const ALIGN: usize = 8;

/// Rows of a table, each once, ascending: a bit per row of the pages of 8,192 rows that have any. One row takes two KiB at most, a
/// hundred million some megabytes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RowIds {
    /// Ordered by segment id; none is empty.
    segments: Vec<(u32, DeletedRows)>,
}

impl RowIds {
    /// Adds a row; `false` if it is there already.
    ///
    /// # Panics
    /// If no segment can have the row's number: it comes from no snapshot.
    pub fn insert(&mut self, row: RowId) -> bool {
        self.of_segment(row).insert(row.row() as u32)
    }

    /// Adds rows, given by their numbers ([`RowId::get`]). Tells for each whether it was not there yet. Fast if rows come as scans
    /// tell them.
    ///
    /// # Panics
    /// As [`RowIds::insert`].
    pub fn insert_all(&mut self, numbers: &[u64]) -> BooleanBuffer {
        const PAGE: u64 = PAGE_ROWS as u64;
        let mut are_new = BooleanBufferBuilder::new(numbers.len());
        for of_page in numbers.chunk_by(|a, b| a / PAGE == b / PAGE) {
            let first = RowId::from_number(of_page[0]);
            let rows = of_page.iter().map(|number| (number % PAGE) as usize);
            let page = first.row() / PAGE_ROWS;
            self.of_segment(first)
                .insert_in_page(page, rows, &mut are_new);
        }
        are_new.finish()
    }

    /// The rows of a row's segment, which gets one more.
    fn of_segment(&mut self, row: RowId) -> &mut DeletedRows {
        let segment = u32::try_from(row.segment()).expect("a row of a segment");
        let at = match self.segments.last() {
            // Scans tell rows segment by segment.
            Some((last, _)) if *last == segment => self.segments.len() - 1,
            _ => self.place_of(segment),
        };
        &mut self.segments[at].1
    }

    /// Where a segment's set is, which is made if there is none.
    fn place_of(&mut self, segment: u32) -> usize {
        let found = self.segments.binary_search_by_key(&segment, |(id, _)| *id);
        found.unwrap_or_else(|at| {
            self.segments.insert(at, (segment, DeletedRows::default()));
            at
        })
    }

    /// Adds rows of a segment, at least one.
    pub(super) fn add(&mut self, segment: u32, rows: &DeletedRows) {
        let at = self.place_of(segment);
        self.segments[at].1.extend_from(rows);
    }

    /// Adds all rows of another set.
    pub fn extend_from(&mut self, other: &RowIds) {
        for (segment, rows) in other.by_segment() {
            self.add(segment, rows);
        }
    }

    /// Whether the row is among them.
    pub fn contains(&self, row: RowId) -> bool {
        let segment = |(id, _): &(u32, DeletedRows)| u64::from(*id);
        let found = self.segments.binary_search_by_key(&row.segment(), segment);
        found.is_ok_and(|at| self.segments[at].1.contains(row.row()))
    }

    /// Number of rows.
    pub fn len(&self) -> u64 {
        self.by_segment().map(|(_, rows)| rows.count() as u64).sum()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// The rows, ascending.
    pub fn iter(&self) -> impl Iterator<Item = RowId> + '_ {
        let segments = self.segments.iter();
        segments.flat_map(|(id, rows)| rows.iter().map(|row| RowId::new(*id, row)))
    }

    /// The rows of each segment.
    pub(crate) fn by_segment(&self) -> impl Iterator<Item = (u32, &DeletedRows)> {
        self.segments.iter().map(|(id, rows)| (*id, rows))
    }

    /// The rows of segments that meet a condition.
    pub(crate) fn in_segments(&self, is_meant: impl Fn(u32) -> bool) -> RowIds {
        let segments = self.segments.iter().filter(|(id, _)| is_meant(*id));
        RowIds {
            segments: segments.cloned().collect(),
        }
    }

    /// Their bytes of memory.
    pub fn near_bytes(&self) -> usize {
        self.by_segment().map(|(_, rows)| rows.near_bytes()).sum()
    }

    /// The most bytes that [`RowIds::encode`] appends, about.
    pub(crate) fn stored_bytes(&self) -> usize {
        let segments = self.by_segment();
        segments
            .map(|(_, rows)| 16 + rows.bitmap_bytes_most())
            .sum()
    }

    /// Appends the set to `out`.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&(self.segments.len() as u32).to_le_bytes());
        out.extend_from_slice(&[0; 4]);
        for (segment, rows) in self.by_segment() {
            let rows = rows.bitmap();
            let len_bytes = rows.serialized_size();
            out.extend_from_slice(&segment.to_le_bytes());
            out.extend_from_slice(&(len_bytes as u32).to_le_bytes());
            rows.serialize_into(&mut *out)
                .expect("a vector takes all bytes");
            out.resize(out.len().next_multiple_of(ALIGN), 0);
        }
    }

    /// Reads what [`RowIds::encode`] wrote; what is wrong if it did not.
    pub(crate) fn decode(bytes: &[u8]) -> Result<RowIds, String> {
        let mut rest = bytes;
        let mut take = |len: usize| -> Result<&[u8], String> {
            let taken = rest.split_at_checked(len);
            let (taken, left) = taken.ok_or("the set of deleted rows is cut short")?;
            rest = left;
            Ok(taken)
        };
        let u32_of = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().expect("four bytes"));
        let count = u32_of(take(4)?);
        take(4)?;
        let mut segments: Vec<(u32, DeletedRows)> = Vec::new();
        for _ in 0..count {
            let (id, len_bytes) = (u32_of(take(4)?), u32_of(take(4)?) as usize);
            let stored = take(len_bytes.next_multiple_of(ALIGN))?;
            let rows = read_bitmap(&stored[..len_bytes])?.iter().collect();
            if segments.last().is_some_and(|(last, _)| *last >= id) {
                return Err(format!("segment {id} of the deleted rows is out of order"));
            }
            segments.push((id, rows));
        }
        match rest.is_empty() {
            true => Ok(RowIds { segments }),
            false => Err("bytes follow the deleted rows".to_owned()),
        }
    }
}

/// A bitmap of rows of a segment, at least one; what is wrong if it is none.
pub(super) fn read_bitmap(bytes: &[u8]) -> Result<RoaringBitmap, String> {
    let mut left = bytes;
    let rows = RoaringBitmap::deserialize_from(&mut left);
    let rows = rows.map_err(|error| format!("a bitmap of deleted rows: {error}"))?;
    match rows.max() {
        None => Err("a bitmap of deleted rows is empty".to_owned()),
        Some(last) if last as usize >= SEGMENT_ROWS => {
            Err(format!("no segment has the deleted row {last}"))
        }
        Some(_) if !left.is_empty() => Err("bytes follow a bitmap of deleted rows".to_owned()),
        Some(_) => Ok(rows),
    }
}

impl Extend<RowId> for RowIds {
    fn extend<T: IntoIterator<Item = RowId>>(&mut self, rows: T) {
        for row in rows {
            self.insert(row);
        }
    }
}

impl FromIterator<RowId> for RowIds {
    fn from_iter<T: IntoIterator<Item = RowId>>(rows: T) -> Self {
        let mut all = RowIds::default();
        all.extend(rows);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> RowIds {
        let rows = (0..200_000).step_by(3).map(|row| RowId::new(7, row));
        rows.chain([RowId::new(2, 9), RowId::new(u32::MAX, 0), RowId::new(2, 1)])
            .collect()
    }

    #[test]
    fn a_row_is_in_it_once_and_rows_ascend() {
        let mut rows = sample();
        assert!(!rows.insert(RowId::new(2, 9)) && rows.insert(RowId::new(2, 8)));
        assert_eq!(rows.len(), 66_667 + 4);
        assert!(rows.iter().is_sorted_by(|a, b| a < b));
        assert!(rows.contains(RowId::new(7, 3)) && !rows.contains(RowId::new(7, 4)));
        let mut more = sample();
        more.extend_from(&[RowId::new(1, 1), RowId::new(2, 8)].into_iter().collect());
        rows.insert(RowId::new(1, 1));
        assert_eq!(more, rows);
    }

    #[test]
    fn rows_added_together_are_those_added_one_by_one() {
        let first = RowId::new(4, 1_000_000).get();
        // In order, as scans tell them, then in none, and some twice.
        let ascending: Vec<u64> = (first..first + 200_000).step_by(3).collect();
        let scattered = (0..5_000_u64).map(|at| first + at * 7_919 % 150_000);
        for numbers in [ascending, scattered.collect(), vec![first; 3], vec![]] {
            let (mut together, mut one_by_one) = (sample(), sample());
            let are_new = together.insert_all(&numbers);
            let numbers = numbers.iter().map(|number| RowId::from_number(*number));
            let expected: Vec<bool> = numbers.map(|row| one_by_one.insert(row)).collect();
            assert!(are_new.iter().eq(expected));
            assert_eq!(together, one_by_one);
        }
    }

    #[test]
    fn what_is_read_is_what_was_written_or_an_error() {
        let rows = sample();
        let mut bytes = Vec::new();
        rows.encode(&mut bytes);
        assert_eq!(RowIds::decode(&bytes).unwrap(), rows);
        for len in (0..bytes.len()).step_by(7) {
            assert!(RowIds::decode(&bytes[..len]).is_err(), "{len} bytes");
        }
        // Every byte of the small parts changed: an error, or another set, but no panic.
        for at in (0..200).chain(bytes.len() - 100..bytes.len()) {
            for bit in 0..8 {
                let mut forged = bytes.clone();
                forged[at] ^= 1 << bit;
                if let Ok(other) = RowIds::decode(&forged) {
                    assert!(other.iter().all(|row| row.row() < SEGMENT_ROWS));
                }
            }
        }
    }
}
