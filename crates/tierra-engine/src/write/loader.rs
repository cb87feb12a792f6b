//! Bulk loads: whole segments, encoded on all threads and committed by one manifest. Rows come as batches, where one segment is
//! encoded while the next one fills, or column by column from a source that all threads read.
//!
//! Invariant: no row is visible until [`Loader::finish`] returns. A loader that fails or is dropped leaves nothing: its extents
//! are freed and its keys forgotten.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use arrow::array::{ArrayRef, RecordBatch};
use tierra_column::Encoding;

use crate::error::{AppendError, ColumnsError, LoadError, StorageError};
use crate::index::key::LoadedKeys;
use crate::manifest::SEGMENT_ROWS;
use crate::slice_bytes::slice_bytes;
use crate::table::Table;
use crate::table::load_merge_lock::LoadPass;
use crate::table::requests::{BulkChange, BulkCommit, EncodedSegment, Load, Request, SeenRows};
use crate::write::column_source::{Batches, Checked, ColumnSource};
use crate::write::encode::encode_segments;

/// Batches with more rows become segments at once and bypass the tail.
pub const TAIL_APPEND_ROWS: usize = 1 << 16;
/// Rows of this many bytes are encoded, however few they are: at most twice this much is held at a time.
const SEGMENT_MOST_BYTES: u64 = 256 << 20;

/// The result of a load.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadReport {
    /// Rows loaded.
    pub rows: u64,
    /// Segments made; none if the rows were few and went to the tail.
    pub segments: usize,
    /// Bytes of the chunks, one copy; of the log record if the rows went to the tail.
    pub stored_bytes: u64,
    /// Each column's most frequent encoding among the segments. Empty if the rows went to the tail.
    pub encodings: Vec<(String, Encoding)>,
}

/// Segments, and the rows from which they were made.
type Encoded = (Vec<EncodedSegment>, Vec<RecordBatch>);

/// A load in progress. Its methods block while segments are encoded: from async code, call them through `spawn_blocking`.
pub struct Loader {
    table: Arc<Table>,
    /// Rows of the segment that is being filled.
    pending: Vec<RecordBatch>,
    pending_rows: usize,
    pending_bytes: u64,
    rows: u64,
    /// Of all rows, in arrow's form.
    bytes: u64,
    encoding: Option<JoinHandle<Result<Encoded, StorageError>>>,
    encoded: Vec<EncodedSegment>,
    keys: Option<LoadedKeys>,
    /// Held from the first encoded segment on.
    pass: Option<LoadPass>,
    cancelled: Arc<AtomicBool>,
    failed: bool,
}

impl Loader {
    pub(crate) fn new(table: Arc<Table>) -> Self {
        Self {
            keys: table.key().map(|_| LoadedKeys::default()),
            table,
            pending: Vec::new(),
            pending_rows: 0,
            pending_bytes: 0,
            rows: 0,
            bytes: 0,
            encoding: None,
            encoded: Vec::new(),
            pass: None,
            cancelled: Arc::default(),
            failed: false,
        }
    }

    /// Rows pushed so far.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Adds rows. Waits only if a segment is still being encoded and the next one is full.
    ///
    /// # Errors
    /// [`LoadError`]: rows that do not fit the table, a duplicate key, a full pool. The load is then undone; further calls fail
    /// with [`LoadError::Undone`].
    pub fn push(&mut self, batch: RecordBatch) -> Result<(), LoadError> {
        self.attempt(|loader| loader.take_rows(&batch))
    }

    /// Adds all rows of `source` after those pushed before. Returns when they are encoded. All threads encode, each reading the
    /// columns that it encodes.
    ///
    /// # Errors
    /// [`ColumnsError`]: as [`Loader::push`], or the source's own. The load is then undone.
    pub fn push_columns<S: ColumnSource>(
        &mut self,
        source: &S,
    ) -> Result<(), ColumnsError<S::Error>> {
        self.attempt(|loader| loader.take_columns(source))
    }

    /// Commits all rows at once: durable and visible on return.
    ///
    /// # Errors
    /// As [`Loader::push`]; the table is then unchanged.
    pub fn finish(mut self) -> Result<LoadReport, LoadError> {
        self.attempt(Self::commit)
    }

    fn attempt<T, E: From<LoadError>>(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<T, E>,
    ) -> Result<T, E> {
        if self.failed {
            return Err(LoadError::Undone.into());
        }
        let result = work(self);
        if result.is_err() {
            self.failed = true;
            self.undo();
        }
        result
    }

    fn take_rows(&mut self, batch: &RecordBatch) -> Result<(), LoadError> {
        let batch = self.table.input().accept(batch)?;
        let mut taken = 0;
        while taken < batch.num_rows() {
            let rows = (batch.num_rows() - taken).min(SEGMENT_ROWS - self.pending_rows);
            let part = batch.slice(taken, rows);
            let bytes = part.columns().iter().map(slice_bytes).sum::<usize>() as u64;
            self.pending.push(part);
            self.pending_rows += rows;
            self.pending_bytes += bytes;
            self.bytes += bytes;
            taken += rows;
            if self.pending_rows == SEGMENT_ROWS || self.pending_bytes >= SEGMENT_MOST_BYTES {
                self.encode_pending()?;
            }
        }
        self.rows += batch.num_rows() as u64;
        Ok(())
    }

    fn take_columns<S: ColumnSource>(&mut self, source: &S) -> Result<(), ColumnsError<S::Error>> {
        let table = self.table.clone();
        let columns = Checked {
            source,
            input: table.input(),
        };
        let rows = source.rows();
        if rows == 0 {
            return Ok(());
        }
        if rows < TAIL_APPEND_ROWS as u64 {
            let read = |column| columns.read_joined(column, 0..rows);
            let all = (0..table.spec().columns.len()).map(read);
            let batch = table.input().batch(all.collect::<Result<_, _>>()?);
            return Ok(self.take_rows(&batch.map_err(LoadError::from)?)?);
        }
        if self.pending_rows > 0 {
            self.encode_pending()?;
        }
        self.await_encoding()?;
        self.enter()?;
        let (key, keys) = (table.key(), &mut self.keys);
        let encoded = encode_segments(
            &table,
            &columns,
            || table.new_segment_id(),
            &self.cancelled,
            |encoded, rows| {
                if let (Some(key), Some(keys)) = (key, keys.as_mut()) {
                    let read = |column: &usize| columns.read_joined(*column, rows.clone());
                    let arrays = key.columns().iter().map(read);
                    let arrays = arrays.collect::<Result<_, _>>()?;
                    key.load(&table, keys, &encoded.segment, &[arrays])
                        .map_err(LoadError::from)?;
                }
                Ok(())
            },
        )?;
        self.encoded.extend(encoded);
        self.rows += rows;
        let columns = 0..table.spec().columns.len();
        let bytes = columns.map(|column| source.bytes(column, 0..rows));
        self.bytes += bytes.sum::<u64>();
        Ok(())
    }

    /// Keeps merges out from the first encoded segment on.
    fn enter(&mut self) -> Result<(), LoadError> {
        self.table.check_alive()?;
        if self.pass.is_none() {
            self.table.begin_writing()?;
            self.pass = Some(self.table.load_merge_lock().enter_load());
        }
        Ok(())
    }

    /// Starts encoding the pending rows once the segment before them is done.
    fn encode_pending(&mut self) -> Result<(), LoadError> {
        self.await_encoding()?;
        self.enter()?;
        let batches = std::mem::take(&mut self.pending);
        (self.pending_rows, self.pending_bytes) = (0, 0);
        let (table, cancelled) = (self.table.clone(), self.cancelled.clone());
        let work = move || {
            let encoded = encode_segments(
                &table,
                &Batches(&batches),
                || table.new_segment_id(),
                &cancelled,
                |_, _| Ok(()),
            )?;
            Ok((encoded, batches))
        };
        self.encoding = Some(std::thread::spawn(work));
        Ok(())
    }

    fn await_encoding(&mut self) -> Result<(), LoadError> {
        let Some(encoding) = self.encoding.take() else {
            return Ok(());
        };
        let (encoded, batches) = match encoding.join() {
            Ok(result) => result?,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        if let (Some(key), Some(keys)) = (self.table.key(), &mut self.keys) {
            let columns = |batch| key.arrays(batch).into_iter().cloned().collect();
            let arrays: Vec<Vec<ArrayRef>> = batches.iter().map(columns).collect();
            for encoded in &encoded {
                key.load(&self.table, keys, &encoded.segment, &arrays)?;
            }
        }
        self.encoded.extend(encoded);
        Ok(())
    }

    fn commit(&mut self) -> Result<LoadReport, LoadError> {
        // A load without rows publishes a manifest, too: a table that was begun for it appears in it.
        if self.rows > 0
            && self.encoding.is_none()
            && self.encoded.is_empty()
            && let Some(batch) = self.table.as_tail_batch(&self.pending)?
        {
            return Ok(LoadReport {
                rows: self.rows,
                segments: 0,
                stored_bytes: self.table.append_to_tail(batch)?,
                encodings: Vec::new(),
            });
        }
        let (load, report) = self.encode_rest()?;
        let commit = BulkCommit {
            changes: vec![BulkChange {
                table: self.table.clone(),
                deleted: SeenRows::default(),
                load: Some(load),
            }],
        };
        let storage = self.table.storage();
        let requests = self.table.requests();
        let committed = requests.ask(|reply| Request::Bulk { commit, reply })?;
        committed.map_err(AppendError::from)?;
        storage.note_taken(self.bytes);
        Ok(report)
    }

    /// Encodes all rows, to be committed with other changes.
    pub(crate) fn into_load(mut self) -> Result<Load, LoadError> {
        self.attempt(Self::encode_rest).map(|(load, _)| load)
    }

    fn encode_rest(&mut self) -> Result<(Load, LoadReport), LoadError> {
        if self.pending_rows > 0 {
            self.encode_pending()?;
        }
        self.await_encoding()?;
        let report = self.report();
        if let Some(keys) = &mut self.keys {
            let table = &self.table;
            keys.store(table.storage(), table.id(), &table.key_tiers())?;
        }
        let load = Load {
            segments: std::mem::take(&mut self.encoded),
            keys: self.keys.take(),
            pass: self.pass.take(),
        };
        Ok((load, report))
    }

    fn report(&self) -> LoadReport {
        let columns = &self.table.spec().columns;
        let most = |column: usize| {
            let of = |encoded: &EncodedSegment| encoded.encodings[column];
            let count = |encoding| {
                self.encoded
                    .iter()
                    .filter(|encoded| of(encoded) == encoding)
                    .count()
            };
            self.encoded
                .iter()
                .map(of)
                .max_by_key(|encoding| count(*encoding))
        };
        let named = |(at, column): (usize, &crate::spec::ColumnSpec)| {
            Some((column.name.clone(), most(at)?))
        };
        let stored = |encoded: &EncodedSegment| -> u64 {
            (0..columns.len())
                .map(|column| encoded.segment.stored_bytes(column))
                .sum()
        };
        LoadReport {
            rows: self.rows,
            segments: self.encoded.len(),
            stored_bytes: self.encoded.iter().map(stored).sum(),
            encodings: columns.iter().enumerate().filter_map(named).collect(),
        }
    }

    /// Stops encoding and frees everything.
    fn undo(&mut self) {
        self.cancelled.store(true, Ordering::Relaxed);
        if let Some(encoding) = self.encoding.take() {
            // Its result or error no longer matters.
            let _ = encoding.join();
        }
        self.encoded.clear();
        self.pending.clear();
        self.keys = None;
        if let Some(pass) = self.pass.take() {
            let table = &self.table;
            pass.undo(|| table.dictionaries().reset(&table.current().dictionaries));
        }
    }
}

impl Drop for Loader {
    fn drop(&mut self) {
        self.undo();
    }
}

impl std::fmt::Debug for Loader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Loader({:?}, {} rows)", self.table, self.rows)
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::StringViewArray;
    use tierra_column::LogicalType;

    use super::*;
    use crate::database::Database;
    use crate::spec::{ColumnSpec, TableSpec};
    use crate::storage::options::DatabaseOptions;

    #[test]
    fn wide_rows_are_encoded_before_they_are_many() {
        const MIB: usize = 1 << 20;
        let dir = tempfile::tempdir().unwrap();
        let options = DatabaseOptions::default();
        let database = Database::create(&dir.path().join("db"), &options).unwrap();
        let spec = |name: &str| TableSpec {
            name: name.to_owned(),
            columns: vec![ColumnSpec::new("text", LogicalType::Varchar)],
            primary_key: vec![],
        };
        // All rows hold the same text, which is in memory once.
        let text = "x".repeat(MIB);
        let schema = database.create_table(spec("few")).unwrap().schema();
        let rows = |rows| {
            let one = StringViewArray::from(vec![text.as_str()]);
            let views = vec![one.views()[0]; rows];
            let texts = StringViewArray::new(views.into(), one.data_buffers().to_vec(), None);
            RecordBatch::try_new(schema.clone(), vec![Arc::new(texts)]).unwrap()
        };
        let few = database.table("few").unwrap();
        assert_eq!(few.append(&[rows(2)]).unwrap(), 2);
        assert_eq!(few.snapshot().tail_rows(), 2);
        assert_eq!(few.append(&[rows(64)]).unwrap(), 64);
        assert_eq!(few.snapshot().tail_rows(), 2, "too much for a log");

        let many = database.create_table(spec("many")).unwrap();
        let mut loader = many.loader();
        for _ in 0..3 {
            loader.push(rows(200)).unwrap();
        }
        let report = loader.finish().unwrap();
        assert_eq!((report.rows, report.segments), (600, 2));
        assert_eq!(many.snapshot().rows(), 600);
    }
}
