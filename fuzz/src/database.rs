//! A pool opened as a database, and used as far as it lets itself.
//!
//! Invariant: what a damaged database accepts, it keeps. Opening may fail, reading may fail, and so
//! may writing; but rows that an append has acknowledged are there when the database is opened again.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use arrow::array::{ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::UInt64Type;
use tempfile::TempDir;
use tierra_column::{Filter, ValueSet};
use tierra_engine::{Change, Database, DatabaseOptions, RowId, ScanSpec, Table};
use tierra_interleave::{Execution, Lookups};

use crate::{image, queries};

/// Tables and columns worth reading: a manifest of few bytes can name thousands.
const TABLES_MAX: usize = 4;
const COLUMNS_MAX: usize = 12;
const ROWS_MAX: u64 = 8192;

/// A database with every kind of structure: an image to mutate parts of. `seeds.rs` makes it.
pub fn base() -> &'static [u8] {
    static BASE: LazyLock<Vec<u8>> =
        LazyLock::new(|| image::expand(include_bytes!("../seeds/database/tables")));
    &BASE
}

/// A database whose columns have replicas in several encodings: another image to mutate. `seeds.rs` makes it.
pub fn replicated() -> &'static [u8] {
    static REPLICATED: LazyLock<Vec<u8>> =
        LazyLock::new(|| image::expand(include_bytes!("../seeds/database/replicas")));
    &REPLICATED
}

/// A directory in memory where possible: a target makes thousands of pools a minute.
pub fn scratch_dir() -> &'static Path {
    static DIR: LazyLock<(TempDir, PathBuf)> = LazyLock::new(|| {
        let dir = TempDir::new_in("/dev/shm")
            .or_else(|_| TempDir::new())
            .expect("a temporary directory");
        let path = dir.path().to_owned();
        (dir, path)
    });
    &DIR.1
}

/// Little memory, and one thread.
pub fn options() -> DatabaseOptions {
    DatabaseOptions {
        near_memory_bytes: Some(64 << 10),
        capacity_bytes: Some(1 << 20),
        threads: std::num::NonZeroUsize::new(1),
        ..DatabaseOptions::default()
    }
}

/// Opens the pool, reads all tables, writes to them, and opens it again.
///
/// # Panics
/// Where the invariant does not hold.
pub fn open_and_use(pool: &[u8]) {
    let dir = scratch_dir();
    fs::write(dir.join("far.pool"), pool).expect("room for a small file");
    if let Ok(database) = Database::open(dir, &options()) {
        use_tables(database, dir);
    }
}

/// Reads all tables of the database in `dir`, writes to them, and opens it again.
///
/// # Panics
/// Where the invariant does not hold.
pub fn use_tables(database: Arc<Database>, dir: &Path) {
    let mut kept = Vec::new();
    for name in database.tables().into_iter().take(TABLES_MAX) {
        let table = database.table(&name).expect("it was listed");
        read(&table);
        if let Some(rows) = write(&database, &table) {
            kept.push((name, rows));
        }
    }
    drop(database);
    if kept.is_empty() {
        return;
    }
    let database = Database::open(dir, &options()).expect("it was open and accepted rows");
    for (name, rows) in kept {
        let table = database.table(&name).expect("it accepted rows");
        assert_eq!(table.snapshot().rows(), rows, "rows of {name:?}");
    }
}

fn projection(table: &Table) -> Vec<usize> {
    (0..table.spec().columns.len()).take(COLUMNS_MAX).collect()
}

/// The first rows, all columns.
fn first_batch(table: &Arc<Table>) -> Option<RecordBatch> {
    let spec = ScanSpec {
        projection: (0..table.spec().columns.len()).collect(),
        filters: vec![],
        batch_rows: 64,
        execution: tierra_interleave::Scheduling::Auto,
    };
    table.snapshot().scan(spec).cursor().next(&[], 0).ok()?
}

fn read(table: &Arc<Table>) {
    let snapshot = table.snapshot();
    for column in projection(table) {
        let _ = snapshot.statistics(column);
        let _ = snapshot.coded_dictionary(column);
        for filter in queries::filters(table.spec().columns[column].ty) {
            scan(table, vec![(column, filter)]);
        }
    }
    scan(table, vec![]);
    let key = &table.spec().primary_key;
    let Some(batch) = first_batch(table) else {
        return;
    };
    let keys: Vec<ArrayRef> = key.iter().map(|key| batch.column(*key).clone()).collect();
    let projection = projection(table);
    // Few values that are there: an index is asked for them.
    for column in &projection {
        let values = batch.column(*column).slice(0, batch.num_rows().min(3));
        if let Ok((values, _)) = ValueSet::of_array(&values) {
            scan(table, vec![(*column, Filter::in_set(Arc::new(values)))]);
        }
    }
    for execution in Execution::ALL {
        if let Ok(rows) = snapshot.rows_by_key(&keys, &mut Lookups::new(execution)) {
            let rows: Vec<_> = rows.into_iter().flatten().collect();
            let projected = table.projection(&projection);
            let _ = snapshot.reconstruct(&rows, &projected, &mut Lookups::new(execution));
        }
    }
}

fn scan(table: &Arc<Table>, filters: Vec<(usize, Filter)>) {
    let spec = ScanSpec {
        projection: projection(table),
        filters,
        batch_rows: 1024,
        execution: tierra_interleave::Scheduling::Auto,
    };
    let mut cursor = table.snapshot().scan(spec).cursor();
    let mut rows = 0;
    while let Ok(Some(batch)) = cursor.next(&[], 0) {
        rows += batch.num_rows() as u64;
        if rows > ROWS_MAX {
            break;
        }
    }
}

/// Deletes a row, appends the table's own first rows, seals and merges. Returns how many rows there
/// have to be from now on.
fn write(database: &Database, table: &Arc<Table>) -> Option<u64> {
    let batch = first_batch(table)?;
    let mut before = table.snapshot().rows();
    if let Some(change) = deletion(table)
        && database.commit(vec![change]).is_ok()
    {
        before -= 1;
        assert_eq!(table.snapshot().rows(), before);
    }
    // A table with a key rejects its own rows.
    let added = table.append(&[batch]).ok()?;
    let rows = before + added;
    let _ = table.seal();
    assert_eq!(table.snapshot().rows(), rows);
    let _ = table.merge_dictionaries();
    assert_eq!(table.snapshot().rows(), rows);
    Some(rows)
}

/// The deletion of the table's first row.
fn deletion(table: &Arc<Table>) -> Option<Change> {
    let snapshot = table.snapshot();
    let spec = ScanSpec {
        projection: vec![],
        filters: vec![],
        batch_rows: 1,
        execution: tierra_interleave::Scheduling::Auto,
    };
    let first = snapshot.scan_with_row_ids(spec).cursor().next(&[], 0);
    let first = first.ok()??;
    let ids = first.column(0).as_primitive_opt::<UInt64Type>()?;
    Some(Change {
        deleted: [RowId::from_number(ids.value(0))].into_iter().collect(),
        appended: vec![],
        snapshot,
    })
}

/// Where the newest log of the pool lies: the payload of the last extent of that kind.
///
/// # Panics
/// If it has none.
pub fn log(pool: &[u8]) -> std::ops::Range<usize> {
    let u64_at = |at: usize| u64::from_le_bytes(pool[at..at + 8].try_into().expect("8 bytes"));
    let is_log = |at: &usize| pool[*at..].starts_with(b"TIERRAEX") && pool[at + 52] == 1;
    let at = (16_384..pool.len()).step_by(4096).rfind(is_log);
    let start = at.expect("a database with a tail has a log") + 64;
    start..start + u64_at(start - 64 + 24) as usize
}
