//! The same rows in Tierra and in DataFusion's memory, and whether both answer alike.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::ipc::writer::FileWriter;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::datasource::MemTable;
use datafusion::prelude::SessionContext;
use tierra_engine::{Database, DatabaseOptions};
use tierra_sql::load::{LoadOptions, LoadReport, load_file};
use tierra_sql::{Session, SessionOptions};
use tokio::sync::{Mutex, MutexGuard};

/// Held by tests whose statements take hundreds of MiB before they run, and by those whose queries may take little and are to answer:
/// the growth of the whole process counts.
pub(crate) async fn memory() -> MutexGuard<'static, ()> {
    static MEMORY: Mutex<()> = Mutex::const_new(());
    MEMORY.lock().await
}

pub(crate) struct Twins {
    pub(crate) tierra: Session,
    pub(crate) peer: SessionContext,
    pub(crate) dir: tempfile::TempDir,
}

impl Twins {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let database =
            Database::create(&dir.path().join("db"), &DatabaseOptions::default()).unwrap();
        let options = SessionOptions {
            threads: Some(2),
            ..SessionOptions::default()
        };
        let tierra = Session::new(database, &options).unwrap();
        Self {
            tierra,
            peer: SessionContext::new(),
            dir,
        }
    }

    /// Give both the rows of `batches`; Tierra loads them as a file, into the table if it is there.
    pub(crate) fn add(
        &self,
        name: &str,
        schema: &SchemaRef,
        batches: &[RecordBatch],
    ) -> LoadReport {
        let peer = MemTable::try_new(Arc::clone(schema), vec![batches.to_vec()]).unwrap();
        self.peer.register_table(name, Arc::new(peer)).unwrap();
        let path = self.dir.path().join(format!("{name}.arrow"));
        write(&path, schema, batches);
        let report =
            load_file(self.tierra.database(), name, &path, &LoadOptions::default()).unwrap();
        let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
        assert_eq!(report.rows, rows as u64);
        report
    }

    /// Give both a table whose first `there` rows Tierra has: it loads the others.
    pub(crate) fn add_more(
        &self,
        name: &str,
        schema: &SchemaRef,
        batch: &RecordBatch,
        there: usize,
    ) {
        let rest = batch.slice(there, batch.num_rows() - there);
        self.add(name, schema, &[rest]);
        self.peer.deregister_table(name).unwrap();
        let peer = MemTable::try_new(Arc::clone(schema), vec![vec![batch.clone()]]).unwrap();
        self.peer.register_table(name, Arc::new(peer)).unwrap();
    }

    /// Both answer `sql` with the same rows. Rows that tie under ORDER BY may come
    /// in any order; what one refuses, the other refuses too.
    pub(crate) async fn compare(&self, what: &str, sql: &str) {
        let expected = match self.peer.sql(sql).await {
            Ok(query) => query.collect().await,
            Err(error) => Err(error),
        };
        let found = self.tierra.query(sql).await;
        let Ok(expected) = expected else {
            assert!(found.is_err(), "{what}: only the peer refuses\n{sql}");
            return;
        };
        let found = found.unwrap_or_else(|error| panic!("{what}: {error}\n{sql}"));
        let (mut found, mut expected) = (rows(&found), rows(&expected));
        found.sort();
        expected.sort();
        assert_eq!(found.len(), expected.len(), "{what}: number of rows\n{sql}");
        for (found, expected) in found.iter().zip(&expected) {
            assert_eq!(found, expected, "{what}\n{sql}");
        }
    }
}

/// Write an Arrow IPC file.
pub(crate) fn write(path: &Path, schema: &SchemaRef, batches: &[RecordBatch]) {
    let mut writer = FileWriter::try_new(File::create(path).unwrap(), schema).unwrap();
    batches
        .iter()
        .for_each(|batch| writer.write(batch).unwrap());
    writer.finish().unwrap();
}

/// Each row as text; doubles to twelve digits, as sums of doubles depend on the order of the rows.
pub(crate) fn rows(batches: &[RecordBatch]) -> Vec<String> {
    let options = FormatOptions::default().with_null("NULL");
    let mut all = Vec::new();
    for batch in batches {
        let columns: Vec<_> = batch
            .columns()
            .iter()
            .map(|column| ArrayFormatter::try_new(column, &options).unwrap())
            .collect();
        for row in 0..batch.num_rows() {
            let cells = columns.iter().zip(batch.columns()).map(|(text, column)| {
                let text = text.value(row).to_string();
                match text.parse::<f64>() {
                    Ok(number) if column.data_type().is_floating() => format!("{number:.12e}"),
                    _ => text,
                }
            });
            all.push(cells.collect::<Vec<_>>().join("|"));
        }
    }
    all
}
