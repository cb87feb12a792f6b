//! The rows that a column's inverted index names for a condition, by morsel of a scan.
//!
//! Asked once per scan and condition: how many rows the codes have, by one look-up each; then, if the
//! index is the cheaper way, which ones. Segments that no part of the index covers are scanned.
//!
//! Invariant: in a covered segment exactly the candidates meet the condition.

use tierra_column::bits::{BLOCK_LEN, Mask};
use tierra_column::{CodeFilter, FormatError};
use tierra_interleave::Lookups;

use super::{MORSEL_BLOCKS, Scan};
use crate::error::ScanError;
use crate::inverted::{InvertedPart, PartRows};

/// Rows of a morsel: a candidate's place in it has 16 bits.
const MORSEL_ROWS: u32 = (MORSEL_BLOCKS * BLOCK_LEN) as u32;
const _: () = assert!(MORSEL_ROWS <= 1 << 16);

/// An index is asked only if the scan would test this many rows for each look-up.
///
/// Measured by `examples/inverted_index.rs` with 10 and 100 M rows, 10,000 values and one thread: a
/// look-up took 30 to 37 ns where the index lay near and 53 to 175 far, on pages of 4 KiB; testing a row
/// against a list 0.6 to 1.5 ns. That is even at 20 to 120 rows; but all threads scan, and one asks the
/// index.
const ROWS_PER_LOOKUP: u64 = 256;
/// ... and used only if it would test this many for each candidate. Of values with ten rows a candidate
/// took 13 to 17 ns near and 17 to 38 far, its share of the look-ups included: even at 20 to 45 rows.
const ROWS_PER_CANDIDATE: u64 = 64;
/// So few look-ups, and candidates, cost less than any scan.
const FEW_LOOKUPS: u64 = 4;
const FEW_CANDIDATES: u64 = 64;

/// The rows that meet one condition.
#[derive(Debug)]
pub(super) struct Candidates {
    /// By segment of the snapshot: whether the index covers it.
    covers: Box<[bool]>,
    /// By morsel, and one more: where its candidates begin.
    starts: Box<[u32]>,
    /// Places in their morsels, ascending in each.
    places: Box<[u16]>,
}

impl Candidates {
    /// Asks the index of `column` for the rows with these codes; `None` where it has none, or
    /// scanning is cheaper.
    pub(super) fn find(
        scan: &Scan,
        column: usize,
        codes: &CodeFilter,
        lookups: &mut Lookups,
    ) -> Result<Option<Candidates>, ScanError> {
        let version = scan.snapshot.version();
        let usable = |part: &&InvertedPart| {
            part.column() == column && part.entry().generation == codes.generation()
        };
        let parts = version.indexes.iter().map(|part| &**part);
        let parts: Vec<&InvertedPart> = parts.filter(usable).collect();
        // NULL is in no list.
        if parts.is_empty() || codes.matches_null() {
            return Ok(None);
        }
        let damaged = |source| {
            let spec = scan.snapshot.table().spec();
            ScanError::Index {
                table: spec.name.clone(),
                column: spec.columns[column].name.clone(),
                source,
            }
        };
        let covered = parts.iter().map(|part| Covered::new(scan, part));
        let covered = covered.collect::<Result<Vec<_>, _>>().map_err(damaged)?;
        // What was read before the condition became known needs no index.
        let covered_rows: u64 = covered.iter().map(|part| part.rows).sum();
        let rows = (covered_rows as f64 * scan.left()) as u64;
        let most = (rows / ROWS_PER_LOOKUP / parts.len() as u64).max(FEW_LOOKUPS);
        let Some(codes) = codes.codes(usize::try_from(most).unwrap_or(usize::MAX)) else {
            return Ok(None);
        };
        let lists = parts.iter().map(|part| part.lists(&codes, lookups));
        let lists: Vec<PartRows> = lists.collect::<Result<_, _>>().map_err(damaged)?;
        let most = (rows / ROWS_PER_CANDIDATE).max(FEW_CANDIDATES);
        if lists.iter().map(PartRows::most).sum::<u64>() > most {
            return Ok(None);
        }
        let mut found = Found::new(scan);
        for ((part, covered), rows) in parts.iter().zip(&covered).zip(&lists) {
            found.add(part, covered, rows, lookups).map_err(damaged)?;
        }
        found.by_morsel().map(Some).map_err(damaged)
    }

    /// Whether the candidates of this segment are known.
    pub(super) fn covers(&self, segment: usize) -> bool {
        self.covers[segment]
    }

    /// How many there are in a morsel of a covered segment.
    pub(super) fn count(&self, morsel: usize) -> usize {
        (self.starts[morsel + 1] - self.starts[morsel]) as usize
    }

    /// Those of one block, counted from its morsel's first.
    pub(super) fn mask(&self, morsel: usize, block: usize) -> Mask {
        let places = self.starts[morsel] as usize..self.starts[morsel + 1] as usize;
        let places = &self.places[places];
        let first = block * BLOCK_LEN;
        let from = places.partition_point(|place| usize::from(*place) < first);
        let mut mask = Mask::none();
        for place in &places[from..] {
            match usize::from(*place) - first {
                row @ ..BLOCK_LEN => mask.set(row, true),
                _ => break,
            }
        }
        mask
    }
}

/// The segments of a part, by their number in its postings.
struct Covered {
    segments: Vec<Segment>,
    rows: u64,
}

#[derive(Clone, Copy)]
struct Segment {
    /// Its place in the snapshot.
    at: usize,
    rows: u32,
    first_morsel: u32,
}

impl Covered {
    fn new(scan: &Scan, part: &InvertedPart) -> Result<Self, FormatError> {
        let all = scan.snapshot.segments();
        let find = |id: &u32| {
            let at = all.binary_search_by_key(id, |segment| segment.id());
            let at = at.map_err(|_| corrupt(format!("segment {id} is not there")))?;
            Ok(Segment {
                at,
                rows: all[at].rows() as u32,
                first_morsel: scan.first_morsels[at] as u32,
            })
        };
        let segments = part.entry().segments.iter().map(find);
        let segments: Vec<Segment> = segments.collect::<Result<_, _>>()?;
        Ok(Self {
            rows: segments.iter().map(|segment| u64::from(segment.rows)).sum(),
            segments,
        })
    }
}

/// Candidates in the order in which they were found.
struct Found {
    covers: Vec<bool>,
    /// Morsel and place.
    rows: Vec<(u32, u16)>,
    /// By morsel, shifted by one.
    counts: Vec<u32>,
}

impl Found {
    fn new(scan: &Scan) -> Self {
        Self {
            covers: vec![false; scan.snapshot.segments().len()],
            rows: Vec::new(),
            counts: vec![0; scan.morsels.len() + 1],
        }
    }

    fn add(
        &mut self,
        part: &InvertedPart,
        covered: &Covered,
        rows: &PartRows,
        lookups: &mut Lookups,
    ) -> Result<(), FormatError> {
        for segment in &covered.segments {
            self.covers[segment.at] = true;
        }
        let mut outside = None;
        part.positions(rows, lookups, |position| {
            let segment = covered.segments.get(position.chunk());
            match segment.filter(|segment| position.row() < segment.rows) {
                Some(segment) => {
                    let morsel = segment.first_morsel + position.row() / MORSEL_ROWS;
                    self.counts[morsel as usize + 1] += 1;
                    self.rows
                        .push((morsel, (position.row() % MORSEL_ROWS) as u16));
                }
                None => outside = Some(position),
            }
        })?;
        match outside {
            None => Ok(()),
            Some(position) => Err(corrupt(format!("it lists {position:?}, which is nowhere"))),
        }
    }

    /// A counting sort: there are about as many morsels as candidates.
    fn by_morsel(self) -> Result<Candidates, FormatError> {
        let mut starts = self.counts;
        for morsel in 1..starts.len() {
            starts[morsel] += starts[morsel - 1];
        }
        let mut next = starts.clone();
        let mut places = vec![0; self.rows.len()];
        for (morsel, place) in self.rows {
            let at = &mut next[morsel as usize];
            places[*at as usize] = place;
            *at += 1;
        }
        for morsel in starts.windows(2) {
            let places = &mut places[morsel[0] as usize..morsel[1] as usize];
            places.sort_unstable();
            if !places.is_sorted_by(|a, b| a < b) {
                return Err(corrupt("it lists a row for two values".to_owned()));
            }
        }
        Ok(Candidates {
            covers: self.covers.into(),
            starts: starts.into(),
            places: places.into(),
        })
    }
}

fn corrupt(why: String) -> FormatError {
    FormatError::Corrupt {
        what: "an inverted index",
        why,
    }
}
