//! Keys of new rows: none of them may exist already.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::util::display::array_value_to_string;
use tierra_column::bits::BLOCK_LEN;
use tierra_column::{Cell, ColumnReader, Dictionary, FormatError, LogicalType, Value};
use tierra_index::HashIndex;
use tierra_interleave::{
    Cx, GroupSize, Interleaved, Lookups, Plain, Scheduling, for_each, run_plain,
};

use crate::cells::value_of;
use crate::error::{
    AppendError, CommitError, DuplicateKeyError, LoadError, LookupError, ScanError, StorageError,
};
use crate::index::key::{
    BuiltRun, KeyColumns, KeyIndex, KeyIndexCell, KeyRun, LoadedKeys, RunBuilder, rows_in,
};
use crate::manifest::row_id::RowId;
use crate::read::keys::{FindError, give_up};
use crate::segment::Segment;
use crate::table::Table;
use crate::table::version::TableVersion;

/// Keys whose buckets are fetched together before they are compared: few enough to stay cached.
const FETCHED: usize = 128;
/// Keys that are looked up together in the table.
const COMPARED: usize = 4096;

/// Why keys cannot be added.
pub(crate) enum KeyError {
    Duplicate(DuplicateKeyError),
    Lookup(LookupError),
    Storage(StorageError),
}

impl From<StorageError> for KeyError {
    fn from(error: StorageError) -> Self {
        Self::Storage(error)
    }
}

impl From<ScanError> for KeyError {
    fn from(error: ScanError) -> Self {
        Self::Lookup(error.into())
    }
}

impl From<KeyError> for CommitError {
    fn from(error: KeyError) -> Self {
        match error {
            KeyError::Duplicate(error) => error.into(),
            KeyError::Lookup(error) => error.into(),
            KeyError::Storage(error) => error.into(),
        }
    }
}

impl From<KeyError> for LoadError {
    fn from(error: KeyError) -> Self {
        AppendError::from(CommitError::from(error)).into()
    }
}

/// What a load adds to its table's key index.
pub(crate) struct Joined {
    pub(crate) cell: KeyIndexCell,
    /// A run to be published with the rows.
    pub(crate) run: Option<Arc<KeyRun>>,
}

impl KeyColumns {
    /// The near part of the key index after the rows of `batch` are added to a version, in which the rows that the same commit
    /// deletes are deleted already. `row_id` numbers the rows.
    pub(crate) fn extend(
        &self,
        table: &Arc<Table>,
        version: &TableVersion,
        batch: &RecordBatch,
        normalized_keys: &[u64],
        row_id: impl Fn(usize) -> RowId,
    ) -> Result<KeyIndex, KeyError> {
        let arrays = self.arrays(batch);
        let mut level = HashIndex::with_capacity(normalized_keys.len());
        let first = row_id(0).get();
        for (at, normalized_key) in normalized_keys.iter().enumerate() {
            for earlier in rows_in(&level, *normalized_key) {
                let earlier = (earlier.get() - first) as usize;
                if self.is_exact() || self.cells(&arrays, earlier) == self.cells(&arrays, at) {
                    return Err(self.duplicate(table, &arrays, at));
                }
            }
            level.insert(*normalized_key, row_id(at).get());
        }
        let mut lookups = Lookups::new(Scheduling::Auto);
        let values = |at| Ok::<_, ScanError>(self.values(&arrays, at));
        let rows = self.rows(table, version, normalized_keys, values, &mut lookups)?;
        if let Some(at) = rows.iter().position(Option::is_some) {
            return Err(self.duplicate(table, &arrays, at));
        }
        let near = self.index(table, version)?.near;
        let segments = vec![version.tail.segment_id];
        Ok(near.with_level(level, segments, &version.deletions))
    }

    /// Adds the rows of a segment that a load has encoded. `keys` are their keys in runs of rows, each with an array per key
    /// column.
    pub(crate) fn load(
        &self,
        table: &Table,
        loaded: &mut LoadedKeys,
        segment: &Arc<Segment>,
        keys: &[Vec<ArrayRef>],
    ) -> Result<(), KeyError> {
        loaded.segments.push(segment.clone());
        if self.is_exact() && loaded.index.is_empty() {
            if let Some(leaves) = self.ascending(segment, keys)
                && loaded.take_ascending(leaves).is_ok()
            {
                return Ok(());
            }
            loaded.spill();
        }
        let seen = table.storage().losses().begin_read();
        let mut first = 0;
        for arrays in keys {
            let arrays: Vec<&ArrayRef> = arrays.iter().collect();
            let normalized_keys = self.normalize(&arrays);
            for (run, normalized_keys) in normalized_keys.chunks(FETCHED).enumerate() {
                let index = &loaded.index;
                // Fetches the buckets; the results are compared one by one below.
                for_each(
                    GroupSize::DEFAULT,
                    normalized_keys,
                    |cx: Cx<Interleaved>, normalized_key| index.get(cx, *normalized_key),
                    |_, _| {},
                );
                for (at, normalized_key) in normalized_keys.iter().enumerate() {
                    let at = run * FETCHED + at;
                    for earlier in rows_in(&loaded.index, *normalized_key) {
                        if self.is_exact()
                            || self.loaded_key(table, loaded, earlier)? == self.values(&arrays, at)
                        {
                            return Err(self.duplicate(table, &arrays, at));
                        }
                    }
                    loaded.index.insert(
                        *normalized_key,
                        RowId::new(segment.id(), (first + at) as u32).get(),
                    );
                }
            }
            first += normalized_keys.len();
        }
        // The comparison may have read lost pages and cannot be repeated: the load fails.
        match self.is_exact() || table.storage().validate(seen) {
            true => Ok(()),
            false => Err(table.storage().lost_while_read().into()),
        }
    }

    /// The leaves of a segment's keys, if the keys are strictly ascending.
    fn ascending(&self, segment: &Segment, keys: &[Vec<ArrayRef>]) -> Option<BuiltRun> {
        let mut builder = RunBuilder::default();
        let mut row = RowId::new(segment.id(), 0).get();
        let mut last = None;
        for arrays in keys {
            let normalized_keys = self.normalize(&arrays.iter().collect::<Vec<_>>());
            let before = normalized_keys
                .first()
                .is_none_or(|first| last.is_none_or(|last| last < *first));
            if !before || !normalized_keys.is_sorted_by(|a, b| a < b) {
                return None;
            }
            for normalized_key in &normalized_keys {
                builder.push(*normalized_key, row);
                row += 1;
            }
            last = normalized_keys.last().copied().or(last);
        }
        Some(builder.finish())
    }

    /// The key index after all loaded rows are added, if none of their keys exists already.
    pub(crate) fn join(
        &self,
        table: &Arc<Table>,
        version: &TableVersion,
        loaded: LoadedKeys,
    ) -> Result<Joined, KeyError> {
        if let Some(run) = &loaded.run {
            if let Some(normalized_key) = self.key_in_both(table, version, run)? {
                return Err(self.duplicate_values(table, &[Value::Ordinal(normalized_key)]));
            }
            let runs: Vec<_> = version.keys.runs().iter().chain([run]).cloned().collect();
            return Ok(Joined {
                cell: version.keys.with_runs(runs),
                run: Some(run.clone()),
            });
        }
        let has_rows = version.rows() > 0;
        let entries: Vec<_> = loaded.index.iter().filter(|_| has_rows).collect();
        for entries in entries.chunks(COMPARED) {
            let normalized_keys: Vec<u64> = entries
                .iter()
                .map(|(normalized_key, _)| *normalized_key)
                .collect();
            let key =
                |at: usize| self.loaded_key(table, &loaded, RowId::from_number(entries[at].1));
            let mut lookups = Lookups::new(Scheduling::Auto);
            let rows = self.rows(table, version, &normalized_keys, key, &mut lookups)?;
            if let Some(at) = rows.iter().position(Option::is_some) {
                return Err(self.duplicate_values(table, &key(at)?));
            }
        }
        let near = self.index(table, version)?.near;
        let segments = loaded.segments.iter().map(|segment| segment.id()).collect();
        Ok(Joined {
            cell: version.keys.next(Some(near.with_level(
                loaded.index,
                segments,
                &version.deletions,
            ))),
            run: None,
        })
    }

    /// A normalized key that is both in the version and in a run of new rows, if there is one.
    fn key_in_both(
        &self,
        table: &Arc<Table>,
        version: &TableVersion,
        loaded: &Arc<KeyRun>,
    ) -> Result<Option<u64>, KeyError> {
        loop {
            let keys = self.index(table, version)?;
            let levels = keys.near.levels.iter().map(|level| &*level.index);
            let substitutes = keys.runs.iter().filter_map(|run| run.substitute());
            let (first, last) = loaded.bounds();
            let is_live = |row: u64| !version.deletions.contains(RowId::from_number(row));
            let near: Vec<u64> = levels
                .chain(substitutes)
                .flat_map(HashIndex::iter)
                .filter(|(normalized_key, row)| {
                    (first..=last).contains(normalized_key) && is_live(*row)
                })
                .map(|(normalized_key, _)| normalized_key)
                .collect();
            let compare = || {
                // All rows of a load are live.
                let all_live = |_: u64| Ok(true);
                let mut found = common_key(table, loaded, &near, all_live)?;
                for run in keys.runs.iter().filter(|run| run.substitute().is_none()) {
                    let (first, last) = (
                        run.bounds().0.max(loaded.bounds().0),
                        run.bounds().1.min(loaded.bounds().1),
                    );
                    if first > last || found.is_some() {
                        continue;
                    }
                    // The smaller run's keys are looked up in the larger run.
                    let (few, many) = match run.rows() < loaded.rows() {
                        true => (run, loaded),
                        false => (loaded, run),
                    };
                    let mut entries = Vec::new();
                    for leaf in few.leaves_between(first, last) {
                        let read = few.read_leaf(leaf, &mut entries);
                        read.map_err(|error| give_up(table, few, &error))?;
                        let normalized_keys: Vec<u64> = entries
                            .iter()
                            .filter(|(_, row)| is_live(*row))
                            .map(|(normalized_key, _)| *normalized_key)
                            .collect();
                        found = common_key(table, many, &normalized_keys, |normalized_key| {
                            if version.deletions.is_empty() || Arc::ptr_eq(many, loaded) {
                                return Ok(true);
                            }
                            let rows = many.candidates(normalized_key);
                            let rows = rows.map_err(|error| give_up(table, many, &error))?;
                            Ok(rows.iter().any(|row| is_live(row.get())))
                        })?;
                        if found.is_some() {
                            break;
                        }
                    }
                }
                Ok::<_, FindError>(found)
            };
            match table.storage().read_validated(compare)? {
                Ok(found) => return Ok(found),
                Err(FindError::Scan(error)) => return Err(error.into()),
                Err(FindError::GivenUp) if loaded.is_given_up() => {
                    return Err(table.storage().lost_while_read().into());
                }
                Err(FindError::GivenUp) => {}
            }
        }
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
            let value = value_of(cell.map_err(|source| damaged(*source))?);
            value.map_err(damaged)?.ok_or_else(|| {
                damaged(FormatError::Corrupt {
                    what: "a column of a key",
                    why: "it holds a NULL".to_owned(),
                })
            })
        };
        self.columns().iter().map(read).collect()
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
        let shown = key.iter().zip(self.types()).map(text).collect();
        self.duplicate_of(table, shown)
    }

    fn duplicate_of(&self, table: &Table, shown: Vec<String>) -> KeyError {
        let names = self
            .columns()
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

/// One of `normalized_keys` that a run contains, with a row of which `is_live` says that it is not deleted.
fn common_key(
    table: &Arc<Table>,
    run: &KeyRun,
    normalized_keys: &[u64],
    is_live: impl Fn(u64) -> Result<bool, FindError>,
) -> Result<Option<u64>, FindError> {
    let mut lookups = Lookups::new(Scheduling::Auto);
    for normalized_keys in normalized_keys.chunks(COMPARED) {
        let mut rows = vec![None; normalized_keys.len()];
        let found = run.find(normalized_keys, &mut rows, &mut lookups);
        found.map_err(|error| give_up(table, run, &error))?;
        for (normalized_key, row) in normalized_keys.iter().zip(rows) {
            if row.is_some() && is_live(*normalized_key)? {
                return Ok(Some(*normalized_key));
            }
        }
    }
    Ok(None)
}
