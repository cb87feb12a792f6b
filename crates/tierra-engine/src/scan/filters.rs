//! The conditions of one cursor: bound to the segment at hand, tested in the order that pays.
//!
//! Invariant: all of them hold for every row that passes, in whatever order they are tested.

use std::sync::Arc;

use tierra_column::{BoundFilter, Filter};
use tierra_interleave::{GroupReport, Lookups};

use super::Scan;
use super::codes::SharedCodes;
use crate::error::ScanError;
use crate::segment::Segment;
use crate::spec::TableSpec;
use crate::version::TableVersion;

/// One condition, and what it has done so far.
#[derive(Debug)]
pub(super) struct Condition {
    pub(super) column: usize,
    pub(super) filter: Filter,
    codes: Arc<SharedCodes>,
    /// Rows that were tested, and those that passed.
    tested: u64,
    passed: u64,
    /// Bytes that testing them read.
    bytes: u64,
}

impl Condition {
    fn new(column: usize, filter: Filter, codes: Arc<SharedCodes>) -> Self {
        Self {
            column,
            filter,
            codes,
            tested: 0,
            passed: 0,
            bytes: 0,
        }
    }

    /// Expected bytes read per row ruled out: the fewer, the earlier it should be tested.
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
    all: Vec<Condition>,
    /// How many of them the scan was made with; those behind came later.
    fixed: usize,
    /// Indices into `all`, in the order of testing.
    order: Vec<usize>,
    /// By index into `all`, for one segment.
    bound: Vec<BoundFilter>,
    bound_to: Option<usize>,
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
            fixed: all.len(),
            order: (0..all.len()).collect(),
            all,
            bound: Vec::new(),
            bound_to: None,
            more_version: None,
        }
    }

    /// Replaces the conditions that came later, if these are others. Returns whether they were.
    pub(super) fn set_more(&mut self, more: &[(usize, Filter)], version: u64) -> bool {
        if self.more_version == Some(version) {
            return false;
        }
        self.more_version = Some(version);
        if more.is_empty() && self.all.len() == self.fixed {
            return false;
        }
        self.all.truncate(self.fixed);
        self.all.extend(
            more.iter()
                .map(|(column, filter)| Condition::new(*column, filter.clone(), Arc::default())),
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

    /// The condition at a place of the order, and its index.
    pub(super) fn at(&self, place: usize) -> (usize, &Condition, &BoundFilter) {
        let index = self.order[place];
        (index, &self.all[index], &self.bound[index])
    }

    /// What looking values up in dictionaries took.
    pub(super) fn report(&self) -> GroupReport {
        self.lookups.report()
    }

    /// Notes what testing a block did.
    pub(super) fn note(&mut self, index: usize, tested: usize, passed: usize, bytes: usize) {
        let condition = &mut self.all[index];
        condition.tested += tested as u64;
        condition.passed += passed as u64;
        condition.bytes += bytes as u64;
    }

    /// Binds to a segment, unless that was the last one, and settles the order anew.
    pub(super) fn bind(
        &mut self,
        at: usize,
        segment: &Segment,
        version: &TableVersion,
        spec: &TableSpec,
    ) -> Result<(), ScanError> {
        let all = &self.all;
        self.order
            .sort_by(|a, b| all[*a].rank().total_cmp(&all[*b].rank()));
        if self.bound_to == Some(at) {
            return Ok(());
        }
        self.bound.clear();
        self.bound_to = None;
        for condition in &self.all {
            let column = condition.column;
            let (chunk, dictionary) = (segment.chunk(column), version.dictionary(column));
            let bound = match dictionary.filter(|_| chunk.dictionary_generation().is_some()) {
                Some(dictionary) => condition
                    .codes
                    .of(&condition.filter, dictionary, &mut self.lookups)
                    .and_then(|codes| chunk.bind_codes(&codes)),
                None => chunk.bind(&condition.filter, dictionary, self.lookups.scheduling()),
            };
            self.bound.push(bound.map_err(|source| ScanError::Filter {
                table: spec.name.clone(),
                column: spec.columns[column].name.clone(),
                source,
            })?);
        }
        self.bound_to = Some(at);
        Ok(())
    }
}
