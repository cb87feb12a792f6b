//! Finds rows by key and reads their cells. Every key and every cell is one lookup; lookups run in groups, so that they wait for
//! far memory together.

use std::collections::HashSet;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::UInt64Type;
use tierra_column::bits::BLOCK_LEN;
use tierra_column::{
    Cell, CellAt, CellSink, Chunk, CodedText, Decoder, Filter, FormatError, LogicalType, read_cells,
};
use tierra_interleave::{Lookups, Scheduling};
use tierra_memory::placement::{SAMPLED, sample};
use tierra_memory::{Speed, in_mode};

use crate::cells::cell_of;
use crate::error::{LookupError, ScanError};
use crate::index::key::KeyColumns;
use crate::manifest::row_id::RowId;
use crate::read::rows::{Filling, Projection, Rows};
use crate::read::scan::ScanSpec;
use crate::segment::Segment;
use crate::storage::READS_MOST;
use crate::storage::extent::ExtentCopy;
use crate::table::input::canonical;
use crate::table::requests::Request;
use crate::table::snapshot::Snapshot;
use crate::table::version::Located;

/// The number of cells of some rows by tier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CellCounters {
    /// Cells in near memory: of the tail, and of chunks with a near copy.
    pub near: u64,
    /// Cells in far memory.
    pub far: u64,
}

/// The most keys that scans look up while the keys of many rows are not indexed.
const SCANNED_KEYS_MOST: usize = 4;
/// The keys of fewer rows are indexed as soon as they are needed.
const SCANNED_ROWS_LEAST: u64 = 1 << 20;

impl Snapshot {
    /// The number of cells that [`Snapshot::reconstruct`] reads in each tier for these rows and columns. A cell is one line of a
    /// chunk, rarely two.
    ///
    /// # Panics
    /// If there is no such column.
    pub fn cells_by_tier(&self, rows: &[RowId], projection: &[usize]) -> CellCounters {
        let mut cells = CellCounters::default();
        for row in rows {
            match self.version().locate(*row) {
                Some(Located::Sealed(segment, _)) => {
                    for column in projection {
                        match segment.speed(*column) {
                            Speed::Near => cells.near += 1,
                            Speed::Far => cells.far += 1,
                        }
                    }
                }
                Some(Located::Tail(_, _)) => cells.near += projection.len() as u64,
                None => {}
            }
        }
        cells
    }

    /// The row of each key, `None` for a key without a row. `keys` has an array per key column, in the key's order; each row of
    /// these arrays is one lookup, counted in `lookups`. The first call that needs keys that are not indexed yet indexes them.
    ///
    /// # Errors
    /// [`LookupError`]: no primary key, keys of other types, damaged bytes.
    pub fn rows_by_key(
        &self,
        keys: &[ArrayRef],
        lookups: &mut Lookups,
    ) -> Result<Vec<Option<RowId>>, LookupError> {
        let (table, version) = (&**self.table(), self.version());
        let name = || table.spec().name.clone();
        table.check_available().map_err(ScanError::from)?;
        let Some(key) = table.key() else {
            return Err(LookupError::NoPrimaryKey { table: name() });
        };
        let fits = keys.len() == key.types().len()
            && keys
                .iter()
                .zip(key.types())
                .all(|(values, ty)| *values.data_type() == ty.arrow())
            && keys.iter().all(|values| values.len() == keys[0].len());
        if !fits {
            let expected: Vec<_> = key.types().iter().map(LogicalType::to_string).collect();
            let found: Vec<_> = keys
                .iter()
                .map(|values| values.data_type().to_string())
                .collect();
            let (expected, found) = (expected.join(", "), found.join(", "));
            return Err(LookupError::KeyShape {
                table: name(),
                expected,
                found,
            });
        }
        let keys: Vec<ArrayRef> = keys.iter().cloned().map(canonical).collect();
        let arrays: Vec<&ArrayRef> = keys.iter().collect();
        let normalized_keys = key.normalize(&arrays);
        let is_null = |row: usize| keys.iter().any(|values| values.is_null(row));
        let is_built = key.built(version).is_some();
        if !is_built
            && normalized_keys.len() <= SCANNED_KEYS_MOST
            && key.unlisted_rows(version) >= SCANNED_ROWS_LEAST
        {
            return self.rows_by_scan(&keys, key);
        }
        let values = |row| Ok::<_, ScanError>(key.values(&arrays, row));
        let mut rows = key.rows(self.table(), version, &normalized_keys, values, lookups)?;
        for (row, found) in rows.iter_mut().enumerate() {
            // NULL equals nothing, regardless of the value in its slot.
            *found = found.filter(|_| !is_null(row));
        }
        Ok(rows)
    }

    /// [`Snapshot::rows_by_key`] while the index is not built: for few keys a scan is faster than building it. The index is built
    /// in the background meanwhile.
    fn rows_by_scan(
        &self,
        keys: &[ArrayRef],
        key: &KeyColumns,
    ) -> Result<Vec<Option<RowId>>, LookupError> {
        self.table().requests().send(Request::IndexKeys {
            table: self.table().clone(),
            version: self.shared_version().clone(),
        });
        let arrays: Vec<&ArrayRef> = keys.iter().collect();
        let find = |row: usize| {
            if arrays.iter().any(|values| values.is_null(row)) {
                return Ok(None);
            }
            let values = key.values(&arrays, row).into_iter().map(Filter::eq);
            let scan = self.scan_with_row_ids(ScanSpec {
                projection: Vec::new(),
                filters: key.columns().iter().copied().zip(values).collect(),
                batch_rows: 1,
                execution: Scheduling::Auto,
            });
            let found = scan.cursor().next(&[], 0)?;
            let ids = found.as_ref().and_then(|batch| batch.columns().last());
            let ids = ids.and_then(|ids| ids.as_primitive_opt::<UInt64Type>());
            Ok(ids.map(|ids| RowId::from_number(ids.value(0))))
        };
        (0..keys[0].len()).map(find).collect()
    }

    /// The projected columns of some rows, in the order of `rows`. A sealed cell is one lookup, counted in `lookups`.
    ///
    /// # Errors
    /// [`LookupError`]: a row that this snapshot does not have, damaged bytes.
    ///
    /// # Panics
    /// If the projection was made for a table with more columns.
    pub fn reconstruct(
        &self,
        rows: &[RowId],
        projection: &Projection,
        lookups: &mut Lookups,
    ) -> Result<RecordBatch, LookupError> {
        let gathered = self.gather(rows, projection, lookups)?;
        gathered.into_batch().map_err(|source| {
            ScanError::Arrow {
                table: self.table().spec().name.clone(),
                source,
            }
            .into()
        })
    }

    /// [`Snapshot::reconstruct`] without building arrays.
    ///
    /// # Errors
    /// As [`Snapshot::reconstruct`].
    ///
    /// # Panics
    /// As [`Snapshot::reconstruct`].
    pub fn gather(
        &self,
        rows: &[RowId],
        projection: &Projection,
        lookups: &mut Lookups,
    ) -> Result<Rows, LookupError> {
        let storage = self.table().storage();
        self.table().check_available().map_err(ScanError::from)?;
        for _ in 0..READS_MOST {
            let gathered =
                storage.read_validated(|| self.gather_once(rows, projection, lookups))??;
            if let Some(gathered) = gathered {
                return Ok(gathered);
            }
        }
        Err(storage.lost_while_read().into())
    }

    /// `None` if damage was found and repaired: the cells must be read again.
    fn gather_once(
        &self,
        rows: &[RowId],
        projection: &Projection,
        lookups: &mut Lookups,
    ) -> Result<Option<Rows>, LookupError> {
        let (table, version) = (self.table(), self.version());
        let (spec, types) = (table.spec(), table.types());
        let mut gathered = Rows::new(projection, rows.len());
        let projection = projection.columns();
        let mut filling = gathered.filling();
        let mut sealed = Vec::with_capacity(rows.len());
        // If every read is checked, each block is checked once.
        let mut checked = HashSet::new();
        let is_checked = |segment: &Segment| projection.iter().any(|it| segment.checks_every(*it));
        for (at, row) in rows.iter().enumerate() {
            let unknown = || LookupError::UnknownRow {
                table: spec.name.clone(),
                row: row.get(),
            };
            match version.locate(*row).ok_or_else(unknown)? {
                Located::Tail(batch, row) => {
                    for (position, column) in projection.iter().enumerate() {
                        let cell = cell_of(types[*column], batch.column(*column), row);
                        filling.put(position, at, cell);
                    }
                }
                Located::Sealed(segment, row) => {
                    let block = row / BLOCK_LEN;
                    if !is_checked(segment) || checked.insert((segment.id(), block)) {
                        segment.verify_columns(spec, projection, block)?;
                    }
                    sealed.push(SealedRow {
                        chunks: segment.chunks(),
                        row,
                        at,
                        segment,
                    });
                }
            }
        }
        let count = sealed.len() * projection.len();
        let (Some(first), [column, ..]) = (sealed.first(), projection) else {
            return Ok(Some(gathered));
        };
        let mut gathering = Gathering {
            rows: filling,
            text: Vec::new(),
            failed: None,
        };
        // The first cell stands for all: a gate decides the speed, never the result.
        let gate = table.cell_gate(first.segment.speed(*column)).now();
        let copy = first.segment.copy_of_several(*column);
        let reading = copy.map(ExtentCopy::reading);
        lookups.run(gate, count, |execution, size, part| {
            let cells = ByColumn {
                rows: &sealed,
                projection,
                decoders: version.dictionaries.decoders(),
                position: part.start / sealed.len(),
                row: part.start % sealed.len(),
                left: part.len(),
            };
            in_mode!(execution, M => read_cells::<M, _>(size, cells, &mut gathering))
        });
        drop(reading);
        sample(count, |cell| {
            let (column, row) = (projection[cell / sealed.len()], cell % sealed.len());
            sealed[row].segment.uses()[column].looked_up(SAMPLED);
        });
        if let Some((position, at, source)) = gathering.failed {
            let is_it = |row: &&SealedRow| row.at == at;
            let row = sealed.iter().find(is_it).expect("it was looked up");
            let block = row.row / BLOCK_LEN;
            row.segment
                .retry_after(spec, projection[position], block, *source)?;
            return Ok(None);
        }
        let mut all_valid = true;
        for SealedRow { segment, row, .. } in &sealed {
            let block = row / BLOCK_LEN;
            if checked.remove(&(segment.id(), block)) {
                for column in projection {
                    all_valid &= segment.revalidate(spec, *column, block)?;
                }
            }
        }
        Ok(all_valid.then_some(gathered))
    }
}

/// Puts cells into their places.
struct Gathering<'r> {
    rows: Filling<'r>,
    /// The string that was decoded last.
    text: Vec<u8>,
    /// The column and the wanted row that could not be read, and why.
    failed: Option<(usize, usize, Box<FormatError>)>,
}

impl Gathering<'_> {
    #[inline(never)]
    fn decode(&mut self, tag: (u32, u32), text: CodedText<'_>) {
        match text.decode(&mut self.text) {
            Ok(()) => {
                let text = Cell::Bytes(&self.text);
                self.rows.put(tag.0 as usize, tag.1 as usize, text);
            }
            Err(error) => self.fail(tag, Box::new(error)),
        }
    }
}

impl<'a> CellSink<'a, (u32, u32)> for Gathering<'_> {
    #[inline(always)]
    fn take(&mut self, tag: (u32, u32), cell: Cell<'a>) {
        match cell {
            Cell::Coded(text) => self.decode(tag, text),
            cell => self.rows.put(tag.0 as usize, tag.1 as usize, cell),
        }
    }

    #[cold]
    fn fail(&mut self, (position, at): (u32, u32), error: Box<FormatError>) {
        self.failed = Some((position as usize, at as usize, error));
    }
}

/// A row in a segment.
struct SealedRow<'v> {
    chunks: &'v [Chunk<'v>],
    row: usize,
    /// Its index among the wanted rows.
    at: usize,
    segment: &'v Segment,
}

/// Cells to look up, column by column, so that cells of one chunk follow each other.
struct ByColumn<'v> {
    rows: &'v [SealedRow<'v>],
    projection: &'v [usize],
    decoders: &'v [Option<Decoder<'v>>],
    /// Of the next cell.
    position: usize,
    row: usize,
    /// Cells that are left.
    left: usize,
}

impl<'v> Iterator for ByColumn<'v> {
    /// Index of the column, index of the wanted row, and the cell.
    type Item = ((u32, u32), CellAt<'v, 'v>);

    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let column = *self.projection.get(self.position)?;
        let SealedRow {
            chunks, row, at, ..
        } = self.rows.get(self.row)?;
        let place = (self.position as u32, *at as u32);
        self.row += 1;
        if self.row == self.rows.len() {
            (self.position, self.row) = (self.position + 1, 0);
        }
        let cell = CellAt {
            chunk: &chunks[column],
            row: *row,
            decoder: self.decoders[column].as_ref(),
        };
        Some((place, cell))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}
