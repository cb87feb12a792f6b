//! Primary keys: unique, and found by a near index.
//!
//! A key of one column that maps to an ordinal is its own 64-bit image; every other key is
//! represented by a 64-bit hash, and a row found by it is verified by reading its key columns.
//!
//! Invariant: the index of a version holds exactly that version's rows, and no two of them have
//! equal keys. Indexes are immutable: a commit adds a level to those of the version before, and
//! levels of similar size are merged, so a lookup probes logarithmically many.

mod image;
mod levels;

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::util::display::array_value_to_string;
use tierra_column::bits::{BLOCK_LEN, Mask};
use tierra_column::{
    Cell, ColumnReader, Dictionary, FormatError, LogicalType, Physical, Scratch, Value,
};
use tierra_index::HashIndex;
use tierra_interleave::{Cx, GroupSize, Interleaved, Mode, Plain, for_each, run_plain};
use tierra_memory::MemoryGate;

pub(crate) use self::levels::KeyIndexCell;

use self::image::{column_images, mix};
use self::levels::{KeyIndex, candidates};
use crate::cells::{cell_of, holds, value_of};
use crate::error::{AppendError, DuplicateKeyError, LoadError, LookupError, ScanError};
use crate::segment::Segment;
use crate::spec::TableSpec;
use crate::table::Table;
use crate::version::{Located, RowId, TableVersion};

/// Keys whose buckets are fetched together before they are looked at: few enough to stay cached.
const FETCHED: usize = 128;

/// The keys of rows that a load has encoded.
#[derive(Default)]
pub(crate) struct LoadedKeys {
    index: HashIndex,
    segments: Vec<Arc<Segment>>,
}

/// Why keys cannot be added.
pub(crate) enum KeyError {
    Duplicate(DuplicateKeyError),
    Lookup(LookupError),
}

impl From<ScanError> for KeyError {
    fn from(error: ScanError) -> Self {
        Self::Lookup(error.into())
    }
}

impl From<KeyError> for AppendError {
    fn from(error: KeyError) -> Self {
        match error {
            KeyError::Duplicate(error) => error.into(),
            KeyError::Lookup(error) => error.into(),
        }
    }
}

impl From<KeyError> for LoadError {
    fn from(error: KeyError) -> Self {
        AppendError::from(error).into()
    }
}

/// The primary key of a table that has one.
#[derive(Debug)]
pub(crate) struct KeyColumns {
    columns: Vec<usize>,
    types: Vec<LogicalType>,
    /// Of looking keys up.
    gate: MemoryGate,
}

impl KeyColumns {
    /// `gate` is that of its look-ups.
    pub(crate) fn of(spec: &TableSpec, gate: MemoryGate) -> Option<Self> {
        let columns = spec.primary_key.clone();
        let types = columns
            .iter()
            .map(|column| spec.columns[*column].ty)
            .collect();
        (!columns.is_empty()).then_some(Self {
            columns,
            types,
            gate,
        })
    }

    pub(crate) fn gate(&self) -> &MemoryGate {
        &self.gate
    }

    pub(crate) fn types(&self) -> &[LogicalType] {
        &self.types
    }

    /// Whether equal images mean equal keys.
    pub(crate) fn is_exact(&self) -> bool {
        matches!(&self.types[..], [ty] if ty.physical() == Physical::Ordinal)
    }

    /// A batch's key columns.
    pub(crate) fn arrays<'a>(&self, batch: &'a RecordBatch) -> Vec<&'a ArrayRef> {
        self.columns
            .iter()
            .map(|column| batch.column(*column))
            .collect()
    }

    /// The columns that make up the key.
    pub(crate) fn columns(&self) -> &[usize] {
        &self.columns
    }

    /// The images of a batch's keys, row by row.
    pub(crate) fn batch_images(&self, batch: &RecordBatch) -> Vec<u64> {
        self.images(&self.arrays(batch))
    }

    /// The images of keys given by column. Those of NULLs mean nothing.
    pub(crate) fn images(&self, columns: &[&ArrayRef]) -> Vec<u64> {
        let mut images = column_images(self.types[0], columns[0]);
        for (ty, values) in self.types.iter().zip(columns).skip(1) {
            for (image, more) in images.iter_mut().zip(column_images(*ty, values)) {
                *image = mix(*image, more);
            }
        }
        images
    }

    /// The index of a version, if it is built.
    pub(crate) fn built<'v>(&self, version: &'v TableVersion) -> Option<&'v KeyIndex> {
        version.keys.0.get()
    }

    /// The index of a version, built from its rows if nobody has yet.
    pub(crate) fn index<'v>(
        &self,
        table: &Table,
        version: &'v TableVersion,
    ) -> Result<&'v KeyIndex, ScanError> {
        if let Some(index) = version.keys.0.get() {
            return Ok(index);
        }
        let built = table.storage().whole(|| self.build(table, version))??;
        // Two readers may build at a time; both results are the same.
        Ok(version.keys.0.get_or_init(|| built))
    }

    fn build(&self, table: &Table, version: &TableVersion) -> Result<KeyIndex, ScanError> {
        let mut index = HashIndex::with_capacity(version.rows() as usize);
        if version.rows() == 0 {
            return Ok(KeyIndex::default());
        }
        let mut add = |segment: u32, first: usize, images: Vec<u64>| {
            let row = |at: usize| RowId::new(segment, (first + at) as u32).get();
            let entries: Vec<_> = images
                .into_iter()
                .enumerate()
                .map(|(at, image)| (image, row(at)))
                .collect();
            index.insert_all(&entries);
        };
        for segment in version.segments.iter() {
            let columns = self
                .columns
                .iter()
                .map(|column| read_column(table.spec(), segment, *column, version));
            let columns = columns.collect::<Result<Vec<_>, _>>()?;
            add(
                segment.id(),
                0,
                self.images(&columns.iter().collect::<Vec<_>>()),
            );
        }
        for batch in version.tail.batches() {
            add(
                version.tail.segment_id,
                batch.first_row as usize,
                self.batch_images(&batch.rows),
            );
        }
        Ok(KeyIndex {
            levels: vec![Arc::new(index)],
        })
    }

    /// The index of the version that has the rows of `batch` besides. `row_id` says which.
    pub(crate) fn extend(
        &self,
        table: &Table,
        version: &TableVersion,
        batch: &RecordBatch,
        images: &[u64],
        row_id: impl Fn(usize) -> RowId,
    ) -> Result<KeyIndex, KeyError> {
        let storage = table.storage();
        storage.whole(|| self.extend_once(table, version, batch, images, &row_id))?
    }

    fn extend_once(
        &self,
        table: &Table,
        version: &TableVersion,
        batch: &RecordBatch,
        images: &[u64],
        row_id: &impl Fn(usize) -> RowId,
    ) -> Result<KeyIndex, KeyError> {
        let index = self.index(table, version)?;
        let arrays = self.arrays(batch);
        let mut level = HashIndex::with_capacity(images.len());
        let first = row_id(0).get();
        for (at, image) in images.iter().enumerate() {
            for earlier in candidates(&level, *image) {
                let earlier = (earlier.get() - first) as usize;
                if self.is_exact() || self.cells(&arrays, earlier) == self.cells(&arrays, at) {
                    return Err(self.duplicate(table, &arrays, at));
                }
            }
            for row in index.candidates(*image) {
                if self.is_exact()
                    || self.is_key_of(table, version, row, &self.values(&arrays, at))?
                {
                    return Err(self.duplicate(table, &arrays, at));
                }
            }
            level.insert(*image, row_id(at).get());
        }
        Ok(index.with_level(level))
    }

    /// Adds the rows of a segment that a load has encoded. `keys` are their keys: runs of rows,
    /// each with an array per key column.
    pub(crate) fn load(
        &self,
        table: &Table,
        loaded: &mut LoadedKeys,
        segment: &Arc<Segment>,
        keys: &[Vec<ArrayRef>],
    ) -> Result<(), KeyError> {
        loaded.segments.push(segment.clone());
        let seen = table.storage().losses().begin();
        let mut first = 0;
        for arrays in keys {
            let arrays: Vec<&ArrayRef> = arrays.iter().collect();
            let images = self.images(&arrays);
            for (run, images) in images.chunks(FETCHED).enumerate() {
                let index = &loaded.index;
                // Fetches the buckets; the answers are looked at one by one below.
                for_each(
                    GroupSize::DEFAULT,
                    images,
                    |cx: Cx<Interleaved>, image| index.get(cx, *image),
                    |_, _| {},
                );
                for (at, image) in images.iter().enumerate() {
                    let at = run * FETCHED + at;
                    for earlier in candidates(&loaded.index, *image) {
                        if self.is_exact()
                            || self.loaded_key(table, loaded, earlier)? == self.values(&arrays, at)
                        {
                            return Err(self.duplicate(table, &arrays, at));
                        }
                    }
                    loaded
                        .index
                        .insert(*image, RowId::new(segment.id(), (first + at) as u32).get());
                }
            }
            first += images.len();
        }
        // What was compared cannot be compared again: the load fails.
        match self.is_exact() || table.storage().is_whole_since(seen) {
            true => Ok(()),
            false => Err(table.storage().lost_while_read().into()),
        }
    }

    /// The index of the version that has all loaded rows besides.
    pub(crate) fn join(
        &self,
        table: &Table,
        version: &TableVersion,
        loaded: LoadedKeys,
    ) -> Result<KeyIndex, KeyError> {
        let storage = table.storage();
        let index = storage.whole(|| self.index_without(table, version, &loaded))??;
        Ok(index.with_level(loaded.index))
    }

    /// The index of a version, if no loaded row has a key of it.
    fn index_without<'v>(
        &self,
        table: &Table,
        version: &'v TableVersion,
        loaded: &LoadedKeys,
    ) -> Result<&'v KeyIndex, KeyError> {
        let index = self.index(table, version)?;
        if !index.levels.is_empty() {
            let entries: Vec<_> = loaded.index.iter().collect();
            for run in entries.chunks(FETCHED) {
                let mut found = [false; FETCHED];
                let lookup = |cx: Cx<Interleaved>, entry: &(u64, u64)| index.get(cx, entry.0);
                for_each(GroupSize::DEFAULT, run, lookup, |at, row: Option<RowId>| {
                    found[at] = row.is_some()
                });
                for (image, row) in run
                    .iter()
                    .zip(found)
                    .filter(|(_, found)| *found)
                    .map(|(entry, _)| *entry)
                {
                    let key = self.loaded_key(table, loaded, RowId::from_number(row))?;
                    for candidate in index.candidates(image) {
                        if self.is_exact() || self.is_key_of(table, version, candidate, &key)? {
                            return Err(self.duplicate_values(table, &key));
                        }
                    }
                }
            }
        }
        Ok(index)
    }

    /// The row of the version that has this key. The key is given by its image and, where that is
    /// not all, by its values.
    pub(crate) async fn find<M: Mode>(
        &self,
        cx: Cx<M>,
        table: &Table,
        version: &TableVersion,
        index: &KeyIndex,
        image: u64,
        values: &[Value],
    ) -> Result<Option<RowId>, ScanError> {
        if self.is_exact() {
            return Ok(index.get(cx, image).await);
        }
        for level in &index.levels {
            let mut candidates = level.candidates(image);
            while let Some(row) = candidates.next(cx).await {
                let row = RowId::from_number(row);
                if self.verify(cx, table.spec(), version, row, values).await? {
                    return Ok(Some(row));
                }
            }
        }
        Ok(None)
    }

    /// Whether the row of the version has this key.
    async fn verify<M: Mode>(
        &self,
        cx: Cx<M>,
        spec: &TableSpec,
        version: &TableVersion,
        row: RowId,
        values: &[Value],
    ) -> Result<bool, ScanError> {
        for ((column, ty), value) in self.columns.iter().zip(&self.types).zip(values) {
            let same = match version.locate(row) {
                None => false,
                Some(Located::Tail(batch, at)) => {
                    holds(cell_of(*ty, batch.column(*column), at), value)
                }
                Some(Located::Sealed(segment, at)) => loop {
                    let block = at / BLOCK_LEN;
                    segment.verify(spec, *column, block)?;
                    let decoder = version.dictionaries.decoders()[*column].as_ref();
                    match segment.chunk(*column).value(cx, at, decoder).await {
                        Ok(cell) => {
                            let same = holds(cell, value);
                            if segment.is_right(spec, *column, block)? {
                                break same;
                            }
                        }
                        Err(source) => segment.doubt(spec, *column, block, *source)?,
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

    /// The key of a row that a load has encoded; its codes may be in no published dictionary yet.
    fn loaded_key(
        &self,
        table: &Table,
        loaded: &LoadedKeys,
        row: RowId,
    ) -> Result<Vec<Value>, ScanError> {
        let segment = loaded
            .segments
            .iter()
            .find(|segment| u64::from(segment.id()) == row.segment());
        let segment = segment.expect("every loaded row lies in a loaded segment");
        let read = |column: &usize| {
            let dictionary = table.dictionaries().current(*column);
            let decoder = dictionary.as_deref().map(Dictionary::decoder);
            let chunk = segment.chunk(*column);
            segment.verify(table.spec(), *column, row.row() / BLOCK_LEN)?;
            let cell = run_plain(|cx: Cx<Plain>| chunk.value(cx, row.row(), decoder.as_ref()));
            let damaged = |source| segment.damaged(table.spec(), *column, row.row(), source);
            value_of(cell.map_err(|source| damaged(*source))?).ok_or_else(|| {
                damaged(FormatError::Corrupt {
                    what: "a column of a key",
                    why: "it holds a NULL".to_owned(),
                })
            })
        };
        self.columns.iter().map(read).collect()
    }

    fn cells<'a>(&self, arrays: &[&'a ArrayRef], row: usize) -> Vec<Cell<'a>> {
        self.types
            .iter()
            .zip(arrays)
            .map(|(ty, values)| cell_of(*ty, values, row))
            .collect()
    }

    /// The key in a row of arrays without NULL there.
    pub(crate) fn values(&self, arrays: &[&ArrayRef], row: usize) -> Vec<Value> {
        self.cells(arrays, row)
            .into_iter()
            .filter_map(value_of)
            .collect()
    }

    fn duplicate(&self, table: &Table, arrays: &[&ArrayRef], row: usize) -> KeyError {
        let text = |values: &ArrayRef| {
            array_value_to_string(values, row).unwrap_or_else(|_| "not printable".to_owned())
        };
        let shown = arrays.iter().copied().map(text).collect();
        self.duplicate_of(table, shown)
    }

    fn duplicate_values(&self, table: &Table, key: &[Value]) -> KeyError {
        let text = |(value, ty): (&Value, &LogicalType)| {
            let mut reader = ColumnReader::new(*ty, 1);
            let cell = match value {
                Value::Ordinal(ordinal) => Cell::Ordinal(*ordinal),
                Value::Wide(value) => Cell::Wide(*value),
                Value::Bytes(bytes) => Cell::Bytes(bytes),
            };
            let shown = reader.append_cell(cell).ok().map(|()| reader.finish());
            let shown = shown.and_then(|values| array_value_to_string(&values, 0).ok());
            shown.unwrap_or_else(|| "not printable".to_owned())
        };
        let shown = key.iter().zip(&self.types).map(text).collect();
        self.duplicate_of(table, shown)
    }

    fn duplicate_of(&self, table: &Table, shown: Vec<String>) -> KeyError {
        let names = self
            .columns
            .iter()
            .map(|column| &table.spec().columns[*column].name);
        let pairs: Vec<_> = names
            .zip(shown)
            .map(|(name, value)| format!("{name} = {value}"))
            .collect();
        let key = format!("({})", pairs.join(", "));
        KeyError::Duplicate(DuplicateKeyError {
            table: table.spec().name.clone(),
            key,
        })
    }
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
