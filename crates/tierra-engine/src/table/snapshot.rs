//! A snapshot: the state of a table that a query sees for its whole duration.
//!
//! Invariant: immutable, and its bytes stay allocated as long as it lives. Making and cloning one costs a reference count.

use std::borrow::Cow;
use std::sync::Arc;

use arrow::array::Array;
use tierra_column::{Dictionary, Encoding};

use crate::index::inverted::InvertedPart;
use crate::manifest::row_id::RowId;
use crate::segment::Segment;
use crate::table::Table;
use crate::table::version::TableVersion;
use crate::tail::statistics::ColumnStatistics;

/// The size of a primary key's index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyIndexSize {
    /// Rows whose keys are in stored runs. Background work extends this to all rows except those of the tail.
    pub listed_rows: u64,
    /// Number of runs.
    pub runs: usize,
    /// Bytes of the runs, one copy.
    pub far_bytes: u64,
    /// Bytes of near memory except copies of runs: the first key of each leaf, and all keys that are in no run.
    pub near_bytes: u64,
    /// Bytes of runs that are copied near.
    pub copied_bytes: u64,
}

/// Everything that was committed when the snapshot was made.
#[derive(Clone, Debug)]
pub struct Snapshot {
    // Before the table, so that it drops first: the last reference to a dropped table then finds its space unused.
    version: Arc<TableVersion>,
    table: Arc<Table>,
}

impl Table {
    /// Everything committed so far, unchanged by later commits. Takes no lock.
    pub fn snapshot(self: &Arc<Self>) -> Snapshot {
        Snapshot::new(self.clone(), self.current())
    }
}

impl Snapshot {
    pub(crate) fn new(table: Arc<Table>, version: Arc<TableVersion>) -> Self {
        Self { version, table }
    }

    /// The table that the snapshot was taken of.
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }

    pub(crate) fn version(&self) -> &TableVersion {
        &self.version
    }

    /// The version, to be kept for longer than the snapshot.
    pub(crate) fn shared_version(&self) -> &Arc<TableVersion> {
        &self.version
    }

    /// Whether the table has no newer version: nothing was committed since, and background work has moved no rows.
    pub fn is_current(&self) -> bool {
        Arc::ptr_eq(&self.version, &self.table.current())
    }

    /// The exact number of rows.
    pub fn rows(&self) -> u64 {
        self.version.rows()
    }

    /// Rows that are not in segments yet.
    pub fn tail_rows(&self) -> u64 {
        self.version.tail_rows() as u64
    }

    /// Deleted rows whose space is still taken.
    pub fn deleted_rows(&self) -> u64 {
        self.version.deletions.count()
    }

    /// Bytes that the tail's rows take in its log, unpacked.
    pub fn tail_bytes(&self) -> u64 {
        self.version.tail.bytes()
    }

    /// The segments, which hold the sealed rows, and deleted ones.
    pub fn segments(&self) -> &[Arc<Segment>] {
        &self.version.segments
    }

    /// Whether the snapshot contains the row.
    pub fn contains(&self, row: RowId) -> bool {
        self.version.contains(row)
    }

    /// Bytes of all chunks, one copy.
    pub fn stored_bytes(&self) -> u64 {
        let columns = 0..self.table.spec().columns.len();
        let of = |segment: &Arc<Segment>| {
            columns
                .clone()
                .map(|column| segment.stored_bytes(column))
                .sum::<u64>()
        };
        self.version.segments.iter().map(of).sum()
    }

    /// Bounds and NULLs of a column. Reads only chunk headers, and the tail once.
    ///
    /// # Panics
    /// If there is no such column.
    pub fn statistics(&self, column: usize) -> ColumnStatistics {
        let mut statistics = ColumnStatistics::default();
        let mut bounds_known = true;
        for segment in self.segments() {
            if segment.is_placeholder(column) {
                (bounds_known, statistics.lacks_rows) = (false, true);
                continue;
            }
            let chunk = segment.chunk(column);
            let (min, max) = chunk.min_max().unzip();
            bounds_known &= min.is_some() || chunk.null_count() == chunk.rows();
            statistics.extend(min.as_ref(), max.as_ref(), chunk.null_count() as u64);
        }
        for batch in self.version.tail.batches() {
            let tail = &batch.statistics()[column];
            bounds_known &= tail.min.is_some() || tail.null_count == batch.rows.num_rows() as u64;
            statistics.extend(tail.min.as_ref(), tail.max.as_ref(), tail.null_count);
        }
        if !bounds_known {
            (statistics.min, statistics.max) = (None, None);
        }
        statistics.counts_deleted = !self.version.deletions.is_empty();
        statistics
    }

    /// About how many distinct values a column has: those of its dictionary, or what the sketches of its chunks and of the
    /// tail say together. Chunks and batches too small for a sketch are taken to be as the others; where there are no others, each
    /// of their values may be one of its own. `None` without values. Reads only chunk headers, and the tail once.
    ///
    /// # Panics
    /// If there is no such column.
    pub fn distinct_values(&self, column: usize) -> Option<u64> {
        let sealed = self.version.segments.distinct(column);
        let ty = self.table.spec().columns[column].ty;
        let mut all = sealed.map_or_else(Cow::default, Cow::Borrowed);
        for batch in self.version.tail.batches() {
            let rows = batch.rows.column(column);
            let values = (rows.len() - rows.null_count()) as u64;
            let all = all.to_mut();
            match batch.distinct_sketch(column, ty) {
                Some(sketch) => {
                    all.sketch.merge(sketch);
                    all.sketched += values;
                }
                None => all.others += values,
            }
        }
        if let Cow::Owned(all) = &mut all {
            all.estimate = all.sketch.estimate();
        }
        let dictionary = self.version.dictionaries[column].as_ref();
        let coded = dictionary.filter(|_| all.has_codes);
        let coded = coded.map(|dictionary| dictionary.len() as u64);
        let sketched = (all.sketched > 0).then(|| {
            let times = 1.0 + all.others as f64 / all.sketched as f64;
            (all.estimate as f64 * times) as u64
        });
        let others = (all.others > 0).then_some(all.others);
        let distinct = coded.max(sketched).or(others);
        match self.version.deletions.is_empty() {
            true => distinct,
            // Values of deleted rows were counted, too.
            false => distinct.map(|distinct| distinct.min(self.rows())),
        }
    }

    /// The column's dictionary, if all sealed rows are stored as its codes; those of the tail are not.
    pub fn sealed_dictionary(&self, column: usize) -> Option<&Dictionary> {
        let is_coded = |segment: &Arc<Segment>| {
            let encoding = segment.encoding(column);
            encoding.is_some_and(Encoding::uses_dictionary)
        };
        let dictionary = self.version.dictionary(column)?;
        (self.segments().iter().all(is_coded)).then_some(dictionary)
    }

    /// The column's dictionary, if every row of the snapshot is stored as one of its codes. Only then may a
    /// [`tierra_column::FilterKind::Codes`] be used.
    ///
    /// # Panics
    /// If there is no such column.
    pub fn coded_dictionary(&self, column: usize) -> Option<Arc<Dictionary>> {
        let coded = |segment: &Arc<Segment>| {
            segment
                .encoding(column)
                .is_some_and(Encoding::uses_dictionary)
        };
        let all = self.version.tail.rows() == 0 && self.segments().iter().all(coded);
        if all {
            self.version.dictionaries[column].clone()
        } else {
            None
        }
    }

    /// Rows that the column's index covers. Background work extends this to all rows except those of the tail.
    ///
    /// # Panics
    /// If there is no such column.
    pub fn indexed_rows(&self, column: usize) -> u64 {
        let covers = |part: &Arc<InvertedPart>, id| part.covers(id) && !part.is_given_up();
        let is_covered =
            |segment: &&Arc<Segment>| self.parts(column).any(|part| covers(part, segment.id()));
        let covered = self.segments().iter().filter(is_covered);
        covered
            .map(|segment| self.version.rows_of(segment) as u64)
            .sum()
    }

    /// Bytes of a column's index in the pool.
    ///
    /// # Panics
    /// If there is no such column.
    pub fn index_bytes(&self, column: usize) -> u64 {
        self.parts(column)
            .map(|part| part.extent().len_bytes())
            .sum()
    }

    /// Number of parts of a column's index. Each lookup of a value reads all of them.
    ///
    /// # Panics
    /// If there is no such column.
    #[doc(hidden)]
    pub fn index_parts(&self, column: usize) -> usize {
        self.parts(column).count()
    }

    /// The size of the primary key's index, as far as it is built.
    pub fn key_index(&self) -> KeyIndexSize {
        let keys = &self.version.keys;
        let runs = keys.runs().iter().filter(|run| !run.is_given_up());
        KeyIndexSize {
            listed_rows: runs.clone().map(|run| run.rows()).sum(),
            runs: runs.clone().count(),
            far_bytes: runs.clone().map(|run| run.extent().len_bytes()).sum(),
            near_bytes: keys.near_bytes() as u64,
            copied_bytes: runs
                .map(|run| run.pages().near().map_or(0, |near| near.len() as u64))
                .sum(),
        }
    }

    fn parts(&self, column: usize) -> impl Iterator<Item = &Arc<InvertedPart>> {
        let columns = self.table.spec().columns.len();
        assert!(column < columns, "column {column} of {columns}");
        let parts = self.version.indexes.iter();
        parts.filter(move |part| part.column() == column)
    }
}
