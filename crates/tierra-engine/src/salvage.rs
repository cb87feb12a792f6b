//! Salvage: copies the readable data of a damaged database into another one, and lists the rest.
//!
//! The version of a withheld table holds its readable data: sealed rows, and rows of the log's whole records. Only salvage reads
//! it.
//!
//! Invariant: nothing is written to the source database. A row is copied with the values that were committed, or with NULL where
//! the report lists its column.

use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, new_null_array};
use arrow::compute::filter_record_batch;
use tierra_column::bits::Mask;
use tierra_column::{Chunk, ColumnReader, Dictionary, Scratch};

use crate::database::Database;
use crate::database::opening;
use crate::error::{LoadError, OpenError, StorageError, TableError};
use crate::segment::Segment;
use crate::spec::TableSpec;
use crate::storage::options::DatabaseOptions;
use crate::table::Table;
use crate::table::version::TableVersion;

/// Why a salvage failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SalvageError {
    /// The new database cannot be made.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A table cannot be created in it.
    #[error(transparent)]
    Table(#[from] TableError),
    /// It cannot be written.
    #[error(transparent)]
    Storage(#[from] StorageError),
}

/// The result of a salvage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SalvageReport {
    /// By name.
    pub tables: Vec<SalvagedTable>,
}

/// The result for a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SalvagedTable {
    /// The table.
    pub table: String,
    /// Rows that were copied.
    pub rows: u64,
    /// What was not copied, and why; empty if everything was.
    pub problems: Vec<String>,
}

impl SalvageReport {
    /// Whether everything was copied.
    pub fn is_complete(&self) -> bool {
        self.tables.iter().all(|table| table.problems.is_empty())
    }
}

/// Copies the readable data of `from`, opened read-only, into a new database in the directory `to`, which is empty or does not exist,
/// or in which a salvage was interrupted: that begins anew. Until all is copied nothing else opens it. `progress` is called for each
/// table.
///
/// # Errors
/// [`SalvageError`]: the new database cannot be made or written. Another salvage begins anew.
pub fn salvage(
    from: &Database,
    to: &Path,
    options: &DatabaseOptions,
    mut progress: impl FnMut(&SalvagedTable),
) -> Result<SalvageReport, SalvageError> {
    let to = &*Database::begin_salvage(to, options)?;
    let mut report = SalvageReport::default();
    for name in from.tables() {
        let Some(table) = from.table(&name) else {
            continue;
        };
        let mut salvaged = SalvagedTable {
            table: name,
            ..SalvagedTable::default()
        };
        let why = table.check_complete().err();
        salvaged.problems.extend(why.map(|why| why.to_string()));
        Copying {
            from: &table,
            version: &table.current(),
            report: &mut salvaged,
        }
        .copy_to(to)?;
        progress(&salvaged);
        report.tables.push(salvaged);
    }
    opening::finish(to)?;
    Ok(report)
}

struct Copying<'a> {
    from: &'a Table,
    version: &'a TableVersion,
    report: &'a mut SalvagedTable,
}

/// A column's chunk in each copy in which it can be opened, in any encoding.
type Copies<'s> = Vec<Chunk<'s>>;

impl Copying<'_> {
    fn copy_to(&mut self, to: &Database) -> Result<(), SalvageError> {
        let spec = self.spec_without_placeholders();
        let table = to.create_table(spec)?;
        match self.copy_rows(&table) {
            Ok(()) => Ok(()),
            Err(LoadError::Storage(error)) => Err(error.into()),
            // Damage may have made keys equal.
            Err(error) => {
                self.report.rows = 0;
                let problem = format!("no row was copied: {error}");
                self.report.problems.push(problem);
                Ok(())
            }
        }
    }

    /// The specification for the salvaged table: columns with missing chunks are nullable and not part of a key.
    fn spec_without_placeholders(&mut self) -> TableSpec {
        let mut spec = TableSpec::clone(self.from.spec());
        for column in 0..spec.columns.len() {
            let segments = self.version.segments.iter();
            let placeholders = segments.filter(|segment| segment.is_placeholder(column));
            let rows: usize = placeholders.map(|segment| segment.rows()).sum();
            if rows == 0 {
                continue;
            }
            let name = spec.columns[column].name.clone();
            let problems = &mut self.report.problems;
            problems.push(format!("column {name:?} is NULL in {rows} rows"));
            spec.columns[column].nullable = true;
            if spec.primary_key.contains(&column) {
                spec.primary_key.clear();
                problems.push("the table has no primary key any more".to_owned());
            }
        }
        spec
    }

    fn copy_rows(&mut self, to: &Arc<Table>) -> Result<(), LoadError> {
        let (mut loader, version) = (to.loader(), self.version);
        for segment in version.segments.iter() {
            self.copy_segment(segment, to, |batch| loader.push(batch))?;
        }
        let deleted = version.deletions.of(version.tail.segment_id);
        for batch in version.tail.batches() {
            let is_left = |row: usize| {
                let row = batch.first_row as usize + row;
                deleted.is_none_or(|deleted| !deleted.contains(row))
            };
            let left = (0..batch.rows.num_rows()).map(|row| Some(is_left(row)));
            let left = filter_record_batch(&batch.rows, &left.collect());
            loader.push(left.expect("a mask has as many rows as its batch"))?;
        }
        self.report.rows = loader.finish()?.rows;
        Ok(())
    }

    fn copy_segment(
        &mut self,
        segment: &Segment,
        to: &Table,
        mut push: impl FnMut(RecordBatch) -> Result<(), LoadError>,
    ) -> Result<(), LoadError> {
        let columns = 0..to.spec().columns.len();
        if columns.clone().all(|column| segment.is_placeholder(column)) {
            let (rows, id) = (segment.rows(), segment.id());
            let problem = format!("all {rows} rows of segment {id} are lost");
            self.report.problems.push(problem);
            return Ok(());
        }
        let types = self.from.types();
        let copies: Vec<Copies<'_>> = columns
            .clone()
            .map(|column| segment.every_copy(column, types[column]))
            .collect();
        let deleted = self.version.deletions.of(segment.id()).cloned();
        let deleted = deleted.as_deref();
        let mut scratch = Scratch::new();
        let mut first_lost = None;
        for block in 0..segment.blocks() {
            let mut left = Mask::first(segment.block_rows(block));
            if let Some(deleted) = deleted.and_then(|deleted| deleted.block(block)) {
                left.and_not(deleted);
            }
            let arrays = columns
                .clone()
                .map(|column| match segment.is_placeholder(column) {
                    true => {
                        let ty = to.types()[column].arrow();
                        Ok(new_null_array(&ty, left.count()))
                    }
                    false => self.read_block(&copies[column], column, block, &left, &mut scratch),
                });
            match arrays.collect::<Result<Vec<ArrayRef>, String>>() {
                Ok(arrays) => {
                    self.tell_lost(segment, first_lost.take(), block);
                    push(to.input().batch(arrays)?)?;
                }
                Err(why) => {
                    first_lost.get_or_insert((block, why));
                }
            }
        }
        self.tell_lost(segment, first_lost, segment.blocks());
        Ok(())
    }

    /// A block of a column from the first copy that has it.
    fn read_block(
        &self,
        copies: &Copies<'_>,
        column: usize,
        block: usize,
        left: &Mask,
        scratch: &mut Scratch,
    ) -> Result<ArrayRef, String> {
        let name = &self.from.spec().columns[column].name;
        let dictionary: Option<&Dictionary> = self.version.dictionary(column);
        let mut fault = None;
        for chunk in copies {
            let rows = chunk.block_rows(block);
            let mut reader = ColumnReader::new(self.from.types()[column], rows);
            let read = chunk.verify_block(block);
            let read = read.and_then(|()| reader.append(chunk, block, left, dictionary, scratch));
            match read {
                Ok(()) => return Ok(reader.finish()),
                Err(error) => fault = fault.or(Some(error)),
            }
        }
        let why = fault.map_or_else(|| "it has no copy".to_owned(), |error| error.to_string());
        Err(format!("column {name:?}: {why}"))
    }

    /// Reports the lost rows, from a block up to another.
    fn tell_lost(&mut self, segment: &Segment, lost: Option<(usize, String)>, end: usize) {
        if let Some((first, why)) = lost {
            let rows = segment.block_rows(0) * first;
            let end = (segment.block_rows(0) * end).min(segment.rows());
            let id = segment.id();
            let problem = format!("rows {rows} to {} of segment {id} are lost: {why}", end - 1);
            self.report.problems.push(problem);
        }
    }
}
