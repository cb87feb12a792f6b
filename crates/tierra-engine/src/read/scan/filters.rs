//! The conditions of one cursor, bound to the current segment and tested in the cheapest order.
//!
//! Invariant: a row that passes meets all of them, regardless of the order.

use std::sync::Arc;

use tierra_column::bits::Mask;
use tierra_column::{BoundFilter, Filter};
use tierra_interleave::{GroupReport, Lookups};

use super::candidates::Candidates;
use super::codes::SharedCodes;
use super::shared::{MORSEL_BLOCKS, Scan};
use super::spec::IndexUse;
use crate::error::ScanError;
use crate::segment::Segment;
use crate::spec::TableSpec;
use crate::table::version::TableVersion;

/// A condition and its statistics.
#[derive(Debug)]
pub(super) struct Condition {
    pub(super) column: usize,
    pub(super) filter: Filter,
    codes: Arc<SharedCodes>,
    /// The index's answer, once it was asked.
    candidates: Option<Arc<Candidates>>,
    /// Rows that were tested, and those that passed.
    tested: u64,
    passed: u64,
    /// Bytes read by the tests.
    bytes: u64,
}

impl Condition {
    fn new(column: usize, filter: Filter, codes: Arc<SharedCodes>) -> Self {
        Self {
            column,
            filter,
            codes,
            candidates: None,
            tested: 0,
            passed: 0,
            bytes: 0,
        }
    }

    /// The rows of a segment that meet the condition, if an index has listed them.
    fn known(&self, segment: usize) -> Option<&Candidates> {
        let candidates = self.candidates.as_deref();
        candidates.filter(|candidates| candidates.covers(segment))
    }

    /// Expected bytes read per row ruled out: the condition with the fewest is tested first.
    fn rank(&self) -> f64 {
        if self.tested == 0 {
            return 0.0;
        }
        let ruled_out = (self.tested - self.passed) as f64;
        (self.bytes as f64 + 1.0) / ruled_out.max(0.001)
    }
}

/// All conditions of a cursor.
#[derive(Debug)]
pub(super) struct Conditions {
    /// Of the values of sets in dictionaries.
    lookups: Lookups,
    /// Of codes in inverted indexes.
    index_lookups: Lookups,
    /// Number of conditions whose indexes were asked.
    asked: usize,
    all: Vec<Condition>,
    /// The number that the scan was made with; those after came later.
    fixed: usize,
    /// Indices into `all`, in the order of testing.
    order: Vec<usize>,
    /// By index into `all`, for one segment; `None` if an index knows the rows.
    bound: Vec<Option<BoundFilter>>,
    /// The segment, and which of its [others](Segment::others).
    bound_to: Option<(usize, Option<usize>)>,
    more_version: Option<u64>,
}

impl Conditions {
    pub(super) fn new(scan: &Scan) -> Self {
        let filters = scan.spec.filters.iter().zip(&scan.codes);
        let all: Vec<_> = filters
            .map(|((column, filter), codes)| Condition::new(*column, filter.clone(), codes.clone()))
            .collect();
        Self {
            lookups: Lookups::new(scan.spec.execution),
            index_lookups: Lookups::new(scan.spec.execution),
            asked: 0,
            fixed: all.len(),
            order: (0..all.len()).collect(),
            all,
            bound: Vec::new(),
            bound_to: None,
            more_version: None,
        }
    }

    /// Replaces the later conditions if they differ. Returns whether they did.
    pub(super) fn set_more(&mut self, scan: &Scan, more: &[(usize, Filter)], version: u64) -> bool {
        if self.more_version == Some(version) {
            return false;
        }
        self.more_version = Some(version);
        if more.is_empty() && self.all.len() == self.fixed {
            return false;
        }
        self.all.truncate(self.fixed);
        self.asked = self.asked.min(self.fixed);
        let codes = scan.later.of(version, more.len());
        self.all.extend(
            more.iter()
                .zip(codes)
                .map(|((column, filter), codes)| Condition::new(*column, filter.clone(), codes)),
        );
        self.order = (0..self.all.len()).collect();
        self.bound_to = None;
        true
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Condition> {
        self.all.iter()
    }

    /// Checks that the columns to be tested in a segment are readable; `bind` leaves out unreadable ones.
    #[inline]
    pub(super) fn check_there(
        &self,
        at: usize,
        segment: &Segment,
        spec: &TableSpec,
        block: usize,
    ) -> Result<(), ScanError> {
        if segment.has_no_placeholder() {
            return Ok(());
        }
        let mut tested = self.all.iter().filter(|it| it.known(at).is_none());
        tested.try_for_each(|it| segment.check_there(spec, it.column, block))
    }

    /// The condition at a place of the order, and its index; `None` if the rows are already candidates.
    pub(super) fn at(&self, place: usize) -> Option<(usize, &Condition, &BoundFilter)> {
        let index = self.order[place];
        let bound = self.bound[index].as_ref()?;
        Some((index, &self.all[index], bound))
    }

    /// Asks the indexes of new conditions one after the other, those with the fewest codes first; the others only if what remains
    /// makes it worthwhile.
    pub(super) fn ask_indexes(&mut self, scan: &Scan) -> Result<(), ScanError> {
        if self.asked == self.all.len() || scan.index_use == IndexUse::Never {
            return Ok(());
        }
        let version = scan.snapshot.version();
        let mut new = Vec::new();
        for index in self.asked..self.all.len() {
            let condition = &self.all[index];
            let column = condition.column;
            let Some(dictionary) = version.dictionary(column) else {
                continue;
            };
            if !version.indexes.iter().any(|part| part.column() == column) {
                continue;
            }
            let (codes, filter) = (&condition.codes, &condition.filter);
            let codes = codes.of(filter, dictionary, &mut self.lookups);
            let codes = codes.map_err(|source| {
                let spec = scan.snapshot.table().spec();
                ScanError::Filter {
                    table: spec.name.clone(),
                    column: spec.columns[column].name.clone(),
                    source,
                }
            })?;
            new.push((index, codes));
        }
        new.sort_by_cached_key(|(_, codes)| codes.count());
        let known = self.all.iter().filter_map(|old| old.candidates.as_ref());
        let mut most_ns = known.map(|known| known.left_ns(scan)).reduce(f64::min);
        for (index, codes) in new {
            let condition = &mut self.all[index];
            let (column, lookups) = (condition.column, &mut self.index_lookups);
            let found = condition
                .codes
                .candidates(|| Candidates::find(scan, column, &codes, most_ns, &mut *lookups))?;
            let left = found.as_ref().map(|found| found.left_ns(scan));
            most_ns = most_ns.into_iter().chain(left).reduce(f64::min);
            condition.candidates = found;
        }
        self.asked = self.all.len();
        Ok(())
    }

    /// The candidates of conditions that an index has answered for a segment.
    fn known(&self, segment: usize) -> impl Iterator<Item = &Candidates> {
        let conditions = self.all.iter();
        conditions.filter_map(move |condition| condition.known(segment))
    }

    /// The most rows of a morsel that the indexes leave; `None` if no index covers it.
    pub(super) fn left(&self, segment: usize, morsel: usize) -> Option<usize> {
        let counts = self
            .known(segment)
            .map(|candidates| candidates.count(morsel));
        counts.min()
    }

    /// Whether the candidates of a segment are the result: no other condition must be tested.
    pub(super) fn is_answered(&self, segment: usize) -> bool {
        self.all.len() == 1 && self.known(segment).count() == 1
    }

    /// Keeps the rows of a block that the indexes leave; returns whether there are any.
    pub(super) fn narrow(
        &self,
        scan: &Scan,
        segment: usize,
        block: usize,
        mask: &mut Mask,
    ) -> bool {
        let morsel = scan.first_morsels[segment] + block / MORSEL_BLOCKS;
        for candidates in self.known(segment) {
            mask.and(&candidates.mask(morsel, block % MORSEL_BLOCKS));
        }
        mask.any()
    }

    /// Statistics of lookups in dictionaries.
    pub(super) fn report(&self) -> GroupReport {
        self.lookups.report()
    }

    /// Statistics of lookups in indexes.
    pub(super) fn index_report(&self) -> GroupReport {
        self.index_lookups.report()
    }

    /// Forces binding for the next segment even if it is the same: what was read of it may have been lost.
    pub(super) fn unbind(&mut self) {
        self.bound_to = None;
    }

    /// Adds the statistics of testing a block.
    pub(super) fn note(&mut self, index: usize, tested: usize, passed: usize, bytes: usize) {
        let condition = &mut self.all[index];
        condition.tested += tested as u64;
        condition.passed += passed as u64;
        condition.bytes += bytes as u64;
    }

    /// Sorts the conditions anew, then binds them to a segment, or one of its others, unless they are bound to it.
    pub(super) fn bind(
        &mut self,
        (at, other): (usize, Option<usize>),
        segment: &Segment,
        version: &TableVersion,
        spec: &TableSpec,
    ) -> Result<(), ScanError> {
        let all = &self.all;
        self.order
            .sort_by(|a, b| all[*a].rank().total_cmp(&all[*b].rank()));
        if self.bound_to == Some((at, other)) {
            return Ok(());
        }
        self.bound.clear();
        self.bound_to = None;
        for condition in &self.all {
            if condition.known(at).is_some() || segment.is_placeholder(condition.column) {
                self.bound.push(None);
                continue;
            }
            let column = condition.column;
            let (chunk, dictionary) = (segment.chunk(column), version.dictionary(column));
            let bound = match dictionary.filter(|_| chunk.dictionary_generation().is_some()) {
                Some(dictionary) => condition
                    .codes
                    .of(&condition.filter, dictionary, &mut self.lookups)
                    .and_then(|codes| chunk.bind_codes(&codes)),
                None => chunk.bind(&condition.filter, dictionary, self.lookups.scheduling()),
            };
            let bound = bound.map_err(|source| ScanError::Filter {
                table: spec.name.clone(),
                column: spec.columns[column].name.clone(),
                source,
            })?;
            self.bound.push(Some(bound));
        }
        self.bound_to = Some((at, other));
        Ok(())
    }
}
