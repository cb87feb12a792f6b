//! Finding rows by key and putting them together again: every key and every cell a lookup of its
//! own, run in groups so that they wait for far memory together.

use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::datatypes::SchemaRef;
use tierra_column::bits::BLOCK_LEN;
use tierra_column::{Cell, LogicalType, Value};
use tierra_interleave::{Cx, Lookups, for_each};
use tierra_memory::{Speed, in_mode};

use crate::cells::{cell_of, gather};
use crate::error::{LookupError, ScanError};
use crate::input::canonical;
use crate::snapshot::Snapshot;
use crate::version::{Located, RowId};

/// Where the cells of some rows lie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CellCounters {
    /// Cells in near memory: of the tail, and of chunks with a near copy.
    pub near: u64,
    /// Cells in far memory.
    pub far: u64,
}

impl Snapshot {
    /// How many cells of each tier [`Snapshot::reconstruct`] reads for these rows and columns. A cell
    /// is one line of a chunk, rarely two.
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

    /// The row of each key, `None` where there is none. `keys` has an array per key column, in the
    /// key's order; each row of them is one look-up, counted in `lookups`. The first call on a table
    /// builds its index.
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
        let images = key.images(&arrays);
        let is_null = |row: usize| keys.iter().any(|values| values.is_null(row));
        let values: Vec<Vec<Value>> = if key.is_exact() {
            Vec::new()
        } else {
            (0..images.len())
                .map(|row| key.values(&arrays, row))
                .collect()
        };
        let index = key.index(table, version)?;
        let mut rows = vec![None; images.len()];
        let mut failed: Option<ScanError> = None;
        lookups.run(key.gate(), images.len(), |execution, size, part| {
            let first = part.start;
            in_mode!(execution, M => for_each(
                size,
                part,
                |cx: Cx<M>, at| {
                    let values = values.get(at).map_or(&[][..], Vec::as_slice);
                    key.find(cx, table, version, index, images[at], values)
                },
                |at, found| match found {
                    Ok(row) => rows[first + at] = row,
                    Err(error) => failed = Some(error),
                },
            ))
        });
        if let Some(error) = failed {
            return Err(error.into());
        }
        for (row, found) in rows.iter_mut().enumerate() {
            // NULL equals nothing, whatever its slot holds.
            *found = found.filter(|_| !is_null(row));
        }
        Ok(rows)
    }

    /// The wanted columns of some rows, in the order of `rows`. `schema` is that of the projection. A
    /// sealed cell is one look-up, counted in `lookups`.
    ///
    /// # Errors
    /// [`LookupError`]: a row that this snapshot does not have, damaged bytes.
    ///
    /// # Panics
    /// If there is no such column.
    pub fn reconstruct(
        &self,
        rows: &[RowId],
        projection: &[usize],
        schema: &SchemaRef,
        lookups: &mut Lookups,
    ) -> Result<RecordBatch, LookupError> {
        let (table, version) = (self.table(), self.version());
        let spec = table.spec();
        let types: Vec<LogicalType> = projection
            .iter()
            .map(|column| spec.columns[*column].ty)
            .collect();
        let mut cells = vec![Cell::Null; rows.len() * projection.len()];
        let mut sealed = Vec::with_capacity(rows.len());
        for (at, row) in rows.iter().enumerate() {
            let unknown = || LookupError::UnknownRow {
                table: spec.name.clone(),
                row: row.get(),
            };
            match version.locate(*row).ok_or_else(unknown)? {
                Located::Tail(batch, row) => {
                    for (position, column) in projection.iter().enumerate() {
                        let cell = cell_of(types[position], batch.column(*column), row);
                        cells[position * rows.len() + at] = cell;
                    }
                }
                Located::Sealed(segment, row) => {
                    for column in projection {
                        segment.verify(spec, *column, row / BLOCK_LEN)?;
                    }
                    sealed.push((at, segment, row));
                }
            }
        }
        let mut failed = None;
        let columns = projection.len();
        lookups.run(
            table.cell_gate(),
            sealed.len() * columns,
            |execution, size, part| {
                let first = part.start;
                in_mode!(execution, M => for_each(
                    size,
                    part,
                    |cx: Cx<M>, index| {
                        let (_, segment, row) = sealed[index / columns];
                        let column = projection[index % columns];
                        segment.chunk(column).value(cx, row, version.dictionary(column))
                    },
                    |index, cell| {
                        let index = first + index;
                        let (at, position) = (index / columns, index % columns);
                        match cell {
                            Ok(cell) => cells[position * rows.len() + sealed[at].0] = cell,
                            Err(error) => failed = Some((at, position, error)),
                        }
                    },
                ))
            },
        );
        if let Some((at, position, source)) = failed {
            let (_, segment, row) = sealed[at];
            return Err(segment
                .damaged(spec, projection[position], row, source)
                .into());
        }
        gather(schema, &types, &cells, rows.len()).map_err(|source| {
            ScanError::Arrow {
                table: spec.name.clone(),
                source,
            }
            .into()
        })
    }
}
