//! The rows that a column's inverted index lists for a condition, by morsel of a scan.
//!
//! Asked once per scan and condition: first how many rows the codes have, by one lookup each; then, if the index is cheaper than
//! a scan, which ones. Segments that no part of the index covers are scanned. If a part turns out to be damaged, all its segments
//! are scanned, too: the part is given up, and the writer builds another one.
//!
//! Invariant: in a covered segment exactly the candidates meet the condition.

use std::cell::LazyCell;
use std::ops::Range;

use tierra_column::bits::{BLOCK_LEN, Mask};
use tierra_column::{CodeFilter, FormatError};
use tierra_interleave::Lookups;

use super::costs::{self, ScanCost};
use super::shared::{MORSEL_BLOCKS, Scan};
use super::spec::IndexUse;
use crate::error::ScanError;
use crate::index::inverted::{InvertedPart, PartRows};

/// Rows of a morsel: a candidate's place in its morsel has 16 bits.
const MORSEL_ROWS: u32 = (MORSEL_BLOCKS * BLOCK_LEN) as u32;
const _: () = assert!(MORSEL_ROWS <= 1 << 16);

/// This few lookups or candidates cost less than any scan.
const FEW_LOOKUPS: u64 = 4;
const FEW_CANDIDATES: u64 = 64;
/// The most candidates for a table of any size: all of them are held in memory.
const CANDIDATES_MAX: u64 = 1 << 22;
/// If the lookups of the codes cost less than this part of the scan they are made regardless of the expected rows: values are not
/// all as frequent as their average.
const LOOKUP_COST_SHARE_MAX: f64 = 0.1;
/// Blocks sampled to estimate how many a scan would read.
const SAMPLED_BLOCKS: usize = 256;

/// The rows that meet one condition.
#[derive(Debug)]
pub(super) struct Candidates {
    /// By segment of the snapshot: whether the index covers it.
    covers: Box<[bool]>,
    /// By morsel, plus one: where its candidates begin.
    starts: Box<[u32]>,
    /// Places in their morsels, ascending within each.
    places: Box<[u16]>,
}

impl Candidates {
    /// Asks the index of `column` for the rows with these codes; `None` if there is no index or a scan is cheaper. `most_ns` is
    /// the cost that other conditions' candidates leave.
    pub(super) fn find(
        scan: &Scan,
        column: usize,
        codes: &CodeFilter,
        most_ns: Option<f64>,
        lookups: &mut Lookups,
    ) -> Result<Option<Candidates>, ScanError> {
        let usable = |part: &&InvertedPart| {
            let is_of_codes = part.entry().generation == codes.generation();
            part.column() == column && is_of_codes && !part.is_given_up()
        };
        let parts = scan.snapshot.version().indexes.iter();
        let parts: Vec<&InvertedPart> = parts.map(|part| &**part).filter(usable).collect();
        // NULL is in no list.
        if parts.is_empty() || codes.matches_null() {
            return Ok(None);
        }
        let storage = scan.snapshot.table().storage();
        let found = storage
            .read_validated(|| Self::ask(scan, column, codes, &parts, most_ns, &mut *lookups))?;
        Ok(found.unwrap_or_else(|Damage { part, source }| {
            if part.give_up() {
                let table = scan.snapshot.table();
                let (name, column) = (&table.spec().name, &table.spec().columns[column].name);
                tracing::warn!(
                    table = name,
                    column,
                    error = %source,
                    "a part of an index is damaged: rows are scanned until it is built again"
                );
                table.ask_for_indexes();
                table.ask_for_index_copies();
            }
            None
        }))
    }

    fn ask<'p>(
        scan: &Scan,
        column: usize,
        codes: &CodeFilter,
        parts: &[&'p InvertedPart],
        most_ns: Option<f64>,
        lookups: &mut Lookups,
    ) -> Result<Option<Candidates>, Damage<'p>> {
        let covered = parts.iter().map(|part| Covered::new(scan, column, part));
        let covered: Vec<Covered> = covered.collect::<Result<_, _>>()?;
        // Rows that were read before the condition was known need no index.
        let sum = |of: fn(&Covered) -> f64| covered.iter().map(of).sum::<f64>() * scan.left();
        let cost = ScanCost {
            blocks: sum(|part| part.blocks as f64),
            rows: sum(|part| part.rows as f64),
            far_ns: sum(|part| part.far_ns),
            are_stretches: codes.are_ranges(),
            codes: parts.iter().map(|part| part.codes()).max().unwrap_or(0),
            most_ns: most_ns.unwrap_or(f64::INFINITY),
            threads: scan.threads() as f64,
        };
        // Of one code in all parts.
        let lookup_ns: f64 = parts
            .iter()
            .map(|part| costs::lookup_ns(part.line_times()))
            .sum();
        let is_asked = scan.index_use == IndexUse::Always;
        let most = match is_asked {
            true => u64::MAX,
            false => ((cost.ns(1.0) / lookup_ns) as u64).max(FEW_LOOKUPS),
        };
        let Some(codes) = codes.codes(usize::try_from(most).unwrap_or(usize::MAX)) else {
            return Ok(None);
        };
        // Lazy: computed only if it matters.
        let share_met = LazyCell::new(|| share_met(scan, column, &covered, &codes));
        let count = codes.len() as u64;
        let lookups_ns = count as f64 * lookup_ns;
        if !is_asked
            && count > FEW_LOOKUPS
            && lookups_ns > cost.ns(*share_met) * LOOKUP_COST_SHARE_MAX
        {
            let average = parts.iter().map(|part| part.average_rows(count)).sum();
            if lookups_ns + costs::rows_ns(average, *share_met) > cost.ns(*share_met) {
                return Ok(None);
            }
        }
        let list = |part: &&'p InvertedPart| {
            let rows = part.lists(&codes, lookups);
            rows.map_err(|source| Damage { part, source })
        };
        let lists: Vec<PartRows> = parts.iter().map(list).collect::<Result<_, _>>()?;
        let count = lists.iter().map(PartRows::most).sum::<u64>();
        let pays = |count| {
            count <= CANDIDATES_MAX && costs::rows_ns(count, *share_met) < cost.ns(*share_met)
        };
        if !is_asked && count > FEW_CANDIDATES && !pays(count) {
            return Ok(None);
        }
        let mut found = CandidateRows::new(scan);
        for ((part, covered), rows) in parts.iter().zip(&covered).zip(&lists) {
            let added = found.add(part, covered, rows, lookups);
            added.map_err(|source| Damage { part, source })?;
        }
        let found = found.by_morsel().map_err(|morsel| {
            let lists_it = |covered: &Covered| covered.has_morsel(morsel);
            let at = covered.iter().position(lists_it).unwrap_or(0);
            Damage {
                part: parts[at],
                source: corrupt("it lists a row for two values".to_owned()),
            }
        })?;
        Ok(Some(found))
    }

    /// The remaining cost of a scan once these rows are known, in nanoseconds.
    pub(super) fn left_ns(&self, scan: &Scan) -> f64 {
        let segments = scan.snapshot.segments().iter().zip(&self.covers);
        let others = segments.filter(|(_, is_covered)| !**is_covered);
        let others = others.map(|(segment, _)| segment.rows()).sum();
        costs::left_ns(self.places.len(), others)
    }

    /// Whether the candidates of this segment are known.
    pub(super) fn covers(&self, segment: usize) -> bool {
        self.covers[segment]
    }

    /// The number of candidates in a morsel of a covered segment.
    pub(super) fn count(&self, morsel: usize) -> usize {
        (self.starts[morsel + 1] - self.starts[morsel]) as usize
    }

    /// The candidates of one block, numbered within its morsel.
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

/// A part whose bytes are not those that were written.
struct Damage<'p> {
    part: &'p InvertedPart,
    source: FormatError,
}

/// A segment of a part, by its number in the postings.
struct Covered {
    segments: Vec<SegmentRange>,
    rows: u64,
    blocks: u64,
    /// What reading the column takes longer than in near memory.
    far_ns: f64,
}

#[derive(Clone, Copy)]
struct SegmentRange {
    /// Its index in the snapshot.
    at: usize,
    rows: u32,
    first_morsel: u32,
}

impl SegmentRange {
    fn morsels(self) -> Range<u32> {
        self.first_morsel..self.first_morsel + self.rows.div_ceil(MORSEL_ROWS)
    }
}

impl Covered {
    fn new<'p>(scan: &Scan, column: usize, part: &'p InvertedPart) -> Result<Self, Damage<'p>> {
        let all = &scan.snapshot.version().segments;
        let find = |id: &u32| {
            let at = all.position(*id).ok_or_else(|| Damage {
                part,
                source: corrupt(format!("segment {id} is not there")),
            })?;
            Ok(SegmentRange {
                at,
                rows: all[at].rows() as u32,
                first_morsel: scan.first_morsels[at] as u32,
            })
        };
        let segments = part.entry().segments.iter().map(find);
        let segments: Vec<SegmentRange> = segments.collect::<Result<_, _>>()?;
        let blocks = |segment: &SegmentRange| all[segment.at].blocks() as u64;
        let far_ns = |segment: &SegmentRange| {
            let segment = &all[segment.at];
            costs::far_ns(segment.stored_bytes(column), segment.line_times(column))
        };
        Ok(Self {
            far_ns: segments.iter().map(far_ns).sum(),
            rows: segments.iter().map(|segment| u64::from(segment.rows)).sum(),
            blocks: segments.iter().map(blocks).sum(),
            segments,
        })
    }

    fn has_morsel(&self, morsel: u32) -> bool {
        let segments = self.segments.iter();
        segments
            .map(|segment| segment.morsels())
            .any(|morsels| morsels.contains(&morsel))
    }
}

/// The estimated share, from 0 to 1, of the covered segments' blocks that minima and maxima do not rule out. Some blocks are
/// sampled.
fn share_met(scan: &Scan, column: usize, covered: &[Covered], codes: &[u32]) -> f64 {
    let all = scan.snapshot.segments();
    let segments = covered.iter().flat_map(|part| &part.segments);
    let blocks: usize = segments.clone().map(|part| all[part.at].blocks()).sum();
    let samples = blocks.min(SAMPLED_BLOCKS);
    let mut sampled = (0..samples)
        .map(|sample| sample * blocks / samples)
        .peekable();
    let (mut met, mut first) = (0, 0);
    for segment in segments {
        let segment = &all[segment.at];
        let end = first + segment.blocks();
        while let Some(block) = sampled.next_if(|block| *block < end) {
            let Some((min, max)) = segment.chunk(column).block_codes(block - first) else {
                continue;
            };
            let at = codes.partition_point(|code| u64::from(*code) < min);
            met += usize::from(codes.get(at).is_some_and(|code| u64::from(*code) <= max));
        }
        first = end;
    }
    // Blocks between two samples may be met although the samples are not.
    ((met + 1) as f64 / samples.max(1) as f64).min(1.0)
}

/// Candidates in the order in which they were found.
struct CandidateRows {
    covers: Vec<bool>,
    /// Morsel and place.
    rows: Vec<(u32, u16)>,
    /// By morsel, shifted by one.
    counts: Vec<u32>,
}

impl CandidateRows {
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

    /// A counting sort: there are about as many morsels as candidates. A row that comes twice in a morsel is an error.
    fn by_morsel(self) -> Result<Candidates, u32> {
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
        for (morsel, bounds) in starts.windows(2).enumerate() {
            let places = &mut places[bounds[0] as usize..bounds[1] as usize];
            places.sort_unstable();
            if !places.is_sorted_by(|a, b| a < b) {
                return Err(morsel as u32);
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
