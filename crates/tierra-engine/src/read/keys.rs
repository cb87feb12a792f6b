//! Finds rows by primary key in one version of a table.
//!
//! Invariant: the keys of rows without a run are read before any lookup, so no row is missed.

use std::sync::Arc;

use arrow::array::ArrayRef;
use tierra_column::bits::{BLOCK_LEN, Mask};
use tierra_column::{ColumnReader, FormatError, Scratch, Value};
use tierra_index::HashIndex;
use tierra_interleave::{Cx, GroupReport, Lookups, Mode, Plain, for_each, run_plain};
use tierra_memory::{Speed, in_mode};

use crate::cells::{cell_of, holds};
use crate::error::ScanError;
use crate::index::key::{Entry, KeyColumns, KeyIndex, KeyRun, Level};
use crate::manifest::row_id::RowId;
use crate::segment::Segment;
use crate::spec::TableSpec;
use crate::table::Table;
use crate::table::version::{Located, TableVersion};

/// A version's key index: each of its rows is in the near part or in a run.
#[derive(Clone, Copy)]
pub(crate) struct Keys<'v> {
    pub(crate) near: &'v KeyIndex,
    pub(crate) runs: &'v [Arc<KeyRun>],
}

/// Why a lookup failed.
pub(crate) enum FindError {
    Scan(ScanError),
    /// A run turned out to be damaged and was given up.
    GivenUp,
}

impl From<ScanError> for FindError {
    fn from(error: ScanError) -> Self {
        Self::Scan(error)
    }
}

impl KeyColumns {
    /// A version's key index, if no part of it must be built.
    pub(crate) fn built<'v>(&self, version: &'v TableVersion) -> Option<Keys<'v>> {
        let (near, runs) = (version.keys.near.get()?, version.keys.runs());
        let is_there = |run: &Arc<KeyRun>| !run.is_given_up() || run.substitute().is_some();
        runs.iter().all(is_there).then_some(Keys { near, runs })
    }

    /// Rows whose keys must be read before the version's index can be used; 0 if it is built.
    pub(crate) fn unlisted_rows(&self, version: &TableVersion) -> u64 {
        let runs = || version.keys.runs().iter().filter(|run| !run.is_given_up());
        let is_listed = |segment: &Segment| runs().any(|run| run.covers(segment.id()));
        let segments = version.segments.iter();
        let unlisted = segments.filter(|segment| !is_listed(segment));
        let rows = unlisted.map(|segment| segment.rows() as u64);
        rows.sum::<u64>() + u64::from(version.tail.rows())
    }

    /// A version's key index. The part that no run lists is built from the rows, unless it exists.
    pub(crate) fn index<'v>(
        &self,
        table: &Table,
        version: &'v TableVersion,
    ) -> Result<Keys<'v>, ScanError> {
        let storage = table.storage();
        let runs = version.keys.runs();
        for run in runs {
            if run.is_given_up() && run.substitute().is_none() {
                let segments = version.segments.iter();
                let segments = || segments.clone().filter(|segment| run.covers(segment.id()));
                let build = || self.entries_of(table.spec(), version, segments());
                run.set_substitute(storage.read_validated(build)??);
            }
        }
        if let Some(near) = version.keys.near.get() {
            return Ok(Keys { near, runs });
        }
        let built = storage.read_validated(|| self.build(table, version))??;
        // Two readers may build at the same time; both results are the same.
        let near = version.keys.near.get_or_init(|| built);
        Ok(Keys { near, runs })
    }

    /// The near index of the rows that no run lists.
    fn build(&self, table: &Table, version: &TableVersion) -> Result<KeyIndex, ScanError> {
        let segments = version.segments.iter();
        let segments = segments.filter(|segment| !version.keys.is_in_runs(segment.id()));
        let mut index = self.entries_of(table.spec(), version, segments.clone())?;
        for batch in version.tail.batches() {
            let first = RowId::new(version.tail.segment_id, batch.first_row).get();
            let entries = self.normalize_batch(&batch.rows).into_iter().zip(first..);
            index.insert_all(&entries.collect::<Vec<_>>());
        }
        let mut ids: Vec<u32> = segments.map(|segment| segment.id()).collect();
        ids.push(version.tail.segment_id);
        ids.sort_unstable();
        let level = Level {
            index: Arc::new(index),
            segments: ids,
        };
        let levels = [level].into_iter();
        Ok(KeyIndex {
            levels: levels.filter(|level| !level.index.is_empty()).collect(),
        })
    }

    /// The rows of segments by normalized key.
    fn entries_of<'v>(
        &self,
        spec: &TableSpec,
        version: &TableVersion,
        segments: impl Iterator<Item = &'v Arc<Segment>> + Clone,
    ) -> Result<HashIndex, ScanError> {
        let rows = segments
            .clone()
            .map(|segment| segment.rows())
            .sum::<usize>();
        let mut index = HashIndex::with_capacity(rows + version.tail.rows() as usize);
        for segment in segments {
            index.insert_all(&self.segment_entries(spec, version, segment)?);
        }
        Ok(index)
    }

    /// Normalized key and row of each key of a segment, in the order of the rows.
    pub(crate) fn segment_entries(
        &self,
        spec: &TableSpec,
        version: &TableVersion,
        segment: &Segment,
    ) -> Result<Vec<Entry>, ScanError> {
        let columns = self.columns().iter();
        let columns = columns.map(|column| read_column(spec, segment, *column, version));
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        let normalized_keys = self.normalize(&columns.iter().collect::<Vec<_>>());
        let first = RowId::new(segment.id(), 0).get();
        Ok(normalized_keys.into_iter().zip(first..).collect())
    }

    /// The rows of a version with these keys, `None` for a key without a row. A key is given by its normalized key and, if that
    /// is not the whole key, by its values. Each key is one lookup, counted in `lookups`.
    pub(crate) fn rows<E: From<ScanError>>(
        &self,
        table: &Arc<Table>,
        version: &TableVersion,
        normalized_keys: &[u64],
        values: impl Fn(usize) -> Result<Vec<Value>, E>,
        lookups: &mut Lookups,
    ) -> Result<Vec<Option<RowId>>, E> {
        let storage = table.storage();
        loop {
            let keys = self.index(table, version)?;
            let found = storage
                .read_validated(|| self.candidate_rows(table, keys, normalized_keys, lookups))?;
            let mut rows = match found {
                Ok(rows) => rows,
                // The run now has a substitute.
                Err(FindError::GivenUp) => continue,
                Err(FindError::Scan(error)) => return Err(error.into()),
            };
            if self.is_exact() {
                match self.live_rows(table, version, keys, normalized_keys, &mut rows) {
                    Ok(()) => return Ok(rows),
                    Err(FindError::GivenUp) => continue,
                    Err(FindError::Scan(error)) => return Err(error.into()),
                }
            }
            let found = rows.iter().enumerate();
            let found: Vec<usize> = found.filter_map(|(at, row)| row.map(|_| at)).collect();
            let wanted = found.iter().map(|at| values(*at));
            let wanted = wanted.collect::<Result<Vec<_>, _>>()?;
            let verify = || {
                self.verify_rows(
                    table,
                    version,
                    keys,
                    &found,
                    &wanted,
                    normalized_keys,
                    &rows,
                    lookups,
                )
            };
            match storage.read_validated(verify)? {
                Ok(verified) => {
                    for (at, row) in found.iter().zip(verified) {
                        rows[*at] = row;
                    }
                    return Ok(rows);
                }
                Err(FindError::GivenUp) => continue,
                Err(FindError::Scan(error)) => return Err(error.into()),
            }
        }
    }

    /// Replaces rows that are deleted by the row of the same normalized key that is not, if there is one.
    fn live_rows(
        &self,
        table: &Arc<Table>,
        version: &TableVersion,
        keys: Keys<'_>,
        normalized_keys: &[u64],
        rows: &mut [Option<RowId>],
    ) -> Result<(), FindError> {
        if version.deletions.is_empty() {
            return Ok(());
        }
        for (row, normalized_key) in rows.iter_mut().zip(normalized_keys) {
            if row.is_some_and(|row| version.deletions.contains(row)) {
                *row = self.live_row(table, version, keys, *normalized_key)?;
            }
        }
        Ok(())
    }

    /// The row with this exact normalized key that is not deleted.
    pub(crate) fn live_row(
        &self,
        table: &Arc<Table>,
        version: &TableVersion,
        keys: Keys<'_>,
        normalized_key: u64,
    ) -> Result<Option<RowId>, FindError> {
        // The candidates may have been read from lost pages.
        let storage = table.storage();
        let all = storage.read_validated(|| self.candidates(table, keys, normalized_key))??;
        let mut all = all.into_iter();
        Ok(all.find(|row| !version.deletions.contains(*row)))
    }

    /// A row with each normalized key, deleted or not, if there is one.
    fn candidate_rows(
        &self,
        table: &Arc<Table>,
        keys: Keys<'_>,
        normalized_keys: &[u64],
        lookups: &mut Lookups,
    ) -> Result<Vec<Option<RowId>>, FindError> {
        let mut rows = vec![None; normalized_keys.len()];
        // The oldest run first: it was joined most often and has most rows.
        for run in keys.runs {
            let found = run.find(normalized_keys, &mut rows, lookups);
            found.map_err(|error| give_up(table, run, &error))?;
        }
        // The newest rows are near; they are few, in one level per power of four.
        let left = rows.iter().enumerate();
        let left = left.filter_map(|(at, row)| row.is_none().then_some(at));
        let left: Vec<usize> = left.collect();
        lookups.run(self.gate().now(), left.len(), |execution, size, part| {
            let left = &left[part];
            in_mode!(execution, M => for_each(
                size,
                left,
                |cx: Cx<M>, at| keys.near.get(cx, normalized_keys[*at]),
                |at, row| rows[left[at]] = row,
            ))
        });
        Ok(rows)
    }

    /// Of `rows` those at the places `found` that have the wanted key, or other rows with the same normalized key that have it.
    #[allow(clippy::too_many_arguments)]
    fn verify_rows(
        &self,
        table: &Arc<Table>,
        version: &TableVersion,
        keys: Keys<'_>,
        found: &[usize],
        wanted: &[Vec<Value>],
        normalized_keys: &[u64],
        rows: &[Option<RowId>],
        lookups: &mut Lookups,
    ) -> Result<Vec<Option<RowId>>, FindError> {
        let (spec, candidate) = (table.spec(), |at: usize| rows[found[at]]);
        let mut verified: Vec<_> = (0..found.len()).map(candidate).collect();
        let (mut others, mut failed) = (Vec::new(), None);
        // The first cell stands for all: a gate decides the speed, never the result.
        let first = verified.first().copied().flatten();
        let speed = match first.and_then(|row| version.locate(row)) {
            Some(Located::Sealed(segment, _)) => segment.speed(self.columns()[0]),
            _ => Speed::Near,
        };
        lookups.run(
            table.cell_gate(speed).now(),
            found.len(),
            |execution, size, part| {
                let first = part.start;
                let report = in_mode!(execution, M => for_each(
                    size,
                    part,
                    |cx: Cx<M>, at| {
                        let row = verified[at].expect("it was found");
                        self.verify(cx, spec, version, row, &wanted[at])
                    },
                    |at, is_it| match is_it {
                        Ok(true) => {}
                        Ok(false) => others.push(first + at),
                        Err(error) => failed = Some(error),
                    },
                ));
                // They were counted when they were found.
                GroupReport {
                    lookups: 0,
                    ..report
                }
            },
        );
        if let Some(error) = failed {
            return Err(error.into());
        }
        for at in others {
            let all = self.candidates(table, keys, normalized_keys[found[at]])?;
            verified[at] = None;
            for row in all {
                if self.is_key_of(table, version, row, &wanted[at])? {
                    verified[at] = Some(row);
                    break;
                }
            }
        }
        Ok(verified)
    }

    /// All rows whose keys have this normalized key.
    fn candidates(
        &self,
        table: &Arc<Table>,
        keys: Keys<'_>,
        normalized_key: u64,
    ) -> Result<Vec<RowId>, FindError> {
        let mut all: Vec<RowId> = keys.near.candidates(normalized_key).collect();
        for run in keys.runs {
            let found = run.candidates(normalized_key);
            all.extend(found.map_err(|error| give_up(table, run, &error))?);
        }
        Ok(all)
    }

    /// Whether the version's row has this key.
    async fn verify<M: Mode>(
        &self,
        cx: Cx<M>,
        spec: &TableSpec,
        version: &TableVersion,
        row: RowId,
        values: &[Value],
    ) -> Result<bool, ScanError> {
        for ((column, ty), value) in self.columns().iter().zip(self.types()).zip(values) {
            let same = match version.locate(row) {
                None => false,
                Some(Located::Tail(batch, at)) => {
                    let cell = cell_of(*ty, batch.column(*column), at);
                    holds(cell, value).expect("arrays hold strings as they are")
                }
                Some(Located::Sealed(segment, at)) => loop {
                    let block = at / BLOCK_LEN;
                    segment.verify(spec, *column, block)?;
                    let decoder = version.dictionaries.decoders()[*column].as_ref();
                    let cell = segment.chunk(*column).value(cx, at, decoder).await;
                    let same = cell
                        .map_err(|source| *source)
                        .and_then(|cell| holds(cell, value));
                    if let Some(same) = segment.validated(spec, *column, block, same)? {
                        break same;
                    }
                },
            };
            if !same {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn is_key_of(
        &self,
        table: &Table,
        version: &TableVersion,
        row: RowId,
        key: &[Value],
    ) -> Result<bool, ScanError> {
        run_plain(|cx: Cx<Plain>| self.verify(cx, table.spec(), version, row, key))
    }
}

/// Stops the use of a run and asks for another one.
pub(crate) fn give_up(table: &Arc<Table>, run: &KeyRun, error: &FormatError) -> FindError {
    if run.give_up() {
        let name = &table.spec().name;
        tracing::warn!(table = name, %error, "a part of the index of keys is damaged: it is built again");
        table.ask_for_indexes();
        table.ask_for_index_copies();
    }
    FindError::GivenUp
}

/// A whole column of a segment, unpacked.
pub(crate) fn read_column(
    spec: &TableSpec,
    segment: &Segment,
    column: usize,
    version: &TableVersion,
) -> Result<ArrayRef, ScanError> {
    let mut reader = ColumnReader::new(spec.columns[column].ty, segment.rows());
    let mut scratch = Scratch::new();
    segment.verify_column(spec, column)?;
    for block in 0..segment.blocks() {
        let mask = Mask::first(segment.block_rows(block));
        let dictionary = version.dictionary(column);
        let appended = reader.append(
            segment.chunk(column),
            block,
            &mask,
            dictionary,
            &mut scratch,
        );
        appended.map_err(|source| segment.damaged(spec, column, block * BLOCK_LEN, source))?;
    }
    Ok(reader.finish())
}
